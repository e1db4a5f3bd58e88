package mcs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Ignition cannot read a registry, so no machine gets a config that would never boot.
func TestAConfigWithFilesInRegistriesIsNotSent(t *testing.T) {
	contents := `{"source":"oci://registry.example.com/x@sha256:` + strings.Repeat("a", 64) + `","verification":{"hash":"sha512-` + strings.Repeat("a", 128) + `"}}`
	mc := rendered(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a","contents":` + contents + `}]}}`)
	for _, v := range Versions() {
		var refused *ArtifactsError
		if _, err := Compose(Input{Pool: "worker", Rendered: mc}, v); !errors.As(err, &refused) || !slices.Equal(refused.Files, []string{"/a"}) {
			t.Errorf("%s: %v", v, err)
		}
	}
}
