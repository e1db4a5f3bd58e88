package mcs

import mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

// Input is what a new machine's config is made of. Nothing in it is changed.
type Input struct {
	// Pool is the name of the machine's pool.
	Pool string
	// Rendered is the pool's rendered config.
	Rendered *mcfgv1.MachineConfig
	// Extra is what the server adds for every machine.
	Extra Extra
	// Withhold leaves out what the config has of secrets: the machine gets them after it has joined.
	Withhold bool
}

// Extra is what a server adds to each config beside what the config's name says: it may change while the config stays.
type Extra struct {
	// Files are written as they are, in this order; an entry of the config at such a path is replaced.
	Files []File
	// Join is how the machine joins its cluster; nil writes no bootstrap kubeconfig.
	Join *Join
}

// File is a file of a new machine.
type File struct {
	// Path is where it lies.
	Path string
	// Mode are its permission bits.
	Mode int
	// Contents of it.
	Contents []byte
}

// Join is a kubelet's first way into its cluster: the bootstrap kubeconfig at KubeconfigPath. Its token is put in for each
// machine, see Body.
type Join struct {
	// Server is the API server's URL, as new machines reach it.
	Server string
	// CA are the certificates to believe it by, as PEM.
	CA []byte
}

// TokenLength is the length of a bootstrap token, `abcdef.0123456789abcdef` (Kubernetes, bootstrap tokens).
const TokenLength = 23

// Body is a complete Ignition config, or one with room for a bootstrap token between Head and Tail. The same input gives
// the same Body. It is shared: nobody changes it.
type Body struct {
	// Head is the config up to the room for a token; all of it where there is none.
	Head []byte
	// Tail is the config after that room; nil where there is none.
	Tail []byte
	// Withheld are what was left out as secret, in words of paths and names; nil where nothing was.
	Withheld []string
}

// Joins tells whether the body has room for a bootstrap token, of TokenLength characters.
func (b Body) Joins() bool { return b.Tail != nil }

// Len is the length of the body with its token.
func (b Body) Len() int {
	if !b.Joins() {
		return len(b.Head)
	}
	return len(b.Head) + TokenLength + len(b.Tail)
}
