package mcs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JoiningMachine is what a bootstrap token is created for. Its description has all fields.
type JoiningMachine struct {
	// Pool and Node that the machine is for; it may be any node of the pool if Node is empty.
	Pool, Node string
	// Token is the id of a provisioning token, or empty.
	Token   string
	Address string
	// Certificate is the subject of the client certificate that admitted the machine, or empty.
	Certificate string
	// Attested: a token or a certificate admitted the machine to the pool, and not open access.
	Attested bool
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

// withoutSecrets puts the resolved contents of secrets into the config, or leaves out those that the machine may not
// have, and returns their names.
func (in Input) withoutSecrets(config machineconfig.Config) (machineconfig.Config, []string, error) {
	if !in.Withhold && in.Secrets != nil {
		resolved, err := machineconfig.ResolveSecrets(config, in.Secrets.Contents)
		if err != nil {
			return config, nil, fmt.Errorf("resolving the secrets of config %s: %w", in.Rendered.Name, err)
		}
		return resolved, nil, nil
	}
	var withheld, needed []string
	if in.Withhold {
		config.Ignition.Storage = removePaths(config.Ignition.Storage, in.addedPaths()...)
		config, withheld, needed = withhold(config, secretPathsOf(in.Rendered))
	} else {
		config, withheld, needed = withholdUnresolved(config)
	}
	if len(needed) > 0 {
		return config, nil, &FirstBootSecretsError{Config: in.Rendered.Name, Fields: needed}
	}
	return config, withheld, nil
}

// withholdUnresolved is withhold for a machine that may have the secrets, where only the contents of references are not
// known.
func withholdUnresolved(c machineconfig.Config) (machineconfig.Config, []string, []string) {
	w := &withholder{onlyUnresolved: true}
	c.Ignition.Storage = w.storage(c.Ignition.Storage)
	return c, w.withheld, w.needed
}

// withhold returns a config without what documents declare as secret: unresolved files, paths that owners mark, and the
// hashes of passwords. It also returns what was withheld, and the secret fields that the machine needs before it joins
// or that no program adds later. The caller's lists do not change. The config must be flat.
func withhold(c machineconfig.Config, marked secretmask.Paths) (machineconfig.Config, []string, []string) {
	w := &withholder{secretPaths: marked}
	c.Ignition.Storage = w.storage(c.Ignition.Storage)
	c.Ignition.Systemd.Units = w.units(c.Ignition.Systemd.Units)
	c.Ignition.Passwd = w.passwd(c.Ignition.Passwd)
	return c, w.withheld, w.needed
}

// secretPathsOf returns what users marked. The controller has validated the annotation; an invalid pattern matches
// nothing.
func secretPathsOf(rendered *mcfgv1.MachineConfig) secretmask.Paths {
	paths, _ := secretmask.ParsePaths(rendered.Annotations[v1alpha1.SecretPathsAnnotation])
	return paths
}

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

type withholder struct {
	// only files whose contents are unresolved, because the machine may have the other secrets
	onlyUnresolved bool

	secretPaths secretmask.Paths // secretPaths are the paths that users marked as secret.
	withheld    []string         // withheld has the items that are left out; the machine gets them after it has joined.
	needed      []string         // needed has the secret fields that the machine cannot get later.
}

// joinPaths are files without which a machine cannot join the cluster.
var joinPaths = []string{KubeconfigPath, "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/kubelet.conf"}

func (w *withholder) leaveOut(format string, args ...any) {
	w.withheld = append(w.withheld, fmt.Sprintf(format, args...))
}

func (w *withholder) need(field string, secret bool) {
	if secret {
		w.needed = append(w.needed, field)
	}
}

func (w *withholder) storage(s ign.Storage) ign.Storage {
	gone := map[string]bool{}
	s.Files = without(s.Files, func(f ign.File) bool {
		hidden := slices.ContainsFunc(append([]ign.Resource{f.Contents}, f.Append...), func(r ign.Resource) bool {
			return w.secretResource(f.Path, r)
		})
		if slices.Contains(joinPaths, f.Path) {
			w.need("storage.files["+f.Path+"]", hidden)
			return false
		}
		if hidden {
			gone[f.Path] = true
			w.leaveOut("file %s", f.Path)
		}
		return hidden
	})
	// Also hard links to withheld files, and to such links: they would stop the machine's first boot.
	for before := -1; before != len(s.Links); {
		before = len(s.Links)
		s.Links = without(s.Links, func(l ign.Link) bool {
			hangs := l.Hard != nil && *l.Hard && l.Target != nil && gone[path.Join("/", *l.Target)]
			if hangs {
				gone[l.Path] = true
				w.leaveOut("link %s", l.Path)
			}
			return hangs
		})
	}
	if w.onlyUnresolved {
		return s
	}
	for _, l := range s.Luks {
		w.need("storage.luks["+l.Name+"].keyFile", l.KeyFile.Source != nil)
	}
	return s
}

func (w *withholder) units(units []ign.Unit) []ign.Unit {
	units = without(units, func(u ign.Unit) bool {
		hidden := u.Contents != nil && *u.Contents != "" && w.secretPaths.Match(u.Name)
		if hidden {
			w.leaveOut("unit %s", u.Name)
		}
		return hidden
	})
	for i, u := range units {
		units[i].Dropins = without(u.Dropins, func(d ign.Dropin) bool {
			hidden := d.Contents != nil && *d.Contents != "" && w.secretPaths.Match(u.Name+".d/"+d.Name)
			if hidden {
				w.leaveOut("drop-in %s of unit %s", d.Name, u.Name)
			}
			return hidden
		})
	}
	return units
}

func (w *withholder) passwd(p ign.Passwd) ign.Passwd {
	p.Users = slices.Clone(p.Users)
	for i, u := range p.Users {
		if u.PasswordHash != nil && *u.PasswordHash != "" {
			p.Users[i].PasswordHash = nil
			w.leaveOut("password of user %s", u.Name)
		}
	}
	for _, g := range p.Groups {
		w.need("passwd.groups["+g.Name+"].passwordHash", g.PasswordHash != nil && *g.PasswordHash != "")
	}
	return p
}

// secretResource reports whether contents are declared as secret. An empty file at a marked path has no secret.
func (w *withholder) secretResource(file string, r ign.Resource) bool {
	if r.Source != nil && machineconfig.IsUnresolved(*r.Source) {
		return true
	}
	if w.onlyUnresolved || !w.secretPaths.Match(file) {
		return false
	}
	data, err := machineconfig.Contents(r)
	return err != nil || len(data) > 0
}
