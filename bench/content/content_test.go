package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestALargeFileIsMeasured measures a file of a few MiB on a real API server.
func TestALargeFileIsMeasured(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-size", "4", "-limit", "4m", "-root", "../.."}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"without the file", "another version of the file", "a change beside the file",
		"yes",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), " NO") {
		t.Errorf("a goal is missed:\n%s", &out)
	}
}
