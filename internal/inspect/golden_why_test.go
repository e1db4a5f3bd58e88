package inspect_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// why is what `bunsen why` prints, with the outcome that its exit code tells.
func (c cluster) why(t *testing.T, what string) string {
	t.Helper()
	kind, name, _ := strings.Cut(what, "/")
	ask := map[string]func(fleet.Cluster, string, time.Time) (inspect.Why, error){
		"node": inspect.WhyNode,
		"pool": inspect.WhyPool, "gitsource": inspect.WhySource,
	}[kind]
	w, err := ask(c.Cluster, name, noon)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	if _, err := json.Marshal(w); err != nil {
		t.Errorf("why %s -o json: %v", what, err)
	}
	return w.Text(noon) + "outcome " + string(w.Outcome) + "\n"
}

func (c cluster) history(t *testing.T, what string) string {
	t.Helper()
	h, err := history.New(c.Cluster, strings.TrimPrefix(what, "pool/"), noon)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return h.Text(noon)
}

// screen is the live screen of a size such as 80x24, between bars that show its width.
func screen(t *testing.T, s inspect.Overview, what string) string {
	t.Helper()
	var size terminal.Size
	if _, err := fmt.Sscanf(what, "%dx%d", &size.Width, &size.Height); err != nil {
		t.Fatalf("screen %s: want a size such as 80x24", what)
	}
	lines := s.Screen(size, noon)
	if len(lines) > size.Height {
		t.Errorf("screen %s has %d lines", what, len(lines))
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Cut(size.Width, false) + "\n")
	}
	return b.String()
}

// course is the stages of a pool's rollout, when it is expected to end, and the rules in force.
func (c cluster) course(pool string) string {
	f := fleet.New(c.Cluster, noon)
	var b strings.Builder
	for _, s := range inspect.Stages(f, pool) {
		fmt.Fprintf(&b, "%-6s %s: %s\n", s.State, s.Name, s.Detail)
	}
	if at := inspect.Expected(f, pool); at != nil {
		fmt.Fprintf(&b, "expected %s\n", at.Format(time.TimeOnly))
	}
	for _, r := range inspect.Rules(f, pool) {
		fmt.Fprintf(&b, "rule   %s: %s\n", r.Name, r.Text)
	}
	return b.String()
}

// summary is what the console shows first: the head, and which subjects need a person since when, move, or do neither.
func (c cluster) summary() string {
	o := inspect.NewOverview(c.Cluster, noon)
	var b strings.Builder
	fmt.Fprintf(&b, "%s · %s\n", o.Headline(), o.Counts())
	for _, w := range o.Needs() {
		since := "unknown"
		if w.Since != nil {
			since = w.Since.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "needs %s since %s\n", w.About, since)
	}
	for _, w := range o.Moves() {
		fmt.Fprintf(&b, "moves %s\n", w.About)
	}
	for _, row := range o.Rest() {
		fmt.Fprintf(&b, "rest  %s\n", row.Name)
	}
	return b.String()
}

// order is what pause, resume and retry would do.
func (c cluster) order(t *testing.T, verb, what string) string {
	t.Helper()
	var o kube.HoldOrder
	what, openFor, opens := strings.Cut(what, " --open-for ")
	what, until, _ := strings.Cut(what, " --until ")
	end, err := cli.ParseUntil(until, noon)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	kind, name, _ := strings.Cut(what, "/")
	switch {
	case verb == "pause":
		o, err = kube.Pause(c.Cluster, name, kube.HoldReason{Who: "ada", Because: "it's a  factory freeze", Until: end})
	case verb == "suspend":
		o, err = kube.Suspend(c.Cluster, name, kube.HoldReason{Who: "ada", Because: "the git server moves", Until: end},
			noon)
	case verb == "resume" && kind == "gitsource":
		o, err = kube.ResumeSource(c.Cluster, name, noon)
	case verb == "resume":
		var long *time.Duration
		if d, err := time.ParseDuration(openFor); opens && err == nil {
			long = &d
		}
		o, err = kube.Resume(fleet.New(c.Cluster, noon), name, long)
	case kind == "pool":
		o, err = kube.RetryPool(fleet.New(c.Cluster, noon), name, "ada")
	default:
		o, err = kube.RetryNode(fleet.New(c.Cluster, noon), name)
	}
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, change := range o.Changes {
		fmt.Fprintf(&b, "%s\n  %s\n", change.Did, change.Kubectl())
	}
	for _, note := range o.Notes {
		b.WriteString(note + "\n")
	}
	return b.String()
}
