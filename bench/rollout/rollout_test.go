package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

// TestAllIsRolledOut rolls out to few nodes and to more, on a real API server, and prints every table.
func TestAllIsRolledOut(t *testing.T) {
	var out bytes.Buffer
	figures := measuretest.Figures(t, func() error {
		return run(t.Context(), []string{
			"-nodes", "10,20", "-sizes", "10,40", "-time", "1ns", "-limit", "2m", "-root", "../..",
		}, &out)
	})
	for _, want := range []string{
		"one rollout to 10 nodes", "one rollout to 20 nodes", "CPU time for each node",
		"no policy", "canary, batches, zones",
		"patch nodes, the order", "patch nodes, the drain", "One decision",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	for _, f := range figures {
		if strings.Contains(f.What, "writes to a node") && !f.Verdict().Met() {
			t.Errorf("a rollout writes too often: %s", f)
		}
	}
	t.Log(out.String())
}

// TestFlags are refused before anything is started.
func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-nodes", "3"}, {"-sizes", "many"}, {"-assets", "/nowhere"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
