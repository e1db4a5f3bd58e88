package source

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

var (
	fullHash   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	fullDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Pick finds the commit of a GitRef among a remote's refs. If the GitRef sets several fields, Pick uses the first one
// of: digest, commit, name, semver, tag, branch. If the GitRef sets no field, Pick follows the remote's HEAD, under the
// name of its branch.
//
// Errors are Stalled faults: RefNotFound if the repository does not have the ref, InvalidSpec if no ref can match.
func Pick(refs []Ref, want v1alpha1.GitRef) (Picked, error) {
	switch {
	case want.Digest != "":
		return pickDigest(want.Digest)
	case want.Commit != "":
		return pickCommit(refs, want)
	case want.Name != "":
		return pickRef(refs, want.Name, "ref", "refs/")
	case want.SemVer != "":
		return pickVersion(refs, want.SemVer)
	case want.Tag != "":
		return pickRef(refs, tags+want.Tag, "tag", tags)
	case want.Branch != "":
		return pickRef(refs, branches+want.Branch, "branch", branches)
	default:
		return pickHead(refs)
	}
}

// pickDigest returns the artifact with the given digest.
func pickDigest(digest string) (Picked, error) {
	hash, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || !fullDigest.MatchString(hash) {
		return Picked{}, invalid("digest %q is not a digest: write sha256: and all 64 hex digits in lower case", digest)
	}
	return Picked{Hash: hash}, nil
}

// pickCommit returns the given commit. Only the fetch checks whether the repository has the commit.
func pickCommit(refs []Ref, want v1alpha1.GitRef) (Picked, error) {
	if !fullHash.MatchString(want.Commit) {
		return Picked{}, invalid("commit %q is not a full hash: give all 40 hex digits in lower case", want.Commit)
	}
	p := Picked{Hash: want.Commit}
	for _, name := range []string{want.Name, prefixed(tags, want.Tag), prefixed(branches, want.Branch)} {
		if _, ok := find(refs, name); ok {
			p.FullName = name
			return p, nil
		}
	}
	for _, r := range refs {
		if r.Commit() == want.Commit && r.Name != head {
			p.FullName = r.Name
			return p, nil
		}
	}
	return p, nil
}

func pickRef(refs []Ref, full, noun, prefix string) (Picked, error) {
	if noun == "ref" && full != head && !strings.HasPrefix(full, prefix) {
		return Picked{}, invalid("name %q is not a full ref name: write refs/heads/%s for the branch, or set branch "+
			"instead of name", full, full)
	}
	r, ok := find(refs, full)
	if !ok || r.Commit() == "" {
		if noun == "ref" {
			return Picked{}, refNotFound(refs, branches, "no ref %q; the repository has the branches", full)
		}
		return Picked{}, refNotFound(refs, prefix, "no "+noun+" %q; the repository has",
			strings.TrimPrefix(full, prefix))
	}
	return Picked{Ref: ShortRef(full), Hash: r.Commit(), FullName: full, TagObject: r.tagObject()}, nil
}

func pickHead(refs []Ref) (Picked, error) {
	r, ok := find(refs, head)
	if !ok {
		return Picked{}, refNotFound(refs, branches, "the repository has no default branch: set ref.branch; it has")
	}
	if r.Target == "" {
		if r.Hash == "" {
			return Picked{}, refNotFound(refs, branches, "the repository's HEAD points at no commit: set "+
				"ref.branch; it has")
		}
		return Picked{Ref: head, Hash: r.Hash, FullName: head}, nil
	}
	branch, ok := find(refs, r.Target)
	if !ok {
		branch = r // A listing for HEAD alone may not have the branch, so HEAD itself names the commit.
	}
	if branch.Commit() == "" {
		return Picked{}, refNotFound(refs, branches, "the default branch %q has no commit: push to it or set "+
			"ref.branch; the repository has", ShortRef(r.Target))
	}
	return Picked{Ref: ShortRef(r.Target), Hash: branch.Commit(), FullName: r.Target}, nil
}

// version is a tag that is a semantic version.
type version struct {
	*semver.Version
	ref Ref
}

func pickVersion(refs []Ref, constraint string) (Picked, error) {
	c, err := semver.NewConstraint(constraint)
	if err != nil {
		return Picked{}, invalid("semver %q is not a range of versions, such as ~1.4 or >=1.2 <2: %w", constraint, err)
	}
	all := versions(refs)
	for _, v := range all {
		if c.Check(v.Version) {
			return Picked{
				Ref: ShortRef(v.ref.Name), Hash: v.ref.Commit(), FullName: v.ref.Name,
				TagObject: v.ref.tagObject(),
			}, nil
		}
	}
	if len(all) == 0 {
		return Picked{}, refNotFound(refs, tags, "no tag matches %q, and no tag is a version; the repository has",
			constraint)
	}
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = ShortRef(v.ref.Name)
	}
	return Picked{}, fault.NewStalled(v1alpha1.ReasonRefNotFound,
		fmt.Errorf("no tag matches %q; the repository's versions are %s", constraint, listText(names)))
}

// versions lists the tags that are versions, highest first. versions orders two spellings of one version (1.4.0,
// v1.4.0) by name, so that the choice does not depend on the order of the listing.
func versions(refs []Ref) []version {
	var all []version
	for _, r := range refs {
		name, ok := strings.CutPrefix(r.Name, tags)
		if !ok || r.Commit() == "" {
			continue
		}
		if v, err := semver.NewVersion(name); err == nil {
			all = append(all, version{v, r})
		}
	}
	slices.SortFunc(all, func(a, b version) int {
		return cmp.Or(b.Compare(a.Version), cmp.Compare(b.ref.Name, a.ref.Name))
	})
	return all
}

// Prefixes returns prefixes that cover the names of all refs that Pick needs for a GitRef. A server that gets these
// prefixes leaves out other refs.
func Prefixes(want v1alpha1.GitRef) []string {
	switch {
	case want.Commit != "":
		named := slices.DeleteFunc([]string{want.Name, prefixed(tags, want.Tag), prefixed(branches, want.Branch)},
			func(name string) bool { return name == "" })
		return append(named, head)
	case want.Name != "":
		return []string{want.Name}
	case want.SemVer != "":
		return []string{tags}
	case want.Tag != "":
		return []string{tags + want.Tag}
	case want.Branch != "":
		return []string{branches + want.Branch}
	default:
		return []string{head}
	}
}

func find(refs []Ref, name string) (Ref, bool) {
	i := slices.IndexFunc(refs, func(r Ref) bool { return r.Name == name })
	if i < 0 || name == "" {
		return Ref{}, false
	}
	return refs[i], true
}

func prefixed(prefix, name string) string {
	if name == "" {
		return ""
	}
	return prefix + name
}

func invalid(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonInvalidSpec, fmt.Errorf(format, args...))
}

// refNotFound returns the error for a missing ref, with the refs that the repository has.
func refNotFound(refs []Ref, prefix, format string, args ...any) error {
	var names []string
	for _, r := range refs {
		if name, ok := strings.CutPrefix(r.Name, prefix); ok && r.Commit() != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	text := fmt.Sprintf(format, args...) + ": " + listText(names)
	if !slices.ContainsFunc(refs, func(r Ref) bool { return r.Commit() != "" }) {
		text = "the repository is empty: push a commit"
	}
	return fault.NewStalled(v1alpha1.ReasonRefNotFound, errors.New(text))
}

// listText lists at most ten names for a message.
func listText(names []string) string {
	const most = 10
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	default:
		return strings.Join(names, ", ")
	}
}

// RefsText lists at most ten of a repository's branches and tags for a message.
func RefsText(refs []Ref) string {
	var names []string
	for _, r := range refs {
		if short := ShortRef(r.Name); short != r.Name && !slices.Contains(names, short) {
			names = append(names, short)
		}
	}
	return listText(names)
}

// CompareVersions compares two tags as semantic versions: the result is negative if a is lower, and positive if it is
// higher. ok is false if one of the tags is no version.
func CompareVersions(a, b string) (order int, ok bool) {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	if errX != nil || errY != nil {
		return 0, false
	}
	return x.Compare(y), true
}
