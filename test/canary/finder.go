package canary

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// Value is a text that must be nowhere.
type Value struct {
	// Name is what reports call it.
	Name string
	// Text is the value itself. It has at least minValue bytes, so that no other text contains it by accident.
	Text []byte
	// Whole is true for the contents of a whole file. Only its digests are searched for, because a file has other parts
	// too.
	Whole bool
}

// minValue is the minimum length of a value.
const minValue = 10

// Finder finds values. It is safe for use by several goroutines.
type Finder struct {
	patterns []pattern
	// begin has the patterns by their first two bytes, because a search for each pattern by itself takes too long.
	begin map[uint16][]int
	// may has the keys of begin.
	may [1 << 16]bool
}

// pattern is one form of one value.
type pattern struct {
	// what names the value and the form.
	what string
	// bytes is the form. If fold is true, it has lower case, and the case does not matter.
	bytes []byte
	fold  bool
}

// New returns a Finder of values.
func New(values ...Value) (*Finder, error) {
	f := &Finder{}
	for _, v := range values {
		if len(v.Text) < minValue {
			return nil, fmt.Errorf("value %q has %d bytes, want at least %d", v.Name, len(v.Text), minValue)
		}
		if !v.Whole {
			f.add(v.Name, v.Text)
			f.addUTF16(v.Name, v.Text)
		}
		for digest, sum := range digestsOf(v.Text) {
			f.add(digest+" of "+v.Name, sum)
		}
	}
	if len(f.patterns) == 0 {
		return nil, errors.New("a finder without values finds nothing")
	}
	f.begin = map[uint16][]int{}
	for i, p := range f.patterns {
		for _, a := range cases(p.bytes[0], p.fold) {
			for _, b := range cases(p.bytes[1], p.fold) {
				key := uint16(a)<<8 | uint16(b)
				f.begin[key], f.may[key] = append(f.begin[key], i), true
			}
		}
	}
	return f, nil
}

// cases returns a letter in both cases.
func cases(c byte, fold bool) []byte {
	if fold && c >= 'a' && c <= 'z' {
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// digestsOf returns the plain digests of a value, by which a short value can be guessed.
func digestsOf(text []byte) map[string][]byte {
	a, b, c, d, e := md5.Sum(text), sha1.Sum(text), sha256.Sum256(text), sha512.Sum512(text), sha512.Sum384(text)
	return map[string][]byte{"md5": a[:], "sha1": b[:], "sha256": c[:], "sha512": d[:], "sha384": e[:]}
}

// add adds the direct forms of bytes: as they are, hex, decimal numbers, percent signs, and base64 at each alignment.
func (f *Finder) add(name string, text []byte) {
	form := func(what string, b []byte, fold bool) {
		if fold {
			b = bytes.ToLower(b)
		}
		f.patterns = append(f.patterns, pattern{name + " (" + what + ")", b, fold})
	}
	form("plain", text, false)
	form("hex", []byte(hex.EncodeToString(text)), true)
	form("percent signs", []byte(joined(text, "%%%02x", "")), true)
	form("numbers", []byte(joined(text, "%d", " ")), false)
	form("numbers", []byte(joined(text, "%d", ",")), false)
	for name, coding := range map[string]*base64.Encoding{
		"base64":    base64.RawStdEncoding,
		"base64url": base64.RawURLEncoding,
	} {
		for offset := range 3 {
			coded := coding.EncodeToString(append(make([]byte, offset), text...))
			// The first and the last digit depend on the neighbours too.
			form(fmt.Sprintf("%s at %d", name, offset), []byte(coded[(offset*8+5)/6:(offset+len(text))*8/6]), false)
		}
	}
}

// addUTF16 adds the forms of a text with two bytes for each character.
func (f *Finder) addUTF16(name string, text []byte) {
	var little, big []byte
	for _, u := range utf16.Encode([]rune(string(text))) {
		little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
	}
	f.patterns = append(f.patterns, pattern{name + " (UTF-16)", little, false}, pattern{name + " (UTF-16)", big, false})
}

func joined(text []byte, format, between string) string {
	parts := make([]string, len(text))
	for i, b := range text {
		parts[i] = fmt.Sprintf(format, b)
	}
	return strings.Join(parts, between)
}

const (
	// deepest is how many codings and compressions around each other In removes. Between two of them it removes
	// mostEscapes layers of percent signs and backslashes.
	deepest     = 5
	mostEscapes = 2
	// mostDecoded limits the bytes that In decodes from one input. In returns an error at this limit, because the rest
	// is not searched.
	mostDecoded = 2 << 30
)

// In returns how values are hidden in data; none if they are not there.
func (f *Finder) In(data []byte) ([]string, error) {
	s := search{Finder: f}
	s.in(withoutZeros(data), "", deepest, mostEscapes)
	slices.Sort(s.found)
	return slices.Compact(s.found), s.err
}

// search is one run of In.
type search struct {
	*Finder
	found   []string
	decoded int
	err     error
}

// in searches data. The parameter way says how data was decoded.
func (s *search) in(data []byte, way string, depth, escapes int) {
	if s.decoded += len(data); s.decoded > mostDecoded {
		s.err = fmt.Errorf("more than %d bytes are to be searched", mostDecoded)
		return
	}
	s.match(data, way)
	if escapes > 0 {
		for _, c := range unescaped(data) {
			s.in(c.data, strings.TrimPrefix(way+", "+c.how, ", "), depth, escapes-1)
		}
	}
	if depth == 0 {
		if len(inflated(data)) > 0 {
			s.err = fmt.Errorf("more than %d codings are around each other: %s", deepest, way)
		}
		return
	}
	for _, c := range containers(data) {
		if len(c.data) >= mostInflated {
			s.err = fmt.Errorf("a part has more than %d bytes: %s", mostInflated, c.how)
		}
		s.in(c.data, strings.TrimPrefix(way+", "+c.how, ", "), depth-1, mostEscapes)
	}
}

// match searches data for all patterns.
func (s *search) match(data []byte, way string) {
	for i := 0; i+1 < len(data); i++ {
		key := uint16(data[i])<<8 | uint16(data[i+1])
		if !s.may[key] {
			continue
		}
		for _, n := range s.begin[key] {
			if p := &s.patterns[n]; p.at(data[i:]) {
				what := p.what
				if way != "" {
					what += " in " + way
				}
				if !slices.Contains(s.found, what) {
					s.found = append(s.found, what)
				}
			}
		}
	}
}

// at reports whether data begins with the pattern.
func (p *pattern) at(data []byte) bool {
	if len(data) < len(p.bytes) {
		return false
	}
	data = data[:len(p.bytes)]
	return bytes.Equal(data, p.bytes) || p.fold && bytes.EqualFold(data, p.bytes)
}
