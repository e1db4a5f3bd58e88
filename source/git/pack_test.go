package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
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
				if err != nil || store.HasEncodedObject(want) != nil {
					t.Errorf("got %v, %v", store, err)
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

// pack writes a pack of a blob and a delta on it.
func pack(base []byte, hash plumbing.Hash, delta []byte) []byte {
	var out bytes.Buffer
	out.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x02")
	object := func(kind byte, content, between []byte) {
		size := len(content)
		b := kind<<4 | byte(size&0xf)
		for size >>= 4; size > 0; size >>= 7 {
			out.WriteByte(b | 0x80)
			b = byte(size & 0x7f)
		}
		out.WriteByte(b)
		out.Write(between)
		z := zlib.NewWriter(&out)
		_, _ = z.Write(content)
		_ = z.Close()
	}
	object(3, base, nil)
	object(7, delta, hash[:])
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
	})
}

func TestSecretsAreHiddenInEveryForm(t *testing.T) {
	hide := secrets{"p@ss/word", "p%40ss%2Fword"}
	got := hide.from("https://me:p%40ss%2Fword@host: p@ss/word refused")
	if want := "https://me:***@host: *** refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
