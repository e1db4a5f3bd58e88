package inspect_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestShortRendered keeps the pool and five digits.
func TestShortRendered(t *testing.T) {
	for name, want := range map[string]string{
		"rendered-worker-77b0cfa4c32a9bb34b9b4b4b4b4b4b4b": "rendered-worker-77b0c",
		"rendered-gpu-large-77b0cfa4c32a9bb34b9b4b4b4b4b4": "rendered-gpu-large-77b0c",
		"rendered-worker-77b0c":                            "rendered-worker-77b0c",
		"plain":                                            "plain",
		"":                                                 "",
	} {
		if got := fleet.ShortRendered(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
