package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

func TestTheTablesArePrinted(t *testing.T) {
	var out bytes.Buffer
	measuretest.Figures(t, func() error { return run([]string{"-sizes", "2,8", "-time", "1ns"}, &out) })
	for _, want := range []string{"Import:", "Lineage of all items:", "growth ≤ 1.10"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	if err := run([]string{"-sizes", "0"}, &out); err == nil {
		t.Error("a dump of nothing was taken")
	}
}
