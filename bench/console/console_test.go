package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

// TestASmallPool runs every step, on a real API server.
func TestASmallPool(t *testing.T) {
	var out bytes.Buffer
	measuretest.Figures(t, func() error {
		return run(t.Context(), []string{
			"-nodes", "40", "-readers", "4", "-users", "2", "-events", "3", "-pause", "10ms", "-root", "../..",
		}, &out)
	})
	for _, want := range []string{
		"a pool, page: median", "one open page", "4 open pages of one user",
		"does not read its stream", "2 users", "memory of each further user",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, &out)
		}
	}
	t.Log(out.String())
}

// TestFlags are refused before anything is started.
func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-nodes", "3"}, {"-users", "0"}, {"-assets", "/nowhere"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
