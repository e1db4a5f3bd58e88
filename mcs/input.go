package mcs

import mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

// Input is what the config of a new machine is composed of. Compose does not change it.
type Input struct {
	// Pool is the name of the machine's pool.
	Pool string
	// Rendered is the pool's rendered config.
	Rendered *mcfgv1.MachineConfig
	// Extra is what a server adds to each config. It may change while the config's name stays.
	Extra Extra
	// Withhold leaves out the secrets of the config: the machine gets them after it has joined.
	Withhold bool
	// Secrets are the resolved contents of the config's files that refer to secrets; nil leaves these files out.
	Secrets *Secrets
}

// Secrets are the resolved contents of the files of a config that refer to secrets.
type Secrets struct {
	// Revision of the contents, see v1alpha1.SecretsRevision.
	Revision string
	// Contents by path.
	Contents map[string][]byte
}

// Extra is what a server adds to each config. It is not part of the config's name, so it may change while the name
// stays the same.
type Extra struct {
	// Files are written as they are, in this order; an entry of the config at such a path is replaced.
	Files []File
	// Join is how a kubelet joins its cluster: the bootstrap kubeconfig at KubeconfigPath. The server inserts a token
	// for each machine, see Body.
	Join *Join
}

// File is a file on a new machine.
type File struct {
	// Path of the file.
	Path string
	// Mode are its permission bits.
	Mode int
	// Contents of it.
	Contents []byte
}

// Join describes the bootstrap kubeconfig at KubeconfigPath, with which a kubelet joins its cluster. The server inserts
// a token for each machine, see Body.
type Join struct {
	// Server is the URL of the API server for new machines.
	Server string
	// CA are the CA certificates of the API server, as PEM.
	CA []byte
}

// BootstrapTokenLength is the length of a bootstrap token, `abcdef.0123456789abcdef` (Kubernetes, bootstrap tokens).
const BootstrapTokenLength = 23

// Body is a complete Ignition config, or one with a placeholder for a bootstrap token between Head and Tail. The same input
// gives the same Body. All requests share it, so callers must not change it.
type Body struct {
	// Head is the config up to the placeholder, or all of it.
	Head []byte
	// Tail is the config after the placeholder; nil where there is none.
	Tail []byte
	// Withheld lists the secrets that were left out, by path or name; nil where there are none.
	Withheld []string
}

// NeedsBootstrapToken reports whether the body has a placeholder for a bootstrap token of BootstrapTokenLength characters.
func (b Body) NeedsBootstrapToken() bool { return b.Tail != nil }

// Len is the length of the body with its token.
func (b Body) Len() int {
	if !b.NeedsBootstrapToken() {
		return len(b.Head)
	}
	return len(b.Head) + BootstrapTokenLength + len(b.Tail)
}
