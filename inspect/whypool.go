package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/source"
)

// reasons finds out why pools are not done.
type reasons struct{ *fleet }

// poolAnswers are all reasons why a pool is not done, worst first; at least one, which may be that it is. asked are the
// pools that wait for this one, so that a circle of them ends.
func (f reasons) poolAnswers(v *poolView, asked []string) []Answer {
	name := v.object.Name
	out := f.controllerAnswers()
	for _, b := range v.wave.Blocks {
		out = append(out, f.block(v, b, append(asked, name)))
	}
	out = f.withLiveness(v, out)
	if a, held := f.heldDrains(v); held {
		out = append([]Answer{a}, slices.DeleteFunc(out, func(o Answer) bool { return o.Cause == rollout.CauseDrain })...)
	}
	if why := v.renderFailure(); why != "" {
		out = append(out, Answer{Outcome: Blocked, Cause: CauseRender, Do: []string{"bunsen validate"}, Reason: "its newest configuration cannot be rendered: " + why})
	}
	out = append(out, f.sourceAnswers(v)...)
	if a, failed := f.failedNodes(v); failed {
		out = append(out, a)
	}
	if v.object.Status.ObservedGeneration < v.object.Generation {
		out = append(out, Answer{Outcome: Progressing, Cause: CauseStale, Reason: "the controller has not looked at the pool since it was changed; does it run?"})
	}
	if !slices.ContainsFunc(out, func(a Answer) bool { return a.Cause == rollout.CausePaused }) && v.object.Spec.Paused {
		out = append(out, Answer{
			Outcome: Fine, Cause: rollout.CausePaused, Reason: "it is paused" + by(v.object) + ", so that the next commit is not rolled out", Do: []string{"bunsen resume pool/" + name},
		})
	}
	out = worstFirst(out)
	course := f.course(v)
	if len(out) == 0 || out[0].Outcome == Fine || out[0].Outcome == Progressing && course.Outcome == Progressing && !isBlock(v, out[0]) {
		out = append([]Answer{course}, out...)
	}
	return out
}

// isBlock tells an answer of the rollout from what goes on beside it.
func isBlock(v *poolView, a Answer) bool {
	return slices.ContainsFunc(v.wave.Blocks, func(b rollout.Block) bool { return b.Cause == a.Cause })
}

// block is what a block of the rollout means for people.
func (f reasons) block(v *poolView, b rollout.Block, asked []string) Answer {
	name := v.object.Name
	a := Answer{Outcome: Blocked, Cause: b.Cause, Reason: b.Reason, Until: known(b.Until)}
	switch b.Cause {
	case rollout.CauseApplying:
		return applyingAnswer(b, v.object, f.Sources)
	case rollout.CausePaused:
		a.Reason = "paused" + by(v.object)
		a.Do = []string{"bunsen resume pool/" + name}
	case rollout.CauseHalted, rollout.CauseReverted:
		a.Outcome, a.Do = Degraded, append(f.undo(v.wave.Record.Config), "bunsen retry pool/"+name)
	case rollout.CauseAfterPool:
		a.Outcome = Progressing
		for _, ahead := range v.facts.Care.Around.Ahead {
			other := f.pools[ahead.Pool]
			if ahead.Done || other == nil || slices.Contains(asked, ahead.Pool) {
				continue
			}
			a.Do = append(a.Do, "bunsen why pool/"+ahead.Pool)
			if first := f.poolAnswers(other, asked)[0]; first.Outcome.rank() >= Blocked.rank() {
				a.Outcome = Blocked // it waits for what is blocked itself; its own nodes did not fail
			}
		}
	case rollout.CauseWindow:
		if w := f.window(v); w != nil {
			a.Reason = "its maintenance windows are " + w.Text(f.now)
		}
		a.Do = []string{"bunsen resume pool/" + name + " --open-for 2h"}
	case rollout.CauseInvalid:
		for _, name := range v.policies(b.Reason) {
			a.Do = append(a.Do, "kubectl edit rolloutpolicy "+name)
		}
	case rollout.CauseSoak, rollout.CauseTogether:
		a.Outcome = Progressing
	case rollout.CauseGate:
		if !b.Until.IsZero() {
			a.Outcome = Progressing
		}
	case rollout.CauseFailed:
		a.Outcome = Degraded
	}
	return a
}

// policyNamed finds the RolloutPolicy of which a text complains.
var policyNamed = regexp.MustCompile(`RolloutPolicy ([a-z0-9.-]+): `)

// policies are the RolloutPolicies of which a text complains, or that make up the pool's where it names none.
func (v *poolView) policies(text string) []string {
	var out []string
	for _, m := range policyNamed.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 && strings.Contains(text, "RolloutPolicy") {
		out = slices.Clone(v.facts.Care.Pace.Policies)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// failedNodes sums up the nodes that report a failure.
func (f reasons) failedNodes(v *poolView) (Answer, bool) {
	const most = 3
	a := Answer{Outcome: Degraded, Cause: rollout.CauseFailed}
	var texts []string
	n := 0
	for _, row := range v.rows {
		if row.Step != StepFailed {
			continue
		}
		if n++; n <= most {
			texts = append(texts, row.Name+" "+failure(row))
			a.Do = append(a.Do, "bunsen why node/"+row.Name)
		}
	}
	if n > most {
		texts = append(texts, fmt.Sprintf("and %d more", n-most))
	}
	a.Reason = fmt.Sprintf("%d of %d nodes failed: %s", n, len(v.rows), strings.Join(texts, "; "))
	return a, n > 0
}

// heldDrains names the drains that disruption budgets hold up.
func (f reasons) heldDrains(v *poolView) (Answer, bool) {
	const most = 3
	a := Answer{Outcome: Blocked, Cause: rollout.CauseDrain}
	var texts []string
	n := 0
	for _, row := range v.rows {
		report := f.drain(row)
		held := heldUp(report)
		if len(held) == 0 {
			continue
		}
		if n++; n <= most {
			texts = append(texts, row.Name+" "+drainSentence(*report, held, f.now))
			a.Do = append(a.Do, "bunsen why node/"+row.Name)
		}
	}
	if n > most {
		texts = append(texts, fmt.Sprintf("and %d more", n-most))
	}
	a.Reason = strings.Join(texts, "; ")
	return a, n > 0
}

// drain is the report of a drain that is under way; nil where none is, or it cannot be read.
func (f *fleet) drain(row NodeRow) *v1alpha1.DrainReport {
	if row.Step != StepDraining {
		return nil
	}
	at := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == row.Name })
	r, err := v1alpha1.ParseDrainReport(f.Nodes[at].Annotations[v1alpha1.DrainReportAnnotation])
	if err != nil || r.For == "" {
		return nil
	}
	return &r
}

// failure says what a node failed, and how.
func failure(r NodeRow) string {
	text := "failed " + r.Desired
	if r.Current == r.Desired {
		text = "is degraded"
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(r.Reason), "\n"); line != "" {
		text += ": " + line
	}
	return text
}

// course is the answer for a pool that nothing is in the way of.
func (f reasons) course(v *poolView) Answer {
	target, updated, busy := v.facts.Target, v.counts().Updated, []string(nil)
	for _, r := range v.rows {
		if r.InFlight() {
			busy = append(busy, r.Name+" "+r.Step)
		}
	}
	switch {
	case target == "" && len(v.rows) == 0:
		return Answer{Outcome: Fine, Reason: "nothing is rendered for it, and no node is in it"}
	case target == "":
		return Answer{Outcome: Blocked, Reason: "nothing is rendered for it yet: no commit has documents for it, or none could be applied", Do: []string{"bunsen get sources"}}
	case len(v.rows) == 0:
		return Answer{Outcome: Fine, Reason: "no node is in it; the next one gets " + target}
	case len(v.waits) == 0 && len(busy) == 0:
		return Answer{Outcome: Fine, Reason: fmt.Sprintf("all %d nodes run %s", len(v.rows), target)}
	}
	texts := []string{fmt.Sprintf("%d of %d nodes are updated", updated, len(v.rows))}
	const most = 3
	if len(busy) > most {
		busy = append(busy[:most], fmt.Sprintf("and %d more", len(busy)-most))
	}
	texts = append(texts, busy...)
	if next := f.next(v); next != "" {
		texts = append(texts, next)
	}
	return Answer{Outcome: Progressing, Cause: rollout.CauseUpdating, Reason: strings.Join(texts, "; ")}
}

// undo is the command line that takes back the commit of a config.
func (f reasons) undo(config string) []string {
	row := f.config(config)
	r, err := source.ParseRevision(row.Revision)
	if err != nil {
		return nil
	}
	return []string{"git revert " + r.Hash[:min(len(r.Hash), 8)] + "   # " + cmp.Or(row.Subject, "the commit that brought it")}
}

// heldUp are the pods that disruption budgets keep on a node.
func heldUp(r *v1alpha1.DrainReport) []v1alpha1.DrainedPod {
	if r == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Pods), func(p v1alpha1.DrainedPod) bool {
		return p.State != v1alpha1.PodWaiting || p.Budget == ""
	})
}
