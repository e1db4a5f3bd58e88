package contents_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller/contents"
)

// plane is a real API server with the CRDs, and a clock.
type plane struct {
	*testing.T
	etcd   string
	dir    string
	api    client.WithWatch
	offset time.Duration
	writes int
	// failAt is the number of the write that fails, and all after it; 0: none.
	failAt int
	// before is called once, before a write that the text is in.
	before map[string]func()
	// registry is the registry of new files; nil for chunks.
	registry *store
	kept     []string
}

var errCrash = errors.New("the controller is dead")

func start(t *testing.T) *plane {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("KUBEBUILDER_ASSETS names no control plane: make test sets it")
		}
		t.Skip("KUBEBUILDER_ASSETS names no control plane: run make test")
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "..", "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	p := &plane{
		T: t, etcd: env.ControlPlane.Etcd.URL.String(), dir: env.ControlPlane.Etcd.DataDir,
		before: map[string]func(){},
	}
	if p.api, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return p
}

// store returns the store of a controller whose writes may fail.
func (p *plane) store() *contents.Store {
	write := func(name string, do func() error) error {
		for part, act := range p.before {
			if strings.Contains(name, part) {
				delete(p.before, part)
				act()
			}
		}
		if p.writes++; p.failAt > 0 && p.writes >= p.failAt {
			return errCrash
		}
		return do()
	}
	c := interceptor.NewClient(p.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(fmt.Sprintf("create %T", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption,
		) error {
			return write(fmt.Sprintf("patch %T", o), func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write(fmt.Sprintf("delete %T", o), func() error { return c.Delete(ctx, o, opts...) })
		},
	})
	out := &contents.Store{Client: c, Live: p.api, Now: func() time.Time { return time.Now().Add(p.offset) }}
	if p.registry != nil {
		out.Registry = &writes{p.registry.contents(p, "bunsen/content"), write}
		out.ReportKept = func(o client.Object, err error) { p.kept = append(p.kept, o.GetName()+" "+err.Error()) }
	}
	return out
}

func fileOf(data []byte) contentstore.File {
	sum := sha512.Sum512(data)
	return contentstore.File{
		Path: "/opt/big", Hash: "sha512-" + hex.EncodeToString(sum[:]), Size: int64(len(data)),
		Name: "big", FS: fstest.MapFS{"big": {Data: data}},
	}
}

func noise(seed int64, n int) []byte {
	data := make([]byte, n)
	rand.New(rand.NewSource(seed)).Read(data)
	return data
}

// read returns a file as a server reads it, or an error.
func (p *plane) read(hash string) ([]byte, error) {
	content := &v1alpha1.Content{}
	if err := p.api.Get(p.Context(), client.ObjectKey{Name: hash}, content); err != nil {
		return nil, err
	}
	if err := contentstore.Check(content); err != nil {
		return nil, err
	}
	if content.Spec.Artifact != "" {
		return p.registry.read(p, content.Spec.Artifact)
	}
	var out []byte
	for _, name := range content.Spec.Chunks {
		chunk := &v1alpha1.ContentChunk{}
		if err := p.api.Get(p.Context(), client.ObjectKey{Name: name}, chunk); err != nil {
			return nil, err
		}
		plain, err := contentstore.Plain(chunk)
		if err != nil {
			return nil, err
		}
		out = append(out, plain...)
	}
	return out, nil
}

func (p *plane) has(f contentstore.File, data []byte) {
	p.Helper()
	if got, err := p.read(f.Hash); err != nil || !bytes.Equal(got, data) {
		p.Errorf("the content store has %d of %d bytes: %v", len(got), len(data), err)
	}
}

func (p *plane) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *plane) count() (contents, chunks int) {
	var c v1alpha1.ContentList
	var k v1alpha1.ContentChunkList
	p.must(p.api.List(p.Context(), &c))
	p.must(p.api.List(p.Context(), &k))
	return len(c.Items), len(k.Items)
}

func (p *plane) empty() {
	p.Helper()
	p.must(p.api.DeleteAllOf(p.Context(), &v1alpha1.Content{}))
	p.must(p.api.DeleteAllOf(p.Context(), &v1alpha1.ContentChunk{}))
	p.offset, p.failAt, p.writes = 0, 0, 0
	p.registry, p.kept = nil, nil
}

// TestContentStore runs on one API server, because its start takes seconds.
func TestContentStore(t *testing.T) {
	p := start(t)
	for name, test := range map[string]func(*plane){
		"a crash at any write leaves no Content without its chunks":  crashes,
		"unused files go after an hour":                              garbage,
		"a deletion does not remove what a writer needs":             races,
		"a wrong chunk and a lost chunk are written again":           wrongChunks,
		"a file that changes is not stored":                          changedFile,
		"the API server refuses lies":                                lies,
		"a registry in place of chunks":                              artifacts,
		"a crash at any write leaves no Content without an artifact": artifactCrashes,
		"a registry that loses, keeps or refuses":                    registryFaults,
		"a registry that comes and goes":                             places,
	} {
		t.Run(name, func(t *testing.T) {
			p.T = t
			p.empty()
			test(p)
		})
	}
	p.T = t
}

func crashes(p *plane) {
	data := noise(1, contentstore.ChunkSize+7)
	f := fileOf(data)
	for at := 1; ; at++ {
		p.empty()
		p.failAt = at
		err := p.store().Write(p.Context(), []contentstore.File{f})
		if n, _ := p.count(); n == 1 {
			p.has(f, data)
		}
		if err == nil {
			if at != 4 {
				p.Errorf("%d writes, and not 2 chunks and a Content", at-1)
			}
			return
		}
		p.failAt = 0
		p.must(p.store().Write(p.Context(), []contentstore.File{f}))
		p.has(f, data)
	}
}

func garbage(p *plane) {
	one, other := noise(1, contentstore.ChunkSize+7), noise(2, 9)
	a, b := fileOf(one), fileOf(append(one[:contentstore.ChunkSize:contentstore.ChunkSize], other...))
	p.must(p.store().Write(p.Context(), []contentstore.File{a, b}))
	if n, chunks := p.count(); n != 2 || chunks != 3 {
		p.Errorf("%d Contents with %d chunks, although they share one", n, chunks)
	}
	collect := func(after time.Duration, wantContents, wantChunks int, named ...string) {
		p.Helper()
		p.offset = after
		set := map[string]bool{}
		for _, hash := range named {
			set[hash] = true
		}
		_, err := p.store().Collect(p.Context(), set)
		p.must(err)
		if n, chunks := p.count(); n != wantContents || chunks != wantChunks {
			p.Errorf("after %s, there are %d Contents and %d chunks", after, n, chunks)
		}
	}
	collect(50*time.Minute, 2, 3)
	p.must(p.store().Write(p.Context(), []contentstore.File{b})) // renews it
	collect(70*time.Minute, 1, 2)
	p.has(b, append(one[:contentstore.ChunkSize:contentstore.ChunkSize], other...))
	collect(3*time.Hour, 1, 2, b.Hash)
	collect(3*time.Hour, 0, 0)
}

func races(p *plane) {
	one := noise(1, contentstore.ChunkSize+7)
	a := fileOf(one)
	shared := append(one[:contentstore.ChunkSize:contentstore.ChunkSize], noise(2, 9)...)
	b := fileOf(shared)
	p.must(p.store().Write(p.Context(), []contentstore.File{a}))
	p.offset = 2 * time.Hour
	p.before["delete *v1alpha1.Content"] = func() { p.must(p.store().Write(p.Context(), []contentstore.File{a})) }
	_, err := p.store().Collect(p.Context(), nil)
	p.must(err)
	p.has(a, one)
	// A chunk of a deleted file becomes one of a new file between the listing and the deletion.
	p.must(p.api.Delete(p.Context(), &v1alpha1.Content{ObjectMeta: metav1.ObjectMeta{Name: a.Hash}}))
	p.before["delete *v1alpha1.ContentChunk"] = func() { p.must(p.store().Write(p.Context(), []contentstore.File{b})) }
	_, err = p.store().Collect(p.Context(), nil)
	p.must(err)
	p.has(b, shared)
	// A deletion between the read of a writer and its renewal: the writer writes the file again.
	p.offset = 4 * time.Hour
	p.before["patch *v1alpha1.Content"] = func() {
		p.must(p.api.Delete(p.Context(), &v1alpha1.Content{ObjectMeta: metav1.ObjectMeta{Name: b.Hash}}))
	}
	p.must(p.store().Write(p.Context(), []contentstore.File{b}))
	p.has(b, shared)
	if missing, err := p.store().Require(p.Context(), []string{a.Hash, b.Hash}); err != nil || len(missing) != 1 ||
		missing[0] != a.Hash {
		p.Errorf("missing: %v, %v", missing, err)
	}
}

func wrongChunks(p *plane) {
	data := noise(1, contentstore.ChunkSize+7)
	f := fileOf(data)
	p.must(p.api.Create(p.Context(),
		&v1alpha1.ContentChunk{
			ObjectMeta: metav1.ObjectMeta{Name: contentstore.ChunkName(data[:contentstore.ChunkSize])},
			Spec:       v1alpha1.ContentChunkSpec{Data: []byte("evil")},
		}))
	p.must(p.store().Write(p.Context(), []contentstore.File{f}))
	p.has(f, data)
	p.must(p.api.Delete(p.Context(),
		&v1alpha1.ContentChunk{
			ObjectMeta: metav1.ObjectMeta{Name: contentstore.ChunkName(data[contentstore.ChunkSize:])},
		}))
	p.must(p.store().Write(p.Context(), []contentstore.File{f}))
	p.has(f, data)
	p.empty()
	p.must(p.api.Create(p.Context(), contentstore.NewContent(f.Hash, 1, []string{contentstore.ChunkName(nil)})))
	p.must(p.store().Write(p.Context(), []contentstore.File{f}))
	p.has(f, data)
}

func changedFile(p *plane) {
	f := fileOf(noise(1, 100))
	f.FS = fstest.MapFS{"big": {Data: noise(2, 100)}}
	if err := p.store().Write(p.Context(), []contentstore.File{f}); err == nil ||
		!strings.Contains(err.Error(), "has changed") {
		p.Error(err)
	}
	if n, _ := p.count(); n != 0 {
		p.Error("it is stored")
	}
}

func lies(p *plane) {
	hash, chunk := fileOf(nil).Hash, contentstore.ChunkName(nil)
	many := make([]string, 513)
	for i := range many {
		many[i] = chunk
	}
	for why, o := range map[string]client.Object{
		"a name that is no hash":       contentstore.NewContent("passwd", 1, []string{chunk}),
		"a short hash":                 contentstore.NewContent(hash[:40], 1, []string{chunk}),
		"a size that is too large":     contentstore.NewContent(hash, 1<<40, []string{chunk}),
		"a size that is too small":     contentstore.NewContent(hash, 1, []string{chunk, chunk}),
		"no chunk":                     contentstore.NewContent(hash, 1, []string{}),
		"too many chunks":              contentstore.NewContent(hash, 513*contentstore.ChunkSize, many),
		"a chunk that is no hash":      contentstore.NewContent(hash, 1, []string{"../secrets"}),
		"an artifact without a digest": contentstore.NewArtifactContent(hash, 1, "oci://registry.example.com/content:v1"),
		"an artifact with a password":  contentstore.NewArtifactContent(hash, 1, "oci://user:password@registry.example.com/content@"+strings.Replace(chunk, "-", ":", 1)),
		"an artifact and chunks": &v1alpha1.Content{
			ObjectMeta: metav1.ObjectMeta{Name: hash},
			Spec: v1alpha1.ContentSpec{
				Size: 1, Chunks: []string{chunk}, Artifact: "oci://registry.example.com/content@" +
					strings.Replace(chunk,
						"-", ":", 1),
			},
		},
		"a chunk whose name is no hash":  &v1alpha1.ContentChunk{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1alpha1.ContentChunkSpec{Data: []byte("x")}},
		"a chunk with more than 512 KiB": &v1alpha1.ContentChunk{ObjectMeta: metav1.ObjectMeta{Name: chunk}, Spec: v1alpha1.ContentChunkSpec{Data: make([]byte, contentstore.ChunkSize+3)}},
	} {
		if err := p.api.Create(p.Context(), o); err == nil {
			p.Errorf("%s is accepted", why)
		}
	}
	content := contentstore.NewContent(hash, 1, []string{chunk})
	p.must(p.api.Create(p.Context(), content))
	content.Spec.Size = 2
	if err := p.api.Update(p.Context(), content); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		p.Errorf("a change: %v", err)
	}
	c := &v1alpha1.ContentChunk{
		ObjectMeta: metav1.ObjectMeta{Name: chunk},
		Spec:       v1alpha1.ContentChunkSpec{Data: []byte("a")},
	}
	p.must(p.api.Create(p.Context(), c))
	c.Spec.Data = []byte("b")
	if err := p.api.Update(p.Context(), c); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		p.Errorf("a change: %v", err)
	}
}
