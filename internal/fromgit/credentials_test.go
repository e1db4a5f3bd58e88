package fromgit_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/source"
)

// TestCredentials: what the remote wants, from the files of a folder; what it does not accept is explained, with where
// to mend it, and without the secret.
func TestCredentials(t *testing.T) {
	from := newRemote(t)
	from.push("Greet", first)
	for sentence, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"a user and a password, with line breaks at their end": {nil, ""},
		"a token":                      {map[string]string{"username": "", "password": "", "bearerToken": bearer + "\n"}, ""},
		"files that mean nothing here": {map[string]string{"README": "x", ".hidden": "y"}, ""},
		"a wrong password":             {map[string]string{"password": "wrong-one"}, "check username and password, or bearerToken"},
		"a token and a password":       {map[string]string{"bearerToken": bearer}, "both bearerToken and username or password"},
		"no certificate authority":     {map[string]string{"ca.crt": ""}, "the server's certificate is not trusted"},
		"a bad certificate authority":  {map[string]string{"ca.crt": "nonsense"}, "holds no certificate"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := newMachine(t, from)
			m.config.Credentials = from.secret(c.change)
			err := m.read()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasSuffix(err.Error(), "; here the Secret's keys are the files of "+m.config.Credentials)):
				t.Errorf("got %v", err)
			case err != nil && strings.Contains(err.Error(), "wrong-one"):
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

// read is a start and one look; its error is that of either.
func (m *machine) read() error {
	c := m.config
	c.Open = m.connect(nil)
	r, err := fromgit.New(c)
	if err != nil {
		return err
	}
	_, err = r.Read(m.t.Context())
	return err
}

// TestCredentialsMayChange while the server runs: the next look has the new ones.
func TestCredentialsMayChange(t *testing.T) {
	from, on := newRemote(t), &served{}
	from.push("Greet", first)
	m := newMachine(t, from)
	file := filepath.Join(m.config.Credentials, "password")
	put(t, file, []byte("old"))
	f, _ := m.follow(on)
	if err := f.Poll(t.Context()); err == nil {
		t.Fatal("a wrong password does")
	}
	put(t, file, []byte(password))
	looked(t, f)
	if on.times != 1 {
		t.Error("nothing is in force")
	}
}

// TestWhatSSHIsOpenedWith: the keys of a Secret for ssh, as the files have them.
func TestWhatSSHIsOpenedWith(t *testing.T) {
	dir := t.TempDir()
	want := map[string][]byte{
		"identity":    []byte("-----BEGIN KEY-----\n"),
		"known_hosts": []byte("host ssh-ed25519 AAAA\n"), "password": []byte("phrase"),
	}
	for name, data := range want {
		put(t, filepath.Join(dir, name), append(data, map[string]string{"password": "\n"}[name]...))
	}
	var got fromgit.Access
	_, err := fromgit.New(fromgit.Config{
		URL: "git@git.example.com:infra/os.git", Credentials: dir, Path: "site",
		Open: func(a fromgit.Access) (fromgit.Remote, error) {
			got = a
			return nil, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromgit.Access{URL: "git@git.example.com:infra/os.git", Path: "site", Secret: want},
		got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestCommitsMustBeSigned where keys are given: one that is not is not taken, one that is names its signer; and keys
// that change are asked for anew.
func TestCommitsMustBeSigned(t *testing.T) {
	from, on := newRemote(t), &served{}
	dir := t.TempDir()
	key, keys := filepath.Join(dir, "key"), filepath.Join(dir, "keys")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f",
		key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s; make setup installs ssh-keygen", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	stranger := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXWz5F1Mwz6UsQZ7pZz4t1n0vQ6h9wqv7s1wXvYb1aK bob\n"
	put(t, keys, append([]byte(stranger), public...))
	from.push("Greet", first)
	m := newMachine(t, from)
	m.config.Keys = keys
	f, _ := m.follow(on)
	if err := f.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), "not signed") || on.times != 0 {
		t.Errorf("%v; applied %d times", err, on.times)
	}
	from.git(from.work, "-c", "gpg.format=ssh", "-c", "user.signingkey="+key, "commit", "-q", "--amend", "-S", "-m",
		"Greet")
	from.git(from.work, "push", "-q", "--force", "origin", "HEAD")
	looked(t, f)
	if by := on.pools["worker"].Annotations[v1alpha1.VerifiedByAnnotation]; !strings.Contains(by, "ada") {
		t.Errorf("signed by %q", by)
	}
	put(t, keys, []byte(stranger))
	if err := f.Poll(t.Context()); err == nil || on.times != 1 {
		t.Errorf("%v; applied %d times", err, on.times)
	}
}

// TestWhatStopsItAtTheStart: each mistake of the configuration is told before anything is asked.
func TestWhatStopsItAtTheStart(t *testing.T) {
	empty := t.TempDir()
	for sentence, c := range map[string]struct {
		config fromgit.Config
		want   string
	}{
		"a URL that is none":                 {fromgit.Config{URL: "git.example.com"}, "is not the address of a repository"},
		"a password in the URL":              {fromgit.Config{URL: "https://me:secret@git.example.com/os"}, "Write the password into a file"},
		"a folder that climbs":               {fromgit.Config{URL: "/srv/os.git", Path: "../x"}, "contains .."},
		"a ref that git allows nowhere":      {fromgit.Config{URL: "/srv/os.git", Ref: "main~1"}, `ref "main~1" is not the name of a branch or tag`},
		"credentials that are not there":     {fromgit.Config{URL: "/srv/os.git", Credentials: empty + "/none"}, "no such file or directory"},
		"a folder of no credentials":         {fromgit.Config{URL: "/srv/os.git", Credentials: empty}, "has none of the files username, password"},
		"keys that are none":                 {fromgit.Config{URL: "/srv/os.git", Keys: empty}, "the Secret is empty"},
		"what opening the remote complained": {fromgit.Config{URL: "/srv/os.git"}, "no remote today"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c.config.Open = func(fromgit.Access) (fromgit.Remote, error) {
				return nil, errors.New("no remote today")
			}
			if _, err := fromgit.New(c.config); err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "secret@") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestARepositoryOfThisMachine is named by its folder, which may be relative.
func TestARepositoryOfThisMachine(t *testing.T) {
	from := newRemote(t)
	from.push("Greet", first)
	t.Chdir(filepath.Dir(from.bare))
	for _, name := range []string{from.bare, "os.git", "./work", "file://" + from.bare} {
		m := newMachine(t, from)
		m.config.URL, m.config.Credentials = name, ""
		if err := m.read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := newMachine(t, from)
	m.config.URL, m.config.Credentials = from.bare+"-not-there", ""
	if err := m.read(); err == nil || !strings.Contains(err.Error(), "so no git repository") {
		t.Errorf("got %v", err)
	}
}

// TestRefs: one text for what to follow.
func TestRefs(t *testing.T) {
	hash := func(digit string) string { return strings.Repeat(digit, 40) }
	refs := []source.Ref{
		{Name: "HEAD", Hash: hash("1"), Target: "refs/heads/main"},
		{Name: "refs/heads/both", Hash: hash("2")},
		{Name: "refs/heads/main", Hash: hash("1")},
		{Name: "refs/heads/same", Hash: hash("3")},
		{Name: "refs/pull/7/head", Hash: hash("7")},
		{Name: "refs/tags/both", Hash: hash("4")},
		{Name: "refs/tags/same", Hash: hash("5"), Peeled: hash("3")},
		{Name: "refs/tags/v1.4.0", Hash: hash("6")},
		{Name: "refs/tags/v1.5.0", Hash: hash("8")},
	}
	for text, want := range map[string]string{
		"":                 "main@sha1:" + hash("1"),
		"main":             "main@sha1:" + hash("1"),
		"v1.4.0":           "v1.4.0@sha1:" + hash("6"),
		"semver:~1.4":      "v1.4.0@sha1:" + hash("6"),
		"semver:*":         "v1.5.0@sha1:" + hash("8"),
		"same":             "same@sha1:" + hash("3"),
		"refs/tags/both":   "both@sha1:" + hash("4"),
		"refs/pull/7/head": "refs/pull/7/head@sha1:" + hash("7"),
		hash("9"):          "sha1:" + hash("9"),
		"both":             `"both" is a branch and a tag at different commits: write refs/heads/both or refs/tags/both`,
		"mian":             `no branch or tag "mian"; the repository has: both, main, same, v1.4.0, v1.5.0`,
		"semver:~2":        `no tag matches "~2"; the repository's versions are v1.5.0, v1.4.0`,
		"a b":              `ref "a b" is not the name of a branch or tag: write main, v1.4.2, semver:~1.4, refs/…, or a commit's 40 digits`,
	} {
		ref, err := fromgit.ParseRef(text)
		picked := source.Picked{}
		if err == nil {
			picked, err = fromgit.Pick(ref, refs)
		}
		got := picked.Revision().String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q leads to %s, want %s", text, got, want)
		}
	}
	if ref, err := fromgit.ParseRef("main"); err != nil {
		t.Error(err)
	} else if _, err := fromgit.Pick(ref, nil); err == nil ||
		err.Error() != "the repository is empty: push a commit" {
		t.Errorf("got %v", err)
	}
}

// TestNamesAreChecked: an edited config is found out.
func TestNamesAreChecked(t *testing.T) {
	from := newRemote(t)
	from.push("Greet", first)
	r, _ := newMachine(t, from).open()
	out, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mc := out.Pools["worker"].DeepCopy()
	if err := fromgit.CheckName("worker", mc); err != nil {
		t.Error(err)
	}
	mc.Spec.KernelArguments = append(mc.Spec.KernelArguments, "init=/bin/sh")
	if err := fromgit.CheckName("worker", mc); err == nil || !strings.Contains(err.Error(), "the name of "+mc.Name+
		" does not match its content") {
		t.Errorf("got %v", err)
	}
}
