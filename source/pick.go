package source

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
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

// CleanPath reads a GitSource's spec.path: the folder's path from the repository's root, slash separated, empty for the
// root itself. `./infra/` is `infra`. The error is a Stalled InvalidSpec fault that says what to write.
func CleanPath(p string) (string, error) {
	switch {
	case strings.HasPrefix(p, "/"):
		return "", invalid("path %q begins with a slash: write it from the repository's root, such as infra/prod", p)
	case strings.Contains(p, `\`):
		return "", invalid("path %q holds a backslash: separate folders by /", p)
	}
	for _, name := range strings.Split(p, "/") {
		if name == ".." {
			return "", invalid("path %q contains ..: write it from the repository's root", p)
		}
		if reason := RefuseName(name); reason != "" && name != "" && name != "." {
			return "", invalid("path %q: %s", p, reason)
		}
	}
	clean := path.Clean(p)
	if clean == "." {
		clean = ""
	}
	return clean, nil
}

// NoSuchPath returns the error for a folder that a revision does not have: a Stalled PathNotFound fault. The parameter
// parent is the deepest existing folder of the path, and folders are the folders in parent.
func NoSuchPath(p string, at Revision, parent string, folders []string) error {
	where := "at the root there are"
	if parent != "" {
		where = fmt.Sprintf("in %q there are", parent)
	}
	folders = slices.Clone(folders)
	slices.Sort(folders)
	return fault.NewStalled(v1alpha1.ReasonPathNotFound,
		fmt.Errorf("no folder %q in %s: %s the folders: %s", p, at.Short(), where, listText(folders)))
}
