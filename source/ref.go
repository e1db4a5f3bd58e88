package source

import "strings"

// Ref is one ref as a remote lists it.
type Ref struct {
	// Name in full: `refs/heads/main`, `refs/tags/v1.4.2`, `HEAD`.
	Name string
	// Hash that the ref points at: a commit, or the tag object of an annotated tag. Empty for a HEAD whose branch has no
	// commit yet.
	Hash string
	// Peeled is the commit behind an annotated tag; empty for every other ref.
	Peeled string
	// Target is the full name of the branch that HEAD stands for; empty for every other ref, and where the remote does
	// not tell.
	Target string
}

// Commit returns the commit behind the ref.
func (r Ref) Commit() string {
	if r.Peeled != "" {
		return r.Peeled
	}
	return r.Hash
}

// Picked is the commit that a GitRef leads to.
type Picked struct {
	// Ref in its short form, as in Commit: `main`, `v1.4.2`, `refs/pull/7/head`; empty for a pinned commit.
	Ref string
	// Hash of the commit, 40 lower-case hex digits.
	Hash string
	// FullName of the ref that leads there, `refs/heads/main`. For a pinned commit it is the ref that the spec names
	// beside it, or empty; a remote that gives out no single commits is asked for this ref's whole history.
	FullName string
}

// Revision returns what was picked in its textual form.
func (p Picked) Revision() Revision { return Revision{Ref: p.Ref, Hash: p.Hash} }

const (
	head     = "HEAD"
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// ShortRef drops `refs/heads/` or `refs/tags/` from a full ref name; any other name stays as it is.
func ShortRef(full string) string {
	for _, prefix := range []string{branches, tags} {
		if short, ok := strings.CutPrefix(full, prefix); ok && short != "" {
			return short
		}
	}
	return full
}
