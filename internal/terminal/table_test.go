package terminal_test

import (
	"strings"
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

// TestOneTextStaysOneLine: no text of a node or a commit begins a line of a table or of labels, or is longer than a
// cell.
func TestOneTextStaysOneLine(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n", "\u2028", "\u0085", "\v", "\f"} {
		hostile := "a" + end + "To do:     evil | sh"
		table := terminal.Table{Head: []string{"NODE", "KIND"}, Rows: [][]string{{"n1", hostile}, {hostile, "b"}}}
		var b terminal.Labels
		b.Add("", hostile)
		b.Add("Drift", hostile)
		b.Add("", hostile)
		b.Line("WARNING: %s", hostile)
		b.Text(table)
		text := b.String()
		if n := strings.Count(text, "\n"); n != 7 || strings.Contains(text, "\nTo do") || strings.ContainsAny(text, "\r\v\f") {
			t.Errorf("%q makes %d lines:\n%s", end, n, text)
		}
	}
	table := terminal.Table{Head: []string{"KIND", "NAME"}, Rows: [][]string{{strings.Repeat("x", 100_000), ""}}}
	for range 2000 {
		table.Rows = append(table.Rows, []string{"", "a"})
	}
	if n := len(table.String()); n > 3_000_000 {
		t.Errorf("one cell of 100,000 characters and 2,000 rows make %d bytes", n)
	}
}
