package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// The table has every program, and each has a test that runs it to its end at a tiny size.
func TestEveryProgramIsRun(t *testing.T) {
	mains, err := filepath.Glob("../*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var there, listed []string
	for _, file := range mains {
		name := filepath.Base(filepath.Dir(file))
		tests, err := filepath.Glob(filepath.Join("..", name, "*_test.go"))
		if err != nil || len(tests) == 0 {
			t.Errorf("bench/%s has no test: %v", name, err)
		}
		if name != "table" {
			there = append(there, name)
		}
	}
	for _, p := range programs {
		listed = append(listed, p.name)
	}
	if slices.Sort(listed); !slices.Equal(there, listed) {
		t.Errorf("the table runs %q, and there are %q", listed, there)
	}
}

// The page is written from a complete run: a program that was added later has no row.
func TestThePageHasEveryProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, runs, _ := strings.Cut(string(page), "## The runs")
	for _, p := range programs {
		if !strings.Contains(runs, "| `"+p.name) || !strings.Contains(string(page), "\n| "+p.name+" |") {
			t.Errorf("docs/performance.md has no figures of bench/%s: run make bench BENCHES=%[1]s performance", p.name)
		}
		if strings.Contains(string(page), "| "+p.name+" | not run to the end") {
			t.Errorf("docs/performance.md says that bench/%s did not run to its end", p.name)
		}
	}
}

// One program fails, because its flags are wrong. The others run, and the table has all.
func TestAProgramThatFailsStopsNoOther(t *testing.T) {
	var out bytes.Buffer
	b := &bench{root: "../..", dir: t.TempDir(), out: &out}
	todo := []program{{"render", []string{"-sizes", "none"}}, {"adopt", []string{"-sizes", "2,8", "-time", "1ns"}}}
	if err := b.build(t.Context(), todo); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.dir, "results")
	r, err := readResults(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range todo {
		r.Programs[p.name] = b.measure(t.Context(), p)
	}
	if failed := r.failed(todo); !slices.Equal(failed, []string{"render"}) {
		t.Errorf("%q failed", failed)
	}
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(b.dir, "page.md")
	if err := run(t.Context(), []string{"-results", file, "-page", page}, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"not run to the end: ", `"none": want numbers from 1 on`, "Import: import", "8 MachineConfigs",
		"× reading the YAML", "growth ≤ 1.10",
	} {
		if !strings.Contains(string(text), want) || !strings.Contains(out.String(), want) {
			t.Errorf("the page or the table says nothing of %q:\n%s\n%s", want, text, &out)
		}
	}
	adopted := r.Programs["adopt"]
	adopted.Host = "another machine"
	r.Programs["adopt"] = adopted
	if text, err := r.page(); err == nil {
		t.Errorf("a page has figures of two machines:\n%s", text)
	}
	if strings.Contains(string(text), "| 2 MachineConfigs") {
		t.Errorf("a smaller size that misses nothing is on the page:\n%s", text)
	}
}

func TestASmallerSizeIsShownIfItMissesItsGoal(t *testing.T) {
	at := func(size int, now time.Duration) measure.Figure {
		return measure.Figure{
			What: "a build", Size: size, Now: measure.Time(now),
			Goals: []measure.Bound{measure.AtMost(measure.Time(time.Second))},
		}
	}
	got := shown([]measure.Figure{at(1, time.Minute), at(2, time.Second), at(3, time.Second), at(4, time.Second)})
	if len(got) != 2 || got[0].Size != 1 || got[1].Size != 4 {
		t.Errorf("it shows %s", got)
	}
}

func TestMistakesAreTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	for _, args := range [][]string{{"unknown"}, {"-results", file, "-page", file}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
