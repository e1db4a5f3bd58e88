package oci

import (
	"strings"
	"testing"
	"unicode"

	"github.com/bunsen-os/bunsen/source"
)

// FuzzManifest: whatever a registry sends, a manifest gives a layer with a hash and a commit whose texts are one line,
// or an error.
func FuzzManifest(f *testing.F) {
	const layer = `{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:` +
		`e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0}`
	for _, text := range []string{
		`{"schemaVersion":2,"layers":[` + layer + `]}`,
		`{"layers":[` + layer + `],"annotations":{"org.opencontainers.image.revision":"main@sha1:0\n\u001b[31m",` +
			`"org.opencontainers.image.authors":"a\u202eb","org.opencontainers.image.created":"9999-99-99"}}`,
		`{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{}]}`,
		`{"layers":[` + layer + `,` + layer + `]}`,
		`{"layers":[{"mediaType":"tar","digest":"sha256:../x","size":-1}]}`,
		`{"layers":[{"mediaType":"tar+zstd","digest":"sha512:00"}]}`,
		`{"schemaVersion":2}`, `{"layers":null}`, `[]`, `null`, ``, strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(raw)
		if err != nil {
			return
		}
		c := describe(m, source.Picked{Ref: "v1", Hash: strings.Repeat("a", 64)}, "oci://host/name")
		for _, text := range []string{c.Author, c.Subject} {
			if strings.ContainsFunc(text, unicode.IsControl) || len([]rune(text)) > 1000 {
				t.Errorf("a text of the commit is %q", text)
			}
		}
		if layer, err := contentOf(m); err == nil {
			if hash, is := strings.CutPrefix(layer.Digest.String(), "sha256:"); !is || len(hash) != 64 ||
				layer.Size < 0 {
				t.Errorf("the layer is %+v", layer)
			}
		}
	})
}
