package git_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/store"
)

// bundle creates a bundle of the work tree's repository, and returns its path.
func (r *repo) bundle(name string, refs ...string) string {
	r.t.Helper()
	return r.bundleOf("--version=2", name, refs...)
}

func (r *repo) bundleOf(version, name string, refs ...string) string {
	r.t.Helper()
	path := filepath.Join(r.root, name)
	r.git(r.work, append([]string{"bundle", "create", "-q", version, path}, refs...)...)
	return path
}

// replace puts a copy of a file at a path, by renaming it.
func replace(t *testing.T, from, at string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err := errors.Join(err, os.WriteFile(at+".new", raw, 0o600), os.Rename(at+".new", at)); err != nil {
		t.Fatal(err)
	}
}

func TestABundleGivesTheTreeOfItsRepository(t *testing.T) {
	r := newRepo(t)
	first := r.commit("one", map[string]string{"infra/pools/a.bu": "a", "infra/run.sh!": "run", "README": "read"})
	r.git(r.work, "tag", "-a", "v1.4.0", "-m", "release")
	r.git(r.work, "tag", "light")
	r.git(r.work, "branch", "other")
	second := r.commit("two", map[string]string{"infra/pools/b.bu": strings.Repeat("b", 5000)})
	r.git(r.work, "tag", "-a", "v1.4.1", "-m", "release")
	r.git(r.work, "push", "-q", "origin", "--tags")
	bundles := map[string]string{
		"one branch": r.bundle("one.bundle", "main", "v1.4.0", "v1.4.1", "light"), "everything": r.bundle("all.bundle",
			"--all", "HEAD"),
		"version 3": r.bundleOf("--version=3", "three.bundle", "--all", "HEAD"),
	}
	want := remote(t, r.bare, nil)
	for name, path := range bundles {
		for _, url := range []string{path, "file://" + path} {
			for _, from := range []*git.Remote{remote(t, url, nil), cached(t, t.TempDir(), git.Config{URL: url})} {
				for ref, hash := range map[v1alpha1.GitRef]string{
					{}: second, {Branch: "main"}: second, {SemVer: "~1.4"}: second, {Tag: "v1.4.0"}: first,
					{Tag: "light"}: first, {Commit: first}: first,
				} {
					refs, err := from.ListFor(t.Context(), ref)
					if err != nil {
						t.Fatalf("%s, %+v: %v", name, ref, err)
					}
					p, err := source.Pick(refs, ref)
					if err != nil || p.Hash != hash {
						t.Fatalf("%s, %+v: picked %s, %v; want %s", name, ref, p.Hash, err, hash)
					}
					if served := pick(t, want, ref); ref.Commit == "" && served.TagObject != p.TagObject ||
						ref.Commit == "" && served.FullName != p.FullName {
						t.Errorf("%s, %+v: picked %+v, from the repository %+v", name, ref, p, served)
					}
					for _, folder := range []string{"", "infra/pools"} {
						got, err := from.Tree(t.Context(), p, folder, source.Destination{Dir: t.TempDir()})
						if err != nil {
							t.Fatalf("%s, %+v: %v", name, ref, err)
						}
						served, err := want.Tree(t.Context(), p, folder, source.Destination{Dir: t.TempDir()})
						if err != nil {
							t.Fatal(err)
						}
						if got.Digest != served.Digest || got.Commit.Subject != served.Commit.Subject {
							t.Errorf("%s, %+v, %q: the digest is %s, that of the repository %s", name, ref, folder,
								got.Digest, served.Digest)
						}
					}
				}
			}
		}
	}
	if _, err := remote(t, bundles["one branch"], nil).ListFor(t.Context(),
		v1alpha1.GitRef{Branch: "nope"}); err != nil {
		t.Error(err)
	}
}

func TestABundleThatBuildsOnAnother(t *testing.T) {
	r := newRepo(t)
	first := r.commit("one", map[string]string{"a": strings.Repeat("a line\n", 500)})
	whole := r.bundle("whole.bundle", "main")
	second := r.commit("two", map[string]string{"a": strings.Repeat("a line\n", 500) + "another\n"})
	rest := r.bundle("rest.bundle", first+"..main")
	path := filepath.Join(r.root, "config.bundle")
	replace(t, rest, path)
	words := "the bundle builds on commit " + first + ", which the controller does not have: create it with the " +
		"whole history"
	p := source.Picked{Ref: "main", Hash: second}
	for _, from := range []*git.Remote{remote(t, path, nil), cached(t, t.TempDir(), git.Config{URL: path})} {
		_, err := from.Tree(t.Context(), p, "", source.Destination{Dir: t.TempDir()})
		wantFault(t, err, fault.Retry, v1alpha1.ReasonInvalidTree, words)
	}
	from := cached(t, t.TempDir(), git.Config{URL: path})
	replace(t, whole, path)
	if _, err := from.Tree(t.Context(), pick(t, from, v1alpha1.GitRef{}), "",
		source.Destination{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	replace(t, rest, path)
	got, err := from.Tree(t.Context(), pick(t, from, v1alpha1.GitRef{}), "", source.Destination{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	want, err := remote(t, r.bare, nil).Tree(t.Context(), p, "", source.Destination{Dir: t.TempDir()})
	if err != nil || got.Digest != want.Digest {
		t.Errorf("the digest is %s, want %s, %v", got.Digest, want.Digest, err)
	}
	p.Applied = first
	if e, err := from.Evidence(t.Context(), p); err != nil || e.Descent != source.Descends || len(e.Added) != 2 &&
		len(e.Added) != 1 {
		t.Errorf("the evidence is %v with %d commits, %v", e.Descent, len(e.Added), err)
	}
}

// TestAPartOfABundleIsRefused: a copy that is not complete is not used, wherever it ends.
func TestAPartOfABundleIsRefused(t *testing.T) {
	r := newRepo(t)
	hash := r.commit("one", map[string]string{"a": "a", "b": strings.Repeat("b", 100)})
	r.git(r.work, "tag", "-a", "v1", "-m", "release")
	raw, err := os.ReadFile(r.bundle("whole.bundle", "main", "v1"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.root, "part.bundle")
	from := cached(t, t.TempDir(), git.Config{URL: path})
	try := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, listErr := from.List(t.Context())
		_, err := from.Tree(t.Context(), source.Picked{Ref: "main", Hash: hash}, "",
			source.Destination{Dir: t.TempDir()})
		for _, err := range []error{listErr, err} {
			if f := fault.Of(err, ""); err == nil || f.Kind != fault.Retry || f.Reason != v1alpha1.ReasonInvalidTree ||
				!strings.Contains(err.Error(), "copy it again under another name") && !strings.Contains(err.Error(),
					"objects, at most") {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	for n := range raw {
		try(fmt.Sprintf("%d of %d bytes", n, len(raw)), raw[:n])
	}
	try("more bytes", append(bytes.Clone(raw), 'x'))
	pack := bytes.Index(raw, []byte("PACK"))
	for i := pack; i < len(raw); i++ {
		changed := bytes.Clone(raw)
		changed[i] ^= 0x10
		try(fmt.Sprintf("another byte at %d", i), changed)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Tree(t.Context(), pick(t, from, v1alpha1.GitRef{Tag: "v1"}), "",
		source.Destination{Dir: t.TempDir()}); err != nil {
		t.Errorf("the whole bundle after all: %v", err)
	}
}

func TestABundleMayBeReplacedAtAnyTime(t *testing.T) {
	r := newRepo(t)
	path := filepath.Join(r.root, "config.bundle")
	r.commit("one", map[string]string{"a": "first"})
	one := r.bundle("one.bundle", "main")
	r.git(r.work, "checkout", "-q", "--orphan", "again")
	r.commit("two", map[string]string{"a": "second"})
	r.git(r.work, "branch", "-q", "-M", "main")
	two := r.bundle("two.bundle", "main")
	replace(t, one, path)
	from := remote(t, path, nil)
	p := pick(t, from, v1alpha1.GitRef{})
	replace(t, two, path)
	_, err := from.Tree(t.Context(), p, "", source.Destination{Dir: t.TempDir()})
	wantFault(t, err, fault.Retry, v1alpha1.ReasonRefNotFound, "the bundle does not have it")
	_, err = from.Tree(t.Context(), source.Picked{Hash: p.Hash}, "", source.Destination{Dir: t.TempDir()})
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonRefNotFound, "the bundle does not have it")
	tree, err := from.Tree(t.Context(), pick(t, from, v1alpha1.GitRef{}), "", source.Destination{Dir: t.TempDir()})
	if err != nil || files(t, tree.Root)["a"] != "second" {
		t.Fatalf("the next listing gives %v, %v", tree.Commit, err)
	}

	done := make(chan error)
	go func() {
		for i := range 200 {
			raw, err := os.ReadFile([]string{one, two}[i%2])
			if err := errors.Join(err, os.WriteFile(path+".new", raw, 0o600),
				os.Rename(path+".new", path)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	content := map[string]string{}
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
		p := pick(t, from, v1alpha1.GitRef{})
		tree, err := from.Tree(t.Context(), p, "", source.Destination{Dir: t.TempDir()})
		if err != nil {
			wantFault(t, err, fault.Retry, v1alpha1.ReasonRefNotFound)
			continue
		}
		got := files(t, tree.Root)["a"]
		if before, known := content[p.Hash]; known && before != got {
			t.Fatalf("commit %s has %q, and had %q", p.Hash, got, before)
		}
		content[p.Hash] = got
	}
}

func TestASignedBundleIsTaken(t *testing.T) {
	r := newRepo(t)
	aliceKey, alice := signer(t, r, "alice")
	_, mallory := signer(t, r, "mallory")
	r.git(r.work, "config", "gpg.format", "ssh")
	r.git(r.work, "config", "user.signingkey", aliceKey)
	r.git(r.work, "config", "commit.gpgsign", "true")
	r.commit("one", map[string]string{"a.bu": "a"})
	path := r.bundle("config.bundle", "main")
	trees, err := store.Open(t.TempDir(), 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trees.Close() })
	p := pick(t, remote(t, path, nil), v1alpha1.GitRef{})
	tree, err := trusting(t, trees, path, nil, alice).Tree(t.Context(), p)
	if err != nil || !strings.HasSuffix(tree.Commit.Signer, "(alice@example.com)") {
		t.Errorf("signed by %q, %v", tree.Commit.Signer, err)
	}
	_, err = trusting(t, trees, path, nil, mallory).Tree(t.Context(), p)
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonSignature, "not among the allowed keys")
}

// TestTheHistoryInABundle: a bundle says as much about the history as its repository.
func TestTheHistoryInABundle(t *testing.T) {
	r := newRepo(t)
	var commits []string
	for i := range 4 {
		commits = append(commits, r.commit(fmt.Sprint(i), map[string]string{"a": fmt.Sprint(i)}))
	}
	r.git(r.work, "checkout", "-q", "-b", "side", commits[1])
	side := r.commit("side", map[string]string{"b": "b"})
	r.git(r.work, "checkout", "-q", "main")
	whole := r.bundle("whole.bundle", "--all")
	shallow := filepath.Join(r.root, "shallow")
	r.git(r.root, "clone", "-q", "--depth", "2", "file://"+r.bare, shallow)
	part := filepath.Join(r.root, "part.bundle")
	r.git(shallow, "bundle", "create", "-q", part, "main")
	for name, test := range map[string]struct {
		path, applied string
		want          source.Descent
		added         int
	}{
		"nothing applied":         {whole, "", source.Unknown, 1},
		"the same":                {whole, commits[3], source.Descends, 1},
		"an ancestor":             {whole, commits[0], source.Descends, 3},
		"another branch":          {whole, side, source.Rewritten, 2},
		"an unknown one":          {whole, strings.Repeat("1", 40), source.Rewritten, 4},
		"shallow, an ancestor":    {part, commits[2], source.Descends, 1},
		"shallow, an earlier one": {part, commits[0], source.Unknown, 1},
		"shallow, an unknown one": {part, strings.Repeat("1", 40), source.Unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := remote(t, test.path, nil).Evidence(t.Context(), source.Picked{
				Ref: "main", Hash: commits[3],
				Applied: test.applied,
			})
			if err != nil || e.Descent != test.want || len(e.Added) != test.added {
				t.Errorf("got %v with %d commits, %v; want %v with %d", e.Descent, len(e.Added), err, test.want,
					test.added)
			}
		})
	}
}

func TestFilesThatAreNoBundles(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	secret, pipe, folder := filepath.Join(r.root, "shadow.bundle"), filepath.Join(r.root, "pipe.bundle"),
		filepath.Join(r.root, "cfg.bundle")
	if err := errors.Join(os.WriteFile(secret, []byte("root:S3CR3T:1\n"), 0o600), syscall.Mkfifo(pipe, 0o600),
		os.Rename(r.bare, folder)); err != nil {
		t.Fatal(err)
	}
	for path, words := range map[string]string{
		secret: "not a git bundle", pipe: "not a regular file", "/dev/../dev/null.bundle": "there is no file",
		filepath.Join(r.root, "none.bundle"): "copy the bundle there, or correct the url",
	} {
		_, err := remote(t, path, nil).List(t.Context())
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "S3CR3T") ||
			fault.Of(err, "").Kind != fault.Retry {
			t.Errorf("%s: %v", path, err)
		}
	}
	if refs, err := remote(t, folder, nil).List(t.Context()); err != nil || len(refs) == 0 {
		t.Errorf("a repository whose name ends like a bundle's: %v, %v", refs, err)
	}
}
