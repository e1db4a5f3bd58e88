package mcs

import mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

// Input has the parts from which Compose composes the config of a new machine. Compose does not change the fields of an
// Input.
type Input struct {
	// Pool is the name of the machine's pool.
	Pool string
	// Rendered is the pool's rendered config.
	Rendered *mcfgv1.MachineConfig
	// Extra has the files that a server adds to each config. Extra may change while the config's name stays the same.
	Extra Extra
	// If Withhold is true, Compose leaves out the secrets of the config, and the machine gets them after it has joined.
	Withhold bool
	// Secrets are the resolved contents of the config's files that refer to secrets; nil leaves these files out.
	Secrets *Secrets
	// Content is how the machine reads files of the content store and of registries; nil if it cannot.
	Content *ContentAccess
}

// Secrets are the resolved contents of the files of a config that refer to secrets.
type Secrets struct {
	// Revision of the contents, see v1alpha1.SecretsRevision.
	Revision string
	// Contents by path.
	Contents map[string][]byte
}

// Extra has the files that a server adds to each config. The name of a config does not depend on Extra, so Extra may
// change while the name stays the same.
type Extra struct {
	// Files are added to the config unchanged and in this order. A file replaces any entry of the config at its path.
	Files []File
	// Join describes how a kubelet joins its cluster: with the bootstrap kubeconfig at KubeconfigPath. If Join is nil,
	// there is no such file.
	Join *Join
}

// File is a file on a new machine.
type File struct {
	// Path is the path of the file on the machine.
	Path string
	// Mode is the file's permission bits.
	Mode int
	// Contents are the file's contents.
	Contents []byte
}

// Join describes the bootstrap kubeconfig at KubeconfigPath, with which a kubelet joins its cluster. The server inserts
// a bootstrap token for each machine into the Body.
type Join struct {
	// Server is the URL of the API server for new machines.
	Server string
	// CA are the CA certificates of the API server, as PEM.
	CA []byte
}

// BootstrapTokenLength is the length of a bootstrap token, `abcdef.0123456789abcdef` (Kubernetes, bootstrap tokens).
const BootstrapTokenLength = 23

// Body is a complete Ignition config, or one with a placeholder for a bootstrap token between Head and Tail. The same
// input gives the same Body. All requests share one Body, so callers must not change it.
type Body struct {
	// Head is the config up to the placeholder, or the whole config.
	Head []byte
	// Tail is the config after the placeholder; nil if there is no placeholder.
	Tail []byte
	// Withheld lists the secrets that Compose left out, by path or name; nil if there are none.
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
