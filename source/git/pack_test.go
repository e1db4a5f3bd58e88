package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bunsen-os/bunsen/api/fault"
)

// TestADeltaCannotGrowWithoutBound: a delta of a few bytes may copy one piece of its base over and over. What it declares
// as its result is what counts.
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
			store, err := unpack(t.Context(), bytes.NewReader(pack(base, hash, delta)), limit)
			if !test.refused {
				want := plumbing.ComputeHash(plumbing.BlobObject, bytes.Repeat(base, test.copies))
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				if data, err := ReadObject(store, plumbing.BlobObject, want, 1<<20); err != nil || len(data) != len(base)*test.copies {
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
	store, err := unpack(t.Context(), bytes.NewReader(data), 64<<20)
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
	if got, err := ReadObject(store, plumbing.BlobObject, last, size); err != nil || len(got) != size {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestALargeObjectIsNoBase: a delta needs its base in memory.
func TestALargeObjectIsNoBase(t *testing.T) {
	base := make([]byte, mostBase+1)
	hash := plumbing.ComputeHash(plumbing.BlobObject, base)
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(base))), 4)
	delta = append(delta, 0x90, 4)
	of := packedObject{7, delta, hash[:]}
	for order, data := range map[string][]byte{
		"the base first":  packOf(packedObject{kind: 3, content: base}, of),
		"the delta first": packOf(of, packedObject{kind: 3, content: base}),
	} {
		_, err := unpack(t.Context(), bytes.NewReader(data), 64<<20)
		if err == nil || !strings.Contains(err.Error(), "objects of more than 67108864 bytes") {
			t.Errorf("%s: got %v", order, err)
		}
	}
	store, err := unpack(t.Context(), bytes.NewReader(packOf(packedObject{kind: 3, content: base})), 64<<20)
	if err != nil {
		t.Fatalf("without a delta: %v", err)
	}
	store.Close()
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
		store, err := unpack(t.Context(), bytes.NewReader(data), 1<<12)
		if (store == nil) == (err == nil) {
			t.Errorf("got %v and %v", store, err)
		}
		if store != nil {
			store.Close()
		}
	})
}

func TestSecretsAreHiddenInEveryForm(t *testing.T) {
	hide := secrets{"p@ss/word", "p%40ss%2Fword"}
	got := hide.removeFrom("https://me:p%40ss%2Fword@host: p@ss/word refused")
	if want := "https://me:***@host: *** refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheSameFailureHasTheSameWords(t *testing.T) {
	r := &Remote{url: "https://host/x"}
	for _, port := range []string{"40812", "51744"} {
		err := r.explain(t.Context(), "fetching", errors.New("read tcp 10.0.0.7:"+port+"->192.0.2.1:443: read: connection reset by peer"))
		if want := "fetching: read tcp 192.0.2.1:443: read: connection reset by peer"; !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}
