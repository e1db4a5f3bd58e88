package repository_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/repository"
)

// gitHub is a git host behind TLS that gives tokens to a GitHub App, and repositories to tokens.
type gitHub struct {
	URL     string
	own     pair
	secret  map[string][]byte
	tokens  atomic.Int64 // how many it gave; the last one is valid
	fetches atomic.Int64
	head    string
}

// run runs git in a directory, without the settings of the user who runs the test.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.org")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// newGitHub serves a repository with one file.
func newGitHub(t *testing.T) *gitHub {
	t.Helper()
	root := newRepository(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	git := backend(t, root)
	own := issue(t, soon(), "127.0.0.1")
	s := &gitHub{own: own, head: run(t, filepath.Join(root, "cfg"), "rev-parse", "HEAD")}
	host := s.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v3/app/installations/815/access_tokens" {
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]any{
				"token":      s.token(s.tokens.Add(1)),
				"expires_at": time.Now().Add(time.Hour),
			})
			return
		}
		s.fetches.Add(1)
		user, password, _ := r.BasicAuth()
		if user != "x-access-token" || password != s.token(s.tokens.Load()) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no entry with "+password, http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	}))
	s.URL = "https://" + host
	s.secret = map[string][]byte{
		"githubAppID": []byte("4711"), "githubAppInstallationID": []byte("815"), "hosts": []byte(host),
		"githubAppPrivateKey": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"ca.crt":              []byte(own.certificate),
	}
	return s
}

// serve serves with the certificate of the host.
func (s *gitHub) serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	return serveTLS(t, handler, s.own, "")
}

func (s *gitHub) token(n int64) string { return fmt.Sprintf("ghs_S3CR3T%d", n) }

func (s *gitHub) config() git.Config {
	return git.Config{URL: s.URL + "/cfg", Secret: s.secret, HostsRequired: true}
}

func TestSourcesReadAsAGitHubApp(t *testing.T) {
	s := newGitHub(t)
	c := &repository.Opener{Now: time.Now}
	for range 3 { // three sources, or one that is reconciled three times
		remote, err := c.OpenGit(s.config())
		if err != nil {
			t.Fatal(err)
		}
		listed, err := remote.List(t.Context(), source.Poll{})
		if err != nil {
			t.Fatal(err)
		}
		picked, err := source.Pick(listed.Refs, v1alpha1.GitRef{Branch: "main"})
		if err != nil || picked.Hash != s.head {
			t.Fatalf("picked %v, %v", picked, err)
		}
		into := t.TempDir()
		if _, err := remote.Fetch(t.Context(), picked, source.Destination{Dir: into}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(into, "a")); string(got) != "a\n" || err != nil {
			t.Errorf("the file is %q, %v", got, err)
		}
		if e, err := remote.Evidence(t.Context(),
			source.Picked{Hash: s.head, Applied: s.head}); e.Descent != source.Descends || err != nil {
			t.Errorf("the commit descends from itself: %v, %v", e.Descent, err)
		}
		if remote.URL != s.URL+"/cfg" {
			t.Errorf("the URL is %s", remote.URL)
		}
	}
	if n := s.tokens.Load(); n != 1 {
		t.Errorf("the app requested %d tokens", n)
	}
}

// TestATokenThatTheHostRevoked: the token is refused once, its text appears nowhere, and the next poll gets another
// one.
func TestATokenThatTheHostRevoked(t *testing.T) {
	s := newGitHub(t)
	c := &repository.Opener{Now: time.Now}
	remote, err := c.OpenGit(s.config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.List(t.Context(), source.Poll{}); err != nil {
		t.Fatal(err)
	}
	s.tokens.Add(1) // the first token is not the last one any more
	_, err = remote.List(t.Context(), source.Poll{})
	if why := fault.Of(err, ""); err == nil || why.Reason != v1alpha1.ReasonAuthentication ||
		strings.Contains(err.Error(), "S3CR3T") {
		t.Errorf("a revoked token: %v", err)
	}
	if _, err := remote.List(t.Context(), source.Poll{}); err != nil {
		t.Errorf("the next poll: %v", err)
	}
}

// TestNoTokenForAHostThatTheSecretDoesNotName: the check comes before the request for a token.
func TestNoTokenForAHostThatTheSecretDoesNotName(t *testing.T) {
	s := newGitHub(t)
	c := &repository.Opener{Now: time.Now}
	for name, change := range map[string]func(*git.Config){
		"another host":   func(c *git.Config) { c.Secret["hosts"] = []byte("git.example.org") },
		"no list":        func(c *git.Config) { delete(c.Secret, "hosts") },
		"an unknown key": func(c *git.Config) { c.Secret["githubAppInstallationOwner"] = []byte("S3CR3T") },
		"a bad key":      func(c *git.Config) { c.Secret["githubAppPrivateKey"] = []byte("S3CR3T") },
		"a bad CA":       func(c *git.Config) { c.Secret["ca.crt"] = []byte("S3CR3T") },
	} {
		config := s.config()
		config.Secret = map[string][]byte{}
		for k, v := range s.secret {
			config.Secret[k] = v
		}
		change(&config)
		_, err := c.OpenGit(config)
		if why := fault.Of(err, ""); err == nil || why.Kind != fault.Stalled ||
			why.Reason != v1alpha1.ReasonAuthentication || strings.Contains(err.Error(), "S3CR3T") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.tokens.Load() != 0 || s.fetches.Load() != 0 {
		t.Errorf("the host got %d requests for tokens and %d others", s.tokens.Load(), s.fetches.Load())
	}
}

// TestASecretThatNamesNoHostsIsNotUsed: whoever edits a GitSource chooses the URL to which the Secret's credentials go.
func TestASecretThatNamesNoHostsIsNotUsed(t *testing.T) {
	o := &repository.Opener{Now: time.Now}
	login := map[string][]byte{"username": []byte("me"), "password": []byte("pass-word")}
	spec := v1alpha1.GitSourceSpec{URL: "https://git.example.com/os"}
	_, err := o.Open(spec, source.Secrets{Credentials: login})
	if err == nil || !strings.Contains(err.Error(), `add the line "hosts: git.example.com"`) {
		t.Errorf("got the error %v", err)
	}
	login["hosts"] = []byte("git.example.com")
	if _, err := o.Open(spec, source.Secrets{Credentials: login}); err != nil {
		t.Errorf("a Secret that names its host is refused: %v", err)
	}
}

// TestWhichFieldsARepositoryHas: a digest is of an artifact, a branch is of a git repository, and each has keys of its
// kind.
func TestWhichFieldsARepositoryHas(t *testing.T) {
	o := &repository.Opener{Now: time.Now}
	const registry, digest = "oci://registry.example.com/team/os",
		"sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for name, test := range map[string]struct {
		spec  v1alpha1.GitSourceSpec
		words string
	}{
		"an artifact":                     {v1alpha1.GitSourceSpec{URL: registry, Ref: v1alpha1.GitRef{Digest: digest}}, ""},
		"a digest of a git repository":    {v1alpha1.GitSourceSpec{URL: "https://git.example.com/os", Ref: v1alpha1.GitRef{Digest: digest}}, "spec.ref.digest is for oci:// only"},
		"a branch of an artifact":         {v1alpha1.GitSourceSpec{URL: registry, Ref: v1alpha1.GitRef{Branch: "main"}}, "set ref.tag, ref.semver or ref.digest"},
		"submodules in an artifact":       {v1alpha1.GitSourceSpec{URL: registry, Include: []v1alpha1.SourceContent{v1alpha1.ContentSubmodules}}, "spec.include is for git repositories only"},
		"a name in capitals":              {v1alpha1.GitSourceSpec{URL: "oci://registry.example.com/Team"}, "in lower case"},
		"a tag in the URL":                {v1alpha1.GitSourceSpec{URL: registry + ":v1"}, "a tag or digest into ref"},
		"an artifact that must be signed": {v1alpha1.GitSourceSpec{URL: registry, Verify: &v1alpha1.Verification{}}, "the Secret has no key: add cosign.pub"},
	} {
		_, err := o.Open(test.spec, source.Secrets{})
		if test.words == "" && err != nil || test.words != "" &&
			(err == nil || !strings.Contains(err.Error(), test.words)) {
			t.Errorf("%s: got %v, want %q", name, err, test.words)
		}
	}
}
