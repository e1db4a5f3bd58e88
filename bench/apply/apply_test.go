package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheTableIsPrinted(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-sizes", "2,8", "-time", "1ns"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"new, apply", "changed, batched", "unchanged, apply", "one by one", "no stamps",
		"side by side", "machine-config-operator",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table says nothing of %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "unchanged, batched") {
		t.Errorf("nothing has to be written for files that are as they should be:\n%s", &out)
	}
	if err := run(t.Context(), []string{"-dir", "/dev/shm"}, &out); err == nil {
		t.Error("a directory in memory was taken for a disk")
	}
}
