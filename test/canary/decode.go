package canary

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strconv"
	"unicode/utf8"
)

// part is data that was decoded from other data.
type part struct {
	// how names the coding.
	how  string
	data []byte
}

const (
	// minRun is the minimum length of a text that counts as base64 or hex.
	minRun = 24
	// mostInflated is how much of one compressed stream is searched.
	mostInflated = 256 << 20
	// zeros is the length of a run of zero bytes that stands for a longer one: files of databases have megabytes of
	// them.
	zeros = 64
)

// withoutZeros shortens long runs of zero bytes.
func withoutZeros(data []byte) []byte {
	run := make([]byte, 4*zeros)
	if !bytes.Contains(data, run) {
		return data
	}
	out := make([]byte, 0, len(data)/2)
	for n, i := 0, 0; i < len(data); i++ {
		if data[i] != 0 {
			n = 0
		} else if n++; n > zeros {
			continue
		}
		out = append(out, data[i])
	}
	return out
}

// containers returns what compressed streams and runs of base64 and hex in data contain.
func containers(data []byte) []part {
	out := inflated(data)
	out = append(out, runs(data)...)
	if text := squeezed(data); text != nil { // base64 in lines
		out = append(out, runs(text)...)
	}
	return out
}

// inflated returns the contents of gzip and zlib streams, wherever they begin. Also that of a stream that breaks off.
func inflated(data []byte) []part {
	var out []part
	open := func(how, magic string, reader func(io.Reader) (io.ReadCloser, error)) {
		for from := 0; ; from++ {
			i := bytes.Index(data[from:], []byte(magic))
			if i < 0 {
				return
			}
			from += i
			r, err := reader(bytes.NewReader(data[from:]))
			if err != nil {
				continue
			}
			text, _ := io.ReadAll(io.LimitReader(r, mostInflated)) // what precedes a damage counts
			if len(text) >= minValue {
				out = append(out, part{how, text})
			}
		}
	}
	open("gzip", "\x1f\x8b\x08", func(r io.Reader) (io.ReadCloser, error) {
		z, err := gzip.NewReader(r)
		if err == nil {
			z.Multistream(false) // the search finds the next one by its beginning
		}
		return z, err
	})
	for _, magic := range []string{"\x78\x01", "\x78\x5e", "\x78\x9c", "\x78\xda"} {
		open("zlib", magic, zlib.NewReader)
	}
	return out
}

// squeezed returns data without line ends and white space, also without those that JSON and Go escape; nil if there are
// none.
func squeezed(data []byte) []byte {
	if !bytes.ContainsAny(data, "\n\r\\") {
		return nil
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\n' || c == '\r' || c == ' ' || c == '\t':
		case c == '\\' && i+1 < len(data) && (data[i+1] == 'n' || data[i+1] == 'r' || data[i+1] == 't'):
			i++
		default:
			out = append(out, c)
		}
	}
	return out
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' ||
		c == '_'
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// runs returns the decoded runs of base64 and hex. Where a run begins in the middle of a group is unknown, so each
// alignment counts. The results for one coding and alignment are joined.
func runs(data []byte) []part {
	var sixty [4][]byte
	var sixteen [2][]byte
	eachRun(data, isBase64, func(run []byte) {
		run = bytes.Map(func(r rune) rune {
			switch r {
			case '-':
				return '+'
			case '_':
				return '/'
			}
			return r
		}, run)
		for at := range sixty {
			whole := run[at : at+(len(run)-at)/4*4]
			rest := run[at+len(whole):]
			if len(rest) > 1 {
				whole = run[at:]
			}
			plain, _ := base64.RawStdEncoding.DecodeString(string(whole))
			if worthwhile(plain) {
				sixty[at] = append(append(sixty[at], plain...), 0)
			}
		}
	})
	eachRun(data, isHex, func(run []byte) {
		for at := range sixteen {
			plain, _ := hex.DecodeString(string(run[at : at+(len(run)-at)/2*2]))
			if worthwhile(plain) {
				sixteen[at] = append(append(sixteen[at], plain...), 0)
			}
		}
	})
	var out []part
	for _, b := range sixty {
		if len(b) > minValue {
			out = append(out, part{"base64", b})
		}
	}
	for _, b := range sixteen {
		if len(b) > minValue {
			out = append(out, part{"hex", b})
		}
	}
	return out
}

// eachRun calls do for each run of at least minRun bytes of a kind.
func eachRun(data []byte, is func(byte) bool, do func([]byte)) {
	begin := -1
	for i := 0; i <= len(data); i++ {
		if i < len(data) && is(data[i]) {
			if begin < 0 {
				begin = i
			}
			continue
		}
		if begin >= 0 && i-begin >= minRun {
			do(data[begin:i])
		}
		begin = -1
	}
}

// minText is the minimum length of a text in other data.
const minText = 12

// isText reports whether a byte is a part of text.
func isText(c byte) bool { return c >= ' ' && c != 0x7f || c == '\n' || c == '\t' || c == '\r' }

// worthwhile reports whether decoded data may contain more than the patterns find in its coded form: text or a
// compressed stream. Most runs that look like base64 are words and paths, which decode to noise.
func worthwhile(data []byte) bool {
	if bytes.Contains(data, []byte("\x1f\x8b\x08")) || len(data) > 1 && data[0] == 0x78 {
		return true
	}
	n := 0
	for _, c := range data {
		if n++; c >= 0x7f || !isText(c) {
			n = 0
		}
		if n == minText {
			return true
		}
	}
	return false
}

// unescaped returns the texts in data without percent signs and backslashes; none if no text has them.
func unescaped(data []byte) []part {
	var out []byte
	begin := -1
	for i := 0; i <= len(data); i++ {
		if i < len(data) && isText(data[i]) {
			if begin < 0 {
				begin = i
			}
			continue
		}
		if begin >= 0 && i-begin >= minText {
			if text, changed := unescape(data[begin:i]); changed {
				out = append(append(out, text...), 0)
			}
		}
		begin = -1
	}
	if out == nil {
		return nil
	}
	return []part{{"escapes", out}}
}

// unescape decodes %XX, and the escapes of JSON, YAML and Go.
func unescape(data []byte) ([]byte, bool) {
	if bytes.IndexByte(data, '\\') < 0 && bytes.IndexByte(data, '%') < 0 {
		return nil, false
	}
	out, changed := make([]byte, 0, len(data)), false
	for i := 0; i < len(data); i++ {
		text, n := []byte(nil), 0
		switch data[i] {
		case '%':
			text, n = number(data[i:], 1, 2)
		case '\\':
			text, n = backslash(data[i:])
		}
		if n == 0 {
			out = append(out, data[i])
			continue
		}
		out, changed = append(out, text...), true
		i += n - 1
	}
	return out, changed
}

// backslash decodes the escape at the beginning of data, and returns its length; 0 if there is none.
func backslash(data []byte) ([]byte, int) {
	if len(data) < 2 {
		return nil, 0
	}
	switch c := data[1]; c {
	case 'n':
		return []byte{'\n'}, 2
	case 't':
		return []byte{'\t'}, 2
	case 'r':
		return []byte{'\r'}, 2
	case '"', '\'', '\\', '/':
		return data[1:2], 2
	case 'x':
		return number(data, 2, 2)
	case 'u':
		return number(data, 2, 4)
	case 'U':
		return number(data, 2, 8)
	}
	return nil, 0
}

// number decodes hex digits behind a prefix as a byte or, with more than two digits, as a character. It returns the
// length with the prefix; 0 if there are not enough digits.
func number(data []byte, prefix, digits int) ([]byte, int) {
	if len(data) < prefix+digits {
		return nil, 0
	}
	n, err := strconv.ParseUint(string(data[prefix:prefix+digits]), 16, 32)
	switch {
	case err != nil:
		return nil, 0
	case digits == 2:
		return []byte{byte(n)}, prefix + digits
	}
	return utf8.AppendRune(nil, rune(n)), prefix + digits
}
