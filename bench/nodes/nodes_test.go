package main

import (
	"bytes"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

// TestOneRowCostsTwoConfigs measures pools of a few nodes on a real API server.
func TestOneRowCostsTwoConfigs(t *testing.T) {
	var out bytes.Buffer
	got := map[string]string{}
	for _, f := range measuretest.Figures(t, func() error {
		return run(t.Context(), []string{"-sizes", "10,20", "-content", "1024", "-limit", "2m", "-root", "../.."}, &out)
	}) {
		got[f.What+" at "+f.At()] = f.Now.String() + ", " + f.Verdict().String()
	}
	for what, want := range map[string]string{
		"MachineConfigs at 10 nodes":                   "14, –",
		"MachineConfigs at 20 nodes":                   "24, –",
		"one row: new MachineConfigs at 10 nodes":      "2, yes",
		"one row: assigned nodes at 20 nodes":          "1, yes",
		"the document: new MachineConfigs at 20 nodes": "21, –",
		"the document: assigned nodes at 20 nodes":     "20, –",
	} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
	t.Log(out.String())
}
