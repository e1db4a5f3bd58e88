package objects

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bunsen-os/bunsen/api/fault"
)

// TestADeltaCannotGrowWithoutBound: a delta of a few bytes may copy one piece of its base over and over. What it
// declares as its result is what counts.
func TestADeltaCannotGrowWithoutBound(t *testing.T) {
	base := []byte(strings.Repeat("0123456789abcdef", 64))
	const limit = 4096 // so 32 KiB unpacked
	for name, test := range map[string]struct {
		copies  int
		refused bool
	}{
		"a delta within the limit is unpacked":      {copies: 20},
		"a delta beyond the limit is not unpacked":  {copies: 40, refused: true},
		"one far beyond costs no more to recognise": {copies: 300_000, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			var delta []byte
			delta = binary.AppendUvarint(delta, uint64(len(base)))
			delta = binary.AppendUvarint(delta, uint64(len(base)*test.copies))
			for range min(test.copies, 100) {
				delta = append(delta, 0x80|0x10|0x20, byte(len(base)&0xff), byte(len(base)>>8)) // copy all of the base
			}
			hash := plumbing.ComputeHash(plumbing.BlobObject, base)
			store, err := unpack(t, pack(base, hash, delta), limit)
			if !test.refused {
				want := plumbing.ComputeHash(plumbing.BlobObject, bytes.Repeat(base, test.copies))
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				if data, err := content(store, want); err != nil || len(data) != len(base)*test.copies {
					t.Errorf("got %d bytes, %v", len(data), err)
				}
				return
			}
			var f *fault.Error
			if !errors.As(err, &f) || !strings.Contains(err.Error(), "unpacks to more than 32768 bytes") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAPackStaysOnDisk: what a pack unpacks to costs no memory, unless it is asked for.
func TestAPackStaysOnDisk(t *testing.T) {
	const files, size = 40, 8 << 20
	var objects []packedObject
	for i := range files {
		zeros := make([]byte, size)
		zeros[0] = byte(i)
		objects = append(objects, packedObject{kind: 3, content: zeros})
	}
	data := packOf(objects...)
	last := plumbing.ComputeHash(plumbing.BlobObject, objects[files-1].content)
	objects = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	store, err := unpack(t, data, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if n, err := store.EncodedObjectSize(last); err != nil || n != size {
		t.Errorf("the last object has %d bytes, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 2*size {
		t.Errorf("%d MiB were allocated for %d files of %d MiB", got>>20, files, size>>20)
	}
	if got, err := content(store, last); err != nil || len(got) != size {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestALargeObjectIsNoBase: a delta needs its base in memory. A file of that size would be refused anyway, so the pack
// is read without the delta.
func TestALargeObjectIsNoBase(t *testing.T) {
	base := make([]byte, maxInMemory+1)
	hash := plumbing.ComputeHash(plumbing.BlobObject, base)
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(base))), 4)
	delta = append(delta, 0x90, 4)
	small := packedObject{kind: 3, content: []byte("small")}
	for order, data := range map[string][]byte{
		"the base first":  packOf(packedObject{kind: 3, content: base}, packedObject{7, delta, hash[:]}, small),
		"the delta first": packOf(packedObject{7, delta, hash[:]}, packedObject{kind: 3, content: base}, small),
	} {
		store, err := unpack(t, data, 64<<20)
		if err != nil {
			t.Fatalf("%s: %v", order, err)
		}
		defer store.Close()
		if store.HasEncodedObject(plumbing.ComputeHash(plumbing.BlobObject, small.content)) != nil ||
			store.HasEncodedObject(hash) != nil {
			t.Errorf("%s: the other objects are missing", order)
		}
		if store.HasEncodedObject(plumbing.ComputeHash(plumbing.BlobObject, base[:4])) == nil {
			t.Errorf("%s: the delta was resolved", order)
		}
	}
}

// TestAThinPackIsCompleted: a server sends deltas of what the folder has. The new pack has all that it needs by itself.
func TestAThinPackIsCompleted(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	base := []byte(strings.Repeat("0123456789abcdef", 64))
	hash := plumbing.ComputeHash(plumbing.BlobObject, base)
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(base))), 4)
	delta = append(delta, 0x90, 4)
	thin := packOf(packedObject{7, delta, hash[:]})
	limits := Limits{Bytes: 1 << 20, Unpacked: 1 << 23, Objects: 10}
	if _, err := f.Add(t.Context(), bytes.NewReader(thin), limits); !errors.Is(err, ErrMissingBase) {
		t.Fatalf("without the base: %v", err)
	}
	for _, pack := range [][]byte{packOf(packedObject{kind: 3, content: base}), thin} {
		if _, err := f.Add(t.Context(), bytes.NewReader(pack), limits); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	entries, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	if err != nil || len(entries) != 4 {
		t.Fatalf("two packs and their indexes: %v, %v", entries, err)
	}
	for _, e := range entries { // git itself reads each pack without the others
		if strings.HasSuffix(e.Name(), ".pack") {
			if out, err := exec.Command("git", "verify-pack", "-v", filepath.Join(dir, "objects", "pack", e.Name())).
				CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", e.Name(), err, out)
			}
		}
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if data, err := content(again, plumbing.ComputeHash(plumbing.BlobObject, base[:4])); err != nil ||
		string(data) != "0123" {
		t.Errorf("got %q, %v", data, err)
	}
}

// TestAnInterruptedAddLeavesNothing: a pack counts when its index is there.
func TestAnInterruptedAddLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	whole := packOf(packedObject{kind: 3, content: []byte("content")})
	for n := range len(whole) {
		if _, err := f.Add(t.Context(), bytes.NewReader(whole[:n]), Limits{
			Bytes: 1 << 20, Unpacked: 1 << 23,
			Objects: 10,
		}); err == nil {
			t.Errorf("%d of %d bytes were taken as a pack", n, len(whole))
		}
	}
	f.Close()
	for _, name := range []string{"receiving-1", "receiving-1.index", "pack-00.pack"} {
		if err := os.WriteFile(filepath.Join(dir, "objects", "pack", name), whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if f, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if entries, err := os.ReadDir(filepath.Join(dir, "objects", "pack")); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// unpack adds a pack to a folder of its own.
func unpack(t *testing.T, data []byte, limit int64) (*Folder, error) {
	t.Helper()
	f, err := Temp()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Add(t.Context(), bytes.NewReader(data), Limits{
		Bytes: limit, Unpacked: limit * 8,
		Objects: 500_000,
	}); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// content returns a blob of a folder.
func content(f *Folder, hash plumbing.Hash) ([]byte, error) {
	o, err := f.EncodedObject(plumbing.BlobObject, hash)
	if err != nil {
		return nil, err
	}
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// pack writes a pack of a blob and a delta on it.
func pack(base []byte, hash plumbing.Hash, delta []byte) []byte {
	return packOf(packedObject{3, base, nil}, packedObject{7, delta, hash[:]})
}

// packedObject is an object as a pack has it: its type, its content, and the name of its base.
type packedObject struct {
	kind    byte
	content []byte
	base    []byte
}

func packOf(objects ...packedObject) []byte {
	var out bytes.Buffer
	out.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00")
	out.WriteByte(byte(len(objects)))
	for _, o := range objects {
		size := len(o.content)
		b := o.kind<<4 | byte(size&0xf)
		for size >>= 4; size > 0; size >>= 7 {
			out.WriteByte(b | 0x80)
			b = byte(size & 0x7f)
		}
		out.WriteByte(b)
		out.Write(o.base)
		z := zlib.NewWriter(&out)
		_, _ = z.Write(o.content)
		_ = z.Close()
	}
	sum := sha1.Sum(out.Bytes())
	return append(out.Bytes(), sum[:]...)
}

// FuzzUnpack: whatever a server sends, unpacking ends with objects or an error.
func FuzzUnpack(f *testing.F) {
	base := []byte("base")
	f.Add(pack(base, plumbing.ComputeHash(plumbing.BlobObject, base), []byte{4, 4, 0x90, 4}))
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		store, err := unpack(t, data, 1<<12)
		if (store == nil) == (err == nil) {
			t.Errorf("got %v and %v", store, err)
		}
		if store != nil {
			store.Close()
		}
	})
}
