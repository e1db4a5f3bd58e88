package source

import "strings"

// Ref is one ref of a remote's listing.
type Ref struct {
	// Name is the full name: `refs/heads/main`, `refs/tags/v1.4.2`, `HEAD`.
	Name string
	// Hash is the object that the ref points at: a commit, or the tag object of an annotated tag. Hash is empty for a
	// HEAD whose branch has no commit yet.
	Hash string
	// Peeled is the commit of an annotated tag; empty for every other ref.
	Peeled string
	// Target is the full name of HEAD's branch. It is empty for every other ref, and if the remote does not send the
	// branch.
	Target string
}

// Commit returns the commit that the ref points at.
func (r Ref) Commit() string {
	if r.Peeled != "" {
		return r.Peeled
	}
	return r.Hash
}

// tagObject returns the hash of an annotated tag; empty for any other ref.
func (r Ref) tagObject() string {
	if r.Peeled == "" {
		return ""
	}
	return r.Hash
}

// Picked is the commit of a GitRef.
type Picked struct {
	// Ref is the ref in its short form, as in Commit: `main`, `v1.4.2`, `refs/pull/7/head`; empty for a pinned commit.
	Ref string
	// Hash is the hash of the commit, 40 lower-case hex digits. For an artifact, Hash is the digest of the manifest, 64
	// digits.
	Hash string
	// FullName is the full name of the ref that points at the commit, `refs/heads/main`. For a pinned commit, FullName
	// is another ref of the spec, or empty. If a remote does not serve single commits, Bunsen fetches the history of
	// this ref.
	FullName string
	// TagObject is the hash of the annotated tag that the ref names; empty for any other ref.
	TagObject string
	// Applied is the hash of the commit that is applied, with which the history is compared; empty if none is applied.
	Applied string
}

// Revision returns the revision of the commit.
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
