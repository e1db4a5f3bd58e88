package secret

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

const (
	// maxDepth is how deep encoded texts may be nested.
	maxDepth = 2
	// maxDecoded is how many bytes of compressed texts are scanned.
	maxDecoded = 1 << 20
)

// dataURLs masks the data of a data URL whose content contains a secret.
func dataURLs(l line) {
	t, s, path := l.t, l.s, l.t.pathOf(l.i)
	for at := 0; ; {
		n := strings.Index(l.lower()[at:], "data:")
		if n < 0 || t.depth >= maxDepth {
			return
		}
		start := at + n + len("data:")
		if all := pathKey.FindAllStringSubmatch(s[at:start], -1); len(all) > 0 {
			path = all[len(all)-1][1] // If a line has several paths, the last path counts.
		}
		at = start
		if start > len("data:") && classify.IsWordByte(s[start-len("data:")-1]) {
			continue
		}
		end := syntax.WordEnd(s, start, " \t\"'<>`\\")
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
			// The data may be compressed so that it exceeds the limit, so all of it is masked.
			l.mask(start+comma+1, end)
			continue
		}
		inner := newText(path, content)
		inner.depth = t.depth + 1
		if len(inner.scan(t.table).spans) > 0 {
			l.mask(start+comma+1, end)
		}
	}
}

// decode reads the data of a data URL and decompresses it.
func decode(head, data string) (string, bool) {
	if !strings.HasSuffix(head, ";base64") {
		out, err := url.PathUnescape(data)
		return out, err == nil
	}
	raw, err := classify.DecodeBase64(data)
	if err != nil {
		return "", false
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		if z, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			// The error is ignored, so that the beginning of damaged data is scanned.
			raw, _ = io.ReadAll(io.LimitReader(z, maxDecoded))
		}
	}
	return string(raw), true
}

// pathKey matches the path of a file in Butane, Ignition or cloud-init.
var pathKey = regexp.MustCompile(`(?:^|[\s{,"'-])"?path"?\s*:\s*"?(/[^\s",}]+)`)

// findPaths records the paths of the files that a text describes.
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
			current, depth = s[m[2]:m[3]], syntax.YAMLIndent(s)
		} else if strings.TrimSpace(s) != "" && syntax.Indent(s) < depth && !strings.HasPrefix(strings.TrimSpace(s),
			"}") {
			current = ""
		}
		if t.paths != nil {
			t.paths[i] = current
		}
	}
}
