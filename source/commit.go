package source

import (
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
	// Hash is the full SHA-1, 40 lower-case hex digits.
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

// Revision identifies a commit in text: `main@sha1:<hex>`, or `sha1:<hex>` for a pinned commit.
type Revision struct {
	// Ref as in Commit.
	Ref string
	// Hash as in Commit.
	Hash string
}

// Revision returns the commit's revision.
func (c Commit) Revision() Revision { return Revision{Ref: c.Ref, Hash: c.Hash} }

// String returns `ref@sha1:<hex>`, or `sha1:<hex>` without a ref; the zero value is empty.
func (r Revision) String() string {
	switch {
	case r.Hash == "":
		return ""
	case r.Ref == "":
		return "sha1:" + r.Hash
	default:
		return r.Ref + "@sha1:" + r.Hash
	}
}

// Short returns the revision with the first eight digits of its hash, for tables.
func (r Revision) Short() string {
	if len(r.Hash) > 8 {
		r.Hash = r.Hash[:8]
	}
	return r.String()
}

// Quote returns the subject of a commit in double quotes, or in single quotes if it contains double quotes, as the subject of a
// revert does.
func Quote(subject string) string {
	if strings.Contains(subject, `"`) {
		return "'" + subject + "'"
	}
	return `"` + subject + `"`
}

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// ParseRevision reads the text that Revision.String returns.
func ParseRevision(s string) (Revision, error) {
	ref, digest := "", s
	if i := strings.LastIndex(s, "@"); i >= 0 {
		ref, digest = s[:i], s[i+1:]
	}
	hash, ok := strings.CutPrefix(digest, "sha1:")
	if !ok || !fullHash.MatchString(hash) {
		return Revision{}, fmt.Errorf("reading revision %q: want ref@sha1:<40 hex digits>", s)
	}
	return Revision{Ref: ref, Hash: hash}, nil
}
