package contents_test

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestAFileOf100MiB measures a file that no compression makes smaller.
func TestAFileOf100MiB(t *testing.T) {
	p := start(t)
	const size = 100 << 20
	dir := t.TempDir()
	data := noise(1, size)
	f := fileOf(data)
	p.must(os.WriteFile(filepath.Join(dir, "big"), data, 0o600))
	f.FS, data = os.DirFS(dir), nil
	before := p.database()
	p.must(p.store().Write(t.Context(), []contentstore.File{f}))
	written := p.database()
	t.Logf("etcd grew from %d to %d MiB", before>>20, written>>20)
	if grown := written - before; grown > size*3/2 {
		t.Errorf("etcd grew by %d MiB", grown>>20)
	}
	content := &v1alpha1.Content{}
	p.must(p.api.Get(t.Context(), client.ObjectKey{Name: f.Hash}, content))
	largest, whole := 0, sha512.New()
	for _, name := range content.Spec.Chunks {
		chunk := &v1alpha1.ContentChunk{}
		p.must(p.api.Get(t.Context(), client.ObjectKey{Name: name}, chunk))
		text, err := json.Marshal(chunk)
		p.must(err)
		largest = max(largest, len(text))
		plain, err := contentstore.Plain(chunk)
		p.must(err)
		whole.Write(plain)
	}
	text, err := json.Marshal(content)
	p.must(err)
	t.Logf("%d chunks, the largest object has %d bytes, the Content %d", len(content.Spec.Chunks), largest, len(text))
	if max(largest, len(text)) > 1<<20 || "sha512-"+hex.EncodeToString(whole.Sum(nil)) != f.Hash {
		t.Error("an object has more than 1 MiB, or the bytes differ")
	}
	p.offset = 2 * time.Hour
	_, err = p.store().Collect(t.Context(), nil)
	p.must(err)
	p.compact()
	after := p.database()
	t.Logf("after the deletion, a compaction and a defragmentation, etcd has %d MiB", after>>20)
	if after > before+(16<<20) {
		t.Error("the file is still in etcd")
	}
}

// database returns the size of etcd's file.
func (p *plane) database() int64 {
	info, err := os.Stat(filepath.Join(p.dir, "member", "snap", "db"))
	p.must(err)
	return info.Size()
}

// compact removes the old revisions of etcd, and gives their space back.
func (p *plane) compact() {
	post := func(path, body string) []byte {
		r, err := http.Post(p.etcd+path, "application/json", strings.NewReader(body)) //nolint:noctx // a test
		p.must(err)
		defer r.Body.Close()
		answer, err := io.ReadAll(r.Body)
		p.must(err)
		if r.StatusCode != http.StatusOK {
			p.Fatalf("%s: %s", path, answer)
		}
		return answer
	}
	var status struct {
		Header struct{ Revision string }
	}
	p.must(json.Unmarshal(post("/v3/maintenance/status", "{}"), &status))
	post("/v3/kv/compaction", `{"revision":"`+status.Header.Revision+`","physical":true}`)
	post("/v3/maintenance/defragment", "{}")
}
