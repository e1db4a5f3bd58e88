package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// TestManyStepsAreOneLine: an update with up to 100 steps has a line for each step, and a larger one has one line.
func TestManyStepsAreOneLine(t *testing.T) {
	for _, c := range []struct {
		files, units int
		undone       bool
		lines        int
		want         string
	}{
		{files: 99, units: 1, lines: 100, want: `msg=done step="write /etc/f98"`},
		{files: 4000, units: 50, lines: 1, want: `msg="done 4,050 steps: 4,000 files, 50 units, in 0s"`},
		{files: 101, undone: true, lines: 1, want: `msg="rolled back 101 steps: 101 files, in 0s"`},
	} {
		var out bytes.Buffer
		l := &stepLog{log: slog.New(slog.NewTextHandler(&out, nil))}
		l.begin(c.files + c.units)
		for i := range c.files {
			l.step(host.Step{Verb: host.Write, Target: fmt.Sprintf("/etc/f%d", i)}, c.undone)
		}
		for i := range c.units {
			l.step(host.Step{Verb: host.Restart, Target: fmt.Sprintf("u%d.service", i)}, c.undone)
		}
		l.end()
		l.end()
		if n := strings.Count(out.String(), "\n"); n != c.lines || !strings.Contains(out.String(), c.want) {
			t.Errorf("%d files, %d units: %d lines, want %d with %s:\n%.500s", c.files, c.units, n, c.lines, c.want,
				out.String())
		}
	}
}
