package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"k8s.io/apimachinery/pkg/util/validation"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// PoolReason returns all reasons why a pool is not done, worst first; at least one, which may say that it is done. The
// parameter asked has the pools that wait for this one, so that a cycle ends.
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
		if onlyFailedWait(v) { // The rollout's answer is about these nodes, with the same sentences.
			out = slices.DeleteFunc(out, func(o Answer) bool {
				return o.Cause == poolstate.CauseFailed && o.Until == nil
			})
		}
		out = append(out, a)
	}
	if a, is := zeroAnswer(v); is {
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
			Do: releaseActions(f, v.Object),
		})
	}
	out = once(WorstFirst(out))
	course := progressAnswer(f, v)
	if len(out) == 0 || out[0].Outcome == Fine || out[0].Outcome == Progressing && course.Outcome == Progressing &&
		!isOfBlock(v, out[0]) {
		out = append([]Answer{course}, out...)
	}
	return out
}

// keptSecretsAnswers is for a pool whose nodes keep earlier values of secrets, because the server cannot resolve the
// present ones.
func keptSecretsAnswers(v *fleet.Pool) []Answer {
	problems := v.Facts.Secrets.Problems
	if len(problems) == 0 || v.Facts.Secrets.Unresolved != "" {
		return nil
	}
	return []Answer{{
		Outcome: Blocked, Cause: poolstate.CauseSecrets, Do: problemActions(problems, v.Object.Name),
		Reason: "its nodes keep the earlier values of their secrets, because the " +
			"machine-config-server cannot resolve " +
			poolstate.ProblemsText(problems),
	}}
}

// zeroAnswer is for a pool whose own maxUnavailable is 0: whoever wrote that may believe that it stops updates.
func zeroAnswer(v *fleet.Pool) (Answer, bool) {
	p := v.Object
	most := p.Spec.MaxUnavailable
	if most == nil || strings.TrimSuffix(most.String(), "%") != "0" || v.Facts.Care.Pace.MaxUnavailable != nil {
		return Answer{}, false
	}
	a := Answer{
		Outcome: Fine, Cause: poolstate.CauseBudget,
		Reason: "its maxUnavailable of " + most.String() + " stops nothing: it is read as 1, so nodes are updated " +
			"one at a time",
		Do: []string{fmt.Sprintf(`kubectl patch mcp %s --type=merge -p '{"spec":{"maxUnavailable":1}}'`, p.Name)},
	}
	if of := p.Labels[v1alpha1.SourceLabel]; of != "" {
		a.Do = []string{"change spec.maxUnavailable of MachineConfigPool " + p.Name + " in cluster/ of the " +
			"repository of GitSource " + of + " to 1 or more, and push"}
	}
	a.Do = append(a.Do, fleet.Alternative("its nodes are to stay as they are", "bunsen pause pool/"+p.Name+
		" --because TEXT"))
	return a, true
}

// delayAnswers say why the newest commit is not on the cluster.
func delayAnswers(f *fleet.Fleet, v *fleet.Pool) []Answer {
	var out []Answer
	for i := range f.Sources {
		src := &f.Sources[i]
		if !feeds(src, v.Object) {
			continue
		}
		if a, is := SourceReason(f, v, src); is {
			a.source, a.predicate = src.Name, "" // It is not about the pool.
			out = append(out, a)
		}
	}
	return out
}

// feeds reports whether a pool may get documents from a source: its config has MachineConfigs of it, or had some, or no
// source of the pool is known.
func feeds(src *v1alpha1.GitSource, pool *mcfgv1.MachineConfigPool) bool {
	of := pool.Annotations[v1alpha1.SourceAnnotation]
	if of == "" || of == src.Name {
		return true
	}
	target, err := v1alpha1.ParsePoolTarget(pool.Annotations[v1alpha1.TargetAnnotation])
	_, owns := target.Sources[src.Name]
	_, owned := target.Gone[src.Name] // It was deleted, and has just been created again.
	return err == nil && (owns || owned)
}

func blockAnswer(f *fleet.Fleet, v *fleet.Pool, b poolstate.Block, asked []string) Answer {
	a := Answer{Outcome: Blocked, Cause: b.Cause, Reason: b.Reason, Until: fleet.TimeOrNil(b.Until)}
	switch r := v.Decision.Record; b.Cause {
	case poolstate.CauseHalted:
		a.Outcome, a.predicate = Degraded, "is halted: "+r.Why
	case poolstate.CauseReverted:
		a.Outcome, a.predicate = Degraded, fmt.Sprintf("went back from %s to %s: %s", r.Target(), r.ReturnsTo(), r.Why)
	case poolstate.CauseFailed:
		a.Outcome = Degraded
	default:
		if b.EndsByItself() {
			a.Outcome = Waiting
		}
	}
	if complete := Advices()[b.Cause]; complete != nil {
		return complete(blocked{f, v, b, asked}, a)
	}
	return a // A controller of a newer version may know causes that this program does not know.
}

// addLivenessAnswers says that no GitSource exists, and that nodes do not report.
func addLivenessAnswers(f *fleet.Fleet, v *fleet.Pool, out []Answer) []Answer {
	out = append(append(out, noSourceAnswers(f)...), goneSourcesAnswers(f, v)...)
	if a, unwell := unhealthyAnswer(f, v); unwell {
		if len(v.Waits) == 0 { // This answer has everything that the rollout's answer has, and also the other nodes.
			out = slices.DeleteFunc(out, func(o Answer) bool { return o.Cause == poolstate.CauseNotReady })
		}
		// No other node waits for the places that these nodes take, and this answer has the same commands.
		if a.Outcome.NeedsUser() && len(v.UnhealthyGroups()) == 1 && onlyUnhealthyWait(v) {
			out = slices.DeleteFunc(out, func(o Answer) bool { return o.Cause == poolstate.CauseBudget })
		}
		out = append(out, a)
	}
	return out
}

// unhealthyAnswer is about nodes whose state is unknown or that are not Ready; false if there are none.
func unhealthyAnswer(f *fleet.Fleet, v *fleet.Pool) (Answer, bool) {
	if len(v.Unhealthy) == 0 {
		return Answer{}, false
	}
	groups := v.UnhealthyGroups()
	a := Answer{Outcome: Progressing, Cause: groups[0].Cause}
	var answers []Answer
	for _, g := range groups {
		if !g.MayRecover {
			a.Outcome = a.Outcome.Worse(unhealthyOutcome(g.Cause))
		}
		do := []string{"bunsen why node/" + g.Nodes[0]}
		if len(groups) == 1 || len(g.Nodes) > 1 {
			do = unhealthyCommands(g, f)
		}
		answers = append(answers, Answer{Reason: g.Text, Do: do})
	}
	a, _ = summarize(a, answers)
	if others := len(v.Rows) - len(v.Unhealthy); others > 0 && len(v.Waits) == 0 && !v.Facts.Target.IsZero() {
		a.Reason += fmt.Sprintf("; the other %d of %d nodes run %s", others, len(v.Rows), v.Facts.Target)
	}
	return a, true
}

// unhealthyCommands are for nodes with the same reason.
func unhealthyCommands(g fleet.UnhealthyGroup, f *fleet.Fleet) []string {
	if g.Cause == poolstate.CauseNotReady {
		return notReadyCommands(f, g.Nodes[0])
	}
	if g.Cause == fleet.CauseSilent {
		return silentCommands(g.Nodes...)
	}
	return daemonCommands(g.Nodes...)
}

// onlyUnhealthyWait reports whether each node that waits is itself one that does not report.
func onlyUnhealthyWait(v *fleet.Pool) bool {
	for name := range v.Waits {
		if !slices.ContainsFunc(v.Unhealthy, func(u fleet.UnhealthyNode) bool { return u.Name == name }) {
			return false
		}
	}
	return true
}

// goneSourcesAnswers has one for each deleted GitSource whose MachineConfigs are still in the pool's config, while
// another exists.
func goneSourcesAnswers(f *fleet.Fleet, v *fleet.Pool) (out []Answer) {
	target, err := v1alpha1.ParsePoolTarget(v.Object.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || len(f.Sources) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(target.Gone)) {
		exists := slices.ContainsFunc(f.Sources, func(s v1alpha1.GitSource) bool { return s.Name == name })
		if exists || len(validation.IsDNS1123Subdomain(name)) > 0 { // Such a name would be unsafe in a command.
			continue
		}
		label := fleet.ShellWord(v1alpha1.SourceLabel + "=" + name)
		out = append(out, Answer{
			Outcome: Fine, Cause: fleet.CauseSource,
			Reason: "GitSource " + name + " was deleted, and its MachineConfigs stay in force: pushes to its " +
				"repository have no effect",
			Do: []string{
				createSource(f, name),
				fleet.Alternative("the pool is to do without them", "kubectl delete machineconfigs -l "+label),
			},
		})
	}
	return out
}

// releaseActions end a hold. They name the commits whose configs the nodes then get. If the pool had that config
// already, a user holds it because of this config, which another commit has to replace first.
func releaseActions(f *fleet.Fleet, pool *mcfgv1.MachineConfigPool) []string {
	do := "bunsen release pool/" + pool.Name
	// an invalid one counts as empty
	past, _ := v1alpha1.ParseRolloutHistory(pool.Annotations[v1alpha1.RolloutHistoryAnnotation])
	var newest, left []string
	for i := range f.Sources {
		src := &f.Sources[i]
		commits := fleet.AppliedHistory(src)
		if !fleet.GavePool(src, pool.Name) || len(commits) == 0 || fleet.HashOf(commits[0].Revision) == "" ||
			commits[0].Pools[pool.Name] == pool.Annotations[v1alpha1.HoldAnnotation] {
			continue
		}
		newest = append(newest, fleet.HashOf(commits[0].Revision))
		if slices.ContainsFunc(past, func(o v1alpha1.RolloutOutcome) bool {
			return o.Config == commits[0].Pools[pool.Name]
		}) {
			left = append(left, newest[len(newest)-1])
		}
	}
	switch {
	case len(left) > 0 && len(left) == len(newest):
		return []string{
			"push a commit that replaces " + strings.Join(left, " and ") + ", which the pool left for the hold, then:",
			do,
		}
	case len(newest) > 0:
		do += "   # ends the hold: the nodes then get " + strings.Join(newest, " and ")
	}
	return []string{do}
}

// isOfBlock reports whether an answer is about a blocker of the rollout.
func isOfBlock(v *fleet.Pool, a Answer) bool {
	return slices.ContainsFunc(v.Decision.Blocks, func(b poolstate.Block) bool { return b.Cause == a.Cause })
}

// distrusts reports whether a node does not trust the server from which it downloads content now.
func distrusts(n poolstate.Node) bool {
	return n.Fetched.Cause == v1alpha1.FetchUntrusted && n.Fetched.Problem != "" &&
		(n.Fetched.Config == n.Next.Config || n.LacksFiles())
}

// trustAction is for a user who trusts the server of the content.
func trustAction(v *fleet.Pool) string {
	return "push a document for pool " + v.Object.Name + " with the server's authority in " +
		"ignition.security.tls.certificate_authorities   # docs/remote-content.md"
}

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

// adoptOrCreateSource is for a pool that waits because a GitSource was deleted, possibly during an apply.
func adoptOrCreateSource(f *fleet.Fleet, v *fleet.Pool) []string {
	return []string{
		createSource(f, ""),
		fleet.Alternative("the MachineConfigs are to stay as they are", "kubectl label machineconfigs -l '"+
			inputSelector(v)+","+v1alpha1.SourceLabel+"' "+v1alpha1.SourceLabel+"-"),
	}
}

// orGone is a command that removes a pool: the only one, or an alternative to those that keep it.
func orGone(keep []string, remove string) string {
	if len(keep) == 0 {
		return remove
	}
	return fleet.Alternative("the pool is to go", remove)
}

// summarize joins the answers for several nodes: the first three, and the number of the others; false for none.
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

func failedNodesAnswer(f *fleet.Fleet, v *fleet.Pool) (Answer, bool) {
	var failed []Answer
	var names, texts []string
	what := "failed"
	for _, row := range v.Rows {
		if row.Step == fleet.StepFailed {
			if row.Current == row.Desired { // It failed no config, but was changed since.
				what = "need help"
			}
			names, texts = append(names, row.Name), append(texts, FailureText(row))
			failed = append(failed, Answer{Do: nodeActions(f, v, row)})
		}
	}
	a, found := summarize(Answer{Outcome: Degraded, Cause: poolstate.CauseFailed}, failed)
	if what != "failed" && len(failed) == 1 {
		what = "needs help"
	}
	a.Reason = fmt.Sprintf("%d of %d nodes %s: %s", len(failed), len(v.Rows), what, poolstate.Grouped(names, texts))
	return a, found
}

// onlyFailedWait reports whether each node that waits has itself failed.
func onlyFailedWait(v *fleet.Pool) bool {
	return !slices.ContainsFunc(v.Rows, func(row fleet.NodeRow) bool {
		_, waits := v.Waits[row.Name]
		return waits && row.Step != fleet.StepFailed
	})
}

// verdictNamesAll reports whether the pool's verdict is about every node that reports a failure, so that these need no
// answer of their own.
func verdictNamesAll(v *fleet.Pool) bool {
	r := v.Decision.Record
	return r.Verdict != "" && !slices.ContainsFunc(v.Rows, func(row fleet.NodeRow) bool {
		return row.Step == fleet.StepFailed && row.Desired != ownTarget(v, row.Name)
	})
}

// stuckNodesAnswers summarize the nodes at work that do not continue by themselves, without causes that another answer
// already has.
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
		report := f.DrainReport(row)
		if held := heldUp(report); len(held) > 0 {
			drains = append(drains, Answer{
				Reason: row.Name + " " + drainSentence(f, row, *report, held),
				Do:     budgetActions(held),
			})
		}
	}
	return summarize(Answer{Outcome: Blocked, Cause: poolstate.CauseDrain}, drains)
}

// FailureText returns a text that says which config a node failed, and how.
func FailureText(r fleet.NodeRow) string {
	text := "failed " + r.Desired.String()
	if r.Current == r.Desired {
		text = "is degraded"
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(r.Reason), "\n"); line != "" {
		text += ": " + line
	}
	return text
}

// progressAnswer is for a pool without a blocker.
func progressAnswer(f *fleet.Fleet, v *fleet.Pool) Answer {
	target, updated, busy := v.Facts.Target, v.Counts().Updated, []string(nil)
	for _, r := range v.Rows {
		if r.InFlight() {
			busy = append(busy, r.Name+" "+r.Step)
		}
	}
	switch {
	case target.IsZero() && len(v.Rows) == 0:
		return Answer{Outcome: Fine, Reason: "nothing is rendered for it, and no node is in it"}
	case target.IsZero() && slices.ContainsFunc(f.Sources, func(s v1alpha1.GitSource) bool {
		return s.Status.AppliedRevision != ""
	}):
		return Answer{Outcome: Fine, Reason: "nothing is rendered for it: no commit has documents for it, and its " +
			"nodes stay as they are"}
	case target.IsZero() && f.IsUnconfigured() && f.ReadControllers() != nil:
		return Answer{Outcome: Fine, Reason: "nothing is rendered for it yet, and its nodes stay as they are"}
	case target.IsZero():
		return Answer{Outcome: Blocked, Reason: "nothing is rendered for it yet: no commit has documents for it, or " +
			"none could be applied", Do: []string{"bunsen get sources"}}
	case len(v.Rows) == 0:
		return Answer{Outcome: Fine, Reason: "no node is in it; the next one gets " + target.String()}
	case len(v.Waits) == 0 && len(busy) == 0:
		if len(v.Rows) == 1 {
			return Answer{Outcome: Fine, Reason: "its node runs " + target.String()}
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
	if next := f.NextText(v); next != "" {
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
