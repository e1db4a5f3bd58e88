package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
	"github.com/bunsen-os/bunsen/bench/peers"
)

func TestTheTableIsPrinted(t *testing.T) {
	var out bytes.Buffer
	measuretest.Figures(t, func() error {
		return run(t.Context(), []string{"-sizes", "2,8", "-pools", "2", "-time", "1ns"}, &out)
	})
	for _, want := range []string{
		"One pool:", "from nothing", "(n log n)", peers.InARow, "Pools that include the same documents:",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table says nothing of %q:\n%s", want, &out)
		}
	}
	if err := run(t.Context(), []string{"-sizes", "many"}, &out); err == nil {
		t.Error("a size that is no number was taken")
	}
}
