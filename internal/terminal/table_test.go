package terminal_test

import (
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

// TestAge writes ages as kubectl does, with one unit.
func TestAge(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
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
		if got := terminal.Age(now.Add(-ago), now); got != want {
			t.Errorf("%s ago is %q, want %q", ago, got, want)
		}
	}
	if got := terminal.Age(time.Time{}, now); got != "-" {
		t.Errorf("no time is %q, want -", got)
	}
}

// TestTables have columns as wide as they need, counted in characters and not in bytes, and no blank at a line's end.
func TestTables(t *testing.T) {
	table := terminal.Table{Head: []string{"NAME", "WHY"}, Rows: [][]string{{"größer", "x"}, {"a", ""}}}
	if got, want := table.String(), "NAME     WHY\ngrößer   x\na\n"; got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if got := (terminal.Table{Head: []string{"NAME"}}).String(); got != "" {
		t.Errorf("a table without rows is %q, want nothing", got)
	}
}
