package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// nodeReasons finds out why nodes are not done.
type nodeReasons struct{ reasons }

// nodeAnswers are all reasons why a node is not done, worst first; at least one, which may be that it is.
func (f nodeReasons) nodeAnswers(v *poolView, row NodeRow, w Why) []Answer {
	if v == nil {
		return []Answer{f.strays(row)}
	}
	out := f.nodeLife(v, row)
	if a, wrong := f.nodeAnswer(v, row, w); wrong {
		out = append(out, a)
	}
	if len(w.Drift) > 0 {
		out = append(out, drifted(w.Drift))
	}
	out = worstFirst(append(out, f.besides(row)...))
	if len(out) == 0 || out[0].Outcome == Fine && out[0].Cause != rollout.CauseCordoned {
		fine := Answer{Outcome: Fine, Reason: "it runs " + row.Current + ", which pool " + row.Pool + " should run"}
		if v.facts.Target == "" {
			fine = Answer{Outcome: Progressing, Reason: "nothing is rendered for pool " + row.Pool + " yet", Do: []string{"bunsen why pool/" + row.Pool}}
		} else if v.wave.Target != v.facts.Target {
			fine.Reason = "it runs " + row.Current + ", to which pool " + row.Pool + " went back"
			if a, guilty := f.wentBack(v, row); guilty {
				fine = a
			}
		}
		out = append([]Answer{fine}, out...)
	}
	return out
}

// strays is the answer for a node that is in no pool, or in too many.
func (f nodeReasons) strays(row NodeRow) Answer {
	if row.Cause == CauseConflict {
		return Answer{Outcome: Blocked, Cause: CauseConflict, Reason: row.Reason, Do: conflictActions(f.fleet, row.Name)}
	}
	return Answer{
		Outcome: Fine, Cause: CauseNoPool, Reason: row.Reason,
		Do: []string{"kubectl get mcp -o custom-columns=NAME:.metadata.name,SELECTOR:.spec.nodeSelector", "kubectl get node " + row.Name + " --show-labels"},
	}
}

// nodeAnswer is what the rollout, or the node's own report, says of it; false where there is nothing to say.
func (f nodeReasons) nodeAnswer(v *poolView, row NodeRow, w Why) (Answer, bool) {
	a := Answer{Outcome: Progressing, Cause: row.Cause, Reason: row.Reason}
	_, behind := v.waits[row.Name]
	switch row.Cause {
	case "", CauseNoDaemon, CauseSilent: // nodeLife says it
		return a, false
	case rollout.CauseFailed:
		line, _, _ := strings.Cut(strings.TrimSpace(row.Reason), "\n")
		a.Outcome, a.Reason = Degraded, "its daemon reports: "+cmp.Or(line, "no reason")
		if row.Current != row.Desired {
			a.Reason = "it " + failure(row)
		}
		if len(w.Drift) == 0 || row.Current != row.Desired { // the answer for drift has its own commands
			a.Do = nodeActions(f.fleet, v, row)
		}
	case rollout.CauseUpdating, rollout.CauseNotReady:
		return f.atWork(v, row)
	case rollout.CauseNext, rollout.CauseLabels, rollout.CauseHost, rollout.CauseDrain:
	case rollout.CauseCordoned:
		a.Outcome, a.Do = Blocked, []string{"kubectl uncordon " + row.Name}
		if !behind { // it runs the target, and only takes a place
			a.Outcome, a.Reason = Fine, "it runs what it should; it is cordoned, not by Bunsen, and counts as unavailable in its pool"
		}
	case rollout.CauseGate:
		if a.Outcome = Blocked; behind {
			f.asPool(v, &a, row)
		}
	default:
		f.asPool(v, &a, row)
	}
	return a, true
}

// asPool is the answer for a node that is held by what holds its pool.
func (f nodeReasons) asPool(v *poolView, a *Answer, row NodeRow) {
	pool := f.poolAnswers(v, nil)
	if own := nodeActions(f.fleet, v, row); len(own) > 0 {
		a.Do = own
	} else if a.Do = nil; pool[0].Outcome.rank() >= Blocked.rank() {
		a.Do = slices.Clone(pool[0].Do)
	}
	a.Do = append(a.Do, "bunsen why pool/"+row.Pool)
	for _, p := range pool {
		if p.Cause == row.Cause && row.Cause != rollout.CauseBudget { // whose words are about this very node
			a.Outcome, a.Reason, a.Until, a.Do = p.Outcome, p.Reason, p.Until, p.Do
			if row.Cause == rollout.CauseHalted {
				a.Outcome = Blocked // others failed
			}
			return
		}
	}
	if pool[0].Outcome.rank() >= Blocked.rank() || row.Cause == rollout.CauseInvalid {
		a.Outcome = Blocked // its turn comes once somebody has seen to that
	}
}

// atWork is the answer for a node that was told, or that is not Ready; false for others. It is Blocked where the node does not
// continue by itself. The answer for the pool is made of it, too.
func (f nodeReasons) atWork(v *poolView, row NodeRow) (Answer, bool) {
	a := Answer{Outcome: Progressing, Cause: row.Cause, Reason: row.Reason}
	if row.Cause != rollout.CauseUpdating && row.Cause != rollout.CauseNotReady {
		return a, false
	}
	report := f.drain(row)
	held := heldUp(report)
	if len(held) > 0 {
		a.Outcome, a.Cause, a.Reason = Blocked, rollout.CauseDrain, drainSentence(f.fleet, row, *report, held)
		a.Do = budgetActions(held)
	} else if a.Do = nodeActions(f.fleet, v, row); len(a.Do) > 0 {
		a.Outcome = Blocked
	}
	return a, true
}

// drainSentence says what a drain waits for.
func drainSentence(f *fleet, row NodeRow, r v1alpha1.DrainReport, held []v1alpha1.DrainedPod) string {
	first := held[0]
	text := "draining" + sinceIn(f.Cluster, r.Started.Time, f.now) + postponedText(f, row) + ": pod " + first.Pod + ": " + first.Why
	if first.Since != nil {
		text += "," + sinceIn(f.Cluster, first.Since.Time, f.now)
	}
	if more := len(held) - 1; more > 0 {
		text += "; and " + count(more, "more pod")
	}
	return text
}

// drifted is the answer for a node that somebody changed.
func drifted(rows []DriftRow) Answer {
	a := Answer{Outcome: Fine, Cause: CauseDrift, Reason: fmt.Sprintf("%s was changed manually and is not as the config says", rows[0].Name)}
	if more := len(rows) - 1; more > 0 {
		a.Reason = fmt.Sprintf("%s and %s were changed manually and are not as the config says", rows[0].Name, count(more, "other item"))
	}
	for _, r := range rows {
		if r.Action == v1alpha1.DriftDegrade {
			a.Outcome = Degraded
		}
	}
	a.Do = driftActions(rows[0].Node, rows[0].Name)
	if a.Outcome == Degraded {
		a.Do = append(a.Do, "touch "+forceFile+"   # on "+rows[0].Node+": its daemon restores what the config says")
	}
	return a
}

// besides are what is wrong with the node besides what the rollout says of it.
func (f nodeReasons) besides(row NodeRow) []Answer {
	at := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == row.Name })
	n := rollout.ReadNode(&f.Nodes[at])
	var out []Answer
	if n.Health.Trouble != "" && row.Cause != rollout.CauseNotReady && !strings.Contains(row.Reason, n.Health.Trouble) {
		a := Answer{Outcome: Blocked, Cause: rollout.CauseNotReady, Reason: "it is " + n.Health.Text(sinceIn(f.Cluster, n.Health.Since, f.now)), Do: notReadyCommands(f.fleet, row.Name)}
		if mayReturn(row, n.Health, f.now) {
			a.Outcome = Progressing
		}
		out = append(out, a)
	}
	if n.Cordon.ByAdministrator() && row.Cause != rollout.CauseCordoned && !strings.Contains(row.Reason, "cordoned, not by Bunsen") {
		out = append(out, Answer{Outcome: Fine, Cause: rollout.CauseCordoned, Reason: "it is cordoned, not by Bunsen", Do: []string{"kubectl uncordon " + row.Name}})
	}
	if a, says := f.unattested(row, n); says {
		out = append(out, a)
	}
	if n.Marks.Postponed.For != "" {
		out = append(out, Answer{Outcome: Fine, Cause: rollout.CauseDrain, Reason: "its drain for " + n.Marks.Postponed.For + " was postponed " + agoIn(f.Cluster, n.Marks.Postponed.At, f.now) + ", because its pods could not be evicted"})
	}
	return out
}

// unattested is the answer for a node that says it booted for a custom pool in which it is not, where the controller does not
// label it; false for any other node.
func (f nodeReasons) unattested(row NodeRow, n rollout.Node) (Answer, bool) {
	pool := n.BootedPool()
	v := f.pools[pool]
	settable := slices.ContainsFunc(f.others.Customs, func(c rollout.Custom) bool { return c.Pool == pool })
	if v == nil || pool == row.Pool || settable && (!n.Checked || n.Attested == pool) {
		return Answer{}, false
	}
	var set []string
	for key, value := range rollout.LabelsFor(v.object.Spec.NodeSelector) {
		set = append(set, key+"="+value)
	}
	slices.Sort(set)
	a := Answer{Outcome: Fine, Cause: rollout.CauseLabels, Reason: "it says that it booted for pool " + pool + ", but no record of the server names that pool for it, so it stays in pool " + row.Pool}
	if !settable {
		a.Reason = "it says that it booted for pool " + pool + ", whose labels the controller does not set, so it stays in pool " + row.Pool
	}
	if len(set) > 0 {
		a.Do = []string{"kubectl label node " + row.Name + " " + strings.Join(set, " ") + "   # if it belongs there"}
	}
	return a, true
}
