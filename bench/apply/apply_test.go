package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

func TestTheTableIsPrinted(t *testing.T) {
	var out bytes.Buffer
	figures := measuretest.Figures(t, func() error {
		return run(t.Context(), []string{"-sizes", "2,8", "-time", "1ns"}, &out)
	})
	for _, want := range []string{"new", "changed", "unchanged", "batched", "one by one", "no stamps", "side by side"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table says nothing of %q:\n%s", want, &out)
		}
	}
	for _, f := range figures {
		if judged := f.Verdict().Judged; judged == strings.Contains(f.What, "unchanged") {
			t.Errorf("has a goal, although nothing is to be written, or has none: %s", f)
		}
	}
	if err := run(t.Context(), []string{"-dir", "/dev/shm"}, &out); err == nil {
		t.Error("a directory in memory was taken for a disk")
	}
}
