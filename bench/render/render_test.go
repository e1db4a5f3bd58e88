package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
	"github.com/bunsen-os/bunsen/bench/peers"
)

func TestTheTablesArePrinted(t *testing.T) {
	var out bytes.Buffer
	measuretest.Figures(t, func() error { return run([]string{"-sizes", "2,8", "-time", "1ns"}, &out) })
	// The rendered config of so many fragments is too large for a cluster.
	if err := run([]string{"-sizes", "200", "-time", "1ns"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"large:", "small:", cold, changed, same, "growth ≤ 1.05", peers.Original} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	if err := run([]string{"-sizes", "4,2"}, &out); err == nil {
		t.Error("sizes that shrink were taken")
	}
}
