package secret

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/url"
	"regexp"
	"strings"
)

const (
	// maxDepth is how deep an encoded text may stand in others.
	maxDepth = 2
	// maxDecoded is how many bytes of packed texts are looked at.
	maxDecoded = 1 << 20
)

// dataURLs masks the data of an address that has its content in itself, if that content has a secret.
func dataURLs(t *text, i int, rule string) {
	s, path := t.line(i), t.pathOf(i)
	for at := 0; ; {
		n := strings.Index(t.lowerLine(i)[at:], "data:")
		if n < 0 || t.depth >= maxDepth {
			return
		}
		start := at + n + len("data:")
		if all := pathKey.FindAllStringSubmatch(s[at:start], -1); len(all) > 0 {
			path = all[len(all)-1][1] // in one line, the last path counts
		}
		at = start
		if start > len("data:") && isWordByte(s[start-len("data:")-1]) {
			continue
		}
		end := start
		for end < len(s) && strings.IndexByte(" \t\"'<>`\\", s[end]) < 0 {
			end++
		}
		comma := strings.IndexByte(s[start:end], ',')
		if comma < 0 {
			continue
		}
		content, ok := decode(s[start:start+comma], s[start+comma+1:end])
		at = end
		if !ok {
			continue
		}
		if t.decoded += len(content); t.decoded > maxDecoded && t.decoded > 4*len(t.body) {
			t.mask(i, start+comma+1, end, rule) // packed to be large
			continue
		}
		inner := newText(path, content)
		inner.depth = t.depth + 1
		if len(inner.scan(t.table).spans) > 0 {
			t.mask(i, start+comma+1, end, rule)
		}
	}
}

// decode reads the data of a data URL, also where it is packed.
func decode(head, data string) (string, bool) {
	if !strings.HasSuffix(head, ";base64") {
		out, err := url.PathUnescape(data)
		return out, err == nil
	}
	raw, err := decodeBase64(data)
	if err != nil {
		return "", false
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		if z, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			raw, _ = io.ReadAll(io.LimitReader(z, maxDecoded)) // the beginning of a broken one counts
		}
	}
	return string(raw), true
}

func decodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.ReplaceAll(s, "%3D", "="), "=")
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

// isLogin reports whether a value is user:password in base64.
func isLogin(v string) bool {
	raw, err := decodeBase64(v)
	if err != nil {
		return false
	}
	user, password, ok := strings.Cut(string(raw), ":")
	if !ok && strings.HasSuffix(v, "=") && !isBinary(string(raw)) {
		return true // padded, so it is no name
	}
	return ok && user != "" && password != "" && !isBinary(string(raw)) && !strings.ContainsAny(user, "\n{ ")
}

// privateKeysBase64 masks values that are a private key in PEM in base64.
func privateKeysBase64(t *text, i int, rule string) {
	s := t.line(i)
	for at := 0; ; {
		n := strings.Index(s[at:], "LS0tLS1CRUdJTi")
		if n < 0 {
			return
		}
		start := at + n
		end := start
		for end < len(s) && (isWordByte(s[end]) || strings.IndexByte("+/=-", s[end]) >= 0) {
			end++
		}
		if isPrivateKeyBase64(s[start:end]) {
			t.mask(i, start, end, rule)
		}
		at = end
	}
}

// pathKey is a line or a member that gives the path of a file: of Butane, of Ignition, of cloud-init.
var pathKey = regexp.MustCompile(`(?:^|[\s{,"'-])"?path"?\s*:\s*"?(/[^\s",}]+)`)

// findPaths notes the paths of the files that a text describes.
func (t *text) findPaths() {
	if !strings.Contains(t.body, "path") {
		return
	}
	current, depth := "", -1
	for i := range t.lines {
		s := t.line(i)
		if m := pathKey.FindStringSubmatchIndex(s); m != nil {
			if t.paths == nil {
				t.paths = make([]string, len(t.lines))
			}
			current, depth = s[m[2]:m[3]], yamlIndent(s)
		} else if strings.TrimSpace(s) != "" && indentOf(s) < depth && !strings.HasPrefix(strings.TrimSpace(s), "}") {
			current = ""
		}
		if t.paths != nil {
			t.paths[i] = current
		}
	}
}
