package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/source"
)

// mostListed is how many nodes or pods a block of text lists.
const mostListed = 20

// Text prints the answer: a sentence, then what stands behind it, then what to type.
func (w Why) Text(now time.Time) string {
	b := blocks{}
	b.line("", w.About+" "+w.verb()+": "+w.short())
	b.gap()
	for _, a := range w.Also {
		b.line("Also", a.short()+a.when(now))
	}
	if w.Until != nil && w.Cause != rollout.CauseWindow {
		b.line("Until", moment(*w.Until, nil, now))
	}
	if w.Node != nil {
		b.line("Node", w.nodeLine(now))
	}
	if w.Source != nil {
		b.line("Source", w.Source.line(now))
	}
	if w.Runs != nil && w.Runs.Name != "" && (w.Target == nil || w.Runs.Name != w.Target.Name) {
		b.line("Runs", w.Runs.commit())
	}
	if w.Pool != nil {
		b.line("Pool", w.Pool.Name+"   "+w.Pool.numbers())
		b.line("Step", w.Pool.Step)
	}
	if w.Target != nil && w.Target.Name != "" {
		b.line("Target", w.Target.commit())
		b.line("Manual", manualText(w.Target.Manual))
	}
	if w.Back != nil && w.Back.Name != "" {
		b.line("Back to", w.Back.commit())
	}
	if w.Windows != nil {
		b.line("Windows", w.Windows.Text(now))
	}
	w.busy(&b, now)
	w.drain(&b, now)
	for _, d := range w.Drift {
		b.line("Drift", fmt.Sprintf("%s   %s   %s%s", d.Name, d.Kind, d.Action, since(d.Since.Time, now)))
	}
	for _, do := range w.commands() {
		b.line("To do", do)
	}
	return b.String()
}

// verb is how the sentence begins.
func (w Why) verb() string {
	switch {
	case w.Node != nil && w.Cause == rollout.CauseHalted: // it is not the node that failed
		return "is held back"
	case w.Node != nil && w.Cause == rollout.CauseReverted:
		return "went back"
	case w.Outcome == Blocked:
		return "is blocked"
	case w.Outcome == Degraded:
		return "is degraded"
	case w.Outcome == Fine:
		return "is fine"
	case w.Cause == rollout.CauseUpdating, w.Cause == rollout.CauseNext:
		return "is updating"
	}
	return "waits"
}

// when says until when the reason holds.
func (a Answer) when(now time.Time) string {
	if a.Until == nil || a.Cause == rollout.CauseWindow {
		return ""
	}
	return "; until " + moment(*a.Until, nil, now)
}

func (w Why) nodeLine(now time.Time) string {
	n := w.Node
	text := n.Name + "   " + n.state(now)
	if n.Step != "" {
		text += ", " + n.Step
		if n.Since != nil {
			text += since(*n.Since, now)
		}
	}
	if n.Desired != "" && n.Desired != n.Current {
		text += "   " + dash(ShortRendered(n.Current)) + " → " + ShortRendered(n.Desired)
	}
	return text
}

// commit is the config and the commit behind it, as far as it is known.
func (r RenderedRow) commit() string {
	if r.Revision == "" && len(r.API) == 0 {
		return r.Name + "   (its commit is not known)"
	}
	asked := v1alpha1.Requester{Revision: r.Revision, Subject: r.Subject, Author: r.Author, API: r.API, AlsoCommit: !r.byAPI(), After: r.After, Unproven: r.Unproven}
	return r.Name + "   " + asked.Text(commitText)
}

// manualText names MachineConfigs that no repository has; empty where there are none.
func manualText(names []string) string {
	const most = 3
	switch n := len(names); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf("MachineConfigs %s and %d more, which no repository has", strings.Join(names[:most], ", "), n-most)
	case n > 1:
		return "MachineConfigs " + strings.Join(names, ", ") + ", which no repository has"
	}
	return "MachineConfig " + names[0] + ", which no repository has"
}

// commitText names a commit with its subject and its author, as far as they are known.
func commitText(c v1alpha1.CommitRef) string {
	text := shortRevision(c.Revision)
	if c.Subject != "" {
		text += " " + source.Quote(c.Subject)
	}
	if c.Author != "" {
		text += "   " + c.Author
	}
	return text
}

// numbers counts the pool's nodes in words.
func (r PoolRow) numbers() string {
	return fmt.Sprintf("%d of %d nodes updated, %s", r.Updated, r.Nodes, r.others())
}

// others are the nodes that are not updated.
func (r PoolCounts) others() string {
	text := fmt.Sprintf("%d busy, %d waiting, %d failed", r.Busy, r.Waiting, r.Degraded)
	if r.Back > 0 {
		text += fmt.Sprintf(", %d went back", r.Back)
	}
	if r.Unready > 0 {
		text += fmt.Sprintf(", %d unready", r.Unready)
	}
	if r.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown", r.Unknown)
	}
	return text
}

// busy lists the nodes that are at work, and those that failed with what.
func (w Why) busy(b *blocks, now time.Time) {
	for i, n := range w.Busy {
		if i == mostListed {
			b.line("", fmt.Sprintf("and %d more: bunsen get nodes", len(w.Busy)-i))
			return
		}
		if n.Step == StepFailed {
			if n.Cause == v1alpha1.FailureDrift || n.Cause == v1alpha1.FailureNoConfig || n.Cause == v1alpha1.FailureLost {
				b.line("Failed", n.Name) // no commit is at fault
			} else {
				b.line("Failed", n.Name+"   "+n.Config.commit())
			}
			lines := strings.Split(strings.TrimSpace(n.Reason), "\n")
			if len(lines) == 1 && w.says(n.Name+" "+failure(n.NodeRow)) {
				continue
			}
			for _, line := range lines {
				b.line("", "  "+line)
			}
			continue
		}
		if n.Failed != "" {
			b.line("Failed", n.Name+"   "+n.Config.commit())
			if !w.says(n.Name + " " + n.Failed) {
				b.line("", "  "+shorten(n.Failed))
			}
			if !n.InFlight() {
				continue
			}
		}
		text := n.Step
		switch {
		case strings.HasPrefix(n.Reason, n.Step):
			text = brief(n.Reason)
		case n.Reason != "":
			text += ": " + brief(n.Reason)
		}
		if n.Since != nil && !strings.Contains(text, " since ") && !strings.Contains(text, " for ") {
			text += since(*n.Since, now)
		}
		b.line("In flight", n.Name+"   "+text)
	}
}

// says reports whether a reason above has this text already.
func (w Why) says(text string) bool {
	return slices.ContainsFunc(append([]Answer{w.Answer}, w.Also...), func(a Answer) bool { return strings.Contains(a.short(), shorten(text)) })
}

// drain lists the pods of the node that is asked about.
func (w Why) drain(b *blocks, now time.Time) {
	if w.Drain == nil {
		return
	}
	b.line("Drain", fmt.Sprintf("to %s,%s", ShortRendered(w.Drain.For), since(w.Drain.Started.Time, now)))
	t, more := Table{Head: []string{"POD", "STATE", "SINCE", "WHY"}}, w.Drain.More
	for i, p := range w.Drain.Pods {
		if i == mostListed {
			more += len(w.Drain.Pods) - i
			break
		}
		at := time.Time{}
		if p.Since != nil {
			at = p.Since.Time
		}
		t.Rows = append(t.Rows, []string{p.Pod, string(p.State), Age(at, now), p.Why})
	}
	for _, line := range strings.Split(strings.TrimRight(t.String(), "\n"), "\n") {
		b.line("", line)
	}
	if more > 0 {
		b.line("", fmt.Sprintf("and %d more pods", more))
	}
}

// commands are all that helps, each once, those for the first reason first, whatever the comments behind them. Alternatives come last.
func (w Why) commands() []string {
	var out, others []string
	seen := map[string]bool{}
	for _, a := range append([]Answer{w.Answer}, w.Also...) {
		for _, do := range a.Do {
			command, _, _ := strings.Cut(do, "   # ")
			switch {
			case seen[command]:
			case isAlternative(do):
				others = append(others, do)
			default:
				out = append(out, do)
			}
			seen[command] = true
		}
	}
	return append(out, others...)
}

// blocks are lines under labels; a label that comes again is not repeated.
type blocks struct {
	b    strings.Builder
	last string
}

// line adds one, or nothing where there is no text. Without a label it belongs to the one before.
func (b *blocks) line(label, text string) {
	const wide = 11
	switch {
	case text == "":
		return
	case b.b.Len() == 0:
		b.b.WriteString(text + "\n")
		return
	case label == "" || label == b.last:
		b.b.WriteString(strings.Repeat(" ", wide))
	default:
		fmt.Fprintf(&b.b, "%-*s", wide, label+":")
		b.last = label
	}
	b.b.WriteString(strings.TrimRight(text, " ") + "\n")
}

func (b *blocks) gap() { b.b.WriteString("\n") }

// String is all of it, without an empty end.
func (b *blocks) String() string { return strings.TrimRight(b.b.String(), "\n") + "\n" }
