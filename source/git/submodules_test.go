package git_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

// sibling creates another repository NAME.git beside r, below the same root.
func (r *repo) sibling(name string) *repo {
	r.t.Helper()
	s := &repo{
		t: r.t, root: r.root, bare: filepath.Join(r.root, name+".git"),
		work: filepath.Join(r.root, name+"-work"),
	}
	s.git(r.root, "init", "-q", "--bare", "-b", "main", s.bare)
	s.git(r.root, "init", "-q", "-b", "main", s.work)
	s.git(s.work, "remote", "add", "origin", s.bare)
	return s
}

// module is a submodule of a commit.
type module struct{ path, url, commit string }

// commitModules commits files and submodules, and pushes them.
func (r *repo) commitModules(subject string, files map[string]string, modules ...module) string {
	r.t.Helper()
	text := ""
	for i, m := range modules {
		if m.url != "" {
			text += fmt.Sprintf("[submodule \"m%d\"]\n\tpath = %s\n\turl = %s\n", i, m.path, m.url)
		}
	}
	r.write(files)
	r.write(map[string]string{".gitmodules": text})
	r.git(r.work, "add", "-A")
	for _, m := range modules {
		r.git(r.work, "update-index", "--add", "--cacheinfo", "160000,"+m.commit+","+m.path)
	}
	r.git(r.work, "commit", "-q", "--allow-empty", "-m", subject)
	r.git(r.work, "push", "-q", "--force", "origin", "HEAD")
	return r.git(r.work, "rev-parse", "HEAD")
}

// withSubmodules reads the newest commit with its submodules.
func withSubmodules(t *testing.T, c git.Config, path string) (source.Tree, error) {
	t.Helper()
	c.Submodules = true
	r, err := newRemote(c)
	if err != nil {
		t.Fatal(err)
	}
	return r.Tree(t.Context(), pick(t, r, v1alpha1.GitRef{}), path, source.Destination{Dir: t.TempDir()})
}

// TestFilesOfSubmodules: a tree with submodules has the files and the digest of a commit with the files themselves,
// over every protocol.
func TestFilesOfSubmodules(t *testing.T) {
	cfg := newRepo(t)
	lib, deep := cfg.sibling("lib"), cfg.sibling("deep")
	web, without, old, shell := serveHTTPS(t, cfg.root), serveWithoutFilter(t, cfg.root), serveVersion0(t, cfg.root),
		serveSSH(t, cfg.root, false)
	deepCommit := deep.commit("deep", map[string]string{"tool!": "the tool", "d/x": noise(70_000)})
	libCommit := lib.commitModules("lib", map[string]string{"a": "a", "b/c": "c"},
		module{"b/deep", "../deep.git", deepCommit})
	lib.commit("a later commit", map[string]string{"later": "is not named"})
	whole := cfg.commit("whole", map[string]string{
		"pools/w/plain": "plain", "pools/w/lib/a": "a", "pools/w/lib/b/c": "c", "pools/w/lib/b/deep/tool!": "the tool",
		"pools/w/lib/b/deep/d/x":  noise(70_000),
		"pools/w/lib/.gitmodules": "[submodule \"m0\"]\n\tpath = b/deep\n\turl = ../deep.git\n", "elsewhere/y": "y",
	})
	want, err := remote(t, web.URL+"/cfg.git", web.secret(nil)).Tree(t.Context(), source.Picked{Hash: whole}, "pools",
		source.Destination{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(cfg.work, "pools", "w", "lib")); err != nil {
		t.Fatal(err)
	}
	unread := module{"elsewhere/lib", "../not-there.git", libCommit} // outside of the path, so it is never read
	cfg.commitModules("modules", nil, module{"pools/w/lib", "../lib.git", libCommit}, unread)
	for name, c := range map[string]git.Config{
		"https":                 {URL: web.URL + "/cfg.git", Secret: web.secret(nil)},
		"https without filters": {URL: without.URL + "/cfg.git", Secret: without.secret(nil)},
		"version 0":             {URL: old.URL + "/cfg.git", Secret: old.secret(nil)},
		"ssh":                   {URL: "ssh://git@" + shell.addr + "/cfg.git", Secret: shell.secret(nil)},
	} {
		got, err := withSubmodules(t, c, "pools")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(files(t, want.Root), files(t, got.Root)); diff != "" || got.Digest != want.Digest ||
			len(got.Refused) > 0 {
			t.Errorf("%s: digest %s, want %s, refused %v; the files: -want +got\n%s", name, got.Digest, want.Digest,
				got.Refused, diff)
		}
		refused, err := remote(t, c.URL, c.Secret).Tree(t.Context(), source.Picked{Hash: got.Commit.Hash}, "pools",
			source.Destination{Dir: t.TempDir()})
		if err != nil || len(refused.Refused) != 1 || refused.Refused[0].Why != "submodule" {
			t.Errorf("%s without Submodules: %v, refused %v", name, err, refused.Refused)
		}
	}
}

// TestAMovedSubmoduleIsFetchedAlone: with a cache, a commit that moves a submodule costs what the submodule's commit
// adds.
func TestAMovedSubmoduleIsFetchedAlone(t *testing.T) {
	cfg := newRepo(t)
	lib := cfg.sibling("lib")
	web, m := metered(t, cfg.root)
	first := lib.commit("one", map[string]string{"large": noise(1 << 20), "small": "1"})
	cfg.commitModules("one", map[string]string{"other": noise(1 << 20)}, module{"lib", "../lib.git", first})
	c := git.Config{URL: web.URL + "/cfg.git", Secret: web.secret(nil), Submodules: true}
	dir := t.TempDir()
	read := func() source.Tree {
		t.Helper()
		r := cached(t, dir, c)
		tree, err := r.Tree(t.Context(), pick(t, r, v1alpha1.GitRef{}), "", source.Destination{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	read()
	cfg.commitModules("two", nil, module{"lib", "../lib.git", lib.commit("two", map[string]string{"small": "2"})})
	m.reset()
	tree := read()
	if got := files(t, tree.Root)["lib/small"]; got != "2" {
		t.Errorf("the tree has %q", got)
	}
	if m.bytes > 20_000 {
		t.Errorf("a small change in a submodule brought %d bytes", m.bytes)
	}
}

// TestARepositoryInItself: with a cache, no fetch waits for a folder of objects that the walk itself holds.
func TestARepositoryInItself(t *testing.T) {
	cfg := newRepo(t)
	web := serveHTTPS(t, cfg.root)
	last := cfg.commit("one", map[string]string{"a": "a"})
	for i := range 3 {
		last = cfg.commitModules(fmt.Sprint("in itself ", i), nil, module{"previous", "../cfg.git", last})
	}
	r := cached(t, t.TempDir(), git.Config{URL: web.URL + "/cfg.git", Secret: web.secret(nil), Submodules: true})
	picked := pick(t, r, v1alpha1.GitRef{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tree, err := r.Tree(ctx, picked, "", source.Destination{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if got := files(t, tree.Root)["previous/previous/previous/a"]; got != "a" {
		t.Errorf("the innermost file has %q", got)
	}
}

// TestSubmodulesThatAreRefused: the tree comes without them, and names each with the reason.
func TestSubmodulesThatAreRefused(t *testing.T) {
	cfg := newRepo(t)
	lib := cfg.sibling("lib")
	web := serveHTTPS(t, cfg.root)
	commit := lib.commit("one", map[string]string{"a": "a"})
	chain := commit
	for i := range 4 { // a repository may contain its own older commits
		chain = lib.commitModules(fmt.Sprint("in itself ", i), nil, module{"again", "../lib.git", chain})
	}
	cfg.commitModules("modules", map[string]string{"plain": "plain"},
		module{"good", "../lib.git", commit}, module{"no-entry", "", commit},
		module{"other-host", "https://git.example.org/lib.git", commit},
		module{"out", "../../../../lib.git", commit}, module{
			"password", "https://a:hunter2@git.example.org/lib",
			commit,
		}, module{"chain", "../lib.git", chain})
	tree, err := withSubmodules(t, git.Config{URL: web.URL + "/cfg.git", Secret: web.secret(nil)}, "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range tree.Refused {
		got[r.Path] = r.Why
	}
	for path, want := range map[string]string{
		"no-entry": "no entry for it", "other-host": "another scheme, host or port than the source: only " +
			"repositories at " + web.URL, "out": "out of the host",
		"password": "holds a password", "chain/again/again/again": "at most 2 are allowed",
	} {
		if !strings.Contains(got[path], "submodule: ") || !strings.Contains(got[path], want) ||
			strings.Contains(got[path], "hunter2") {
			t.Errorf("%s is refused because %q, want %q", path, got[path], want)
		}
	}
	if all := files(t, tree.Root); len(got) != 5 || all["good/a"] != "a" || all["plain"] != "plain" ||
		all["chain/again/again/a"] != "a" {
		t.Errorf("refused %v, files %v", got, all)
	}
}

// TestALinkIsNoListOfSubmodules: git itself refuses .gitmodules as a link, because it could lead to any file.
func TestALinkIsNoListOfSubmodules(t *testing.T) {
	cfg := newRepo(t)
	lib := cfg.sibling("lib")
	web := serveHTTPS(t, cfg.root)
	commit := lib.commit("one", map[string]string{"a": "a"})
	picked := plant(t, cfg.bare, func(put func(plumbing.ObjectType, []byte) plumbing.Hash) []object.TreeEntry {
		return []object.TreeEntry{
			{Name: ".gitmodules", Mode: filemode.Symlink, Hash: put(plumbing.BlobObject, []byte("list"))},
			{Name: "lib", Mode: filemode.Submodule, Hash: plumbing.NewHash(commit)},
			{Name: "list", Mode: filemode.Regular, Hash: put(plumbing.BlobObject, []byte("[submodule \"x\"]\n\tpath = lib\n\turl = ../lib.git\n"))},
		}
	})
	r, err := newRemote(git.Config{URL: web.URL + "/cfg.git", Secret: web.secret(nil), Submodules: true})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.Tree(t.Context(), picked, "", source.Destination{Dir: t.TempDir()})
	if err != nil || len(tree.Refused) != 2 {
		t.Errorf("%v, refused %v", err, tree.Refused)
	}
}

// TestSubmodulesThatCannotBeRead: the whole commit waits, so that no node gets a part of it.
func TestSubmodulesThatCannotBeRead(t *testing.T) {
	cfg := newRepo(t)
	lib := cfg.sibling("lib")
	web := serveHTTPS(t, cfg.root)
	c := git.Config{URL: web.URL + "/cfg.git", Secret: web.secret(nil)}
	commit := lib.commit("one", map[string]string{"a": noise(5000), "b": "b"})
	var many []module
	for i := range 21 {
		many = append(many, module{fmt.Sprint("m/", i), "../lib.git", commit})
	}
	for name, k := range map[string]struct {
		modules []module
		limits  source.Limits
		kind    fault.Kind
		reason  string
		words   []string
	}{
		"a commit that was not pushed":        {[]module{{"lib", "../lib.git", strings.Repeat("1", 40)}}, source.Limits{}, fault.Retry, v1alpha1.ReasonRefNotFound, []string{"reading the submodule lib", "push the commit of the submodule to " + web.URL + "/lib.git"}},
		"a repository that is gone":           {[]module{{"lib", "../gone.git", commit}}, source.Limits{}, fault.Retry, v1alpha1.ReasonUnreachable, []string{"reading the submodule lib", web.URL + "/gone.git"}},
		"too many":                            {many, source.Limits{}, fault.Stalled, v1alpha1.ReasonInvalidTree, []string{"more than 20 submodules"}},
		"files that are too large in all":     {many[:5], source.Limits{Bytes: 20_000}, fault.Stalled, v1alpha1.ReasonInvalidTree, nil},
		"a commit that is no commit but tree": {[]module{{"lib", "../lib.git", lib.git(lib.work, "rev-parse", "HEAD^{tree}")}}, source.Limits{}, fault.Retry, "", []string{"reading the submodule lib"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.git(cfg.work, "rm", "-rq", "--cached", "--ignore-unmatch", ".")
			cfg.commitModules(name, nil, k.modules...)
			c.Limits = k.limits
			_, err := withSubmodules(t, c, "")
			if k.reason == "" {
				k.reason = fault.Of(err, "").Reason
			}
			wantFault(t, err, k.kind, k.reason, k.words...)
		})
	}
}

// TestSubmodulesNeedARemote: a repository on the controller's machine could lead to every other one there.
func TestSubmodulesNeedARemote(t *testing.T) {
	_, err := newRemote(git.Config{URL: "/srv/cfg.git", Submodules: true})
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonInvalidSpec, "spec.include has Submodules", "remove it")
}
