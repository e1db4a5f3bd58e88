package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestAllIsRolledOut rolls out to few nodes and to more, on a real API server, and prints every table.
func TestAllIsRolledOut(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"-nodes", "10,20", "-sizes", "10,40", "-time", "1ns", "-limit", "2m", "-root",
		"../..",
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"one rollout to 10 nodes", "one rollout to 20 nodes", "for a node, by the size",
		"no policy", "canary, batches, zones",
		"patch nodes, the order", "patch nodes, the drain", "One decision", "growth 1.28",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "a node was written to") {
		t.Errorf("a rollout writes too often:\n%s", &out)
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
