package git_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

// TestADeadlineEndsAHungServer: a server that accepts and says nothing, or stops in the middle, costs no more than the
// deadline. Nothing here waits for time to pass but the deadline itself.
func TestADeadlineEndsAHungServer(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	silent := listen(t)
	t.Cleanup(func() { silent.Close() })
	stuck := serveSSH(t, r.root, true)
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprint(w, "001e# service=git-upload-pack\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(half.Close)
	for name, remote := range map[string]*git.Remote{
		"http, no answer":           remote(t, "http://"+silent.Addr().String()+"/cfg.git", nil),
		"https, no handshake":       remote(t, "https://"+silent.Addr().String()+"/cfg.git", nil),
		"http, half an answer":      remote(t, half.URL+"/cfg.git", nil),
		"ssh, no handshake":         remote(t, "ssh://git@"+silent.Addr().String()+"/cfg.git", stuck.secret(nil)),
		"ssh, a command that hangs": remote(t, "ssh://git@"+stuck.addr+"/cfg.git", stuck.secret(nil)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := remote.List(ctx)
			wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable, "no answer in time", "deadline")
			_, err = remote.Fetch(ctx, source.Picked{Ref: "main", Hash: strings.Repeat("a", 40)}, "")
			wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable, "deadline")
		})
	}
}

func TestAServerThatIsDownIsTriedAgain(t *testing.T) {
	l := listen(t)
	l.Close()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "soon", http.StatusServiceUnavailable)
	}))
	defer down.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html>a page</html>")
	}))
	defer page.Close()
	for _, url := range []string{
		"http://" + l.Addr().String() + "/cfg.git", down.URL + "/cfg.git",
		page.URL + "/cfg.git",
	} {
		_, err := remote(t, url, loopbackSecret(url)).List(t.Context())
		wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable, url)
	}
}

// TestARedirectCarriesNoCredentialsAway: the password is for the host that the GitSource names.
func TestARedirectCarriesNoCredentialsAway(t *testing.T) {
	carried := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		carried += r.Header.Get("Authorization")
	}))
	defer thief.Close()
	honest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.String(), http.StatusFound)
	}))
	defer honest.Close()
	_, err := remote(t, honest.URL+"/cfg.git", loopbackSecret(honest.URL)).List(t.Context())
	wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable)
	if carried != "" {
		t.Errorf("the other host was sent %q", carried)
	}
}

// plant commits a tree of entries as they are, which git itself would refuse to make.
func plant(t *testing.T, dir string,
	entries func(put func(plumbing.ObjectType, []byte) plumbing.Hash) []object.TreeEntry,
) source.Picked {
	t.Helper()
	repo, err := gogit.PlainOpen(dir)
	if err != nil {
		t.Fatal(err)
	}
	put := func(kind plumbing.ObjectType, content []byte) plumbing.Hash {
		o := repo.Storer.NewEncodedObject()
		o.SetType(kind)
		w, err := o.Writer()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		hash, err := repo.Storer.SetEncodedObject(o)
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	root := put(plumbing.TreeObject, treeObject(entries(put)))
	commit := put(plumbing.CommitObject, fmt.Appendf(nil,
		"tree %s\nauthor \x1b[31mEve\x07 <eve@example.org> 999999999999999 +0000\n"+
			"committer Eve <e> 999999999999999 +0000\n\nsub\tject \x1b[2J\xff\nmore\n", root))
	if err := repo.Storer.SetReference(plumbing.NewHashReference("refs/heads/main", commit)); err != nil {
		t.Fatal(err)
	}
	return source.Picked{Ref: "main", Hash: commit.String(), FullName: "refs/heads/main"}
}

func treeObject(entries []object.TreeEntry) []byte {
	var out []byte
	for _, e := range entries {
		out = fmt.Appendf(out, "%o %s\x00", uint32(e.Mode), e.Name)
		out = append(out, e.Hash[:]...)
	}
	return out
}

func TestHostileTreesAreRefusedEntryByEntry(t *testing.T) {
	r := newRepo(t)
	p := plant(t, r.bare, func(put func(plumbing.ObjectType, []byte) plumbing.Hash) []object.TreeEntry {
		blob := func(s string) plumbing.Hash { return put(plumbing.BlobObject, []byte(s)) }
		inner := put(plumbing.TreeObject, treeObject([]object.TreeEntry{
			{Name: "..", Mode: filemode.Regular, Hash: blob("up")},
			{Name: "fine", Mode: filemode.Executable, Hash: blob("inner")},
		}))
		return []object.TreeEntry{
			{Name: "../../escape", Mode: filemode.Regular, Hash: blob("x")},
			{Name: "..", Mode: filemode.Dir, Hash: inner},
			{Name: ".", Mode: filemode.Dir, Hash: inner},
			{Name: ".GiT", Mode: filemode.Dir, Hash: inner},
			{Name: ".git", Mode: filemode.Regular, Hash: blob("gitdir: /")},
			{Name: "a\nb", Mode: filemode.Regular, Hash: blob("x")},
			{Name: `a\b`, Mode: filemode.Regular, Hash: blob("x")},
			{Name: "bad\xff", Mode: filemode.Regular, Hash: blob("x")},
			{Name: "fine", Mode: filemode.Regular, Hash: blob("first")},
			{Name: "fine", Mode: filemode.Dir, Hash: inner},
			{Name: "folder", Mode: filemode.Dir, Hash: inner},
			{Name: "lfs", Mode: filemode.Regular, Hash: blob("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")},
			{Name: "link", Mode: filemode.Symlink, Hash: blob("/etc/shadow")},
			{Name: "module", Mode: filemode.Submodule, Hash: plumbing.NewHash(p40)},
			{Name: strings.Repeat("n", 300), Mode: filemode.Regular, Hash: blob("x")},
		}
	})
	want := map[string]string{"fine": "first", "folder/fine!": "inner", `a\b`: "x"}
	wantRefused := []source.Refusal{
		{Path: `"..\x2f..\x2fescape"`, Why: "the name holds a slash"},
		{Path: `".."`, Why: "the name stands for another folder"},
		{Path: `"."`, Why: "the name stands for another folder"},
		{Path: `".GiT"`, Why: "the name is reserved for git's own folder"},
		{Path: `".git"`, Why: "the name is reserved for git's own folder"},
		{Path: `"a\nb"`, Why: "the name holds a control character"},
		{Path: `"bad\xff"`, Why: "the name is not UTF-8"},
		{Path: `"` + strings.Repeat("n", 60) + `…"`, Why: "the name has 300 bytes, at most 255"},
		{Path: "fine", Why: "the folder has two entries of this name"},
		{Path: `folder/".."`, Why: "the name stands for another folder"},
		{
			Path: "lfs", Why: source.LFSPointer,
			Target: "7d93a712a105dccde1f79597c38a71bdb4a4ead9c9a8e71a8dcd4cfca625a97e",
		},
		{Path: "link", Why: "symbolic link", Target: "e5e29bb3afde8c512bb395393b8723406f6a99b8"},
		{Path: "module", Why: source.SubmoduleWhy, Target: "1234567890123456789012345678901234567890"},
	}
	web := serveHTTPS(t, r.root)
	for name, remote := range map[string]*git.Remote{
		"path":  remote(t, r.bare, nil),
		"https": remote(t, web.URL+"/cfg.git", web.secret(nil)),
	} {
		parent := t.TempDir()
		into := filepath.Join(parent, "a", "b")
		if err := os.MkdirAll(into, 0o755); err != nil {
			t.Fatal(err)
		}
		tree, err := remote.Tree(t.Context(), p, "", source.Destination{Dir: into})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, files(t, into)); diff != "" {
			t.Errorf("%s: files -want +got\n%s", name, diff)
		}
		if all := files(t, parent); len(all) != len(want) {
			t.Errorf("%s: files outside the folder: %v", name, all)
		}
		byPath := func(rs []source.Refusal) map[source.Refusal]bool {
			m := map[source.Refusal]bool{}
			for _, r := range rs {
				m[r] = true
			}
			return m
		}
		if diff := cmp.Diff(byPath(wantRefused), byPath(tree.Refused)); diff != "" {
			t.Errorf("%s: refused -want +got\n%s", name, diff)
		}
		c := tree.Commit
		if c.Author != "[31mEve <eve@example.org>" || c.Subject != "subject [2J\uFFFD" || !c.Time.IsZero() {
			t.Errorf("%s: the commit speaks to the terminal or the API: %q %q %v", name, c.Author, c.Subject, c.Time)
		}
	}
}

const p40 = "1234567890123456789012345678901234567890"

// TestBombsAreDefused: none of these may cost more than their limit, in memory or on disk.
func TestBombsAreDefused(t *testing.T) {
	zeros := strings.Repeat("\x00", 9<<20)
	for name, test := range map[string]struct {
		entries func(put func(plumbing.ObjectType, []byte) plumbing.Hash) []object.TreeEntry
		words   string
	}{
		"a folder that holds itself ten times, ten deep": {
			func(put func(plumbing.ObjectType, []byte) plumbing.Hash) []object.TreeEntry {
				at := put(plumbing.BlobObject, []byte("boom"))
				mode := filemode.Regular
				var es []object.TreeEntry
				for range 11 {
					es = nil
					for i := range 10 {
						es = append(es, object.TreeEntry{Name: fmt.Sprint("f", i), Mode: mode, Hash: at})
					}
					at, mode = put(plumbing.TreeObject, treeObject(es)), filemode.Dir
				}
				return es
			}, "more than 100 files and folders",
		},
		"one large file": {func(put func(plumbing.ObjectType, []byte) plumbing.Hash) []object.TreeEntry {
			return []object.TreeEntry{{
				Name: "large", Mode: filemode.Regular,
				Hash: put(plumbing.BlobObject, []byte(zeros[:2000])),
			}}
		}, "large has 2000 bytes, at most 1000 for one file"},
		"many files of the same content": {
			func(put func(plumbing.ObjectType, []byte) plumbing.Hash) []object.TreeEntry {
				var es []object.TreeEntry
				for i := range 20 {
					es = append(es, object.TreeEntry{
						Name: fmt.Sprintf("f%02d", i), Mode: filemode.Regular,
						Hash: put(plumbing.BlobObject, []byte(zeros[:1000])),
					})
				}
				return es
			}, "the files up to f10 have more than 10000 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			p := plant(t, r.bare, test.entries)
			web := serveHTTPS(t, r.root)
			limits := source.Limits{Entries: 100, Bytes: 10_000, FileBytes: 1000}
			for _, c := range []git.Config{
				{URL: r.bare, Limits: limits},
				{URL: web.URL + "/cfg.git", Secret: web.secret(nil), Limits: limits},
			} {
				remote, err := newRemote(c)
				if err != nil {
					t.Fatal(err)
				}
				_, err = remote.Tree(t.Context(), p, "", source.Destination{Dir: t.TempDir()})
				wantFault(t, err, fault.Stalled, v1alpha1.ReasonInvalidTree, test.words)
			}
		})
	}

	t.Run("a pack that unpacks to much more", func(t *testing.T) {
		r := newRepo(t)
		r.commit("zeros", map[string]string{"zeros": zeros})
		refusesPack(t, r, 1<<20, "the pack unpacks to more than")
	})
	t.Run("a pack that is too large itself", func(t *testing.T) {
		r := newRepo(t)
		r.commit("noise", map[string]string{"noise": noise(40_000)})
		refusesPack(t, r, 10_000, "the pack is larger than 10000 bytes")
	})
}

func refusesPack(t *testing.T, r *repo, limit int64, words string) {
	t.Helper()
	web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
	for _, c := range []git.Config{
		{URL: web.URL + "/cfg.git", Secret: web.secret(nil), PackBytes: limit},
		{URL: "ssh://git@" + shell.addr + "/cfg.git", Secret: shell.secret(nil), PackBytes: limit},
	} {
		remote, err := newRemote(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = remote.Fetch(t.Context(), pick(t, remote, v1alpha1.GitRef{}), "")
		wantFault(t, err, fault.Stalled, v1alpha1.ReasonInvalidTree, words)
	}
}

// noise does not compress, and is the same each time.
func noise(n int) string {
	out, x := make([]byte, n), uint64(88172645463325252)
	for i := range out {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out[i] = byte(x >> 24)
	}
	return string(out)
}

func TestWhatGitHereCannotReadIsSaid(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a", "b": "b"})

	modern := filepath.Join(r.root, "sha256.git")
	r.git(r.root, "init", "-q", "--bare", "--object-format=sha256", modern)
	_, err := remote(t, modern, nil).List(t.Context())
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonInvalidTree, "convert it to SHA-1")

	r.git(r.bare, "config", "uploadpack.allowFilter", "true")
	partial := filepath.Join(r.root, "partial.git")
	r.git(r.root, "clone", "-q", "--bare", "--filter=blob:none", "file://"+r.bare, partial)
	_, err = remote(t, partial, nil).Tree(t.Context(), pick(t, remote(t, partial, nil), v1alpha1.GitRef{}), "",
		source.Destination{Dir: t.TempDir()})
	wantFault(t, err, fault.Retry, v1alpha1.ReasonRepositoryDamaged, "partial clone")
}

// authority makes the certificate of an authority that has signed nothing.
func authority(t *testing.T) string {
	t.Helper()
	_, private := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
