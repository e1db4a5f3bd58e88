package git_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/repository"
)

// newRemote opens a repository as package repository does, without a proxy.
func newRemote(c git.Config) (*git.Remote, error) {
	if at, err := source.ParseURL(c.URL); err == nil && c.HTTP == nil {
		c.HTTP = func() (transport.HTTP, error) { return access.NewConnect(at, c.Secret, access.Connect(c.Connect)) }
	}
	return git.New(c)
}

func remote(t *testing.T, url string, secret map[string][]byte) *git.Remote {
	t.Helper()
	r, err := newRemote(git.Config{URL: url, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pick(t *testing.T, r *git.Remote, want v1alpha1.GitRef) source.Picked {
	t.Helper()
	refs, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := source.Pick(refs, want)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// files reads a tree back, modes and all.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, p)
		switch info.Mode() {
		case 0o644:
		case 0o755:
			name += "!"
		default:
			return fmt.Errorf("%s has mode %v", p, info.Mode())
		}
		got[filepath.ToSlash(name)] = string(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantFault checks an error's kind, reason and words, and that it gives no secret away.
func wantFault(t *testing.T, err error, kind fault.Kind, reason string, words ...string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a fault with reason %s", err, reason)
	}
	if f.Kind != kind || f.Reason != reason {
		t.Errorf("got %v %s, want %v %s: %v", f.Kind, f.Reason, kind, reason, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, s := range []string{password, token, "wrong-password", "d3Jvbmct", "PRIVATE KEY"} {
			if strings.Contains(fmt.Sprintf("%v %+v %#v", e, e, e), s) {
				t.Errorf("the error holds the secret %q: %v", s, e)
			}
		}
	}
}

// TestEveryRouteGivesTheSameTree is the invariant of a Tree: the same commit and path have the same digest, files and
// description, however they came.
func TestEveryRouteGivesTheSameTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		r := newRepo(t)
		want := randomFiles(rng, 5+20*round)
		all := map[string]string{"README.md": "not below the path\n"}
		for name, content := range want {
			all["infra/prod/"+name] = content
		}
		hash := r.commit("time: chrony everywhere\n\nbody", all)
		r.git(r.work, "tag", "-a", "v1.0.0", "-m", "first")
		r.git(r.work, "push", "-q", "origin", "v1.0.0")

		web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
		routes := map[string]*git.Remote{
			"https with a password": remote(t, web.URL+"/cfg.git", web.secret(nil)),
			"https with a token":    remote(t, web.URL+"/cfg.git", web.secret(map[string]string{"username": "", "password": "", "bearerToken": token})),
			"https with a URL that holds the password": remote(t,
				strings.Replace(web.URL, "https://", "https://"+user+":"+strings.ReplaceAll(password, "/", "%2F")+"@",
					1)+"/cfg.git",
				web.secret(map[string]string{"username": "", "password": ""})),
			"ssh":                   remote(t, "ssh://git@"+shell.addr+"/cfg.git", shell.secret(nil)),
			"a path, bare":          remote(t, r.bare, nil),
			"file://":               remote(t, "file://"+r.bare, nil),
			"a path to a work tree": remote(t, r.work, nil),
			"a path to a .git":      remote(t, r.work+"/.git", nil),
		}
		commit := source.Commit{
			Ref: "v1.0.0", Hash: hash, Author: "Ada Lovelace <ada@example.org>", Subject: "time: chrony everywhere",
			Time: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC),
		}
		trees := map[string]source.Tree{}
		for name, route := range routes {
			tree, err := route.Tree(t.Context(), pick(t, route, v1alpha1.GitRef{SemVer: "~1.0"}), "./infra/prod/",
				source.Destination{Dir: t.TempDir()})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			trees[name] = tree
		}
		var err error
		trees["a revision"], err = git.OpenRevision(t.Context(), git.LocalRevision{
			Repository: r.work,
			Revision:   "v1.0.0", Path: "infra/prod",
		}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		clone := filepath.Join(r.root, "clone")
		r.git(r.root, "clone", "-q", r.bare, clone)
		trees["a checkout"], err = repository.OpenDir(t.Context(), filepath.Join(clone, "infra/prod"), t.TempDir(), nil,
			source.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		digest := trees["a checkout"].Digest
		for name, tree := range trees {
			if tree.Digest != digest {
				t.Errorf("round %d, %s: digest %s, want %s", round, name, tree.Digest, digest)
			}
			if diff := cmp.Diff(want, files(t, tree.Root)); diff != "" {
				t.Errorf("round %d, %s: files -want +got\n%s", round, name, diff)
			}
			if len(tree.Refused) > 0 {
				t.Errorf("round %d, %s: refused %v", round, name, tree.Refused)
			}
			if name == "a checkout" {
				continue
			}
			commit.URL = tree.Commit.URL
			if diff := cmp.Diff(commit, tree.Commit); diff != "" {
				t.Errorf("round %d, %s: commit -want +got\n%s", round, name, diff)
			}
			if strings.Contains(tree.Commit.URL, "battery") {
				t.Errorf("%s: the commit's URL holds the password: %s", name, tree.Commit.URL)
			}
		}
	}
}

// randomFiles makes n files in nested folders, some executable, some empty, some large enough for a delta.
func randomFiles(rng *rand.Rand, n int) map[string]string {
	out := map[string]string{}
	body := strings.Repeat("line of a configuration file\n", 200)
	for range n {
		name := ""
		for range rng.IntN(4) {
			name += fmt.Sprintf("d%d/", rng.IntN(3))
		}
		name += fmt.Sprintf("ü %d.bu", rng.IntN(1000))
		if rng.IntN(3) == 0 {
			name += "!"
		}
		cut := rng.IntN(len(body))
		out[name] = body[:cut*rng.IntN(2)] + fmt.Sprint(rng.IntN(10)) + body[cut:]
	}
	for name := range maps.Clone(out) {
		if strings.HasSuffix(name, "!") {
			delete(out, strings.TrimSuffix(name, "!"))
		}
	}
	return out
}

func TestAPollThatFindsNothingNewIsOneRequest(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	web := serveHTTPS(t, r.root)
	remote := remote(t, web.URL+"/cfg.git", web.secret(nil))
	for poll := range 3 {
		if _, err := remote.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The first poll also asks for the version of the protocol.
		if got := web.requests.Load(); got != int64(poll+2) {
			t.Fatalf("%d polls cost %d requests", poll+1, got)
		}
	}
}

func TestListNamesBranchesTagsAndHead(t *testing.T) {
	r := newRepo(t)
	hash := r.commit("one", map[string]string{"a": "a"})
	r.git(r.work, "tag", "-a", "v1", "-m", "annotated")
	r.git(r.work, "push", "-q", "origin", "v1", "main:next", "main:refs/pull/7/head")
	tag := r.git(r.work, "rev-parse", "v1")
	r.git(r.bare, "pack-refs", "--all")
	r.git(r.work, "push", "-q", "origin", "main:loose")
	want := []source.Ref{
		{Name: "HEAD", Hash: hash, Target: "refs/heads/main"},
		{Name: "refs/heads/loose", Hash: hash},
		{Name: "refs/heads/main", Hash: hash},
		{Name: "refs/heads/next", Hash: hash},
		{Name: "refs/pull/7/head", Hash: hash},
		{Name: "refs/tags/v1", Hash: tag, Peeled: hash},
	}
	web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
	for name, remote := range map[string]*git.Remote{
		"https": remote(t, web.URL+"/cfg.git", web.secret(nil)),
		"ssh":   remote(t, "ssh://"+shell.addr+"/cfg.git", shell.secret(nil)),
		"path":  remote(t, r.bare, nil),
	} {
		got, err := remote.List(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestAnEmptyRepositoryHasNoRefs(t *testing.T) {
	r := newRepo(t)
	web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
	for name, remote := range map[string]*git.Remote{
		"https": remote(t, web.URL+"/cfg.git", web.secret(nil)),
		"ssh":   remote(t, "ssh://git@"+shell.addr+"/cfg.git", shell.secret(nil)),
		"path":  remote(t, r.bare, nil),
	} {
		refs, err := remote.List(t.Context())
		if err != nil || len(refs) != 0 {
			t.Errorf("%s: got %v, %v", name, refs, err)
		}
		_, err = source.Pick(refs, v1alpha1.GitRef{})
		wantFault(t, err, fault.Stalled, v1alpha1.ReasonRefNotFound, "the repository is empty: push a commit")
	}
}

// TestAPinnedCommitNeedsNoRef: git over https gives out any commit that is reachable, over ssh only those that a ref
// points at, so there the history is fetched.
func TestAPinnedCommitNeedsNoRef(t *testing.T) {
	r := newRepo(t)
	old := r.commit("one", map[string]string{"a": "old"})
	r.commit("two", map[string]string{"a": "new"})
	web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
	for name, remote := range map[string]*git.Remote{
		"https": remote(t, web.URL+"/cfg.git", web.secret(nil)),
		"ssh":   remote(t, "ssh://git@"+shell.addr+"/cfg.git", shell.secret(nil)),
		"path":  remote(t, r.bare, nil),
	} {
		for _, ref := range []v1alpha1.GitRef{{Commit: old}, {Commit: old, Branch: "main"}} {
			tree, err := remote.Tree(t.Context(), pick(t, remote, ref), "", source.Destination{Dir: t.TempDir()})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(map[string]string{"a": "old"}, files(t, tree.Root)); diff != "" {
				t.Errorf("%s: -want +got\n%s", name, diff)
			}
			if got := tree.Commit.Revision().String(); got != "sha1:"+old {
				t.Errorf("%s: revision %s", name, got)
			}
		}
		_, err := remote.Fetch(t.Context(), source.Picked{Hash: strings.Repeat("a", 40)}, "")
		wantFault(t, err, fault.Stalled, v1alpha1.ReasonRefNotFound, strings.Repeat("a", 40))
		_, err = remote.Fetch(t.Context(), source.Picked{
			Hash: strings.Repeat("a", 40), Ref: "main",
			FullName: "refs/heads/main",
		}, "")
		wantFault(t, err, fault.Retry, v1alpha1.ReasonRefNotFound)
	}
}

// TestAFetchLeavesNothingBehind: the pack is removed, whether its commit is read or refused.
func TestAFetchLeavesNothingBehind(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "b"})
	web := serveHTTPS(t, r.root)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for name, path := range map[string]string{"a commit that is read": "", "a folder that is not there": "nope"} {
		remote := remote(t, web.URL+"/cfg.git", web.secret(nil))
		_, err := remote.Tree(t.Context(), pick(t, remote, v1alpha1.GitRef{}), path,
			source.Destination{Dir: t.TempDir()})
		if (err != nil) != (path != "") {
			t.Errorf("%s: %v", name, err)
		}
		left, err := filepath.Glob(filepath.Join(temp, "bunsen-pack-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %v are left, %v", name, left, err)
		}
	}
}

func TestMissingFolderNamesTheOnesThereAre(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"infra/dev/a": "", "infra/stage/a": "", "infra/file": "", "b": ""})
	remote := remote(t, r.bare, nil)
	snapshot, err := remote.Fetch(t.Context(), pick(t, remote, v1alpha1.GitRef{}), "")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct{ reason, text string }{
		"infra/prod":      {v1alpha1.ReasonPathNotFound, `no folder "infra/prod" in main@sha1:`},
		"infra/prod/deep": {v1alpha1.ReasonPathNotFound, `in "infra" there are the folders: dev, stage`},
		"infra/file":      {v1alpha1.ReasonPathNotFound, `in "infra" there are the folders: dev, stage`},
		"infra/dev/x":     {v1alpha1.ReasonPathNotFound, `in "infra/dev" there are the folders: none`},
		"prod":            {v1alpha1.ReasonPathNotFound, "at the root there are the folders: infra"},
		"../etc":          {v1alpha1.ReasonInvalidSpec, "contains .."},
		"/etc":            {v1alpha1.ReasonInvalidSpec, "slash"},
	} {
		_, err := snapshot.Materialise(t.Context(), path, source.Destination{Dir: t.TempDir()})
		wantFault(t, err, fault.Stalled, want.reason, want.text)
	}
}

func TestDescent(t *testing.T) {
	r := newRepo(t)
	one := r.commit("one", map[string]string{"a": "1"})
	two := r.commit("two", map[string]string{"a": "2"})
	r.git(r.work, "reset", "-q", "--hard", one)
	other := r.commit("other", map[string]string{"a": "3"})
	r.git(r.work, "merge", "-q", "-s", "ours", "-m", "merge", two)
	parent := r.git(r.work, "rev-parse", "HEAD")
	merge := r.commit("after the merge", map[string]string{"b": "4"})
	r.git(r.work, "push", "-q", "origin", two+":refs/heads/side")
	web, shell, old := serveHTTPS(t, r.root), serveSSH(t, r.root, false), serveVersion0(t, r.root)
	remotes := map[string]*git.Remote{
		"path":      remote(t, r.bare, nil),
		"https":     remote(t, web.URL+"/cfg.git", web.secret(nil)),
		"ssh":       remote(t, "ssh://git@"+shell.addr+"/cfg.git", shell.secret(nil)),
		"version 0": remote(t, old.URL+"/cfg.git", old.secret(nil)),
	}
	for name, test := range map[string]struct {
		older, newer string
		want         source.Descent
		added        []string
	}{
		"a commit descends from its parent":           {one, two, source.Descends, []string{two}},
		"a commit descends from itself":               {two, two, source.Descends, []string{two}},
		"a merge descends from both sides":            {two, merge, source.Descends, []string{merge, parent, other}},
		"a parent does not descend from its child":    {two, one, source.Rewritten, []string{one}},
		"siblings do not descend from each other":     {two, other, source.Rewritten, []string{other}},
		"an older commit that is gone is no ancestor": {strings.Repeat("b", 40), two, source.Rewritten, []string{two, one}},
	} {
		for at, remote := range remotes {
			e, err := remote.Evidence(t.Context(), source.Picked{Hash: test.newer, Applied: test.older})
			if at == "version 0" && !slices.Contains([]string{two, merge}, test.newer) {
				continue // no ref points at the commit, so that server does not send its history
			}
			if err != nil || e.Descent != test.want {
				t.Errorf("%s, %s: got %v, %v, want %v", name, at, e.Descent, err, test.want)
				continue
			}
			var added []string
			for _, object := range e.Added {
				added = append(added, plumbing.ComputeHash(plumbing.CommitObject, object).String())
			}
			if diff := cmp.Diff(test.added, added); diff != "" {
				t.Errorf("%s, %s: -want +got\n%s", name, at, diff)
			}
		}
	}
}

// TestAPushAtTheSameTimeIsSeenWhole reads the repository all the while somebody pushes and repacks: whatever is listed
// can be read.
func TestAPushAtTheSameTimeIsSeenWhole(t *testing.T) {
	r := newRepo(t)
	r.commit("start", map[string]string{"a": "0"})
	done := make(chan error)
	go func() {
		defer close(done)
		for i := range 12 {
			if err := os.WriteFile(filepath.Join(r.work, "a"), fmt.Append(nil, i+1), 0o644); err != nil {
				done <- err
				return
			}
			for _, args := range [][]string{{"commit", "-qam", fmt.Sprint(i)}, {"push", "-q", "origin", "HEAD"}} {
				if out, err := gitCmd(r.work, args...); err != nil {
					done <- fmt.Errorf("%v: %w: %s", args, err, out)
					return
				}
			}
			if out, err := gitCmd(r.bare, "pack-refs", "--all"); err != nil && i%4 == 0 {
				done <- fmt.Errorf("%w: %s", err, out)
				return
			}
		}
	}()
	seen := map[string]bool{}
	for remote := remote(t, r.bare, nil); ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("saw %d commits", len(seen))
			return
		default:
		}
		p := pick(t, remote, v1alpha1.GitRef{Branch: "main"})
		tree, err := remote.Tree(t.Context(), p, "", source.Destination{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		seen[tree.Digest] = true
	}
}

func TestALockLeftBehindIsNoRef(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "1"})
	for name, content := range map[string]string{"main.lock": "", "other.lock": "half a ha"} {
		if err := os.WriteFile(filepath.Join(r.bare, "refs/heads", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	refs, err := remote(t, r.bare, nil).List(t.Context())
	if err != nil || len(refs) != 2 {
		t.Errorf("got %v, %v", refs, err)
	}
}

func TestOpenRevision(t *testing.T) {
	r := newRepo(t)
	first := r.commit("first", map[string]string{"a": "1", "sub/b": "1"})
	r.git(r.work, "tag", "-a", "v1", "-m", "annotated")
	r.commit("second", map[string]string{"a": "2"})
	r.git(r.work, "checkout", "-q", "-b", "topic")
	r.commit("third", map[string]string{"a": "3"})
	r.write(map[string]string{"a": "not committed"})
	tree := filepath.Join(r.root, "linked")
	r.git(r.work, "worktree", "add", "-q", tree, "main")
	for name, test := range map[string]struct {
		dir, revision, path string
		ref, subject        string
	}{
		"nothing is HEAD":                      {r.work, "", "", "topic", "third"},
		"HEAD is its branch":                   {r.work, "HEAD", "", "topic", "third"},
		"a commit before":                      {r.work, "HEAD~1", "", "", "second"},
		"a branch":                             {r.work, "main", "", "main", "second"},
		"a full ref name":                      {r.work, "refs/heads/main", "", "main", "second"},
		"an annotated tag":                     {r.work, "v1", "", "v1", "first"},
		"a hash":                               {r.work, first, "", "", "first"},
		"the beginning of a hash":              {r.work, first[:9], "", "", "first"},
		"from a folder of the work tree":       {filepath.Join(r.work, "sub"), "v1", "sub", "v1", "first"},
		"of a bare repository":                 {r.bare, "main", "", "main", "second"},
		"of a work tree that is linked to one": {tree, "HEAD", "", "main", "second"},
	} {
		got, err := git.OpenRevision(t.Context(), git.LocalRevision{
			Repository: test.dir, Revision: test.revision,
			Path: test.path,
		}, t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Commit.Ref != test.ref || got.Commit.Subject != test.subject {
			t.Errorf("%s: got %q %q", name, got.Commit.Ref, got.Commit.Subject)
		}
	}
	_, err := git.OpenRevision(t.Context(), git.LocalRevision{Repository: r.work, Revision: "nope"}, t.TempDir())
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonRefNotFound, `no revision "nope" in `, "it has main, topic, v1")
	_, err = git.OpenRevision(t.Context(), git.LocalRevision{Repository: t.TempDir(), Revision: "main"}, t.TempDir())
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonUnreachable, "is not in a git repository")
	_, err = git.OpenRevision(t.Context(), git.LocalRevision{Repository: newRepo(t).work}, t.TempDir())
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonRefNotFound, "no commit yet")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = git.OpenRevision(ended, git.LocalRevision{Repository: r.work}, t.TempDir())
	wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable)
}

// TestACommitCannotBringItsOwnRepository: a folder of a commit that looks like a bare repository does not stand for the
// repository that it is in.
func TestACommitCannotBringItsOwnRepository(t *testing.T) {
	r := newRepo(t)
	r.commit("the real one", map[string]string{"clusters/prod/a": "1"})
	planted := newRepo(t)
	planted.commit("a harmless look-alike", map[string]string{"a": "1"})
	folder := filepath.Join(r.work, "clusters", "prod")
	if err := os.CopyFS(folder, os.DirFS(planted.bare)); err != nil {
		t.Fatal(err)
	}
	got, err := git.OpenRevision(t.Context(), git.LocalRevision{Repository: folder, Revision: "HEAD"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got.Commit.Subject != "the real one" {
		t.Errorf("read %q", got.Commit.Subject)
	}
}
