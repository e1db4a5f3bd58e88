package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

// TestAFewSources runs every step, on a real API server.
func TestAFewSources(t *testing.T) {
	var out bytes.Buffer
	measuretest.Figures(t, func() error {
		return run(t.Context(), []string{
			"-sources", "6", "-dead", "1", "-shared", "2", "-interval", "5s", "-time", "1s", "-idle", "2s",
			"-pushes", "2", "-hooks", "2", "-limit", "2m", "-root", "../..",
		}, &out)
	})
	for _, want := range []string{
		"a poll of a source without a new commit", "nothing new", "a push that a poll finds",
		"a push to 2 sources", "a push with a webhook", "patch gitsources/status",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	t.Log(out.String())
}

// TestFlags are refused before anything is started.
func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-sources", "3", "-dead", "3"},
		{"-interval", "1s"},
		{"-hooks", "0"},
		{"-assets", "/nowhere"},
	} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
