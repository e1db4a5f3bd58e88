package mcs

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The files that every served config has beside the rendered ones. An entry of the rendered config at one of these
// paths, of whatever kind, is replaced.
const (
	// NodeAnnotationsPath is a JSON object of the annotations that the machine's Node starts with.
	NodeAnnotationsPath = "/etc/machine-config-daemon/node-annotations.json"
	// KubeconfigPath is the bootstrap kubeconfig, where the server hands out ways to join.
	KubeconfigPath = "/etc/kubernetes/kubeconfig"
	// EncapsulatedPath is the rendered MachineConfig with its Ignition emptied, as JSON: what Ignition cannot carry
	// (OS image, kernel arguments and type, extensions) reaches the machine's first boot by it. Always the last file.
	EncapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
)

// Compose writes the Ignition config for a new machine: the rendered config's, and what the machine must know to boot it
// and to join, in the given version. What inline configs the rendered one names are put into it. The same input gives the
// same bytes, which that version's own parser accepts. The error is an *UnsayableError where the version lacks words for
// the config, and a *BoundError where secrets are withheld that the machine cannot boot without; any other says what is
// wrong with the rendered config itself.
func Compose(in Input, v Version) (Body, error) {
	if in.Rendered == nil {
		return Body{}, fmt.Errorf("composing Ignition for pool %s: %w", in.Pool, ErrNothingRendered)
	}
	name := in.Rendered.Name
	d, ok := dialectOf(v)
	if !ok {
		return Body{}, &UnsupportedError{Asked: string(v)}
	}
	config, err := machineconfig.Parse(in.Rendered.Spec)
	if err == nil {
		config, err = machineconfig.Flat(config) // what a config names would win over what is appended to it
	}
	if err != nil {
		return Body{}, fmt.Errorf("reading config %s: %w", name, err)
	}
	var withheld []string
	if in.Withhold {
		var bound []string
		config.Ignition.Storage = vacate(config.Ignition.Storage, in.paths()...)
		if config, withheld, bound = withhold(config, marked(in.Rendered)); len(bound) > 0 {
			return Body{}, &BoundError{Config: name, Fields: bound}
		}
	}
	if !d.kernelArguments {
		config = moveKernelArguments(config)
	}
	if !d.zippedData {
		config.Ignition.Storage.Files = unpacked(config.Ignition.Storage.Files)
	}
	write := func(token string) ([]byte, error) {
		full, err := appendFiles(config, in, len(withheld) > 0, token)
		if err != nil {
			return nil, fmt.Errorf("composing Ignition from config %s: %w", name, err)
		}
		return d.write(full, name)
	}
	var body Body
	if in.Extra.Join == nil {
		body.Head, err = write("")
	} else {
		body, err = split(write)
	}
	if err != nil {
		return Body{}, err
	}
	body.Withheld = withheld
	return body, nil
}

// write says a whole config in this version.
func (d dialect) write(config machineconfig.Config, name string) ([]byte, error) {
	if bad := machineconfig.Validate(config); len(bad) > 0 {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, errors.Join(bad...))
	}
	raw, err := config.IgnitionJSON()
	if err != nil {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, err)
	}
	body, unsayable, err := d.say(raw)
	if err != nil {
		return nil, fmt.Errorf("converting config %s to Ignition %s: %w", name, d.version, err)
	}
	if len(unsayable) > 0 {
		return nil, &UnsayableError{Config: name, Version: d.version, Fields: unsayable}
	}
	return body, nil
}

// moveKernelArguments takes Ignition's own kernel arguments into the MachineConfig's, where the encapsulated config
// carries them. Arguments that should not exist have no place there and stay, to be named as unsayable.
func moveKernelArguments(c machineconfig.Config) machineconfig.Config {
	c.KernelArguments = slices.Clone(c.KernelArguments)
	for _, arg := range c.Ignition.KernelArguments.ShouldExist {
		if !slices.Contains(c.KernelArguments, string(arg)) {
			c.KernelArguments = append(c.KernelArguments, string(arg))
		}
	}
	c.Ignition.KernelArguments.ShouldExist = nil
	return c
}

// unpacked returns files whose contents, where they are in the config, are not compressed. Their hashes are of the contents
// as a machine has them, and stay.
func unpacked(files []ign.File) []ign.File {
	files = slices.Clone(files)
	for i := range files {
		files[i].Contents = unpack(files[i].Contents)
		files[i].Append = slices.Clone(files[i].Append)
		for j, a := range files[i].Append {
			files[i].Append[j] = unpack(a)
		}
	}
	return files
}

func unpack(r ign.Resource) ign.Resource {
	if r.Compression == nil || *r.Compression == "" {
		return r
	}
	data, err := machineconfig.Contents(r)
	if err != nil {
		return r // it is elsewhere, or Ignition says what is wrong with it
	}
	source := "data:;base64," + base64.StdEncoding.EncodeToString(data)
	r.Source, r.Compression = &source, nil
	return r
}

// appendFiles adds what the machine must know about the config it boots: what the server adds, the annotations of its node,
// its way into the cluster with a token, and last the encapsulated config.
func appendFiles(c machineconfig.Config, in Input, withheld bool, token string) (machineconfig.Config, error) {
	annotations, err := nodeAnnotations(in.Rendered.Name, withheld)
	if err != nil {
		return c, err
	}
	files := append(slices.Clone(in.Extra.Files), File{Path: NodeAnnotationsPath, Mode: 0o644, Contents: annotations})
	if in.Extra.Join != nil {
		way, err := bootstrapKubeconfig(*in.Extra.Join, token)
		if err != nil {
			return c, err
		}
		files = append(files, File{Path: KubeconfigPath, Mode: 0o600, Contents: way})
	}
	shell, err := encapsulate(c, in.Rendered.Name)
	if err != nil {
		return c, fmt.Errorf("writing the encapsulated config: %w", err)
	}
	files = append(files, File{Path: EncapsulatedPath, Mode: 0o644, Contents: shell})
	c.Ignition.Ignition.Version, c.HasIgnition = machineconfig.Version, true // there may have been no Ignition at all
	for _, f := range files {
		c.Ignition.Storage = put(c.Ignition.Storage, f)
	}
	return c, nil
}

// nodeAnnotations are what the machine's Node starts with.
func nodeAnnotations(config string, withheld bool) ([]byte, error) {
	all := map[string]string{
		v1alpha1.CurrentConfigAnnotation:    config,
		v1alpha1.DesiredConfigAnnotation:    config,
		v1alpha1.FirstPivotConfigAnnotation: config,
		v1alpha1.StateAnnotation:            v1alpha1.StateDone,
	}
	if withheld {
		all[v1alpha1.WithheldAnnotation] = config
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("writing node annotations: %w", err)
	}
	return text, nil
}

// encapsulate writes the MachineConfig without its Ignition. Its metadata are its name alone, which says its content: so the
// same content gives the same bytes, wherever it was rendered and whatever commit it came from.
func encapsulate(c machineconfig.Config, name string) ([]byte, error) {
	c.Ignition, c.HasIgnition = ign.Config{}, true
	spec, err := c.Spec()
	if err != nil {
		return nil, err
	}
	return json.Marshal(mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       spec,
	})
}

// put returns storage with a file as its last, in place of whatever had its path.
func put(s ign.Storage, f File) ign.Storage {
	s = vacate(s, f.Path)
	source, mode, overwrite := "data:,"+dataurl.Escape(f.Contents), f.Mode, true
	s.Files = append(s.Files, ign.File{
		Node:          ign.Node{Path: f.Path, Overwrite: &overwrite},
		FileEmbedded1: ign.FileEmbedded1{Mode: &mode, Contents: ign.Resource{Source: &source}},
	})
	return s
}

// vacate returns storage without whatever is at these paths. The lists are new: the caller's stay.
func vacate(s ign.Storage, paths ...string) ign.Storage {
	s.Files = without(s.Files, func(f ign.File) bool { return slices.Contains(paths, f.Path) })
	s.Directories = without(s.Directories, func(d ign.Directory) bool { return slices.Contains(paths, d.Path) })
	s.Links = without(s.Links, func(l ign.Link) bool { return slices.Contains(paths, l.Path) })
	return s
}

// paths are those at which files are added.
func (in Input) paths() []string {
	all := []string{NodeAnnotationsPath, EncapsulatedPath}
	for _, f := range in.Extra.Files {
		all = append(all, f.Path)
	}
	if in.Extra.Join != nil {
		all = append(all, KubeconfigPath)
	}
	return all
}

func without[T any](list []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), drop)
}
