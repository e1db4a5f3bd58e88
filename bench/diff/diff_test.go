package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

func TestTheTablesArePrinted(t *testing.T) {
	args := []string{"-size", "20", "-sizes", "10,20", "-changes", "1,15", "-time", "1ns"}
	if bin := os.Getenv("BUNSEN_BIN"); bin != "" { // else it is built
		args = append(args, "-bunsen", filepath.Join(bin, "bunsen"))
	}
	var out bytes.Buffer
	measuretest.Figures(t, func() error { return run(t.Context(), args, &out) })
	for _, want := range []string{
		"The program:", "Its steps", "nothing changed", "worker's", "growth with repository",
		"with main in memory", "stored results",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	if err := run(t.Context(), []string{"-changes", "none"}, &out); err == nil {
		t.Error("a size that is no number was taken")
	}
}

func TestAFailingProgramIsSaid(t *testing.T) {
	b := &bench{dir: t.TempDir(), options: options{binary: "false"}}
	// it ends as the program does where there is a difference
	if _, err := b.diff(t.Context(), b.dir, "main", false); err == nil {
		t.Error("a program that says nothing was measured")
	}
}
