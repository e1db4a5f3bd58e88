package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// mostListed is for a block of text.
const mostListed = 20

// Text prints the answer as a sentence, then the facts that support the answer, then commands.
func (w Why) Text(now time.Time) string {
	b := terminal.Labels{}
	b.Add("", w.Sentence())
	b.Gap()
	for _, problem := range w.others() {
		b.Add("More", problem)
	}
	for _, a := range w.Also {
		if !w.delaysOnly(a) {
			b.Add("Also", w.AlsoText(a, now))
			for _, problem := range a.others() {
				b.Add("", "  "+problem)
			}
		}
	}
	b.Add("Also", w.sameForText())
	if w.Until != nil && w.Cause != poolstate.CauseWindow {
		b.Add("Until", fleet.Moment(*w.Until, nil, now))
	}
	w.addSubjects(&b, now)
	w.addConfigs(&b)
	b.Add("Windows", w.WindowsText(now))
	w.addBusy(&b, now)
	w.addDrain(&b, now)
	for _, d := range w.Drift {
		b.Add("Drift", fmt.Sprintf("%s   %s   %s%s", d.Name, d.Kind, d.Action, fleet.Since(d.Since.Time, now)))
	}
	addTrust(&b, w.Trust, now)
	for _, a := range w.Also {
		if w.delaysOnly(a) {
			b.Add("Also", w.AlsoText(a, now))
			for _, problem := range a.others() {
				b.Add("", "  "+problem)
			}
		}
	}
	for _, do := range w.Commands() {
		b.Add("To do", do)
	}
	return b.String()
}

// AlsoText returns a further answer as text. About a GitSource, it says that only newer commits wait for it.
func (w Why) AlsoText(a Answer, now time.Time) string {
	text := a.Short() + a.When(now)
	if w.delaysOnly(a) {
		text = "no newer commit reaches it: " + text
	}
	return text
}

// delaysOnly reports whether an answer is about a GitSource, and not why the pool's config is not rolled out.
func (w Why) delaysOnly(a Answer) bool {
	return a.source != "" && w.source == "" && w.Outcome.NeedsUser() && a.Outcome.NeedsUser()
}

// addTrust adds the problems of the files beside a node's config.
func addTrust(b *terminal.Labels, r *v1alpha1.TrustReport, now time.Time) {
	if r == nil {
		return
	}
	add := func(format string, args ...any) { b.Add("Trust", safetext.OneLine(fmt.Sprintf(format, args...))) }
	if r.Failed != "" {
		add("the node keeps its earlier files: %s", r.Failed)
	}
	for _, p := range r.Blocked {
		add("%s   blocked   from %s   %s", p.Path, p.From, p.Why)
	}
	for _, e := range r.Expiring {
		word := "expires"
		if e.Expires.Before(now) {
			word = "expired"
		}
		add("%s   %s %s   from %s", e.Path, word, e.Expires.UTC().Format(time.RFC3339), e.From)
	}
	for _, p := range r.Conflicts {
		add("%s   the config has this path, so the file of %s is not used", p.Path, p.From)
	}
	if r.More > 0 {
		add("and %d more", r.More)
	}
}

func (w Why) addSubjects(b *terminal.Labels, now time.Time) {
	if w.Node != nil {
		b.Add("Node", w.nodeLine(now))
	}
	if w.Source != nil {
		b.Add("Source", w.Source.line(now))
	}
	if w.Runs != nil && w.Runs.Name != "" && (w.Target == nil || w.Runs.Name != w.Target.Name) {
		b.Add("Runs", w.Runs.CommitText())
	}
	if w.Pool != nil {
		b.Add("Pool", w.Pool.Name+"   "+w.Pool.numbers())
		b.Add("Step", w.Pool.Step)
	}
}

// addConfigs adds the target with the changes of its secrets, and where a reverted pool returned to.
func (w Why) addConfigs(b *terminal.Labels) {
	if w.Target != nil && w.Target.Name != "" {
		b.Add("Target", w.Target.CommitText())
		b.Add("Manual", manualText(w.Target.Manual))
		for _, text := range w.Target.Secrets.Texts() {
			b.Add("Secret", text)
		}
	}
	if w.Back != nil && w.Back.Name != "" {
		b.Add("Back to", w.Back.CommitText())
	}
}

// Sentence returns the answer in one sentence.
func (w Why) Sentence() string {
	if w.predicate != "" {
		return w.About + " " + fleet.Shorten(fleet.OneLine(w.predicate))
	}
	return w.About + " " + w.verb() + ": " + w.Short()
}

func (w Why) verb() string {
	switch {
	case w.Node != nil && w.Cause == poolstate.CauseHalted: // This node is not the failed node.
		return "is held back"
	case w.Node != nil && w.Cause == poolstate.CauseReverted:
		return "went back"
	case w.Outcome == Blocked:
		return "is blocked"
	case w.Outcome == Degraded:
		return "is degraded"
	case w.Outcome == Unknown && w.Node == nil: // Some of its nodes report.
		return "is partly unknown"
	case w.Outcome == Unknown:
		return "is unknown"
	case w.Outcome == Fine:
		return "is fine"
	case w.Cause == poolstate.CauseUpdating, w.Cause == poolstate.CauseNext:
		return "is updating"
	}
	return "waits"
}

func (w Why) nodeLine(now time.Time) string {
	n := w.Node
	text := n.Name + "   " + n.StateText(now)
	if n.Step != "" {
		text += ", " + n.Step
		if n.Since != nil {
			text += fleet.Since(*n.Since, now)
		}
	}
	if !n.Desired.IsZero() && n.Desired != n.Current {
		text += "   " + terminal.Dash(fleet.ShortRendered(n.Current.String())) + " → " +
			fleet.ShortRendered(n.Desired.String())
	}
	return text
}

// manualText names MachineConfigs that no repository has, or is empty.
func manualText(names []string) string {
	const most = 3
	kind := "MachineConfig "
	switch len(names) {
	case 0:
		return ""
	case 1:
	default:
		kind = "MachineConfigs "
	}
	return kind + fleet.Names(names, most) + ", which no repository has"
}

func (r PoolRow) numbers() string {
	return fmt.Sprintf("%d of %d nodes updated, %s", r.Updated, r.Nodes, r.OthersText())
}

// addBusy adds the nodes at work, and the failed ones with the reason.
func (w Why) addBusy(b *terminal.Labels, now time.Time) {
	for i, n := range w.Busy {
		if i == mostListed {
			b.Add("", fmt.Sprintf("and %d more: bunsen get nodes", len(w.Busy)-i))
			return
		}
		if n.Step == fleet.StepFailed {
			w.addFailed(b, n)
			continue
		}
		if n.Failed != "" {
			b.Add("Failed", n.Name+"   "+n.Config.CommitText())
			if !w.saysFailure(n.Name, n.Failed) {
				b.Add("", "  "+fleet.Shorten(n.Failed))
			}
		}
		if n.Failed == "" || n.InFlight() {
			b.Add("In flight", n.Name+"   "+w.withoutTold(n.StepText(now)))
		}
	}
}

// WindowsText says how the maintenance windows are; "" for none, and if an answer says it.
func (w Why) WindowsText(now time.Time) string {
	if w.Windows == nil || w.says(w.Windows.Text(now)) {
		return ""
	}
	return w.Windows.Text(now)
}

// withoutTold leaves out the pods of a drain that an answer already names.
func (w Why) withoutTold(text string) string {
	const left = " left: "
	if before, pods, found := strings.Cut(text, left); found && w.says(pods) {
		return before + strings.TrimSuffix(left, ": ")
	}
	return text
}

// addFailed leaves out a reason that an answer already has.
func (w Why) addFailed(b *terminal.Labels, n BusyNode) {
	commit := "   " + n.Config.CommitText()
	switch n.Cause {
	// The commit is not the cause of these failures.
	case v1alpha1.FailureDrift, v1alpha1.FailureNoConfig, v1alpha1.FailureNoAccess, v1alpha1.FailureLost,
		v1alpha1.FailureDrain, v1alpha1.FailureUncordon:
		commit = ""
	}
	b.Add("Failed", n.Name+commit)
	lines := strings.Split(strings.TrimSpace(n.Reason), "\n")
	if len(lines) == 1 && w.saysFailure(n.Name, strings.TrimSuffix(FailureText(n.NodeRow), fleet.Undecided)) {
		return
	}
	for _, line := range lines {
		b.Add("", "  "+line)
	}
}

// says reports whether a reason above already has this text.
func (w Why) says(text string) bool {
	return slices.ContainsFunc(append([]Answer{w.Answer}, w.Also...), func(a Answer) bool {
		return strings.Contains(a.Short(), fleet.Shorten(text))
	})
}

// saysFailure reports whether a reason above already has this failure of a node, with its config or, about a rollout of
// this config, without.
func (w Why) saysFailure(node, text string) bool {
	_, why, found := strings.Cut(text, ": ")
	return w.says(node+" "+text) || found && strings.HasPrefix(text, "failed ") && w.says("failed: "+why)
}

// addDrain adds the pods that the drain waits for.
func (w Why) addDrain(b *terminal.Labels, now time.Time) {
	if w.Drain == nil {
		return
	}
	b.Add("Drain", fmt.Sprintf("to %s,%s", fleet.ShortRendered(w.Drain.For), fleet.Since(w.Drain.Started.Time, now)))
	t, more := terminal.Table{Head: []string{"POD", "STATE", "SINCE", "WHY"}}, w.Drain.More
	for i, p := range w.Drain.Pods {
		if i == mostListed {
			more += len(w.Drain.Pods) - i
			break
		}
		at := time.Time{}
		if p.Since != nil {
			at = p.Since.Time
		}
		t.Rows = append(t.Rows, []string{p.Pod, string(p.State), terminal.Age(at, now), drain.PodText(p)})
	}
	for _, line := range strings.Split(strings.TrimRight(t.String(), "\n"), "\n") {
		b.Add("", line)
	}
	if more > 0 {
		b.Add("", fmt.Sprintf("and %d more pods", more))
	}
}

// isIntended reports whether the answer only says that a user keeps new commits from the subject: nothing is wrong with
// that.
func (a Answer) isIntended() bool {
	isResume := func(do string) bool { return strings.HasPrefix(do, "bunsen resume ") }
	return a.Outcome == Fine && (a.Cause == poolstate.CauseHeld || a.Cause == poolstate.CausePaused ||
		a.Cause == fleet.CauseSource && slices.ContainsFunc(a.Do, isResume))
}

// isOfConfig reports whether the config may be the problem, so that it helps to let the next commit come.
func (w Why) isOfConfig() bool {
	switch w.Cause {
	case poolstate.CauseHalted, poolstate.CauseReverted, poolstate.CauseFailed, fleet.CauseRender:
		return true
	}
	return false
}

// isOfHost reports whether a command is typed on a node or on another host.
func isOfHost(command string) bool {
	program, _, _ := strings.Cut(command, " ")
	return slices.Contains([]string{"journalctl", "kill", "systemctl", "touch"}, program)
}

// Commands returns all commands that help, each once, whatever its comment: those for the main reason first,
// alternatives last. What a user stopped on purpose is not started again to solve another problem.
func (w Why) Commands() []string {
	var out, others []string
	sources := map[string]bool{}
	seen := map[string]bool{}
	for _, a := range append([]Answer{w.Answer}, w.Also...) {
		if w.Outcome.NeedsUser() && a.isIntended() && !w.isOfConfig() {
			continue
		}
		// That the newest commit is refused is another problem than the one for which the user asks.
		if w.delaysOnly(a) {
			sources[a.source] = true
			continue
		}
		for _, do := range a.Do {
			command, note, _ := strings.Cut(do, "   # ")
			if isOfHost(command) { // The note names the host: the same command on another is another.
				command += note
			}
			switch {
			case seen[command]:
			case fleet.IsAlternative(do):
				others = append(others, do)
			default:
				out = append(out, do)
			}
			seen[command] = true
		}
	}
	out = append(out, others...)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		out = append(out, "bunsen why gitsource/"+name)
	}
	return out
}
