package view

import (
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

func TestTitles(t *testing.T) {
	target := &fleet.RenderedRow{Name: "rendered-edge-1", Subject: "Configure the app", Author: "Ada <a@example.com>"}
	long := strings.Repeat("x", 70)
	for name, c := range map[string]struct {
		reason, title, rest string
		cause               poolstate.Cause
	}{
		"a halted rollout is named by its commit": {
			"the rollout of rendered-edge-1 is halted: node-1 failed " + long, `The rollout of "Configure the app" is halted`,
			"node-1 failed " + long, poolstate.CauseHalted,
		},
		"a pool that went back is too": {
			"pool edge was reverted: node-1 failed " + long, `The pool went back from "Configure the app"`,
			"node-1 failed " + long, poolstate.CauseReverted,
		},
		"a short reason is the title":           {"paused by ada", "Paused by ada", "", poolstate.CausePaused},
		"the name of a node keeps its letters":  {"node-23 drains", "node-23 drains", "", poolstate.CauseDrain},
		"a long reason is a title and its rest": {"it waits: " + long, "It waits", long, poolstate.CauseBudget},
	} {
		t.Run(name, func(t *testing.T) {
			w := inspect.Why{About: "pool/edge", Target: target}
			w.Outcome, w.Reason, w.Cause = inspect.Degraded, c.reason, c.cause
			if n := needOf(w, time.Time{}); n.Title != c.title || n.Rest != c.rest {
				t.Errorf("the title is %q, and the rest %q", n.Title, n.Rest)
			}
		})
	}
}

func TestInitials(t *testing.T) {
	for name, want := range map[string]string{
		"Ada Lovelace": "AL", "grace brewster hopper": "GH", "root": "R", "": "?", "<>": "?", "Ñandú 7": "Ñ7",
	} {
		if got := initials(name); got != want {
			t.Errorf("the initials of %q are %q, want %q", name, got, want)
		}
	}
}

func TestColours(t *testing.T) {
	for name, c := range map[string]struct{ file, line, want string }{
		"a key of YAML":              {"a.bu", "  - path: /etc/x", `  - <span class="k">path</span>: /etc/x`},
		"a comment":                  {"a.yaml", "  # why", `<span class="c">  # why</span>`},
		"a section of a unit":        {"a.service", "[Unit]", `<span class="k">[Unit]</span>`},
		"a setting of a unit":        {"a.service", "Type=oneshot", `<span class="k">Type</span>=oneshot`},
		"a word of a conf file":      {"chrony.conf", "pool a iburst", `<span class="k">pool</span> a iburst`},
		"a quoted text":              {"a.toml", `a = "b"`, `<span class="k">a</span> = <span class="s">&#34;b&#34;</span>`},
		"a quote that does not end":  {"a.toml", `a = "b`, `<span class="k">a</span> = &#34;b`},
		"a file of another kind":     {"a.bin", "a = b", "a = b"},
		"markup is text":             {"a.bu", "<b>: 1", `<span class="k">&lt;b&gt;</span>: 1`},
		"a hidden character is seen": {"a.bu", "a: \u202e", `<span class="k">a</span>: \u202e`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(languageOf(c.file).colour(c.line)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestSides: lines that replace each other stand side by side, and others alone.
func TestSides(t *testing.T) {
	rows, more := diffRows([]string{
		"@@ -1 +1 @@", " same", "-a", "-b", "+c", "@@ -9 +9 @@", "+d", "-e", "# note", "+",
	}, 9, nil)
	var got []string
	for _, r := range rows {
		got = append(got, string(r.Before)+"|"+string(r.After)+"|"+string(r.Same)+"|"+string(r.Remark))
	}
	want := "||same| a|c|| b||| |||⋯ |d|| e||| |||# note"
	if text := strings.Join(got, " "); text != want || more != 1 || !hasSides(rows) {
		t.Errorf("%d more, sides %t:\n%s, want\n%s", more, hasSides(rows), text, want)
	}
}
