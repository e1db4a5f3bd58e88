package repository_test

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

// newRegistry is a registry behind TLS, and a function that pushes a file with a tag and returns the digest.
func newRegistry(t *testing.T) (host, ca string, push func(tag, file string) string) {
	t.Helper()
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewTLSServer(store)
	t.Cleanup(server.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	put := func(method, path, body string) {
		a := httptest.NewRecorder()
		store.ServeHTTP(a, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		if a.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, a.Code, a.Body)
		}
	}
	return strings.TrimPrefix(server.URL, "https://"), ca, func(tag, file string) string {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(file)))
		put(http.MethodPost, "/v2/x/blobs/uploads/?digest="+digest, file)
		manifest := fmt.Sprintf(`{"schemaVersion": 2, "layers": [{"digest": %q, "size": %d}]}`, digest, len(file))
		put(http.MethodPut, "/v2/x/manifests/"+tag, manifest)
		return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(manifest)))
	}
}

// For a tag, the command writes the digest that the tag names, and the hash of the file. If the tag moves, both change.
func TestHashOfAFileInARegistry(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	host, ca, push := newRegistry(t)
	first := push("v1", "first")
	path := butane(t, "source: 'oci://"+host+"/x:v1'")
	run := func(o repository.HashOptions) []repository.HashResult {
		t.Helper()
		o.CAFile = ca
		all, err := o.Run(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	has := func(digest, file string) {
		t.Helper()
		text, err := os.ReadFile(path)
		want := "source: 'oci://" + host + "/x:v1@" + digest + "'"
		if err != nil || !strings.Contains(string(text), want) ||
			!strings.Contains(string(text), fmt.Sprintf("sha512-%x", sha512.Sum512([]byte(file)))) {
			t.Errorf("%v\n%s\nwant %s and %s", err, text, want, fmt.Sprintf("sha512-%x", sha512.Sum512([]byte(file))))
		}
	}
	if all := run(repository.HashOptions{Missing: true}); len(all) != 1 || !all[0].Changed {
		t.Errorf("the results are %+v", all)
	}
	has(first, "first")
	if all := run(repository.HashOptions{Check: true}); all[0].Changed {
		t.Errorf("the results are %+v", all)
	}
	second := push("v1", "second")
	if all := run(repository.HashOptions{Check: true}); !all[0].Changed {
		t.Errorf("after a move of the tag, the results are %+v", all)
	}
	has(first, "first")
	run(repository.HashOptions{})
	has(second, "second")
}

// TestDigestOfAnImage: the tag stays, and what it names now is written. A check finds a tag that moved and an image
// without a digest.
func TestDigestOfAnImage(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	host, ca, push := newRegistry(t)
	first := push("v1", "first")
	path := filepath.Join(t.TempDir(), "50-os.yaml")
	const form = "kind: MachineConfig\nspec:\n  osImageURL: %s # kept\n"
	name := host + "/x:v1"
	if err := os.WriteFile(path, fmt.Appendf(nil, form, name), 0o600); err != nil {
		t.Fatal(err)
	}
	has := func(digest string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if want := fmt.Sprintf(form, name+digest); err != nil || string(text) != want {
			t.Errorf("%v\n%s\nwant\n%s", err, text, want)
		}
	}
	trusted := true
	// run runs the command, and returns what it prints, in which NAME stands for the image.
	run := func(code int, args ...string) string {
		t.Helper()
		cmd := repository.HashCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true // as the root of all verbs says
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(args)
		if trusted {
			cmd.SetArgs(append(args, "--ca-file", ca))
		}
		err := cmd.ExecuteContext(t.Context())
		var exit *cli.ExitError
		if errors.As(err, &exit) && exit.Code != code || (err == nil) != (code == 0) {
			t.Errorf("%v: %v, want exit code %d", args, err, code)
		}
		if names := err != nil && strings.Contains(err.Error(), "--ca-file"); names == trusted {
			t.Errorf("%v: trusted %t, and the error is %v", args, trusted, err)
		}
		return strings.NewReplacer(name, "NAME", path, "FILE").Replace(out.String())
	}
	prints := func(want, got string) {
		t.Helper()
		if got != want {
			t.Errorf("it prints\n%s\nwant\n%s", got, want)
		}
	}
	trusted = false
	prints("", run(3, "--check", path))
	trusted = true
	prints("FILE:3: NAME "+first+": missing\n", run(1, "--check", path))
	has("")
	prints("FILE:3: NAME "+first+": written\n", run(0, "--missing", path))
	has("@" + first)
	prints("FILE:3: NAME "+first+": unchanged\n", run(0, "--check", path))
	second := push("v1", "second")
	prints("FILE:3: NAME "+second+": the tag has moved from "+first+"\n", run(1, "--check", path))
	prints(`[
  {
    "file": "FILE",
    "line": 3,
    "kind": "image",
    "address": "NAME",
    "hash": "`+second+`",
    "before": "`+first+`",
    "bytes": 0,
    "changed": true
  }
]
`, run(1, "--check", path, "-o", "json"))
	has("@" + first)
	prints("nothing to hash: no contents.source with an address, and no image\n", run(0, "--missing", path))
	prints("FILE:3: NAME "+second+": updated\n", run(0, path))
	has("@" + second)
	prints("NAME@"+second+"\n", run(0, "--image", name))
	// Without a tag, the digest stays; the registry must have it. Without both, the tag is latest.
	prints(host+"/x@"+first+"\n", run(0, "--image", host+"/x@"+first))
	run(3, "--image", host+"/x@sha256:"+strings.Repeat("0", 64))
	run(3, "--image", host+"/x")
	push("latest", "first")
	prints(host+"/x:latest@"+first+"\n", run(0, "--image", host+"/x"))
	run(2, "--image", "containers-storage:localhost/os")
	run(2, "--image", host+"/x@sha256:0123")
}

// TestDigestOfAnIndex: for an image for several platforms, it is the digest of its index.
func TestDigestOfAnIndex(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	for _, media := range []string{
		"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
	} {
		index := `{"schemaVersion": 2, "mediaType": "` + media + `", "manifests": [{}, {}]}`
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.Header.Get("Accept"), media) {
				io.WriteString(w, "the manifest of one platform")
				return
			}
			w.Header().Set("Content-Type", media)
			io.WriteString(w, index)
		}))
		defer server.Close()
		ca := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Bytes: server.Certificate().Raw,
		}), 0o600); err != nil {
			t.Fatal(err)
		}
		image := strings.TrimPrefix(server.URL, "https://") + "/os:41"
		all, err := repository.HashOptions{CAFile: ca, Images: []string{image}}.Run(t.Context(), nil)
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(index))); err != nil || len(all) != 1 ||
			all[0].Hash != want || all[0].Address != image {
			t.Errorf("%s: %+v, %v, want %s", media, all, err, want)
		}
	}
}
