package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/membership"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// PoolReason returns all reasons why a pool is not done, worst first. There is at least one answer, which may say that
// the pool is done. The parameter asked has the pools that wait for this pool, so that a cycle of waiting pools ends.
func PoolReason(f *fleet.Fleet, v *fleet.Pool, asked []string) []Answer {
	name := v.Object.Name
	out := Controllers(f, f.Sources)
	for _, b := range v.Decision.Blocks {
		out = append(out, blockAnswer(f, v, b, append(asked, name)))
	}
	out = addLivenessAnswers(f, v, out)
	if a, held := heldDrainsAnswer(f, v); held {
		out = append([]Answer{a}, slices.DeleteFunc(out, func(o Answer) bool {
			return o.Cause == poolstate.CauseDrain
		})...)
	}
	out = append(append(out, keptSecretsAnswers(v)...), stuckNodesAnswers(f, v, out)...)
	if why := v.RenderFailure(); why != "" {
		out = append(out, Answer{
			Outcome: Degraded, Cause: fleet.CauseRender, Do: renderActions(f, v),
			Reason: "its newest configuration cannot be rendered: " + why,
		})
	}
	out = append(out, delayAnswers(f, v)...)
	if a, failed := failedNodesAnswer(f, v); failed && !verdictNamesAll(v) {
		out = append(out, a)
	}
	if v.Object.Status.ObservedGeneration < v.Object.Generation {
		out = append(out, Answer{
			Outcome: Progressing, Cause: fleet.CauseStale,
			Reason: "the controller has not processed the newest change of the pool",
			Do:     []string{"kubectl get leases -A   # does a controller run?"},
		})
	}
	if !slices.ContainsFunc(out, func(a Answer) bool { return a.Cause == poolstate.CausePaused }) &&
		v.Object.Spec.Paused {
		out = append(out, Answer{
			Outcome: Fine, Cause: poolstate.CausePaused, Reason: "it is paused" + fleet.PausedBy(v.Object) +
				", so the next commit will not be rolled out", Do: []string{"bunsen resume pool/" + name},
		})
	}
	if held := fleet.HeldBy(v.Object); held != "" {
		out = append(out, Answer{
			Outcome: Fine, Cause: poolstate.CauseHeld, Reason: "it is held" + held +
				", so newer commits do not reach it",
			Do: []string{releaseAction(f, v.Object)},
		})
	}
	out = WorstFirst(out)
	course := progressAnswer(f, v)
	if len(out) == 0 || out[0].Outcome == Fine || out[0].Outcome == Progressing && course.Outcome == Progressing &&
		!isOfBlock(v, out[0]) {
		out = append([]Answer{course}, out...)
	}
	return out
}

// releaseAction is the command that ends a hold. It names the commits whose configs the nodes then get, because a user
// may hold the pool to keep it away from one of them.
func releaseAction(f *fleet.Fleet, pool *mcfgv1.MachineConfigPool) string {
	do := "bunsen release pool/" + pool.Name
	var newest []string
	for i := range f.Sources {
		src := &f.Sources[i]
		commits := fleet.AppliedHistory(src)
		if !fleet.GavePool(src, pool.Name) || len(commits) == 0 || fleet.HashOf(commits[0].Revision) == "" ||
			commits[0].Pools[pool.Name] == pool.Annotations[v1alpha1.HoldAnnotation] {
			continue
		}
		newest = append(newest, fleet.HashOf(commits[0].Revision))
	}
	if len(newest) > 0 {
		do += "   # ends the hold: the nodes then get " + strings.Join(newest, " and ")
	}
	return do
}

// isOfBlock reports whether an answer is about a blocker of the rollout.
func isOfBlock(v *fleet.Pool, a Answer) bool {
	return slices.ContainsFunc(v.Decision.Blocks, func(b poolstate.Block) bool { return b.Cause == a.Cause })
}

// fetchActions are the commands for nodes that cannot download content. A node tries again by itself, so that there are
// commands only for a server that the nodes do not trust.
func fetchActions(f *fleet.Fleet, v *fleet.Pool) []string {
	for _, row := range v.Rows {
		if n := fleet.Node(f, row.Name); n != nil && distrusts(poolstate.ReadNode(n)) {
			return []string{trustAction(v)}
		}
	}
	return nil
}

// distrusts reports whether a node does not trust the server from which it downloads content now.
func distrusts(n poolstate.Node) bool {
	return n.Fetched.Cause == v1alpha1.FetchUntrusted && n.Fetched.Problem != "" &&
		(n.Fetched.Config == n.Next.Config || poolstate.LacksFiles(&n))
}

// trustAction is what a user does who trusts the server from which nodes download content.
func trustAction(v *fleet.Pool) string {
	return "push a document for pool " + v.Object.Name + " with the server's authority in " +
		"ignition.security.tls.certificate_authorities   # docs/remote-content.md"
}

// afterPoolAnswer adds the reasons of other pools to the answer of a pool that waits for those pools.
func afterPoolAnswer(x blocked, a Answer) Answer {
	f, v, asked := x.f, x.v, x.asked
	for _, ahead := range v.Facts.Care.Around.Ahead {
		other := f.PoolByName[ahead.Pool]
		if ahead.Done || other == nil || slices.Contains(asked, ahead.Pool) {
			continue
		}
		if first := PoolReason(f, other, asked)[0]; first.Outcome.NeedsUser() {
			a.Outcome = Blocked // The pool waits for a blocked pool; its own nodes did not fail.
			a.Do = append(a.Do, first.Do...)
		}
		a.Do = append(a.Do, "bunsen why pool/"+ahead.Pool)
	}
	if v.Facts.Care.Around.Quorum != "" && f.PoolByName["arbiter"] != nil {
		a.Do = append(a.Do, troubleActions(f, f.PoolByName["arbiter"])...)
	}
	if v.Facts.Care.Around.Quorum != "" && f.PoolByName["arbiter"] == nil {
		a.Do = append(a.Do, "kubectl -n kube-system get pods -l component=etcd -o wide")
	}
	return a
}

// renderActions are the commands for a pool that cannot be rendered.
func renderActions(f *fleet.Fleet, v *fleet.Pool) []string {
	name := v.Object.Name
	good := fleet.HashOf(v.Object.Annotations[v1alpha1.RevisionAnnotation])
	switch v.Condition(mcfgv1.MachineConfigPoolRenderDegraded).Reason {
	case v1alpha1.ReasonSourceDeleted:
		return adoptOrCreateSource(f, v)
	case v1alpha1.ReasonNoMachineConfigs:
		var out []string
		if good != "" {
			out = append(out, fmt.Sprintf("git restore --source=%s -- pools/%s   # bring its documents back, then "+
				"commit and push", good, name))
		}
		if owner := v.Object.Labels[v1alpha1.SourceLabel]; owner != "" {
			return append(out, orGone(out, "remove pool "+name+" from cluster/ of the repository of GitSource "+owner+
				", and push; its nodes go to another pool"))
		}
		if name == membership.Master || name == membership.Worker { // The controller would create it again.
			if len(out) == 0 {
				out = []string{"push documents for pool " + name + "; its nodes keep their config until then"}
			}
			return out
		}
		return append(out, orGone(out, "kubectl delete mcp "+name+"   # its nodes go to another pool"))
	}
	for i := range f.Sources {
		if r, ok := badCommits(f, v, &f.Sources[i], blamedConfig(f, v)); ok && renderedCommit(v, &f.Sources[i]) != "" {
			return r.commands(v)
		}
	}
	if len(f.Sources) == 0 {
		return fixWithoutSource(f, v)
	}
	return []string{
		"push a commit that fixes pool " + name + ", or correct the MachineConfig that is named above",
		"kubectl get machineconfigs -l '" + inputSelector(v) + ",!" + v1alpha1.SourceLabel + "'   # those that no " +
			"repository holds",
	}
}

// orGone is a command that removes a pool: the only one, or an alternative to those that keep it.
func orGone(keep []string, remove string) string {
	if len(keep) == 0 {
		return remove
	}
	return fleet.Alternative("the pool is to go", remove)
}

// invalidActions are the commands for a user's invalid object.
func invalidActions(f *fleet.Fleet, v *fleet.Pool, policies []string) []string {
	var out []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(policies))) {
		out = append(out, editPolicy(f, name))
	}
	if len(out) == 0 {
		out = append(out, "kubectl describe mcp "+v.Object.Name)
	}
	return out
}

// stepActions are the commands for a step that does not end: an empty canary, or nodes that need a person.
func stepActions(f *fleet.Fleet, v *fleet.Pool) []string {
	s, steps := v.Decision.Stage, v.Facts.Care.Pace.Steps
	if s.Want > 0 || s.Step >= len(steps) || steps[s.Step].Selector == nil {
		return troubleActions(f, v)
	}
	var out []string
	if do := label(steps[s.Step].Selector, v.Rows); do != "" {
		out = append(out, do+"   # or another node of pool "+v.Object.Name)
	}
	for _, name := range v.Facts.Care.Pace.Policies {
		do := editPolicy(f, name)
		if len(out) > 0 {
			do = fleet.Alternative("no node is to be the canary", do)
		}
		out = append(out, do)
	}
	return out
}

// unavailableActions are the commands for a pool that has used up its budget. The commands fix the unavailable nodes or
// change the budget.
func unavailableActions(f *fleet.Fleet, v *fleet.Pool) []string {
	out := troubleActions(f, v)
	if len(out) > 0 {
		return out
	}
	for _, name := range v.Facts.Care.Pace.Policies {
		out = append(out, editPolicy(f, name)+"   # maxUnavailable")
	}
	if len(out) == 0 && v.Facts.MaxUnavailable < 1 {
		out = append(out, fmt.Sprintf(`kubectl patch mcp %s --type=merge -p '{"spec":{"maxUnavailable":1}}'`,
			v.Object.Name))
	}
	return out
}

// sharedBudgetActions are the commands for the unavailable nodes that use up a budget of several pools.
func sharedBudgetActions(f *fleet.Fleet, v *fleet.Pool) []string {
	out := troubleActions(f, v)
	for _, t := range v.Facts.Care.Around.Together {
		for _, name := range t.Pools {
			if other := f.PoolByName[name]; other != nil {
				out = append(out, troubleActions(f, other)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// summarize joins the answers for several nodes of a pool: the first three, and the number of the others. summarize
// returns false if there are no answers.
func summarize(a Answer, nodes []Answer) (Answer, bool) {
	const most = 3
	var texts []string
	for _, n := range nodes[:min(len(nodes), most)] {
		texts = append(texts, n.Reason)
		a.Cause, a.Do = cmp.Or(a.Cause, n.Cause), append(a.Do, n.Do...)
	}
	if more := len(nodes) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	a.Reason = strings.Join(texts, "; ")
	return a, len(nodes) > 0
}

// failedNodesAnswer summarizes the nodes that report a failure.
func failedNodesAnswer(f *fleet.Fleet, v *fleet.Pool) (Answer, bool) {
	var failed []Answer
	var names, texts []string
	for _, row := range v.Rows {
		if row.Step == fleet.StepFailed {
			names, texts = append(names, row.Name), append(texts, FailureText(row))
			failed = append(failed, Answer{Do: nodeActions(f, v, row)})
		}
	}
	a, found := summarize(Answer{Outcome: Degraded, Cause: poolstate.CauseFailed}, failed)
	a.Reason = fmt.Sprintf("%d of %d nodes failed: %s", len(failed), len(v.Rows), poolstate.Grouped(names, texts))
	return a, found
}

// verdictNamesAll reports whether the pool's verdict is about every node that reports a failure, so that these nodes
// need no answer of their own.
func verdictNamesAll(v *fleet.Pool) bool {
	r := v.Decision.Record
	return r.Verdict != "" && !slices.ContainsFunc(v.Rows, func(row fleet.NodeRow) bool {
		return row.Step == fleet.StepFailed && row.Desired != ownTarget(v, row.Name)
	})
}

// stuckNodesAnswers summarize the nodes at work that do not continue by themselves, from the answers for these nodes.
// stuckNodesAnswers leaves out causes that another answer for the pool already has.
func stuckNodesAnswers(f *fleet.Fleet, v *fleet.Pool, answers []Answer) []Answer {
	var stuck []Answer
	for _, row := range v.Rows {
		a, is := updatingAnswer(f, v, row)
		if is && a.Outcome.NeedsUser() && !slices.ContainsFunc(answers, func(o Answer) bool {
			return o.Outcome.NeedsUser() && o.Cause == a.Cause
		}) {
			a.Reason = row.Name + ": " + a.Reason
			stuck = append(stuck, a)
		}
	}
	if a, found := summarize(Answer{Outcome: Blocked}, stuck); found {
		return []Answer{a}
	}
	return nil
}

// heldDrainsAnswer names the drains that disruption budgets delay.
func heldDrainsAnswer(f *fleet.Fleet, v *fleet.Pool) (Answer, bool) {
	var drains []Answer
	for _, row := range v.Rows {
		report := fleet.DrainReport(f, row)
		if held := heldUp(report); len(held) > 0 {
			drains = append(drains, Answer{
				Reason: row.Name + " " + drainSentence(f, row, *report, held),
				Do:     budgetActions(held),
			})
		}
	}
	return summarize(Answer{Outcome: Blocked, Cause: poolstate.CauseDrain}, drains)
}

// postponedText returns a text that says how often the drain of a node was postponed; "" for never.
func postponedText(f *fleet.Fleet, row fleet.NodeRow) string {
	n := fleet.Node(f, row.Name)
	if n == nil {
		return ""
	}
	facts := poolstate.ReadNode(n)
	return facts.PostponedText()
}

// FailureText returns a text that says which config a node failed, and how.
func FailureText(r fleet.NodeRow) string {
	text := "failed " + r.Desired
	if r.Current == r.Desired {
		text = "is degraded"
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(r.Reason), "\n"); line != "" {
		text += ": " + line
	}
	return text
}

// progressAnswer is the answer for a pool without a blocker.
func progressAnswer(f *fleet.Fleet, v *fleet.Pool) Answer {
	target, updated, busy := v.Facts.Target, v.Counts().Updated, []string(nil)
	for _, r := range v.Rows {
		if r.InFlight() {
			busy = append(busy, r.Name+" "+r.Step)
		}
	}
	switch {
	case target == "" && len(v.Rows) == 0:
		return Answer{Outcome: Fine, Reason: "nothing is rendered for it, and no node is in it"}
	case target == "" && slices.ContainsFunc(f.Sources, func(s v1alpha1.GitSource) bool {
		return s.Status.AppliedRevision != ""
	}):
		return Answer{Outcome: Fine, Reason: "nothing is rendered for it: no commit has documents for it, and its " +
			"nodes stay as they are"}
	case target == "":
		return Answer{Outcome: Blocked, Reason: "nothing is rendered for it yet: no commit has documents for it, or " +
			"none could be applied", Do: []string{"bunsen get sources"}}
	case len(v.Rows) == 0:
		return Answer{Outcome: Fine, Reason: "no node is in it; the next one gets " + target}
	case len(v.Waits) == 0 && len(busy) == 0:
		if len(v.Rows) == 1 {
			return Answer{Outcome: Fine, Reason: "its node runs " + target}
		}
		return Answer{Outcome: Fine, Reason: fmt.Sprintf("all %d nodes run %s", len(v.Rows), target)}
	}
	texts := []string{fmt.Sprintf("%d of %d nodes are updated", updated, len(v.Rows))}
	switch {
	case len(v.Rows) == 1:
		texts[0] = map[bool]string{true: "its node is updated", false: "its node is not updated yet"}[updated == 1]
	case updated == 1:
		texts[0] = fmt.Sprintf("1 of %d nodes is updated", len(v.Rows))
	}
	const most = 3
	if len(busy) > most {
		busy = append(busy[:most], fmt.Sprintf("and %d more", len(busy)-most))
	}
	texts = append(texts, busy...)
	if next := fleet.NextText(f, v); next != "" {
		texts = append(texts, next)
	}
	return Answer{Outcome: Progressing, Cause: poolstate.CauseUpdating, Reason: strings.Join(texts, "; ")}
}

// heldUp returns the pods whose eviction disruption budgets prevent.
func heldUp(r *v1alpha1.DrainReport) []v1alpha1.DrainedPod {
	if r == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Pods), func(p v1alpha1.DrainedPod) bool {
		return p.State != v1alpha1.PodWaiting || p.Budget == ""
	})
}
