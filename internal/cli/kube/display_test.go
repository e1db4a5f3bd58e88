package kube

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func statusOf(updated int) inspect.Overview {
	return inspect.Overview{Status: inspect.Status{Pools: []inspect.PoolRow{{
		Name: "worker", Target: "rendered-worker-77b0cfa4c32a9bb34b9b4b4b4b4b4b4b",
		PoolCounts: fleet.PoolCounts{Nodes: 4, Updated: updated}, State: "Updating", Outcome: inspect.Progressing,
	}}}}
}

// TestALiveScreenDrawsOverItself: one write a frame, nothing wider or longer than the terminal, and the terminal as it
// was in the end.
func TestALiveScreenDrawsOverItself(t *testing.T) {
	var out bytes.Buffer
	size := terminal.Size{Width: 40, Height: 5}
	d := &Display{w: &out, size: func() terminal.Size { return size }}
	frame := func(s inspect.Overview, now time.Time) string {
		t.Helper()
		out.Reset()
		if err := d.show(s, now); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := frame(statusOf(1), noon)
	if !strings.HasPrefix(first, openScreen+beginFrame) || !strings.HasSuffix(first, endFrame) ||
		!strings.Contains(first, "1/4") {
		t.Errorf("the first frame is %q", first)
	}
	if again := frame(statusOf(1), noon); again != "" {
		t.Errorf("nothing changed, and it draws %q", again)
	}
	second := frame(statusOf(2), noon)
	if strings.Contains(second, openScreen) || !strings.Contains(second, "2/4") {
		t.Errorf("the second frame is %q", second)
	}
	if d.isDue(noon.Add(500 * time.Millisecond)) {
		t.Error("it draws again at once")
	}
	size = terminal.Size{Width: 20, Height: 3}
	if !d.isDue(noon.Add(500 * time.Millisecond)) {
		t.Error("a terminal of another size is not drawn on")
	}
	small := frame(statusOf(2), noon)
	if n := strings.Count(small, "\r\n"); n > 2 {
		t.Errorf("%d lines on a terminal of 3: %q", n+1, small)
	}
	for _, l := range d.frame(noon) {
		if terminal.Width(l) > 20 {
			t.Errorf("%q is wider than the terminal", l)
		}
	}
	out.Reset()
	if err := d.showMessage("waiting for the cluster: it does not answer"); err != nil ||
		!strings.Contains(out.String(), "waiting for the") {
		t.Errorf("it says %q, %v", out.String(), err)
	}
	out.Reset()
	d.close()
	d.close()
	if strings.Count(out.String(), closeScreen) != 1 || strings.Contains(out.String(), "\x1b[2K") {
		t.Errorf("in the end it writes %q", out.String())
	}
}

// TestWithoutATerminalEachChangeIsALine: no sequences, a time before each line, and an outage is told once.
func TestWithoutATerminalEachChangeIsALine(t *testing.T) {
	var out bytes.Buffer
	d := &Display{w: &out}
	outage := errors.New("connection refused")
	steps := []func() error{
		func() error { return d.show(statusOf(1), noon) },
		func() error { return d.show(statusOf(1), noon.Add(time.Hour)) },
		func() error { return d.showMessage(outage.Error()) },
		func() error { return d.showMessage(outage.Error()) },
		func() error { return d.show(statusOf(4), noon.Add(2*time.Hour)) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	d.close()
	if d.isDue(noon.Add(24 * time.Hour)) {
		t.Error("time alone makes a line")
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	wants := []string{
		"pool/worker rendered-worker-77b0c - 1 of 4", "connection refused", "the cluster answers again",
		"pool/worker rendered-worker-77b0c - 4 of 4",
	}
	if len(lines) != len(wants) {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, want := range wants {
		if !strings.Contains(lines[i], "Z "+want) || strings.Contains(lines[i], "\x1b") {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}
