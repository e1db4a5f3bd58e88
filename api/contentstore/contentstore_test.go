package contentstore_test

import (
	"bytes"
	"math/rand"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func TestChunksReturnTheirBytes(t *testing.T) {
	noise := make([]byte, contentstore.ChunkSize)
	rand.New(rand.NewSource(1)).Read(noise)
	for name, plain := range map[string][]byte{
		"noise": noise, "zeros": make([]byte, contentstore.ChunkSize),
		"one byte": {7},
	} {
		c, err := contentstore.NewChunk(plain)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := contentstore.Plain(c); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if len(c.Spec.Data) > len(plain) || c.Spec.Gzip != (name == "zeros") {
			t.Errorf("%s: %d bytes of data, gzip %v", name, len(c.Spec.Data), c.Spec.Gzip)
		}
	}
}

func TestWrongChunksNameTheObject(t *testing.T) {
	good, err := contentstore.NewChunk(make([]byte, contentstore.ChunkSize))
	if err != nil {
		t.Fatal(err)
	}
	bomb, err := contentstore.NewChunk(make([]byte, 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec v1alpha1.ContentChunkSpec
		want string
	}{
		"other bytes":             {v1alpha1.ContentChunkSpec{Data: []byte("other")}, "does not have the hash"},
		"bytes that are not gzip": {v1alpha1.ContentChunkSpec{Data: []byte("other"), Gzip: true}, "unpacking gzip"},
		"a part of the gzip":      {v1alpha1.ContentChunkSpec{Data: good.Spec.Data[:9], Gzip: true}, "unpacking gzip"},
		"a gzip bomb":             {bomb.Spec, "more than 524288 bytes"},
	} {
		chunk := &v1alpha1.ContentChunk{ObjectMeta: good.ObjectMeta, Spec: c.spec}
		if _, err := contentstore.Plain(chunk); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), good.Name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	hash := "sha512-" + strings.Repeat("0a", 64)
	for name, c := range map[string]struct {
		hash   string
		size   int64
		chunks int
		valid  bool
	}{
		"one byte":                 {hash, 1, 1, true},
		"a whole chunk":            {hash, contentstore.ChunkSize, 1, true},
		"a byte more":              {hash, contentstore.ChunkSize + 1, 2, true},
		"the largest file":         {hash, contentstore.MaxSize, contentstore.MaxSize / contentstore.ChunkSize, true},
		"a size that is too small": {hash, 1, 2, false},
		"a size that is too large": {hash, 1 << 40, 2, false},
		"a negative size":          {hash, -1, 0, false},
		"no chunk":                 {hash, 0, 0, false},
		"a million chunks":         {hash, contentstore.ChunkSize * 1_000_000, 1_000_000, false},
		"a name that is no hash":   {"passwd", 1, 1, false},
	} {
		content := contentstore.NewContent(c.hash, c.size, make([]string, c.chunks))
		if err := contentstore.Check(content); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
