package mcs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Input is what Compose makes the config of a new machine from, without changing it.
type Input struct {
	Pool     string
	Rendered *mcfgv1.MachineConfig
	// Extra may change while the config's name stays the same.
	Extra Extra
	// Withhold leaves the secrets out: the machine gets them after it has joined.
	Withhold bool
	// Secrets are resolved contents of files; nil leaves these files out.
	Secrets *Secrets
	// Content is how the machine reads files of the content store and of registries; nil if it cannot.
	Content *ContentAccess
}

// Secrets are the resolved contents of the files of a config that refer to secrets.
type Secrets struct {
	Revision string
	// Contents by path.
	Contents map[string][]byte
}

// Extra has the files that a server adds to each config, whose name does not depend on them.
type Extra struct {
	// Files are added unchanged and in this order. Each replaces any entry of the config at its path.
	Files []File
	// Join is for the bootstrap kubeconfig at KubeconfigPath; nil without one.
	Join *Join
}

// File is a file on a new machine.
type File struct {
	Path     string
	Mode     int
	Contents []byte
}

// Join describes the bootstrap kubeconfig with which a kubelet joins its cluster. The server inserts a bootstrap token
// for each machine into the Body.
type Join struct {
	// Server is the API server's URL for new machines.
	Server string
	// CA certificates of the API server, as PEM.
	CA []byte
}

// Body is a complete Ignition config, or one with a placeholder for a bootstrap token between Head and Tail. The same
// input gives the same one. All requests share it, so do not change it.
type Body struct {
	// up to the placeholder, or all
	Head []byte
	// behind the placeholder; nil without one
	Tail []byte
	// Withheld lists the secrets that are left out, by path or name.
	Withheld []string
}

// NeedsBootstrapToken reports whether the body has a placeholder for a bootstrap token of BootstrapTokenLength
// characters.
func (b Body) NeedsBootstrapToken() bool { return b.Tail != nil }

// Len returns the length of the body with its token.
func (b Body) Len() int {
	if !b.NeedsBootstrapToken() {
		return len(b.Head)
	}
	return len(b.Head) + BootstrapTokenLength + len(b.Tail)
}

// errPlaceholder: splitAtToken avoids this error.
var errPlaceholder = errors.New("cannot locate the bootstrap-token placeholder in the config")

// What a kubelet reads.
type (
	kubeconfig struct {
		APIVersion     string         `json:"apiVersion"`
		Kind           string         `json:"kind"`
		Clusters       []namedCluster `json:"clusters"`
		Users          []namedUser    `json:"users"`
		Contexts       []namedContext `json:"contexts"`
		CurrentContext string         `json:"current-context"`
	}
	namedCluster struct {
		Name    string      `json:"name"`
		Cluster clusterPart `json:"cluster"`
	}
	clusterPart struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data,omitempty"` // CA becomes base64, like every []byte in JSON.
	}
	namedUser struct {
		Name string   `json:"name"`
		User userPart `json:"user"`
	}
	userPart struct {
		Token string `json:"token"`
	}
	namedContext struct {
		Name    string      `json:"name"`
		Context contextPart `json:"context"`
	}
	contextPart struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	}
)

// Each replaces an entry of the rendered config, of any kind, at its path.
const (
	// NodeAnnotationsPath has the first annotations of the machine's Node, as a JSON object.
	NodeAnnotationsPath = "/etc/machine-config-daemon/node-annotations.json"
	// KubeconfigPath is the bootstrap kubeconfig, if machines join through the server.
	KubeconfigPath = "/etc/kubernetes/kubeconfig"
	// EncapsulatedPath is the rendered MachineConfig without its Ignition config, as JSON: for the first boot, what
	// Ignition cannot express (OS image, kernel arguments and type, extensions). It is always the last file.
	EncapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
)

// Compose writes the Ignition config for a new machine in a version: the rendered config with the inline configs that
// it names, and the files that the machine needs to boot it and to join the cluster. The same input gives the same
// bytes, which the parser of that version accepts. The error is an *UnsupportedFieldsError if the version lacks fields
// of the config, a *FirstBootSecretsError if the machine cannot boot without withheld secrets, and a
// *NoContentStoreError if the config has files of the content store, and the server has none. Any other is about the
// rendered config itself.
func Compose(in Input, v Version) (Body, error) {
	if in.Rendered == nil {
		return Body{}, fmt.Errorf("composing Ignition for pool %s: %w", in.Pool, ErrNothingRendered)
	}
	name := in.Rendered.Name
	d, ok := specOf(v)
	if !ok {
		return Body{}, &UnsupportedVersionError{Asked: string(v)}
	}
	config, err := machineconfig.Parse(in.Rendered.Spec)
	if err == nil {
		// A merged config would override the files that are added.
		config, err = machineconfig.Flat(config)
	}
	if err != nil {
		return Body{}, fmt.Errorf("reading config %s: %w", name, err)
	}
	config, withheld, err := in.withoutSecrets(config)
	if err != nil {
		return Body{}, err
	}
	if config, err = d.withContent(config, in); err != nil {
		return Body{}, err
	}
	if !d.kernelArguments {
		config = moveKernelArguments(config)
	}
	if !d.gzipDataURLs {
		config.Ignition.Storage.Files = decompressFiles(config.Ignition.Storage.Files)
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
		body, err = splitAtToken(write)
	}
	if err != nil {
		return Body{}, err
	}
	body.Withheld = withheld
	return body, nil
}

// splitAtToken splits what compose returns at a placeholder that it does not contain elsewhere.
func splitAtToken(compose func(hole string) ([]byte, error)) (Body, error) {
	mark := placeholder(0)
	whole, err := compose(mark)
	if err != nil {
		return Body{}, err
	}
	if bytes.Count(whole, []byte(mark)) != 1 {
		for n := 1; bytes.Contains(whole, []byte(mark)); n++ {
			mark = placeholder(n)
		}
		if whole, err = compose(mark); err != nil {
			return Body{}, err
		}
	}
	head, tail, found := bytes.Cut(whole, []byte(mark))
	if !found || bytes.Contains(tail, []byte(mark)) {
		return Body{}, errPlaceholder
	}
	return Body{Head: bytes.Clone(head), Tail: bytes.Clone(tail)}, nil
}

// placeholder has BootstrapTokenLength characters that no format escapes. Only the first is a b, so that two cannot
// overlap.
func placeholder(n int) string { return fmt.Sprintf("bunsen.%016d", n) }

func (d spec) write(config machineconfig.Config, name string) ([]byte, error) {
	if bad := machineconfig.Validate(config); len(bad) > 0 {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, bad.Err())
	}
	raw, err := config.IgnitionJSON()
	if err != nil {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, err)
	}
	body, unsupported, err := d.convert(raw)
	if err != nil {
		return nil, fmt.Errorf("converting config %s to Ignition %s: %w", name, d.version, err)
	}
	if len(unsupported) > 0 {
		return nil, &UnsupportedFieldsError{Config: name, Version: d.version, Fields: unsupported}
	}
	return body, nil
}

// moveKernelArguments moves those of the Ignition config to the MachineConfig's, for the encapsulated config. Those
// under shouldNotExist stay, and are reported as unsupported.
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

// decompressFiles keeps the hashes, which are those of decompressed contents.
func decompressFiles(files []ign.File) []ign.File {
	files = slices.Clone(files)
	for i := range files {
		files[i].Contents = decompress(files[i].Contents)
		files[i].Append = slices.Clone(files[i].Append)
		for j, a := range files[i].Append {
			files[i].Append[j] = decompress(a)
		}
	}
	return files
}

func decompress(r ign.Resource) ign.Resource {
	if r.Compression == nil || *r.Compression == "" {
		return r
	}
	data, err := machineconfig.Contents(r)
	if err != nil {
		return r // Either the contents are remote, or Ignition reports what is wrong with the contents.
	}
	source := "data:;base64," + base64.StdEncoding.EncodeToString(data)
	r.Source, r.Compression = &source, nil
	return r
}

// appendFiles adds what the machine needs: the server's additions, the annotations of its Node, the bootstrap
// kubeconfig with a token, and last the encapsulated config.
func appendFiles(c machineconfig.Config, in Input, withheld bool, token string) (machineconfig.Config, error) {
	annotations, err := nodeAnnotations(in, withheld)
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
	// The rendered config may have no Ignition config.
	c.Ignition.Ignition.Version, c.HasIgnition = machineconfig.Version, true
	for _, f := range files {
		c.Ignition.Storage = addFile(c.Ignition.Storage, f)
	}
	return c, nil
}

// bootstrapKubeconfig is JSON, because YAML would parse a token of digits and a dot as a number.
func bootstrapKubeconfig(j Join, token string) ([]byte, error) {
	const cluster, user = "local", "kubelet"
	out, err := json.MarshalIndent(kubeconfig{
		APIVersion:     "v1",
		Kind:           "Config",
		Clusters:       []namedCluster{{cluster, clusterPart(j)}},
		Users:          []namedUser{{user, userPart{Token: token}}},
		Contexts:       []namedContext{{user, contextPart{Cluster: cluster, User: user}}},
		CurrentContext: user,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap kubeconfig: %w", err)
	}
	return append(out, '\n'), nil
}

func nodeAnnotations(in Input, withheld bool) ([]byte, error) {
	config := in.Rendered.Name
	all := map[string]string{
		v1alpha1.CurrentConfigAnnotation:    config,
		v1alpha1.DesiredConfigAnnotation:    config,
		v1alpha1.FirstPivotConfigAnnotation: config,
		v1alpha1.StateAnnotation:            v1alpha1.StateDone,
	}
	if withheld {
		all[v1alpha1.WithheldAnnotation] = config
	}
	if in.Secrets != nil && !in.Withhold {
		all[v1alpha1.CurrentSecretsAnnotation] = in.Secrets.Revision
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("writing node annotations: %w", err)
	}
	return text, nil
}

// encapsulate keeps no metadata but the name, which identifies the content: the same content gives the same bytes,
// whatever the commit is.
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

func addFile(s ign.Storage, f File) ign.Storage {
	s = removePaths(s, f.Path)
	source, mode, overwrite := "data:,"+dataurl.Escape(f.Contents), f.Mode, true
	s.Files = append(s.Files, ign.File{
		Node:          ign.Node{Path: f.Path, Overwrite: &overwrite},
		FileEmbedded1: ign.FileEmbedded1{Mode: &mode, Contents: ign.Resource{Source: &source}},
	})
	return s
}

// removePaths leaves the caller's lists unchanged.
func removePaths(s ign.Storage, paths ...string) ign.Storage {
	s.Files = without(s.Files, func(f ign.File) bool { return slices.Contains(paths, f.Path) })
	s.Directories = without(s.Directories, func(d ign.Directory) bool { return slices.Contains(paths, d.Path) })
	s.Links = without(s.Links, func(l ign.Link) bool { return slices.Contains(paths, l.Path) })
	return s
}

// addedPaths are those of the files that Compose adds.
func (in Input) addedPaths() []string {
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
