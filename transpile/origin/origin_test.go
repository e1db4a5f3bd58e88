package origin_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

func TestAPathWithoutAPlaceHasItsParents(t *testing.T) {
	m := origin.Map{At: map[string]origin.Pos{
		"$":                   {File: "a", Line: 1},
		"$.storage.files.1":   {File: "a", Line: 5},
		"spec.kernelArgument": {File: "b"},
	}}
	for path, want := range map[string]string{
		"$.storage.files.1":          "a:5",
		"$.storage.files.1.mode":     "a:5",
		"$.storage.files.1.a.b.c":    "a:5",
		"$.storage.files.11":         "a:1",
		"$.systemd":                  "a:1",
		"spec.kernelArguments.0":     "",
		"spec.kernelArgument.0":      "b",
		"$.storage.files.1x.path.x.": "a:1",
	} {
		got, ok := m.Find(path)
		if got.String() != want || ok != (want != "") {
			t.Errorf("%s is at %q, want %q", path, got, want)
		}
	}
}

func TestThroughComposesTwoSteps(t *testing.T) {
	first := origin.Map{
		Files: []origin.File{{Path: "a"}},
		At:    map[string]origin.Pos{"$.in": {File: "a", Line: 3}, "$.in.deep": {File: "a", Line: 4}},
	}
	got := first.Through(map[string]string{
		"$.out": "$.in", "$.x": "$.in.deep", "$.y": "$.in.other",
		"$.lost": "$.elsewhere",
	})
	for path, line := range map[string]int{"$.out": 3, "$.x": 4, "$.y": 3} {
		if got.At[path].Line != line {
			t.Errorf("%s is at line %d, want %d", path, got.At[path].Line, line)
		}
	}
	if _, ok := got.At["$.lost"]; ok || len(got.Files) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestPlacesAreOrderedByFileLineAndColumn(t *testing.T) {
	ordered := []origin.Pos{
		{},
		{File: "a"},
		{File: "a", Line: 2, Column: 9},
		{File: "a", Line: 10},
		{File: "a", Line: 10, Column: 1},
		{File: "b", Line: 1},
	}
	for i := range ordered {
		for j := range ordered {
			if got := ordered[i].Compare(ordered[j]); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%v compared with %v gives %d", ordered[i], ordered[j], got)
			}
		}
	}
}

func TestOnlyWarningsAreNotFatal(t *testing.T) {
	warning, other := origin.Finding{Warning: true}, origin.Finding{}
	if origin.Fatal(nil) || origin.Fatal([]origin.Finding{warning}) || !origin.Fatal([]origin.Finding{warning, other}) {
		t.Error("want a finding that is no warning to be fatal, and no other")
	}
}
