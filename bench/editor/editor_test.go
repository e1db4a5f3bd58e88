package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

func TestTheTableIsPrinted(t *testing.T) {
	args := []string{"-size", "20", "-rounds", "2"}
	if bin := os.Getenv("BUNSEN_BIN"); bin != "" { // else it is built
		args = append(args, "-bunsen", filepath.Join(bin, "bunsen"))
	}
	var out bytes.Buffer
	measuretest.Figures(t, func() error { return run(t.Context(), args, &out) })
	for _, want := range []string{"10 pools", "1 pool", "20 documents", "completion"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table says nothing of %q:\n%s", want, &out)
		}
	}
	if err := run(t.Context(), []string{"-bunsen", "false"}, &out); err == nil {
		t.Error("a program that says nothing was measured")
	}
}
