package fromgit

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Ref is the ref to follow: one text instead of a GitSource's five fields. The zero value is the remote's default
// branch.
type Ref struct {
	want v1alpha1.GitRef
	// name is the name of a branch or a tag.
	name string
}

// ParseRef reads a ref: a branch or a tag by its name, `main` or `v1.4.2`; `semver:~1.4`, the highest tag of a range;
// `refs/…`, a full name; a commit's full hash. Empty is the remote's default branch.
func ParseRef(text string) (Ref, error) {
	versions, isRange := strings.CutPrefix(text, "semver:")
	switch {
	case text == "":
		return Ref{}, nil
	case isRange:
		return Ref{want: v1alpha1.GitRef{SemVer: versions}}, nil
	case strings.HasPrefix(text, "refs/"):
		return Ref{want: v1alpha1.GitRef{Name: text}}, nil
	case fullHash.MatchString(text):
		return Ref{want: v1alpha1.GitRef{Commit: text}}, nil
	case strings.ContainsAny(text, " :~^?*[\\"): // git allows none of these characters in a name.
		return Ref{}, fmt.Errorf("ref %q is not the name of a branch or tag: write main, v1.4.2, semver:~1.4, "+
			"refs/…, or a commit's 40 digits", text)
	}
	return Ref{name: text}, nil
}

// pick finds the commit among a remote's refs. Errors are those of source.Pick.
func (r Ref) pick(refs []source.Ref) (source.Picked, error) {
	if r.name == "" {
		return source.Pick(refs, r.want)
	}
	branch, noBranch := source.Pick(refs, v1alpha1.GitRef{Branch: r.name})
	tag, noTag := source.Pick(refs, v1alpha1.GitRef{Tag: r.name})
	var err error
	switch {
	case noBranch == nil && noTag == nil && branch.Hash != tag.Hash:
		err = fmt.Errorf("%q is a branch and a tag at different commits: write refs/heads/%[1]s or refs/tags/%[1]s",
			r.name)
	case noBranch == nil:
		return branch, nil
	case noTag == nil:
		return tag, nil
	case len(refs) == 0:
		err = errors.New("the repository is empty: push a commit")
	default:
		err = fmt.Errorf("no branch or tag %q; the repository has: %s", r.name, source.RefsText(refs))
	}
	return source.Picked{}, fault.NewStalled(v1alpha1.ReasonRefNotFound, err)
}
