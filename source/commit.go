package source

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Commit is one commit of a repository that a GitSource selects.
type Commit struct {
	// URL of the repository, without credentials.
	URL string
	// Ref is the requested ref in its short form: `main`, `v1.4.2`, `refs/pull/7/head`; empty for a pinned commit.
	Ref string
	// Hash is the full SHA-1, 40 lower-case hex digits. For an artifact, Hash is the SHA-256 of its manifest, 64
	// digits.
	Hash string
	// Author is `Name <mail>`.
	Author string
	// Subject is the first line of the message.
	Subject string
	// Time of the commit, in UTC.
	Time time.Time
	// Signer names the key that signed the commit; empty if no signature was verified.
	Signer string
}

// Revision identifies a commit in text: `main@sha1:<hex>`, or `sha1:<hex>` for a pinned commit. The revision of an
// artifact has `sha256:` instead of `sha1:`.
type Revision struct {
	// Ref as in Commit.
	Ref string
	// Hash as in Commit.
	Hash string
}

// Revision returns the commit's revision.
func (c Commit) Revision() Revision { return Revision{Ref: c.Ref, Hash: c.Hash} }

// String returns `ref@sha1:<hex>`, or `sha1:<hex>` without a ref; the zero value is empty.
func (r Revision) String() string { return r.text(r.Hash) }

// text returns the revision with a part of its hash.
func (r Revision) text(hash string) string {
	algorithm := "sha1:"
	if len(r.Hash) == 2*sha256.Size {
		algorithm = "sha256:"
	}
	switch {
	case hash == "":
		return ""
	case r.Ref == "":
		return algorithm + hash
	default:
		return r.Ref + "@" + algorithm + hash
	}
}

// Short returns the revision with the first eight digits of its hash, for tables.
func (r Revision) Short() string {
	return r.text(r.Hash[:min(len(r.Hash), 8)])
}

// Quote returns the subject of a commit in double quotes, or in single quotes if it contains double quotes, as the
// subject of a revert does.
func Quote(subject string) string {
	if strings.Contains(subject, `"`) {
		return "'" + subject + "'"
	}
	return `"` + subject + `"`
}

var (
	fullHash   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	fullDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ParseRevision reads the text that Revision.String returns.
func ParseRevision(s string) (Revision, error) {
	ref, digest := "", s
	if i := strings.LastIndex(s, "@"); i >= 0 {
		ref, digest = s[:i], s[i+1:]
	}
	algorithm, hash, _ := strings.Cut(digest, ":")
	if (algorithm != "sha1" || !fullHash.MatchString(hash)) &&
		(algorithm != "sha256" || !fullDigest.MatchString(hash)) {
		return Revision{},
			fmt.Errorf("reading revision %q: want ref@sha1:<40 hex digits> or ref@sha256:<64 hex digits>", s)
	}
	return Revision{Ref: ref, Hash: hash}, nil
}
