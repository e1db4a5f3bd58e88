package repository_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/repository"
	sourcetokens "github.com/bunsen-os/bunsen/source/tokens"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// marker is a part of every secret of these tests. No error may contain it.
const marker = "S3CR3T"

// data is the data of a Secret.
type data = map[string]string

// way is one way into a repository.
type way struct {
	name          string // a sentence without its verb
	url           string
	secret, proxy data
	ref           v1alpha1.GitRef
	// provider is whose identity is used, and env the environment of the process.
	provider v1alpha1.SourceProvider
	env      data
	// authorities of token services, in PEM.
	authorities string
}

// chapter is a group of ways, and the names of their servers in the golden file.
type chapter struct {
	title string
	names data // addresses and other values that differ in each run
	ways  []way
	check func(t *testing.T) // after the ways
}

// TestWays: each way into a repository, right and wrong, with a real server. The golden file has the outcome of each; a
// person can read it as a page. A source that fails has the same text each time, and no secret in it.
func TestWays(t *testing.T) {
	root := newRepository(t)
	var page strings.Builder
	page.WriteString("Ways into a repository: the outcome of each, as a GitSource's status has it.\n")
	for _, c := range []chapter{
		httpsWays(t, root), certificateWays(t, root), redirectWays(t, root), sshWays(t, root),
		hostKeyWays(t, root), proxyWays(t, root), appWays(t), registryWays(t), cloudWays(t, root),
	} {
		fmt.Fprintf(&page, "\n# %s\n", c.title)
		for _, w := range c.ways {
			t.Run(c.title+"/"+w.name, func(t *testing.T) {
				fmt.Fprintf(&page, "\n%s\n  %s\n", w.name, c.mask(w.outcome(t)))
			})
		}
		if c.check != nil {
			c.check(t)
		}
	}
	golden := filepath.Join("testdata", "ways.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), page.String()); diff != "" {
		t.Errorf("run go test . -update and read the difference: -want +got\n%s", diff)
	}
}

// outcome reads the repository as the controller does.
func (w way) outcome(t *testing.T) string {
	t.Helper()
	err := w.read(t)
	if err == nil {
		return "reads the commit"
	}
	if again := w.read(t); again == nil || again.Error() != err.Error() {
		t.Errorf("the same failure has another text:\n%v\n%v", err, again)
	}
	if strings.Contains(err.Error(), marker) {
		t.Errorf("the error contains a secret: %v", err)
	}
	f := fault.Of(err, "")
	return fmt.Sprintf("%s %s\n  %s", f.Kind, f.Reason, err)
}

// read opens the repository, and reads the file of its commit.
func (w way) read(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	remote, err := w.open()
	if err != nil {
		return err
	}
	listed, err := remote.List(ctx, source.Poll{Now: time.Now()})
	if err != nil {
		return err
	}
	picked, err := source.Pick(listed.Refs, w.ref)
	if err != nil {
		return err
	}
	into := t.TempDir()
	if _, err := remote.Fetch(ctx, picked, source.Destination{Dir: into}); err != nil {
		return err
	}
	if got, err := os.ReadFile(filepath.Join(into, "a")); string(got) != "a\n" || err != nil {
		t.Errorf("the file is %q, %v", got, err)
	}
	return nil
}

// open opens the repository as the controller does.
func (w way) open() (repository.Repository, error) {
	tokens := &sourcetokens.CloudTokens{Getenv: func(name string) string { return w.env[name] }}
	if w.authorities != "" {
		tokens.Authorities = []byte(w.authorities)
	}
	o := &repository.Opener{Now: time.Now, Cloud: tokens}
	if at, err := source.ParseURL(w.url); err == nil && at.Password != "" { // A GitSource cannot have one.
		r, err := o.OpenGit(git.Config{URL: w.url, Secret: bytesOf(w.secret), HostsRequired: true})
		r.Ref = &w.ref
		return r, err
	}
	return o.Open(v1alpha1.GitSourceSpec{URL: w.url, Ref: w.ref, Provider: w.provider},
		source.Secrets{Credentials: bytesOf(w.secret), Proxy: bytesOf(w.proxy)})
}

// bytesOf returns a Secret as the API server has it; nil for nil.
func bytesOf(secret data) map[string][]byte {
	if secret == nil {
		return nil
	}
	out := map[string][]byte{}
	for k, v := range secret {
		out[k] = []byte(v)
	}
	return out
}

// with returns a Secret with other values; an empty value removes its key.
func (s chapterSecret) with(changes ...string) data {
	out := data{}
	for k, v := range s {
		out[k] = v
	}
	for i := 0; i+1 < len(changes); i += 2 {
		out[changes[i]] = changes[i+1]
		if changes[i+1] == "" {
			delete(out, changes[i])
		}
	}
	return out
}

// chapterSecret is the Secret with which the first way of a chapter reads the commit.
type chapterSecret data

var fingerprint = regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`)

// mask replaces what differs in each run by its name.
func (c chapter) mask(text string) string {
	for value, name := range c.names {
		text = strings.ReplaceAll(text, value, name)
	}
	return fingerprint.ReplaceAllString(text, "SHA256:FINGERPRINT")
}

// newRepository makes a directory with the repository cfg, which has one file.
func newRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	work := filepath.Join(root, "cfg")
	run(t, root, "init", "-q", "-b", "main", work)
	if err := os.WriteFile(filepath.Join(work, "a"), []byte("a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, work, "add", "-A")
	run(t, work, "commit", "-q", "-m", "one")
	run(t, root, "clone", "-q", "--bare", work, filepath.Join(root, "a b", "it's.git"))
	return root
}
