package transpile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Entries of the shelf are numbers and text with its length before it, in a fixed order. They are read without a copy of
// the text, as a process may read thousands of them before it does anything else.

// writer writes an entry.
type writer struct{ raw []byte }

func (w *writer) number(n int) { w.raw = binary.AppendUvarint(w.raw, uint64(n)) }

func (w *writer) text(s string) {
	w.number(len(s))
	w.raw = append(w.raw, s...)
}

func (w *writer) flag(b bool) {
	n := 0
	if b {
		n = 1
	}
	w.number(n)
}

// writeList writes a list; none is not the same as one without items.
func writeList[T any](w *writer, list []T, one func(T)) {
	if list == nil {
		w.number(0)
		return
	}
	w.number(len(list) + 1)
	for _, v := range list {
		one(v)
	}
}

func (w *writer) pos(p origin.Pos) {
	w.text(p.File)
	w.number(p.Line)
	w.number(p.Column)
}

func (w *writer) file(f origin.File) {
	w.text(f.Path)
	w.text(f.Blob)
}

func (w *writer) finding(f origin.Finding) {
	w.flag(f.Warning)
	w.text(f.Rule)
	w.text(f.Message)
	w.pos(f.At)
}

func (w *writer) local(l local) {
	w.text(l.path)
	writeList(w, l.files, w.file)
}

// origin writes places in the order of their paths, each with its file's number.
func (w *writer) origin(m origin.Map) {
	writeList(w, m.Files, w.file)
	number, files := map[string]int{}, []string{}
	paths := slices.Sorted(maps.Keys(m.At))
	for _, p := range paths {
		if _, ok := number[m.At[p].File]; !ok {
			number[m.At[p].File] = len(files)
			files = append(files, m.At[p].File)
		}
	}
	writeList(w, files, w.text)
	writeList(w, paths, func(p string) {
		at := m.At[p]
		w.text(p)
		w.number(number[at.File])
		w.number(at.Line)
		w.number(at.Column)
	})
}

// seal puts a digest of an entry and of its key before it.
func (w *writer) seal(key string) []byte {
	sum := entrySum(key, w.raw)
	return append(sum[:], w.raw...)
}

func entrySum(key string, raw []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(key))
	h.Write(raw)
	return [sha256.Size]byte(h.Sum(nil))
}

// reader reads an entry. Once anything is not as it should be, it is bad and all else is zero.
type reader struct {
	left string
	bad  bool
}

// unseal opens an entry. What is damaged, or another key's, is bad.
func unseal(key string, value []byte) *reader {
	if len(value) < sha256.Size {
		return &reader{bad: true}
	}
	sum, raw := value[:sha256.Size], value[sha256.Size:]
	if want := entrySum(key, raw); !bytes.Equal(sum, want[:]) {
		return &reader{bad: true}
	}
	return &reader{left: string(raw)}
}

// whole tells whether all was read, and nothing is left.
func (r *reader) whole() bool { return !r.bad && r.left == "" }

func (r *reader) number() int {
	n := uint64(0)
	for i := 0; i < len(r.left) && i < binary.MaxVarintLen32; i++ {
		n |= uint64(r.left[i]&0x7f) << (7 * i)
		if r.left[i] < 0x80 {
			r.left = r.left[i+1:]
			return int(n)
		}
	}
	r.fail()
	return 0
}

func (r *reader) fail() { r.left, r.bad = "", true }

func (r *reader) text() string {
	n := r.number()
	if n > len(r.left) {
		r.fail()
		return ""
	}
	out := r.left[:n]
	r.left = r.left[n:]
	return out
}

func (r *reader) flag() bool { return r.number() == 1 }

// readList reads a list. No item takes less than a byte.
func readList[T any](r *reader, one func() T) []T {
	n := r.number()
	if n == 0 {
		return nil
	}
	if n-1 > len(r.left) {
		r.fail()
		return nil
	}
	out := make([]T, n-1)
	for i := range out {
		out[i] = one()
	}
	return out
}

func (r *reader) pos() origin.Pos {
	return origin.Pos{File: r.text(), Line: r.number(), Column: r.number()}
}

func (r *reader) file() origin.File { return origin.File{Path: r.text(), Blob: r.text()} }

func (r *reader) finding() origin.Finding {
	return origin.Finding{Warning: r.flag(), Rule: r.text(), Message: r.text(), At: r.pos()}
}

func (r *reader) local() local { return local{r.text(), readList(r, r.file)} }

func (r *reader) origin() origin.Map {
	out := origin.Map{Files: readList(r, r.file)}
	files := readList(r, r.text)
	n := r.number() - 1
	if n < 0 || n > len(r.left) {
		if n != -1 { // none at all
			r.fail()
		}
		return out
	}
	out.At = make(map[string]origin.Pos, n)
	for range n {
		path, file := r.text(), r.number()
		if r.bad || file >= len(files) {
			r.fail()
			break
		}
		out.At[path] = origin.Pos{File: files[file], Line: r.number(), Column: r.number()}
	}
	return out
}
