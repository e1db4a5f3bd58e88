package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// writeRoot writes the repository of testdata with a list of allowed functions.
func writeRoot(t *testing.T, allowed string) string {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "repository.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range append(archive.Files, txtar.File{Name: "tools/deadcode/allowed.txt", Data: []byte(allowed)}) {
		file := filepath.Join(root, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestRun reports each function of the repository whose name begins with dead, and no other one.
func TestRun(t *testing.T) {
	root := writeRoot(t, "")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-root", root}, &out); !errors.Is(err, errFound) {
		t.Errorf("got the error %v, want %v", err, errFound)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		at, what, _ := strings.Cut(line, ": no program can reach ")
		name, _, _ := strings.Cut(what, ": delete it")
		got = append(got, name)
		file, number, _ := strings.Cut(at, ":")
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscan(number, &n); err != nil || !strings.HasPrefix(strings.Split(string(text), "\n")[n-1],
			"func ") {
			t.Errorf("%s names no function: %v", at, err)
		}
	}
	want := []string{
		"cmd/one.deadInMain", "used.Dead", "used.DeadGeneric", "used.Library.deadMethod", "used.Never.DeadString",
		"used.deadCaller", "used.deadCycle",
		"standalone.deadHere",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestAllowed: a line of the list allows one function, and fails where programs can reach the function.
func TestAllowed(t *testing.T) {
	var out bytes.Buffer
	lines := []string{
		"cmd/one.deadInMain", "used.Dead", "used.DeadGeneric", "used.Library.deadMethod", "used.Never.DeadString",
		"used.deadCaller", "used.deadCycle",
		"standalone.deadHere", "",
	}
	all := "# a comment\n\n" + strings.Join(lines, " the test needs it\n")
	if err := run(t.Context(), []string{"-root", writeRoot(t, all)}, &out); err != nil ||
		!strings.HasPrefix(out.String(), "deadcode: programs can reach all but 8 of ") {
		t.Errorf("got %q, %v", out.String(), err)
	}
	out.Reset()
	err := run(t.Context(),
		[]string{"-root", writeRoot(t, all+"used.Called the test needs it\nused.Gone the test needs it\n")}, &out)
	want := "tools/deadcode/allowed.txt: a program can reach used.Called, or it does not exist: delete the line\n" +
		"tools/deadcode/allowed.txt: a program can reach used.Gone, or it does not exist: delete the line\n"
	if !errors.Is(err, errFound) || out.String() != want {
		t.Errorf("got %q, %v, want %q", out.String(), err, want)
	}
	if err := run(t.Context(), []string{"-root", writeRoot(t, "used.Dead because\n")}, &out); err == nil ||
		!strings.Contains(err.Error(), `"used.Dead" has no reason`) {
		t.Errorf("got %v", err)
	}
}
