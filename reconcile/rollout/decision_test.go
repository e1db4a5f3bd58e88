package rollout_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

var update = flag.Bool("update", false, "rewrite the decisions in testdata")

// noon is the time of every test.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestWaves replays testdata/*.txtar: a pool as text, and the decision that follows from it as text.
func TestWaves(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f := parseFacts(t, string(ar.Files[0].Data))
			got := print(f, rollout.Next(f, noon))
			if *update {
				ar.Files = append(ar.Files[:1], txtar.File{Name: "decision", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(ar.Files) != 2 {
				t.Fatalf("%s holds no decision yet: run with -update and read the diff", file)
			}
			if diff := gocmp.Diff(string(ar.Files[1].Data), got); diff != "" {
				t.Errorf("another decision (-want +got):\n%s", diff)
			}
		})
	}
}

// print writes a decision and the pool's counts as text.
func print(f poolstate.Facts, w poolstate.Decision) string {
	var b strings.Builder
	for _, a := range w.Assign {
		fmt.Fprintf(&b, "tell %s %s, was %s", a.Node, a.Config, cmp.Or(a.Was, version("nothing")))
		for _, extra := range []struct {
			is   bool
			text string
		}{{a.Recovery, "recovery"}, {a.DropImage, "drop its image"}, {a.Untaint, "untaint"}} {
			if extra.is {
				b.WriteString(", " + extra.text)
			}
		}
		b.WriteString("\n")
	}
	for _, a := range w.Announce {
		fmt.Fprintf(&b, "announce %s %s%s\n", a.Node, cmp.Or(a.Next, "nothing"),
			map[bool]string{true: ", taint"}[a.Taint]+map[bool]string{true: ", untaint"}[a.Untaint])
	}
	for _, x := range rollout.Explain(f, w, noon) {
		fmt.Fprintf(&b, "%s waits, %s: %s\n", x.Node, x.Cause, x.Reason)
	}
	if len(w.Taint) > 0 {
		fmt.Fprintf(&b, "taint %s\n", strings.Join(w.Taint, " "))
	}
	if len(w.Untaint) > 0 {
		fmt.Fprintf(&b, "untaint %s\n", strings.Join(w.Untaint, " "))
	}
	if len(w.DropImage) > 0 {
		fmt.Fprintf(&b, "drop the image of %s\n", strings.Join(w.DropImage, " "))
	}
	if w.RequeueAfter > 0 {
		fmt.Fprintf(&b, "look again in %s\n", w.RequeueAfter)
	}
	for _, r := range w.Release {
		fmt.Fprintf(&b, "release %s to %s, postponed %q, drains %q\n", r.Node, r.Config, r.Postponed, r.Drains)
	}
	for _, l := range w.Label {
		if l.Attest {
			fmt.Fprintf(&b, "read the records of %s\n", l.Node)
			continue
		}
		fmt.Fprintf(&b, "label %s %v\n", l.Node, l.Labels)
	}
	for _, x := range w.Blocks {
		fmt.Fprintf(&b, "blocked, %s: %s", x.Cause, x.Reason)
		if !x.Until.IsZero() {
			fmt.Fprintf(&b, " [until %s]", x.Until.UTC().Format(time.RFC3339))
		}
		b.WriteString("\n")
	}
	if s := w.Stage; s.Of > 0 {
		fmt.Fprintf(&b, "stage %d of %d, %d of %d well", s.Step, s.Of, s.Healthy, s.Want)
		if s.Due {
			b.WriteString(", due")
		}
		b.WriteString("\n")
	}
	if len(f.Care.Pace.Policies) > 0 || f.Care.Record.Config != "" {
		if text := w.Record.String(); text == f.Care.Record.String() {
			b.WriteString("record as it was\n")
		} else {
			fmt.Fprintf(&b, "record %s\n", text)
		}
	}
	if w.Target != f.Target {
		fmt.Fprintf(&b, "target %s\n", w.Target)
	}
	c := w.Counts
	fmt.Fprintf(&b, "%d machines: %d updated, %d ready, %d unavailable, %d degraded\n", c.Machines, c.Updated, c.Ready,
		c.Unavailable, c.Degraded)
	return b.String()
}
