package mcs

import (
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
	// EncapsulatedPath is the rendered MachineConfig with its Ignition emptied, as JSON: what Ignition cannot carry
	// (OS image, kernel arguments and type, extensions) reaches the machine's first boot by it. Always the last file.
	EncapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
)

// Input is what a new machine's config is made of. Nothing in it is changed.
type Input struct {
	// Pool is the name of the machine's pool.
	Pool string
	// Rendered is the pool's rendered config.
	Rendered *mcfgv1.MachineConfig
}

// Compose writes the Ignition config for a new machine: the rendered config's, with node annotations and the
// encapsulated MachineConfig appended, in the given version. The same input gives the same bytes, which that version's
// own parser accepts. The error is an *UnsayableError where the version lacks words for the config; any other says what
// is wrong with the rendered config itself.
func Compose(in Input, v Version) ([]byte, error) {
	if in.Rendered == nil {
		return nil, fmt.Errorf("composing Ignition for pool %s: %w", in.Pool, ErrNothingRendered)
	}
	name := in.Rendered.Name
	d, ok := dialectOf(v)
	if !ok {
		return nil, &UnsupportedError{Asked: string(v)}
	}
	config, err := machineconfig.Parse(in.Rendered.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading config %s: %w", name, err)
	}
	if !d.kernelArguments {
		config = moveKernelArguments(config)
	}
	if config, err = appendFiles(config, in.Rendered); err != nil {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, err)
	}
	if bad := machineconfig.Validate(config); len(bad) > 0 {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, errors.Join(bad...))
	}
	raw, err := config.IgnitionJSON()
	if err != nil {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, err)
	}
	body, unsayable, err := d.say(raw)
	if err != nil {
		return nil, fmt.Errorf("converting config %s to Ignition %s: %w", name, v, err)
	}
	if len(unsayable) > 0 {
		return nil, &UnsayableError{Config: name, Version: v, Fields: unsayable}
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

// appendFiles adds what the machine must know about the config it boots.
func appendFiles(c machineconfig.Config, rendered *mcfgv1.MachineConfig) (machineconfig.Config, error) {
	annotations, err := json.Marshal(map[string]string{
		v1alpha1.CurrentConfigAnnotation:    rendered.Name,
		v1alpha1.DesiredConfigAnnotation:    rendered.Name,
		v1alpha1.FirstPivotConfigAnnotation: rendered.Name,
		v1alpha1.StateAnnotation:            v1alpha1.StateDone,
	})
	if err != nil {
		return c, fmt.Errorf("writing node annotations: %w", err)
	}
	shell, err := encapsulate(c, rendered)
	if err != nil {
		return c, fmt.Errorf("writing the encapsulated config: %w", err)
	}
	c.Ignition.Ignition.Version, c.HasIgnition = machineconfig.Version, true // there may have been no Ignition at all
	c.Ignition.Storage = put(c.Ignition.Storage, NodeAnnotationsPath, annotations)
	c.Ignition.Storage = put(c.Ignition.Storage, EncapsulatedPath, shell)
	return c, nil
}

// encapsulate writes the MachineConfig without its Ignition and without what the API server keeps for itself.
func encapsulate(c machineconfig.Config, rendered *mcfgv1.MachineConfig) ([]byte, error) {
	c.Ignition, c.HasIgnition = ign.Config{}, true
	spec, err := c.Spec()
	if err != nil {
		return nil, err
	}
	return json.Marshal(mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: rendered.Name, Labels: rendered.Labels, Annotations: rendered.Annotations},
		Spec:       spec,
	})
}

// put returns storage with a file as its last, in place of whatever had its path. The lists are new: the caller's stay.
func put(s ign.Storage, path string, contents []byte) ign.Storage {
	s.Files = without(s.Files, func(f ign.File) bool { return f.Path == path })
	s.Directories = without(s.Directories, func(d ign.Directory) bool { return d.Path == path })
	s.Links = without(s.Links, func(l ign.Link) bool { return l.Path == path })
	source, mode, overwrite := "data:,"+dataurl.Escape(contents), 0o644, true
	s.Files = append(s.Files, ign.File{
		Node:          ign.Node{Path: path, Overwrite: &overwrite},
		FileEmbedded1: ign.FileEmbedded1{Mode: &mode, Contents: ign.Resource{Source: &source}},
	})
	return s
}

func without[T any](list []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), drop)
}
