package contents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	ocistore "github.com/google/go-containerregistry/pkg/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller/contents"
	"github.com/bunsen-os/bunsen/source/oci"
)

// store is a real registry behind TLS and a password.
type store struct {
	*httptest.Server
	inner http.Handler
	// fail answers requests that it accepts with a status; 0: none.
	fail func(*http.Request) int
}

func newStore(p *plane) *store {
	s := &store{inner: ocistore.New(ocistore.Logger(log.New(io.Discard, "", 0)))}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := 0
		if s.fail != nil {
			status = s.fail(r)
		}
		user, password, _ := r.BasicAuth()
		switch {
		case status != 0:
			http.Error(w, "geheim", status)
		case user != "robot" || password != "geheim":
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			s.inner.ServeHTTP(w, r)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.Cleanup(s.Close)
	return s
}

// contents returns the files in a repository, with the right password.
func (s *store) contents(p *plane, repository string) *oci.Contents {
	p.Helper()
	out, err := oci.NewContents(strings.TrimPrefix(s.URL, "https://")+"/"+repository,
		func(context.Context, string) (auth.Credential, error) {
			return auth.Credential{Username: "robot", Password: "geheim"}, nil
		}, s.Client().Transport)
	p.must(err)
	return out
}

// get requests a part of a repository.
func (s *store) get(path string) (int, []byte) {
	w := httptest.NewRecorder()
	s.inner.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.Bytes()
}

// read returns the file of an artifact, as a server reads it.
func (s *store) read(p *plane, address string) ([]byte, error) {
	p.Helper()
	name, digest, _ := strings.Cut(strings.TrimPrefix(address, "oci://"+strings.TrimPrefix(s.URL, "https://")+"/"), "@")
	status, manifest := s.get("/v2/" + name + "/manifests/" + digest)
	if status != http.StatusOK {
		return nil, fmt.Errorf("the manifest: %d", status)
	}
	var is struct{ Layers []struct{ Digest string } }
	if err := json.Unmarshal(manifest, &is); err != nil || len(is.Layers) != 1 {
		return nil, fmt.Errorf("the manifest %s: %v", manifest, err)
	}
	status, data := s.get("/v2/" + name + "/blobs/" + is.Layers[0].Digest)
	if status != http.StatusOK {
		return nil, fmt.Errorf("the blob: %d", status)
	}
	return data, nil
}

// writes are the files of a registry for a controller whose writes may fail, before or after the registry did them.
type writes struct {
	*oci.Contents
	write func(name string, do func() error) error
}

// Push implements contents.Registry.
func (w *writes) Push(ctx context.Context, f contentstore.File) (address string, err error) {
	err = w.write("push", func() error { address, err = w.Contents.Push(ctx, f); return err })
	if err == nil {
		err = w.write("pushed", func() error { return nil })
	}
	return address, err
}

// Delete implements contents.Registry.
func (w *writes) Delete(ctx context.Context, address string) error {
	err := w.write("unpush", func() error { return w.Contents.Delete(ctx, address) })
	if err == nil {
		err = w.write("unpushed", func() error { return nil })
	}
	return err
}

var _ contents.Registry = &writes{}

func (p *plane) artifact(f contentstore.File) string {
	p.Helper()
	content := &v1alpha1.Content{}
	p.must(p.api.Get(p.Context(), client.ObjectKey{Name: f.Hash}, content))
	return content.Spec.Artifact
}

func artifacts(p *plane) {
	p.registry = newStore(p)
	data := noise(1, contentstore.ChunkSize+7)
	f := fileOf(data)
	for range 3 {
		p.must(p.store().Write(p.Context(), []contentstore.File{f}))
	}
	p.has(f, data)
	address := p.artifact(f)
	if n, chunks := p.count(); n != 1 || chunks != 0 ||
		!strings.HasPrefix(address, "oci://"+strings.TrimPrefix(p.registry.URL, "https://")+"/bunsen/content@sha256:") {
		p.Errorf("%d Contents, %d chunks, at %s", n, chunks, address)
	}
	_, err := p.store().Collect(p.Context(), nil)
	p.must(err)
	p.has(f, data)
	p.offset = 2 * time.Hour
	_, err = p.store().Collect(p.Context(), map[string]bool{f.Hash: true})
	p.must(err)
	p.has(f, data)
	_, err = p.store().Collect(p.Context(), nil)
	p.must(err)
	if n, _ := p.count(); n != 0 {
		p.Error("the Content stays")
	}
	if _, err := p.registry.read(p, address); err == nil {
		p.Error("the artifact stays")
	}
	p.offset = 0
	p.must(p.store().Write(p.Context(), []contentstore.File{f}))
	if again := p.artifact(f); again != address {
		p.Errorf("the same file has the addresses %s and %s", address, again)
	}
	f.FS = fileOf(noise(2, len(data))).FS
	p.must(p.api.DeleteAllOf(p.Context(), &v1alpha1.Content{}))
	if err := p.store().Write(p.Context(), []contentstore.File{f}); err == nil ||
		!strings.Contains(err.Error(), "has changed") {
		p.Errorf("other bytes: %v", err)
	}
}

// artifactCrashes kills the controller at each write, while it stores and while it deletes a file.
func artifactCrashes(p *plane) {
	data := noise(1, contentstore.ChunkSize+7)
	f := fileOf(data)
	whole := func() {
		if n, _ := p.count(); n == 1 {
			p.has(f, data)
		}
	}
	for at := 1; ; at++ {
		p.empty()
		p.registry = newStore(p)
		p.failAt = at
		err := p.store().Write(p.Context(), []contentstore.File{f})
		whole()
		p.failAt = 0
		p.must(p.store().Write(p.Context(), []contentstore.File{f}))
		p.has(f, data)
		if err == nil {
			break
		}
	}
	for at := 1; ; at++ {
		p.empty()
		p.registry = newStore(p)
		p.must(p.store().Write(p.Context(), []contentstore.File{f}))
		address := p.artifact(f)
		p.offset, p.writes, p.failAt = 2*time.Hour, 0, at
		_, err := p.store().Collect(p.Context(), nil)
		p.failAt = 0
		if at%2 == 0 { // A config needs the file again.
			p.must(p.store().Write(p.Context(), []contentstore.File{f}))
			p.has(f, data)
			p.offset = 4 * time.Hour
		}
		_, second := p.store().Collect(p.Context(), nil)
		p.must(second)
		if n, _ := p.count(); n != 0 {
			p.Errorf("a crash at write %d: the Content stays", at)
		}
		if _, left := p.registry.read(p, address); left == nil {
			p.Errorf("a crash at write %d: the artifact stays", at)
		}
		if err == nil {
			return
		}
	}
}

// registryFaults has a registry that loses an artifact, that is away, that refuses to delete, and that refuses the
// password.
func registryFaults(p *plane) {
	p.registry = newStore(p)
	data := noise(1, 1000)
	f := fileOf(data)
	p.must(p.store().Write(p.Context(), []contentstore.File{f}))
	named := map[string]bool{f.Hash: true}
	incomplete := func(want int) {
		p.Helper()
		if lost, err := p.store().Incomplete(p.Context(), named); err != nil || len(lost) != want {
			p.Errorf("lost: %v, %v; want %d", lost, err, want)
		}
	}
	incomplete(0)
	p.must(p.registry.contents(p, "bunsen/content").Delete(p.Context(), p.artifact(f)))
	incomplete(1)
	p.must(p.store().Write(p.Context(), []contentstore.File{f}))
	p.has(f, data)
	incomplete(0)
	for _, status := range []int{http.StatusInternalServerError, http.StatusUnauthorized, http.StatusForbidden} {
		p.registry.fail = func(*http.Request) int { return status }
		incomplete(0) // It is not known.
		p.must(p.store().Write(p.Context(), []contentstore.File{f}))
		other := fileOf(noise(2, 1000))
		if err := p.store().Write(p.Context(), []contentstore.File{other}); err == nil ||
			strings.Contains(err.Error(), "geheim") {
			p.Errorf("%d: %v", status, err)
		}
		if n, _ := p.count(); n != 1 {
			p.Errorf("%d: %d Contents", status, n)
		}
	}
	// A registry that is broken keeps the Content until it answers.
	p.registry.fail = func(*http.Request) int { return http.StatusBadGateway }
	p.offset = 2 * time.Hour
	if _, err := p.store().Collect(p.Context(), nil); err == nil || strings.Contains(err.Error(), "geheim") {
		p.Errorf("away: %v", err)
	}
	if n, _ := p.count(); n != 1 || len(p.kept) != 0 {
		p.Errorf("away: %d Contents, %v", n, p.kept)
	}
	p.registry.fail = func(r *http.Request) int {
		if r.Method == http.MethodDelete {
			return http.StatusMethodNotAllowed
		}
		return 0
	}
	other := fileOf(noise(2, 1000))
	p.offset = 0
	p.must(p.store().Write(p.Context(), []contentstore.File{other}))
	p.offset = 2 * time.Hour
	_, err := p.store().Collect(p.Context(), nil)
	p.must(err)
	if n, _ := p.count(); n != 0 || len(p.kept) != 1 || !strings.Contains(p.kept[0], "refuses to delete it (405") ||
		strings.Contains(p.kept[0], "geheim") {
		p.Errorf("a registry that keeps: %d Contents, %v", n, p.kept)
	}
}

// places changes the place of new files while the store has files.
func places(p *plane) {
	one, two := noise(1, 1000), noise(2, 1000)
	a, b := fileOf(one), fileOf(two)
	p.must(p.store().Write(p.Context(), []contentstore.File{a}))
	first := newStore(p)
	p.registry = first
	p.must(p.store().Write(p.Context(), []contentstore.File{a, b}))
	if p.artifact(a) != "" || p.artifact(b) == "" {
		p.Error("an earlier file moved, or a new one has chunks")
	}
	// A lost chunk: the file goes to the place of new files.
	p.must(p.api.DeleteAllOf(p.Context(), &v1alpha1.ContentChunk{}))
	p.must(p.store().Write(p.Context(), []contentstore.File{a}))
	if p.artifact(a) == "" {
		p.Error("a file with a lost chunk has no artifact")
	}
	p.has(a, one)
	// Another registry, and none: earlier artifacts stay where they are, and no controller deletes them.
	second := newStore(p)
	for _, to := range []*store{second, nil} {
		p.registry, p.kept, p.offset = to, nil, 0
		p.must(p.store().Write(p.Context(), []contentstore.File{a, b}))
		if lost, err := p.store().Incomplete(p.Context(), map[string]bool{a.Hash: true, b.Hash: true}); err != nil ||
			len(lost) != 0 {
			p.Errorf("lost: %v, %v", lost, err)
		}
	}
	p.registry, p.offset = second, 2*time.Hour
	address := p.artifact(b)
	_, err := p.store().Collect(p.Context(), map[string]bool{a.Hash: true})
	p.must(err)
	if data, err := first.read(p, address); err != nil || !bytes.Equal(data, two) || len(p.kept) != 1 ||
		!strings.Contains(p.kept[0], "is not in oci://") {
		p.Errorf("the artifact in the earlier registry: %d bytes, %v, %v", len(data), err, p.kept)
	}
}
