package inspect_test

import (
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/inspect"
)

// TestAge writes ages as kubectl does, with one unit.
func TestAge(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		-time.Hour:                      "0s", // clocks differ
		0:                               "0s",
		119 * time.Second:               "119s",
		2 * time.Minute:                 "2m",
		119 * time.Minute:               "119m",
		2 * time.Hour:                   "2h",
		47*time.Hour + 59*time.Minute:   "47h",
		48 * time.Hour:                  "2d",
		400*24*time.Hour + 23*time.Hour: "400d",
	} {
		if got := inspect.Age(noon.Add(-ago), noon); got != want {
			t.Errorf("%s ago is %q, want %q", ago, got, want)
		}
	}
	if got := inspect.Age(time.Time{}, noon); got != "-" {
		t.Errorf("no time is %q, want -", got)
	}
}

// TestShortRendered keeps the pool and five digits.
func TestShortRendered(t *testing.T) {
	for name, want := range map[string]string{
		"rendered-worker-77b0cfa4c32a9bb34b9b4b4b4b4b4b4b": "rendered-worker-77b0c",
		"rendered-gpu-large-77b0cfa4c32a9bb34b9b4b4b4b4b4": "rendered-gpu-large-77b0c",
		"rendered-worker-77b0c":                            "rendered-worker-77b0c",
		"plain":                                            "plain",
		"":                                                 "",
	} {
		if got := inspect.ShortRendered(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// TestTables have columns as wide as they need, counted in characters and not in bytes, and no blank at a line's end.
func TestTables(t *testing.T) {
	table := inspect.Table{Head: []string{"NAME", "WHY"}, Rows: [][]string{{"größer", "x"}, {"a", ""}}}
	if got, want := table.String(), "NAME     WHY\ngrößer   x\na\n"; got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if got := (inspect.Table{Head: []string{"NAME"}}).String(); got != "" {
		t.Errorf("a table without rows is %q, want nothing", got)
	}
}
