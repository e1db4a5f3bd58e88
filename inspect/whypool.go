package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// reasons finds out why pools are not done.
type reasons struct{ *fleet }

// poolAnswers are all reasons why a pool is not done, worst first; at least one, which may be that it is. asked are the
// pools that wait for this one, so that a circle of them ends.
func (f reasons) poolAnswers(v *poolView, asked []string) []Answer {
	name := v.object.Name
	out := f.controllerAnswers(f.Sources)
	for _, b := range v.wave.Blocks {
		out = append(out, f.block(v, b, append(asked, name)))
	}
	out = f.withLiveness(v, out)
	if a, held := f.heldDrains(v); held {
		out = append([]Answer{a}, slices.DeleteFunc(out, func(o Answer) bool { return o.Cause == rollout.CauseDrain })...)
	}
	out = append(out, f.stuckNodes(v, out)...)
	if why := v.renderFailure(); why != "" {
		out = append(out, Answer{Outcome: Blocked, Cause: CauseRender, Do: f.renderActions(v), Reason: "its newest configuration cannot be rendered: " + why})
	}
	out = append(out, f.sourceAnswers(v)...)
	if a, failed := f.failedNodes(v); failed && !verdictNamesAll(v) {
		out = append(out, a)
	}
	if v.object.Status.ObservedGeneration < v.object.Generation {
		out = append(out, Answer{Outcome: Progressing, Cause: CauseStale, Reason: "the controller has not processed the newest change of the pool", Do: []string{"kubectl get leases -A   # does a controller run?"}})
	}
	if !slices.ContainsFunc(out, func(a Answer) bool { return a.Cause == rollout.CausePaused }) && v.object.Spec.Paused {
		out = append(out, Answer{
			Outcome: Fine, Cause: rollout.CausePaused, Reason: "it is paused" + by(v.object) + ", so the next commit will not be rolled out", Do: []string{"bunsen resume pool/" + name},
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
		a.Outcome, a.Do = Degraded, verdictActions(f.fleet, v)
	case rollout.CauseAfterPool:
		a.Outcome = Progressing
		for _, ahead := range v.facts.Care.Around.Ahead {
			other := f.pools[ahead.Pool]
			if ahead.Done || other == nil || slices.Contains(asked, ahead.Pool) {
				continue
			}
			if first := f.poolAnswers(other, asked)[0]; first.Outcome.rank() >= Blocked.rank() {
				a.Outcome = Blocked // it waits for what is blocked itself; its own nodes did not fail
				a.Do = append(a.Do, first.Do...)
			}
			a.Do = append(a.Do, "bunsen why pool/"+ahead.Pool)
		}
		if v.facts.Care.Around.Quorum != "" && f.pools["arbiter"] != nil {
			a.Do = append(a.Do, troubleActions(f.fleet, f.pools["arbiter"])...)
		}
	case rollout.CauseWindow:
		if w := f.window(v); w != nil {
			a.Reason = "its maintenance windows are " + w.Text(f.now)
		}
		a.Do = []string{"bunsen resume pool/" + name + " --open-for 2h"}
	case rollout.CauseInvalid:
		if a.Do = f.invalidActions(v, b.Reason); v.lost != "" {
			a.Do = lostConfigActions(f.fleet, v)
		}
	case rollout.CauseSoak:
		a.Outcome = Progressing
	case rollout.CauseTogether:
		if a.Do = f.sharedActions(v); len(a.Do) == 0 {
			a.Outcome = Progressing
		}
	case rollout.CauseGate:
		if !b.Until.IsZero() {
			a.Outcome = Progressing
		} else {
			a.Do = gateActions(f.fleet, v)
		}
	case rollout.CauseFailed:
		a.Outcome, a.Do = Degraded, troubleActions(f.fleet, v)
	case rollout.CauseStep:
		a.Do = f.stepActions(v)
	case rollout.CauseBudget:
		a.Do = f.placeActions(v)
	default:
		a.Do = troubleActions(f.fleet, v)
	}
	return a
}

// renderActions are the commands for a pool that cannot be rendered.
func (f reasons) renderActions(v *poolView) []string {
	name := v.object.Name
	good := hashOf(v.object.Annotations[v1alpha1.RevisionAnnotation])
	switch v.condition(mcfgv1.MachineConfigPoolRenderDegraded).Reason {
	case v1alpha1.ReasonSourceDeleted:
		return adoptOrCreateSource(f.fleet, v)
	case v1alpha1.ReasonNoMachineConfigs:
		var out []string
		if good != "" {
			out = append(out, fmt.Sprintf("git restore --source=%s -- pools/%s   # bring its documents back, then commit and push", good, name))
		}
		if owner := v.object.Labels[v1alpha1.SourceLabel]; owner != "" {
			return append(out, "remove pool "+name+" from cluster/ of the repository of GitSource "+owner+", and push; its nodes go to another pool")
		}
		return append(out, "kubectl delete mcp "+name+"   # its nodes go to another pool")
	}
	for i := range f.Sources {
		if r, ok := badCommits(f.fleet, v, &f.Sources[i], blamedConfig(f.fleet, v)); ok && renderedCommit(v, &f.Sources[i]) != "" {
			return r.commands(v)
		}
	}
	if len(f.Sources) == 0 {
		return fixWithoutSource(f.fleet, v)
	}
	return []string{
		"push a commit that fixes pool " + name + ", or correct the MachineConfig that is named above",
		"kubectl get machineconfigs -l '" + inputSelector(v) + ",!" + v1alpha1.SourceLabel + "'   # those that no repository holds",
	}
}

// invalidActions are the commands for what a person wrote and what cannot be followed.
func (f reasons) invalidActions(v *poolView, reason string) []string {
	var out []string
	for _, name := range policiesIn(v, reason) {
		out = append(out, editPolicy(f.fleet, name))
	}
	if len(out) == 0 {
		out = append(out, "kubectl describe mcp "+v.object.Name)
	}
	return out
}

// stepActions are the commands for a step that does not end: an empty canary, or nodes that need a person.
func (f reasons) stepActions(v *poolView) []string {
	s, steps := v.wave.Stage, v.facts.Care.Pace.Steps
	if s.Want > 0 || s.Step >= len(steps) || steps[s.Step].Selector == nil {
		return troubleActions(f.fleet, v)
	}
	var out []string
	if do := label(steps[s.Step].Selector, v.rows); do != "" {
		out = append(out, do+"   # or another node of pool "+v.object.Name)
	}
	for _, name := range v.facts.Care.Pace.Policies {
		out = append(out, editPolicy(f.fleet, name))
	}
	return out
}

// placeActions are the commands for a pool whose budget has no place: the nodes that take the places, or the budget itself.
func (f reasons) placeActions(v *poolView) []string {
	out := troubleActions(f.fleet, v)
	if len(out) > 0 {
		return out
	}
	for _, name := range v.facts.Care.Pace.Policies {
		out = append(out, editPolicy(f.fleet, name)+"   # maxUnavailable")
	}
	if len(out) == 0 {
		out = append(out, fmt.Sprintf(`kubectl patch mcp %s --type=merge -p '{"spec":{"maxUnavailable":1}}'`, v.object.Name))
	}
	return out
}

// sharedActions are the commands for the nodes that take the places of a budget of several pools.
func (f reasons) sharedActions(v *poolView) []string {
	out := troubleActions(f.fleet, v)
	for _, t := range v.facts.Care.Around.Together {
		for _, name := range t.Pools {
			if other := f.pools[name]; other != nil {
				out = append(out, troubleActions(f.fleet, other)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// policyNamed finds the RolloutPolicy of which a text complains.
var policyNamed = regexp.MustCompile(`RolloutPolicy ([a-z0-9.-]+): `)

// policiesIn are the RolloutPolicies of which a text complains, or that make up the pool's where it names none.
func policiesIn(v *poolView, text string) []string {
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
			a.Do = append(a.Do, nodeActions(f.fleet, v, row)...)
		}
	}
	if n > most {
		texts = append(texts, fmt.Sprintf("and %d more", n-most))
	}
	a.Reason = fmt.Sprintf("%d of %d nodes failed: %s", n, len(v.rows), strings.Join(texts, "; "))
	return a, n > 0
}

// verdictNamesAll reports whether the pool's verdict is about every node that reports a failure, so that they need no answer of
// their own.
func verdictNamesAll(v *poolView) bool {
	r := v.wave.Record
	return r.Verdict != "" && !slices.ContainsFunc(v.rows, func(row NodeRow) bool { return row.Step == StepFailed && row.Desired != r.Config })
}

// stuckNodes sums up the nodes at work that do not continue by themselves, as the answers for these nodes have it. Left out is what
// another answer says of the pool already.
func (f reasons) stuckNodes(v *poolView, answers []Answer) []Answer {
	const most = 3
	a := Answer{Outcome: Blocked}
	var texts []string
	n := 0
	for _, row := range v.rows {
		stuck, is := nodeReasons{f}.atWork(v, row)
		if !is || stuck.Outcome != Blocked || slices.ContainsFunc(answers, func(o Answer) bool { return o.Outcome == Blocked && o.Cause == stuck.Cause }) {
			continue
		}
		if n++; n <= most {
			texts = append(texts, row.Name+": "+stuck.Reason)
			a.Cause, a.Do = cmp.Or(a.Cause, stuck.Cause), append(a.Do, stuck.Do...)
		}
	}
	if n == 0 {
		return nil
	}
	if n > most {
		texts = append(texts, fmt.Sprintf("and %d more", n-most))
	}
	a.Reason = strings.Join(texts, "; ")
	return []Answer{a}
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
			texts = append(texts, row.Name+" "+drainSentence(f.fleet, row, *report, held))
			a.Do = append(a.Do, budgetActions(held)...)
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

// postponedText says how often the drain of a node was postponed; empty where it never was.
func postponedText(f *fleet, row NodeRow) string {
	n := nodeNamed(f, row.Name)
	if n == nil {
		return ""
	}
	facts := rollout.ReadNode(n)
	return facts.PostponedText()
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

// heldUp are the pods that disruption budgets keep on a node.
func heldUp(r *v1alpha1.DrainReport) []v1alpha1.DrainedPod {
	if r == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Pods), func(p v1alpha1.DrainedPod) bool {
		return p.State != v1alpha1.PodWaiting || p.Budget == ""
	})
}
