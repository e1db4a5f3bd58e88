package source

import (
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Secrets are the contents of the Secrets that the spec of a GitSource names; nil if it names none.
type Secrets struct {
	// Credentials are the credentials for the remote.
	Credentials map[string][]byte
	// Keys are the public keys of spec.verify. The controller checks the signatures of git commits with them, and the
	// repository those of artifacts.
	Keys map[string][]byte
	// Proxy is the proxy to the remote.
	Proxy map[string][]byte
}

// IsArtifact reports whether a source follows artifacts of an OCI registry. They have no history, and their repository
// checks their signatures.
func IsArtifact(spec v1alpha1.GitSourceSpec) bool { return strings.HasPrefix(spec.URL, "oci://") }

// CheckSpec returns why the fields of a spec do not fit together, as a Stalled InvalidSpec fault: a password in the
// URL, or a field that its kind of repository does not have.
func CheckSpec(spec v1alpha1.GitSourceSpec) error {
	if a, err := ParseURL(spec.URL); err == nil && a.Password != "" {
		return invalid("spec.url holds a password, which everybody who may read GitSources can see: put it into a " +
			"Secret, name that in spec.secretRef, and change the password")
	}
	if !IsArtifact(spec) {
		if spec.Ref.Digest != "" {
			return invalid("spec.ref.digest is for oci:// only: set ref.commit for a git repository")
		}
		return nil
	}
	if v := spec.Verify; v != nil && (v.Mode != "" && v.Mode != v1alpha1.VerifyHead ||
		len(v.Signers)+len(v.Committers)+len(v.Authors) > 0) {
		return invalid("spec.verify of oci:// has the mode Head only, without signers, committers and authors: " +
			"remove them")
	}
	if len(spec.Include) > 0 {
		return invalid("spec.include is for git repositories only: an artifact has the contents of all its files. " +
			"Remove it")
	}
	return nil
}
