package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Outcome is the state of a pool, node or source, as one word.
type Outcome = v1alpha1.Outcome

// The values of Outcome, the best first.
const (
	Fine        = v1alpha1.OutcomeFine
	Progressing = v1alpha1.OutcomeProgressing
	Waiting     = v1alpha1.OutcomeWaiting
	Unknown     = v1alpha1.OutcomeUnknown
	Blocked     = v1alpha1.OutcomeBlocked
	Degraded    = v1alpha1.OutcomeDegraded
)

// Answer is one reason why a pool, node or source waits.
type Answer struct {
	Outcome Outcome         `json:"outcome"`
	Cause   poolstate.Cause `json:"cause,omitempty"`
	// Reason is a sentence.
	Reason string `json:"reason"`
	// Until is when the reason ends by itself; nil if unknown.
	Until *time.Time `json:"until,omitempty"`
	Do    []string   `json:"do,omitempty"`
	// Problems are those of a GitSource if there are several; the first is a part of Reason. The last line may say how
	// many more there are.
	Problems []string `json:"problems,omitempty"`
	// source is the GitSource that a pool's answer is about; empty for others.
	source string
	// predicate is Reason without its subject, where a sentence about the subject begins with its name: "is halted: …".
	// It is empty if Reason is about something else.
	predicate string
}

// others are the problems that Reason does not have.
func (a Answer) others() []string { return a.Problems[min(1, len(a.Problems)):] }

// WorstFirst sorts answers by outcome. Answers with the same outcome stay in their order.
func WorstFirst(answers []Answer) []Answer {
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(b.Outcome.Rank(), a.Outcome.Rank()) })
	return answers
}

// once leaves out answers that an earlier one says in the same words, with all their commands.
func once(answers []Answer) []Answer {
	var out []Answer
	for _, a := range answers {
		isTold := slices.ContainsFunc(out, func(told Answer) bool {
			missing := func(do string) bool { return !slices.Contains(told.Do, do) }
			return told.Reason == a.Reason && told.Outcome == a.Outcome && !slices.ContainsFunc(a.Do, missing)
		})
		if !isTold {
			out = append(out, a)
		}
	}
	return out
}

// Predicate returns the reason without its subject, for a text that names the subject before it; "" if the reason is
// about something else.
func (a Answer) Predicate() string { return a.predicate }

// Short returns the reason on one line.
func (a Answer) Short() string {
	return fleet.Shorten(fleet.OneLine(a.Reason))
}

// When returns a text that says until when the reason holds. If the reason has that time already, it says how long that
// is.
func (a Answer) When(now time.Time) string {
	if a.Until == nil || a.Cause == poolstate.CauseWindow {
		return ""
	}
	when := fleet.Moment(*a.Until, nil, now)
	at, left, _ := strings.Cut(when, ", ")
	second := a.Until.UTC().Format(time.DateTime)
	if left != "" && (strings.Contains(a.Reason, at) || strings.Contains(a.Reason, second)) {
		return ", " + left
	}
	return "; until " + when
}

// revertedAnswer is for a node whose failure caused its pool's revert.
func revertedAnswer(f *fleet.Fleet, v *fleet.Pool, row fleet.NodeRow) (Answer, bool) {
	why := v.RevertFailures()[row.Name]
	return Answer{
		Outcome: Degraded, Cause: poolstate.CauseReverted, Reason: "it " + why,
		Do: verdictActions(f, v),
	}, why != ""
}

// NodeReason returns all reasons why a node is not done, worst first; at least one, which may say that it is done.
func NodeReason(f *fleet.Fleet, v *fleet.Pool, row fleet.NodeRow, drift []DriftRow) []Answer {
	if v == nil {
		return []Answer{unassignedAnswer(f, row)}
	}
	out := livenessAnswers(f, v, row)
	a, wrong := nodeAnswer(f, v, row)
	if wrong {
		out = append(out, a)
	}
	if told := wrong && a.Cause == poolstate.CauseFailed && (row.Current == row.Desired ||
		FailureCause(f, row) == v1alpha1.FailureDrift); len(drift) > 0 && !told {
		out = append(out, driftAnswer(drift))
	}
	out = WorstFirst(append(out, otherNodeAnswers(f, row)...))
	if len(out) == 0 || out[0].Outcome == Fine && out[0].Cause != poolstate.CauseCordoned {
		fine := Answer{Outcome: Fine, Reason: "it runs " + row.Current.String() + ", which pool " + row.Pool +
			" should run"}
		if v.Facts.Target.IsZero() {
			fine = Answer{
				Outcome: Progressing, Reason: "nothing is rendered for pool " + row.Pool + " yet",
				Do: []string{"bunsen why pool/" + row.Pool},
			}
			if len(out) > 0 && f.IsUnconfigured() { // The next answer says how to begin.
				fine = Answer{Outcome: Fine, Reason: fine.Reason + ", and it stays as it is"}
			}
		} else if v.Decision.Target != v.Facts.Target {
			fine.Reason = "it runs " + row.Current.String() + ", to which pool " + row.Pool + " went back"
			if a, guilty := revertedAnswer(f, v, row); guilty {
				fine = a
			}
		}
		out = append([]Answer{fine}, out...)
	}
	return out
}

// livenessAnswers are for a daemon, kubelet or controller that does not report.
func livenessAnswers(f *fleet.Fleet, v *fleet.Pool, row fleet.NodeRow) []Answer {
	out := append(Controllers(f, f.Sources), noSourceAnswers(f)...)
	for _, u := range v.Unhealthy {
		if u.Name != row.Name {
			continue
		}
		a := Answer{Outcome: unhealthyOutcome(u.Cause), Cause: u.Cause}
		switch u.Cause {
		case fleet.CauseSilent:
			a.Reason = fleet.SilentText + v.Since(*row.AsOf) + ", so its state is not known"
			a.Do = silentCommands(row.Name)
		case fleet.CauseNoDaemon:
			a.Reason = "no machine-config-daemon has reported from it, so its config is not known"
			a.Do = daemonCommands(row.Name)
			if u.MayRecover {
				a.Outcome = Progressing
			}
		default:
			continue // The rollout's answer already names this node.
		}
		out = append(out, a)
	}
	return out
}

// unassignedAnswer is for a node of no pool, or of several custom pools.
func unassignedAnswer(f *fleet.Fleet, row fleet.NodeRow) Answer {
	if row.Cause == fleet.CauseConflict {
		return Answer{
			Outcome: Blocked, Cause: fleet.CauseConflict, Reason: row.Reason,
			Do: conflictActions(f, row.Name),
		}
	}
	return Answer{
		Outcome: Fine, Cause: fleet.CauseNoPool, Reason: row.Reason,
		Do: []string{
			"kubectl get mcp -o custom-columns=NAME:.metadata.name,SELECTOR:.spec.nodeSelector",
			"kubectl get node " + row.Name + " --show-labels",
		},
	}
}

// conflictActions remove a node from one of the custom pools that select it. The labels of master and worker stay: they
// do not conflict with a custom pool.
func conflictActions(f *fleet.Fleet, node string) []string {
	n := f.Node(node)
	if n == nil {
		return nil
	}
	byPool := map[string]string{}
	for i := range f.Pools {
		p := &f.Pools[i]
		s, err := metav1.LabelSelectorAsSelector(p.Spec.NodeSelector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(n.Labels)) || p.Name == "master" || p.Name == "worker" {
			continue
		}
		var keys []string
		for key := range p.Spec.NodeSelector.MatchLabels {
			keys = append(keys, key+"-")
		}
		slices.Sort(keys)
		if len(keys) > 0 {
			byPool[p.Name] = fmt.Sprintf("kubectl label node %s %s   # takes it out of pool %s", node, keys[0], p.Name)
		}
	}
	var out []string
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		do := byPool[pool]
		if len(out) > 0 { // After all of them, the node would be in no pool.
			do = fleet.Alternative("it is to leave pool "+pool+" instead", do)
		}
		out = append(out, do)
	}
	return append(out, "kubectl get node "+node+" --show-labels")
}

func nodeAnswer(f *fleet.Fleet, v *fleet.Pool, row fleet.NodeRow) (Answer, bool) {
	a := Answer{Outcome: Progressing, Cause: row.Cause, Reason: row.Reason}
	_, behind := v.Waits[row.Name]
	switch row.Cause {
	case "", fleet.CauseNoDaemon, fleet.CauseSilent: // livenessAnswers has this reason.
		return a, false
	case poolstate.CauseFailed:
		line, _, _ := strings.Cut(strings.TrimSpace(row.Reason), "\n")
		a.Outcome, a.Reason = Degraded, "its daemon reports: "+cmp.Or(line, "no reason")
		if row.Current != row.Desired {
			a.Reason = "it " + FailureText(row)
		}
		a.Do = nodeActions(f, v, row)
	case poolstate.CauseUpdating, poolstate.CauseNotReady:
		return updatingAnswer(f, v, row)
	case poolstate.CauseNext, poolstate.CauseLabels, poolstate.CauseHost, poolstate.CauseDrain:
	case poolstate.CauseCordoned:
		a.Outcome, a.Do = Blocked, []string{"kubectl uncordon " + row.Name}
		if !behind { // The node runs the target, and only counts in the budget.
			a.Outcome, a.Reason = Fine, "it runs what it should; it is cordoned, not by Bunsen, and counts as "+
				"unavailable in its pool"
		}
	case poolstate.CauseGate:
		if a.Outcome = Blocked; behind {
			explainByPool(f, v, &a, row)
		}
	default:
		explainByPool(f, v, &a, row)
	}
	return a, true
}

// explainByPool adds what delays the pool.
func explainByPool(f *fleet.Fleet, v *fleet.Pool, a *Answer, row fleet.NodeRow) {
	pool := PoolReason(f, v, nil)
	if own := nodeActions(f, v, row); len(own) > 0 {
		a.Do = own
	} else if a.Do = nil; pool[0].Outcome.NeedsUser() {
		a.Do = slices.Clone(pool[0].Do)
	}
	a.Do = append(a.Do, "bunsen why pool/"+row.Pool)
	for _, p := range pool {
		if p.Cause == row.Cause && row.Cause != poolstate.CauseBudget { // The text of the block is about this node.
			a.Outcome, a.Reason, a.Until, a.Do = p.Outcome, p.Reason, p.Until, p.Do
			if row.Cause == poolstate.CauseHalted {
				a.Outcome = Blocked // Other nodes failed, and this node did not.
			}
			return
		}
	}
	if pool[0].Outcome.NeedsUser() || row.Cause == poolstate.CauseInvalid {
		a.Outcome = Blocked // The node continues when the pool's block ends.
	}
}

// updatingAnswer is for a node that was assigned a config, or that is not Ready; false for others. It is Blocked if the
// node does not continue by itself. The answer for the pool contains it too.
func updatingAnswer(f *fleet.Fleet, v *fleet.Pool, row fleet.NodeRow) (Answer, bool) {
	a := Answer{Outcome: Progressing, Cause: row.Cause, Reason: row.Reason}
	if row.Cause != poolstate.CauseUpdating && row.Cause != poolstate.CauseNotReady {
		return a, false
	}
	report := f.DrainReport(row)
	held := heldUp(report)
	if len(held) > 0 {
		a.Outcome, a.Cause, a.Reason = Blocked, poolstate.CauseDrain, drainSentence(f, row, *report, held)
		a.Do = budgetActions(held)
	} else if a.Do = nodeActions(f, v, row); len(a.Do) > 0 {
		a.Outcome = Blocked
	}
	return a, true
}

// drainSentence says what a drain waits for.
func drainSentence(f *fleet.Fleet, row fleet.NodeRow, r v1alpha1.DrainReport, held []v1alpha1.DrainedPod) string {
	first := held[0]
	text := "draining" + fleet.SinceIn(f.Cluster, r.Started.Time, f.Now) + postponedText(f, row) + ": pod " +
		first.Pod + ": " + drain.PodText(first)
	if first.Since != nil && first.Since.Sub(r.Started.Time) > time.Minute {
		text += " (" + strings.TrimSpace(fleet.SinceIn(f.Cluster, first.Since.Time, f.Now)) + ")"
	}
	if more := len(held) - 1; more > 0 {
		text += "; and " + fleet.Count(more, "more pod")
	}
	return text
}

// postponedText says how often the drain was postponed; "" for never.
func postponedText(f *fleet.Fleet, row fleet.NodeRow) string {
	n := f.Node(row.Name)
	if n == nil {
		return ""
	}
	facts := poolstate.ReadNode(n)
	return facts.PostponedText()
}

func driftAnswer(rows []DriftRow) Answer {
	a := Answer{
		Outcome: Fine, Cause: fleet.CauseDrift,
		Reason: fmt.Sprintf("%s was changed manually and is not as the config says", rows[0].Name),
	}
	if more := len(rows) - 1; more > 0 {
		a.Reason = fmt.Sprintf("%s and %s were changed manually and are not as the config says", rows[0].Name,
			fleet.Count(more, "other item"))
	}
	for _, r := range rows {
		if r.Action == v1alpha1.DriftDegrade {
			a.Outcome = Degraded
		}
	}
	a.Do = driftActions(rows[0].Node, rows[0].Name)
	if a.Outcome == Degraded {
		a.Do = restoreActions(rows[0].Node, rows[0].Name)
	}
	return a
}

// otherNodeAnswers are problems that the rollout's answer does not have.
func otherNodeAnswers(f *fleet.Fleet, row fleet.NodeRow) []Answer {
	n := poolstate.ReadNode(f.Node(row.Name))
	var out []Answer
	if n.Health.Trouble != "" && row.Cause != poolstate.CauseNotReady &&
		!strings.Contains(row.Reason, n.Health.Trouble) {
		a := Answer{Outcome: Blocked, Cause: poolstate.CauseNotReady, Reason: "it is " +
			n.Health.Text(fleet.SinceIn(f.Cluster, n.Health.Since, f.Now)), Do: notReadyCommands(f, row.Name)}
		if fleet.MayReturn(row, n.Health, f.Now) {
			a.Outcome = Progressing
		}
		out = append(out, a)
	}
	if n.Cordon.ByAdministrator() && row.Cause != poolstate.CauseCordoned && !strings.Contains(row.Reason,
		"cordoned, not by Bunsen") {
		out = append(out, Answer{
			Outcome: Fine, Cause: poolstate.CauseCordoned, Reason: "it is cordoned, not by Bunsen",
			Do: []string{"kubectl uncordon " + row.Name},
		})
	}
	if row.InFlight() && drain.IsAlone(f.Nodes, row.Name) {
		out = append(out, Answer{
			Outcome: Fine, Cause: poolstate.CauseDrain,
			Reason: "its pods are not evicted before " +
				"a reboot, because no other node can run them",
		})
	}
	if a, says := unattestedAnswer(f, row, n); says {
		out = append(out, a)
	}
	if n.Images = n.Pin.Digest; n.ImagesFail() && row.Cause != poolstate.CauseFetch {
		line, _, _ := strings.Cut(n.Pinned.Problem, "\n")
		out = append(out, Answer{
			Outcome: Blocked, Cause: poolstate.CauseFetch,
			Reason: "it cannot pull the images of " +
				"its PinnedImageSets: " + line,
		})
	}
	if !n.NodeMarks.Postponed.For.IsZero() {
		out = append(out, Answer{Outcome: Fine, Cause: poolstate.CauseDrain, Reason: "its drain for " +
			n.NodeMarks.Postponed.For.String() + " was postponed " +
			fleet.AgoIn(f.Cluster, n.NodeMarks.Postponed.At, f.Now) +
			", because its pods could not be evicted"})
	}
	return out
}

// unattestedAnswer is for a node that claims to have booted for a custom pool, but is not in it and does not get its
// labels from the controller; false for others.
func unattestedAnswer(f *fleet.Fleet, row fleet.NodeRow, n poolstate.Node) (Answer, bool) {
	pool := n.BootedPool()
	v := f.PoolByName[pool]
	settable := slices.ContainsFunc(f.Others.Customs, func(c poolstate.Custom) bool { return c.Pool == pool })
	if v == nil || pool == row.Pool || settable && (!n.Checked || n.Attested == pool) {
		return Answer{}, false
	}
	var set []string
	for key, value := range poolstate.LabelsFor(v.Object.Spec.NodeSelector) {
		if value != "" {
			value = fleet.ShellWord(value)
		}
		set = append(set, fleet.ShellWord(key)+"="+value)
	}
	slices.Sort(set)
	a := Answer{Outcome: Fine, Cause: poolstate.CauseLabels, Reason: "it says that it booted for pool " + pool +
		", but no record of the server names that pool for it, so it stays in pool " + row.Pool}
	if !settable {
		a.Reason = "it says that it booted for pool " + pool + ", whose labels the controller does not set, so it " +
			"stays in pool " + row.Pool
	}
	if len(set) > 0 {
		a.Do = []string{"kubectl label node " + row.Name + " " + strings.Join(set, " ") + "   # if it belongs there"}
	}
	return a, true
}

const mostDenied = 3

// DeniedOf returns an answer for each denied machine that requested the name of a node, the last denial first.
func DeniedOf(f *fleet.Fleet, node string) []Answer {
	var out []Answer
	for _, m := range f.Denied {
		if m.Node == node && len(out) < mostDenied {
			out = append(out, deniedAnswer(f, m))
		}
	}
	return out
}

// DeniedFor returns one answer for the denied machines of a pool; nil if there are none.
func DeniedFor(f *fleet.Fleet, pool string) []Answer {
	var own []fleet.DeniedMachine
	for _, m := range f.Denied {
		if m.Pool == pool {
			own = append(own, m)
		}
	}
	if len(own) == 0 {
		return nil
	}
	a := Answer{Outcome: Fine, Cause: fleet.CauseDenied, Reason: DeniedText(own)}
	return []Answer{a}
}

func deniedAnswer(f *fleet.Fleet, m fleet.DeniedMachine) Answer {
	return Answer{
		Outcome: Fine, Cause: fleet.CauseDenied,
		Reason: fmt.Sprintf("the controller denied certificate request %s %s (%s): %s", m.Request,
			fleet.AgoIn(f.Cluster, m.At, f.Now), m.Reason, m.Message),
		Do: []string{fleet.ShellLine("kubectl", "describe", "csr", m.Request)},
	}
}

// DeniedText names denied machines in one sentence, without ages. The list must not be empty.
func DeniedText(denied []fleet.DeniedMachine) string {
	names := make([]string, len(denied))
	for i, m := range denied {
		if names[i] = m.Node + " (" + m.Reason + ")"; m.Node == "" {
			names[i] = "an unknown machine (" + m.Reason + ")"
		}
	}
	help := "kubectl describe csr"
	if m := denied[0]; m.Node != "" {
		help = fleet.ShellLine("bunsen", "why", "node/"+m.Node)
	}
	return fmt.Sprintf("the controller denied the certificate requests of %s: %s: %s",
		fleet.Count(len(denied), "machine"), fleet.Names(names, mostDenied), help)
}
