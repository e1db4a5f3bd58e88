package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestAFewSources runs every step, on a real API server.
func TestAFewSources(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"-sources", "6", "-dead", "1", "-shared", "2", "-interval", "5s", "-time", "1s",
		"-pushes", "2", "-hooks", "2", "-limit", "2m", "-root", "../..",
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A poll of a source without a new commit", "nothing new", "pushes found by polls",
		"one push, 2 sources", "pushes with a webhook", "patch gitsources/status",
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
