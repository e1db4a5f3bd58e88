package git_test

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/repository"
	"github.com/bunsen-os/bunsen/source/verify"
)

// signer is a key that ssh-keygen made, and its line of allowed signers.
func signer(t *testing.T, r *repo, name string) (file, line string) {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Fatal("ssh-keygen is not installed: make setup installs it")
	}
	file = filepath.Join(r.root, name)
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f",
		file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, name + "@example.com " + string(public)
}

// trusting is a repository as a controller makes one of a GitSource with verify.
func trusting(t *testing.T, trees *repository.Store, url string, secret map[string][]byte,
	lines string,
) repository.Repository {
	t.Helper()
	keys, err := verify.ParseKeys(map[string][]byte{"signers": []byte(lines)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRemote(git.Config{URL: url, Secret: secret, Verify: func(e source.Evidence) (string, error) {
		return verify.Commit(e.Commit, keys, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	}})
	if err != nil {
		t.Fatal(err)
	}
	return repository.Repository{Remote: r, Store: trees, URL: r.URL(), Trust: keys.Digest()}
}

// TestOnlySignedCommitsAreTaken signs with the real git and follows the repository over https.
func TestOnlySignedCommitsAreTaken(t *testing.T) {
	r := newRepo(t)
	aliceKey, alice := signer(t, r, "alice")
	malloryKey, mallory := signer(t, r, "mallory")
	for branch, key := range map[string]string{"main": aliceKey, "theirs": malloryKey, "unsigned": ""} {
		r.git(r.work, "checkout", "-q", "--orphan", branch)
		r.git(r.work, "config", "gpg.format", "ssh")
		r.git(r.work, "config", "user.signingkey", key)
		r.git(r.work, "config", "commit.gpgsign", fmt.Sprint(key != ""))
		r.write(map[string]string{"a.bu": branch})
		r.git(r.work, "add", "-A")
		r.git(r.work, "commit", "-q", "-m", branch)
		r.git(r.work, "push", "-q", "origin", branch)
	}
	web := serveHTTPS(t, r.root)
	dir := t.TempDir()
	trees, err := repository.Open(dir, 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trees.Close() })
	for name, test := range map[string]struct {
		allowed, branch, signer string
		refused                 string
	}{
		"a commit of the allowed key":   {allowed: alice, branch: "main", signer: "(alice@example.com)"},
		"a commit of another key":       {allowed: alice, branch: "theirs", refused: "not among the allowed keys"},
		"a commit without a signature":  {allowed: alice, branch: "unsigned", refused: "not signed"},
		"the other key, once it is in":  {allowed: alice + mallory, branch: "theirs", signer: "(mallory@example.com)"},
		"the first key, once it is out": {allowed: mallory, branch: "main", refused: "not among the allowed keys"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := trusting(t, trees, web.URL+"/cfg.git", web.secret(nil), test.allowed)
			listed, err := repo.List(t.Context(), source.Poll{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := source.Pick(listed.Refs, v1alpha1.GitRef{Branch: test.branch})
			if err != nil {
				t.Fatal(err)
			}
			tree, err := repo.Tree(t.Context(), p)
			if test.refused != "" {
				wantFault(t, err, fault.Stalled, v1alpha1.ReasonSignature, "fetching "+test.branch+"@sha1:",
					test.refused)
				return
			}
			if err != nil || !strings.HasPrefix(tree.Commit.Signer, "ssh SHA256:") ||
				!strings.HasSuffix(tree.Commit.Signer, test.signer) {
				t.Fatalf("signed by %q, %v", tree.Commit.Signer, err)
			}
			if got := files(t, tree.Root)["a.bu"]; got != test.branch {
				t.Errorf("got %q", got)
			}
		})
	}
	if kept, err := os.ReadDir(filepath.Join(dir, "trees")); err != nil || len(kept) != 2 {
		t.Errorf("%d trees are stored, %v; want those of the two that were signed", len(kept), err)
	}
}

// TestAnObjectIsWhatItsHashNames: a signature covers the files only by hashes, and a loose object on disk can hold
// anything.
func TestAnObjectIsWhatItsHashNames(t *testing.T) {
	for name, of := range map[string]struct{ revision, content string }{
		"a file":   {"HEAD:a.bu", "blob 6\x00other\n"},
		"a folder": {"HEAD^{tree}", "tree 0\x00"},
		"a commit": {"HEAD", "commit 0\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			hash := r.commit("s", map[string]string{"a.bu": "first\n"})
			object := r.git(r.work, "rev-parse", of.revision)
			var data bytes.Buffer
			z := zlib.NewWriter(&data)
			_, err := z.Write([]byte(of.content))
			file := filepath.Join(r.work, ".git/objects", object[:2], object[2:])
			if err := errors.Join(err, z.Close(), os.Remove(file),
				os.WriteFile(file, data.Bytes(), 0o444)); err != nil {
				t.Fatal(err)
			}
			_, err = remote(t, r.work, nil).Tree(t.Context(), source.Picked{Ref: "main", Hash: hash}, "",
				source.Destination{Dir: t.TempDir()})
			wantFault(t, err, fault.Retry, v1alpha1.ReasonRepositoryDamaged, "is damaged: its content has another hash")
		})
	}
}
