package git

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// spelling resolves one revision by the rules of gitrevisions(7). The library's own function takes `main@{1}` for main,
// so no revision reaches it.
type spelling struct {
	store localStorage
	// all is the revision as the user wrote it.
	all string
}

// errNoRevision says that the repository has nothing of a name.
var errNoRevision = errors.New("no such revision")

// unsupported are spellings that name no commit, or a commit that only this clone knows, with what to write instead.
// The first match counts.
var unsupported = []struct {
	pattern *regexp.Regexp
	remedy  string
}{
	{regexp.MustCompile(`^:/|\^\{/`), "it searches the messages of commits. " + writeHash},
	{regexp.MustCompile(`^-`), "it begins as an option does. Write the full name of the ref, such as refs/heads/NAME"},
	{regexp.MustCompile(`@\{-`), "it means a branch that was checked out before. Write the name of the branch"},
	{
		regexp.MustCompile(`(?i)@\{(u|upstream|push)\}`), "it depends on the settings of this clone. Write the name of the " +
			"branch that is meant, such as origin/main",
	},
	{regexp.MustCompile(`@\{`), "it depends on the log of this clone. " + writeHash},
	{
		regexp.MustCompile(`\.\.\.`), "it names the commits of two revisions. Only `bunsen diff A...B` and `bunsen comment " +
			"A...B` take one, as their only argument",
	},
	{
		regexp.MustCompile(`\.\.`), "it names a range of commits. To compare two, write them as two arguments; to see what " +
			"the second one changed since both diverged, write A...B",
	},
	{regexp.MustCompile(`^\^`), "it names the commits to leave out of a range. Write the one commit that is meant"},
	{regexp.MustCompile(`\^(@|!|-\d*)$`), "it names several commits. Write the one that is meant, such as REVISION^1"},
	{regexp.MustCompile(`: `), "it may be the subject of a commit. Write the hash, which `git log --oneline` prints before it"},
	{regexp.MustCompile(`:`), "it names a file of a commit or of the index. Write the revision alone"},
}

const writeHash = "Write the hash that `git rev-parse` prints for it"

// resolve returns the commit, and the full name of the ref if the revision is the name of a ref.
func (s spelling) resolve() (commit plumbing.Hash, ref plumbing.ReferenceName, err error) {
	for _, u := range unsupported {
		if u.pattern.MatchString(s.all) {
			return plumbing.ZeroHash, "", fmt.Errorf("revision %q is not supported: %s", s.all, u.remedy)
		}
	}
	if r, err := s.ref(s.all); err == nil {
		ref = r.Name()
	} else if !errors.Is(err, errNoRevision) {
		return plumbing.ZeroHash, "", err
	}
	c, err := s.commit(s.all)
	if err != nil {
		return plumbing.ZeroHash, "", err
	}
	return c.Hash, ref, nil
}

// suffix matches a revision that ends in ^, ~, ^3 or ~3.
var suffix = regexp.MustCompile(`^(.*)([\^~])(\d*)$`)

// object returns the hash of the object that a revision names. If commits is true, an abbreviated hash means a commit,
// or a tag of one.
func (s spelling) object(text string, commits bool) (plumbing.Hash, error) {
	if m := suffix.FindStringSubmatch(text); m != nil {
		return s.relative(m[1], m[2], m[3])
	}
	if at := strings.LastIndex(text, "^{"); at >= 0 && strings.HasSuffix(text, "}") {
		return s.peeled(text[:at], text[at+2:len(text)-1])
	}
	if len(text) == 40 && hexadecimal.MatchString(text) {
		return plumbing.NewHash(text), nil
	}
	ref, err := s.ref(text)
	switch {
	case err == nil:
		return ref.Hash(), nil
	case !errors.Is(err, errNoRevision):
		return plumbing.ZeroHash, err
	}
	if m := described.FindStringSubmatch(text); m != nil {
		text, commits = m[1], true
	}
	return s.abbreviated(text, commits)
}

var (
	hexadecimal = regexp.MustCompile(`^[0-9a-fA-F]+$`)
	// described matches what `git describe` prints: a tag, a number of commits and an abbreviated hash.
	described = regexp.MustCompile(`-g([0-9a-fA-F]{4,40})$`)
)

// relative returns an ancestor.
func (s spelling) relative(text, kind, number string) (plumbing.Hash, error) {
	n := 1
	if number != "" {
		var err error
		if n, err = strconv.Atoi(number); err != nil {
			return plumbing.ZeroHash, fmt.Errorf("revision %q: the number %s is too large", s.all, number)
		}
	}
	c, err := s.commit(text)
	if err != nil || n == 0 {
		return hashOf(c), err
	}
	if kind == "^" {
		return s.parent(c, n)
	}
	for range n {
		hash, err := s.parent(c, 1)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if c, err = object.GetCommit(s.store, hash); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return c.Hash, nil
}

func hashOf(c *object.Commit) plumbing.Hash {
	if c == nil {
		return plumbing.ZeroHash
	}
	return c.Hash
}

// parent returns the parent of a number, from 1.
func (s spelling) parent(c *object.Commit, number int) (plumbing.Hash, error) {
	ends, err := s.store.Shallow()
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("reading where the history ends: %w", err)
	}
	short := c.Hash.String()[:8]
	switch {
	case slices.Contains(ends, c.Hash):
		return plumbing.ZeroHash, fmt.Errorf("revision %q: this clone is shallow, and its history ends at %s. "+
			"Fetch the "+
			"rest with `git fetch --unshallow`; in CI, check out with the whole history (fetch-depth: 0)", s.all, short)
	case c.NumParents() == 0:
		return plumbing.ZeroHash, fmt.Errorf("revision %q: %s is the first commit, and has no parent", s.all, short)
	case number > c.NumParents():
		return plumbing.ZeroHash, fmt.Errorf("revision %q: commit %s has no parent %d, because it has %d in all", s.all,
			short, number, c.NumParents())
	}
	return c.ParentHashes[number-1], nil
}

// peeled returns the object of a kind to which a revision leads.
func (s spelling) peeled(text, kind string) (plumbing.Hash, error) {
	switch kind {
	case "commit":
		c, err := s.commit(text)
		return hashOf(c), err
	case "object":
		return s.object(text, false)
	case "", "tag":
	case "tree", "blob":
		return plumbing.ZeroHash, fmt.Errorf("revision %q names a %s, and a commit is needed: write the revision alone",
			s.all, kind)
	default:
		return plumbing.ZeroHash, fmt.Errorf("revision %q: git knows no ^{%s}. Write the revision alone", s.all, kind)
	}
	hash, err := s.object(text, false)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	for {
		tag, err := object.GetTag(s.store, hash)
		switch {
		case err == nil && kind == "tag":
			return hash, nil
		case err == nil:
			hash = tag.Target
		case !errors.Is(err, plumbing.ErrObjectNotFound):
			return plumbing.ZeroHash, err
		case kind == "tag":
			return plumbing.ZeroHash, fmt.Errorf("revision %q: %q is no annotated tag", s.all, text)
		default:
			return hash, nil
		}
	}
}

// commit returns the commit that a revision names, directly or through tags.
func (s spelling) commit(text string) (*object.Commit, error) {
	hash, err := s.object(text, true)
	if err != nil {
		return nil, err
	}
	c, err := s.committish(hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		if s.store.HasEncodedObject(hash) == nil {
			return nil, fmt.Errorf("revision %q names no commit, but another object", s.all)
		}
		return nil, errNoRevision
	}
	return c, err
}

// committish returns the commit of the hash of a commit or of a tag.
func (s spelling) committish(hash plumbing.Hash) (*object.Commit, error) {
	for {
		tag, err := object.GetTag(s.store, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return object.GetCommit(s.store, hash)
		}
		if err != nil {
			return nil, err
		}
		hash = tag.Target
	}
}

// refRules are the places where git looks for a name, in its order.
var refRules = []string{"%s", "refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s", "refs/remotes/%s/HEAD"}

var (
	// rootRef matches a name such as HEAD or FETCH_HEAD: a ref beside refs/.
	rootRef = regexp.MustCompile(`^[A-Z][A-Z_]*$`)
	// ofOneWorkTree matches refs that each work tree has of its own.
	ofOneWorkTree = regexp.MustCompile(`^refs/(bisect|worktree|rewritten)/`)
	// noRefName matches what no name of a ref has: see git-check-ref-format(1).
	noRefName = regexp.MustCompile(`[\x00-\x20\x7f~^:?*\[\\]|//|\.\.|@\{|^/|/$|\.$|(^|/)\.|\.lock(/|$)|^@$`)
)

// ref returns the first ref of a name, by git's rules; errNoRevision if there is none.
func (s spelling) ref(text string) (*plumbing.Reference, error) {
	if text == "@" {
		text = "HEAD"
	}
	if noRefName.MatchString(text) {
		return nil, errNoRevision
	}
	for _, rule := range refRules {
		name := fmt.Sprintf(rule, text)
		if rule == "%s" && !rootRef.MatchString(name) && !strings.HasPrefix(name, "refs/") {
			continue
		}
		if s.store.at.GitDir != s.store.at.CommonDir && ofOneWorkTree.MatchString(name) {
			if _, err := os.Lstat(filepath.Join(s.store.at.GitDir, filepath.FromSlash(name))); err == nil {
				return nil, fmt.Errorf("revision %q is not supported: each work tree has %s of its own. "+
					"%s", s.all, name,
					writeHash)
			}
			continue
		}
		named, err := s.store.Reference(plumbing.ReferenceName(name))
		if err != nil {
			continue // Git, too, goes on after a ref that it cannot read.
		}
		to, err := storer.ResolveReference(s.store, named.Name())
		if err != nil {
			continue
		}
		if !to.Name().IsBranch() && !to.Name().IsTag() {
			to = plumbing.NewHashReference(named.Name(), to.Hash())
		}
		return to, nil
	}
	return nil, errNoRevision
}

// abbreviated returns the object whose hash begins with a text. If commits is true, only commits and tags of commits
// count. Several are an error with their hashes.
func (s spelling) abbreviated(text string, commits bool) (plumbing.Hash, error) {
	const shortest = 4
	if len(text) < shortest || len(text) > 40 || !hexadecimal.MatchString(text) {
		return plumbing.ZeroHash, errNoRevision
	}
	text = strings.ToLower(text)
	prefix, err := hex.DecodeString(text[:len(text)/2*2])
	if err != nil {
		return plumbing.ZeroHash, err
	}
	all, err := s.store.hashesWithPrefix(prefix)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("revision %q: %w", s.all, err)
	}
	all = slices.DeleteFunc(all, func(h plumbing.Hash) bool { return !strings.HasPrefix(h.String(), text) })
	slices.SortFunc(all, func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) })
	all = slices.Compact(all)
	if commits && len(all) > 1 {
		all = slices.DeleteFunc(all, func(h plumbing.Hash) bool {
			_, err := s.committish(h)
			return err != nil
		})
	}
	switch len(all) {
	case 0:
		return plumbing.ZeroHash, errNoRevision
	case 1:
		return all[0], nil
	}
	names := make([]string, len(all))
	for i, h := range all {
		names[i] = h.String()
	}
	return plumbing.ZeroHash, fmt.Errorf("revision %q is ambiguous: the hashes of several objects begin with %s: "+
		"%s. Write "+
		"more of the hash", s.all, text, strings.Join(names, ", "))
}

// hashesWithPrefix returns the hashes of all objects that begin with some bytes, also of those in alternates, which the
// library's function leaves out.
func (s localStorage) hashesWithPrefix(prefix []byte) ([]plumbing.Hash, error) {
	all, err := s.HashesWithPrefix(prefix)
	if err != nil {
		return nil, err
	}
	for _, dir := range alternates(filepath.Join(s.at.CommonDir, "objects"), nil) {
		if filepath.Base(dir) != "objects" {
			return nil, fmt.Errorf("objects are also in %s, where abbreviated hashes are not looked up: write the "+
				"whole hash",
				dir)
		}
		other := filesystem.NewStorage(osfs.New(filepath.Dir(dir)), cache.NewObjectLRUDefault())
		more, err := other.HashesWithPrefix(prefix)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}
