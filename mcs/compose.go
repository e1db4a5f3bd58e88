package mcs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"
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

// FirstBootSecretsError says that a config has secrets that a machine needs for its first boot, so the server serves
// all of it or none.
type FirstBootSecretsError struct {
	// of the rendered config
	Config string
	// of the secrets in the config, such as storage.luks[root].keyFile; never empty
	Fields []string
}

// Error names the config and every field, and what to do.
func (e *FirstBootSecretsError) Error() string {
	return fmt.Sprintf("config %s has secrets that a machine needs for its first boot (%s): "+
		"ask with a token of the node: bunsen token create --node", e.Config, strings.Join(e.Fields, ", "))
}

// NoContentStoreError says that a config has files of the content store, and that the server has no content store.
type NoContentStoreError struct {
	Config string
	Files  []string
}

// Error names the config and its files.
func (e *NoContentStoreError) Error() string {
	return fmt.Sprintf("config %s has files in the content store of a cluster (%s), and this server has no content "+
		"store. Run the server in the cluster, or serve the files at an https:// address",
		e.Config, strings.Join(e.Files, ", "))
}

// errNoRegistries: the server reads none.
var errNoRegistries = errors.New("the config has files in OCI registries, which new machines read from the server, " +
	"and this server reads no registries")

// errPlaceholder: splitAtToken avoids this error.
var errPlaceholder = errors.New("cannot locate the bootstrap-token placeholder in the config")

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

// secretPathsOf returns what users marked. The controller has validated the annotation; an invalid pattern matches
// nothing.
func secretPathsOf(rendered *mcfgv1.MachineConfig) secretmask.Paths {
	paths, _ := secretmask.ParsePaths(rendered.Annotations[v1alpha1.SecretPathsAnnotation])
	return paths
}

// WithSecretPaths returns a rendered config with more secret paths, in the form of the annotation.
func WithSecretPaths(rendered *mcfgv1.MachineConfig, more string) *mcfgv1.MachineConfig {
	paths, _ := secretmask.ParsePaths(more)
	had := secretPathsOf(rendered)
	all := secretmask.Join(had, paths)
	if all == secretmask.Join(had) {
		return rendered
	}
	out := *rendered
	out.Annotations = maps.Clone(rendered.Annotations)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, v1alpha1.SecretPathsAnnotation, all)
	return &out
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

// withholdUnresolved is withhold for a machine that may have the secrets, where only the contents of references are not
// known.
func withholdUnresolved(c machineconfig.Config) (machineconfig.Config, []string, []string) {
	w := &withholder{onlyUnresolved: true}
	c.Ignition.Storage = w.storage(c.Ignition.Storage)
	return c, w.withheld, w.needed
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

func (w *withholder) leaveOut(format string, args ...any) {
	w.withheld = append(w.withheld, fmt.Sprintf(format, args...))
}

func (w *withholder) need(field string, secret bool) {
	if secret {
		w.needed = append(w.needed, field)
	}
}

// withContent replaces the addresses of files of the content store and of registries by those of the server, with
// grants, in the address for versions of Ignition without headers. The machine reaches the server as for its config:
// without the proxies of the config, and with the server's CA.
func (d spec) withContent(c machineconfig.Config, in Input) (machineconfig.Config, error) {
	paths := storedFiles(c)
	if len(paths) > 0 && in.Content == nil {
		return c, &NoContentStoreError{Config: in.Rendered.Name, Files: paths}
	}
	if len(servedFiles(c)) == 0 {
		return c, nil
	}
	if in.Content == nil {
		return c, fmt.Errorf("serving config %s: %w", in.Rendered.Name, errNoRegistries)
	}
	files := slices.Clone(c.Ignition.Storage.Files)
	for i, f := range files {
		if f.Contents.Source == nil {
			continue
		}
		if name := servedName(*f.Contents.Source); name != "" {
			files[i].Contents = in.Content.resource(f.Contents, name, d.headers())
		}
	}
	c.Ignition.Storage.Files = files
	settings := &c.Ignition.Ignition
	if len(in.Content.CA) > 0 && !trusts(settings.Security.TLS.CertificateAuthorities, in.Content.CA) {
		source := "data:;base64," + base64.StdEncoding.EncodeToString(in.Content.CA)
		settings.Security.TLS.CertificateAuthorities = append(
			slices.Clone(settings.Security.TLS.CertificateAuthorities), ign.Resource{Source: &source})
	}
	if u, err := url.Parse(in.Content.Server); err == nil &&
		(settings.Proxy.HTTPProxy != nil || settings.Proxy.HTTPSProxy != nil) {
		settings.Proxy.NoProxy = append(slices.Clone(settings.Proxy.NoProxy), ign.NoProxyItem(u.Hostname()))
	}
	return c, nil
}

// storedFiles are in the content store. The config is flat.
func storedFiles(c machineconfig.Config) (paths []string) {
	for _, f := range c.Ignition.Storage.Files {
		if f.Contents.Source == nil {
			continue
		}
		if _, stored := machineconfig.StoredHash(*f.Contents.Source); stored {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// headers reports whether this version of Ignition sends headers of the config.
func (d spec) headers() bool { return d.version != V2_2 && d.version != V3_0 }

func (a ContentAccess) resource(r ign.Resource, name string, headers bool) ign.Resource {
	source, grant := a.Server+contentPath(name), a.Grant(name)
	if !headers {
		source += "?" + v1alpha1.ContentGrantQuery + "=" + url.QueryEscape(grant)
		r.Source, r.HTTPHeaders = &source, nil
		return r
	}
	value := v1alpha1.ContentGrantScheme + grant
	r.Source, r.HTTPHeaders = &source, ign.HTTPHeaders{{Name: "Authorization", Value: &value}}
	return r
}

// trusts reports whether a list of CAs has a bundle.
func trusts(all []ign.Resource, pem []byte) bool {
	return slices.ContainsFunc(all, func(r ign.Resource) bool {
		have, err := machineconfig.Contents(r)
		return err == nil && bytes.Equal(have, pem)
	})
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
