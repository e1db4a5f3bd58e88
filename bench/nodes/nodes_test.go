package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// TestOneRowCostsTwoConfigs measures pools of a few nodes on a real API server.
func TestOneRowCostsTwoConfigs(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-sizes", "10,20", "-content", "1024", "-limit", "2m", "-root", "../.."},
		&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`10 nodes +14 `, `20 nodes +24 `,
		`one row +10 nodes .* 2 +1 +≤ 2 configs, 1 node +yes`, `the document +20 nodes .* 21 +20`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), " NO") {
		t.Error("a goal is missed")
	}
}
