package pinnedimage

import (
	"fmt"
	"regexp"
	"strings"
)

// maxName is the maximum length of the name of an image, as in the CRD.
const maxName = 447

var (
	digest = regexp.MustCompile(`^sha256:[a-f0-9]{64}$`)
	// accepted is the rule of the CRD. An API server refuses other names.
	accepted = regexp.MustCompile(
		`^([a-zA-Z0-9-]+\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?/([a-zA-Z0-9_-]{0,61}/)?[a-zA-Z0-9_.-]*$`)
	// pulled is the form that container runtimes accept. A name of this form cannot begin with a dash.
	pulled = regexp.MustCompile(
		`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]{2,5})?(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)+$`)
)

// Problem returns why a name is not that of an image that nodes can pin; empty if it is one.
func Problem(name string) string {
	repository, hash, found := strings.Cut(name, "@")
	switch {
	case len(name) > maxName:
		return fmt.Sprintf("the name has %d characters, and at most %d are allowed", len(name), maxName)
	case !found:
		return "the name has no digest, so it does not decide which image nodes get: write HOST/NAME@sha256:DIGEST"
	case !digest.MatchString(hash):
		return "the digest is not sha256: and 64 lower-case hexadecimal digits"
	case strings.Contains(repository, ":") && !strings.Contains(repository[strings.LastIndex(repository, ":"):], "/"):
		return "the name has a tag, and the API server refuses a tag beside a digest: remove the tag"
	case !accepted.MatchString(repository):
		return "the API server accepts only HOST[:PORT][/NAMESPACE]/NAME before the digest, with a dot in HOST"
	case !pulled.MatchString(repository):
		return "container runtimes accept only lower-case letters and digits in a repository, with single dots, " +
			"underscores or dashes between them"
	}
	return ""
}
