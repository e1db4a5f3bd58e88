package source

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
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

// ShortestHash is how many digits of a commit's hash a user writes at least.
const ShortestHash = 7

// HashIn returns the hash, or its first digits, that a user wrote to name a commit: alone, or as a revision such as
// `main@sha1:<hash>`. It is false for a text without such a hash: one with fewer than ShortestHash digits, or with the
// name of a ref only.
func HashIn(text string) (hash string, ok bool) {
	if i := strings.LastIndex(text, "@sha1:"); i >= 0 {
		text = text[i+len("@sha1:"):]
	}
	return text, strings.Trim(text, "0123456789abcdef") == "" && len(text) >= ShortestHash && len(text) <= 40
}

// Quote returns the subject of a commit in double quotes, or in single quotes if it contains double quotes, as the
// subject of a revert does.
func Quote(subject string) string {
	if strings.Contains(subject, `"`) {
		return "'" + subject + "'"
	}
	return `"` + subject + `"`
}

// Evidence is what a check of signatures reads, before any file of the commit is fetched.
type Evidence struct {
	// Ref is the full name of the ref that the spec picked, such as `refs/tags/v1.4.2`. Ref is empty for a pinned
	// commit.
	Ref string
	// Applied is the hash of the commit with which Commit is compared. Applied is empty if no commit is applied, or if
	// a user accepted Commit without a comparison.
	Applied string
	// Commit is the object of the commit to apply, as git stores it. The signature of the commit covers these bytes.
	Commit []byte
	// Tag is the object of the annotated tag that the spec names. Tag is nil for a branch, a pinned commit and a tag
	// without an object of its own.
	Tag []byte
	// Added lists the objects of the commits that Commit adds to the applied commit, newest first. The first object is
	// Commit. If Descent is Unknown, Added has only Commit.
	Added [][]byte
	// Descent is the relation of Commit to the applied commit. Descent is Unknown if no commit is applied.
	Descent Descent
}

// Descent says whether a newer commit descends from an older commit.
type Descent int

// The relations of a newer commit to an older commit.
const (
	// Unknown: the history is not available.
	Unknown Descent = iota
	// Descends: the older commit is an ancestor of the newer one, or the same commit.
	Descends
	// Rewritten: the older commit is not an ancestor.
	Rewritten
)

// String returns the name of the relation.
func (d Descent) String() string {
	return [...]string{"Unknown", "Descends", "Rewritten"}[max(0, min(int(d), 2))]
}

const maxLine = 200

// Line returns the first line of a commit's text: valid UTF-8, without hidden characters, at most 200 characters.
// Anyone who can push can choose the text of a commit, and Bunsen shows it on terminals and in annotations.
func Line(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	text, _, _ = strings.Cut(text, "\n")
	text = safetext.Strip(text)
	if runes := []rune(text); len(runes) > maxLine {
		text = string(runes[:maxLine-1]) + "…"
	}
	return strings.TrimSpace(text)
}

// CommitTime returns a commit's time in UTC to the second, or the zero time if the API cannot represent it.
func CommitTime(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
