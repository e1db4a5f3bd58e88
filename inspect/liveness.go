package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// Causes that a rollout does not know, because it does not read heartbeats.
const (
	// CauseController: no controller runs, so nothing is rendered or rolled out.
	CauseController rollout.Cause = "Controller"
	// CauseSilent: the node's daemon has stopped reporting.
	CauseSilent = rollout.CauseSilent
)

const (
	// joining is how long a new node may be without a report of its daemon before somebody has to look at it.
	joining = 10 * time.Minute
	// updating is how long a node may be not Ready while it is updated.
	updating = 10 * time.Minute
)

// noDaemon is the reason of a node whose daemon has never reported.
const noDaemon = "no machine-config-daemon has reported from it"

// DaemonReports are the heartbeats of daemons by node, as MachineConfigNodes have them. One that cannot be read counts as absent.
func DaemonReports(nodes []metav1.PartialObjectMetadata) map[string]v1alpha1.DaemonReport {
	out := map[string]v1alpha1.DaemonReport{}
	for i := range nodes {
		if r, err := v1alpha1.ParseDaemonReport(nodes[i].Annotations[v1alpha1.DaemonAnnotation]); err == nil {
			out[nodes[i].Name] = r
		}
	}
	return out
}

// silentSince is the time of the last heartbeat of a node's daemon; true where it is too old. A daemon is silent while its
// machine reboots, and one that has never sent a heartbeat may be older than heartbeats are.
func silentSince(daemons map[string]v1alpha1.DaemonReport, n *rollout.Node, now time.Time) (time.Time, bool) {
	report, ok := daemons[n.Name]
	if !ok || n.Step.Rebooting {
		return report.Seen.Time, false
	}
	return report.Seen.Time, now.Sub(report.Seen.Time) > v1alpha1.DaemonSilentAfter
}

// notHeard fills in the row of a node of which nothing is known now, and that nothing else explains: false for others.
func notHeard(v *poolView, n *rollout.Node, row *NodeRow) bool {
	seen, silent := silentSince(v.daemons, n, v.now)
	switch {
	case silent:
		row.AsOf = known(seen)
	case n.Health.Silence != "" && n.State != "" && !n.Step.Rebooting:
		if _, reports := v.daemons[n.Name]; !reports {
			row.AsOf = known(n.Health.Since)
		}
	}
	_, waits := v.waits[n.Name]
	switch {
	case n.State == "":
		row.Cause, row.Reason = CauseNoDaemon, noDaemon
	case silent && n.Health.Trouble == "" && !n.Degraded() && (row.InFlight() || !waits):
		row.Cause, row.Reason = CauseSilent, silentText+v.since(seen)
	default:
		return false
	}
	return true
}

// silentText is the reason of a node whose daemon is silent; for how long follows it.
const silentText = "its machine-config-daemon has been silent"

// since says for how long, or since when; nothing where that is not known.
func (v *poolView) since(t time.Time) string {
	return sinceIn(Cluster{Timestamps: v.facts.Timestamps}, t, v.now)
}

// unwellNode is a node that somebody has to look at although it reports no failure.
type unwellNode struct {
	name string
	// text says what is wrong, with the node's name.
	text  string
	cause rollout.Cause
	// patient: it may end by itself.
	patient bool
}

// unwellNodes are the nodes that are not known, and those that are not Ready without being updated.
func unwellNodes(v *poolView) (all []unwellNode) {
	for i := range v.facts.Nodes {
		n, row := &v.facts.Nodes[i], &v.rows[i]
		u := unwellNode{name: n.Name}
		seen, silent := silentSince(v.daemons, n, v.now)
		switch {
		case n.Degraded():
			continue
		case n.Health.Trouble != "":
			if row.InFlight() { // stuckNodes has it
				continue
			}
			u.cause, u.text = rollout.CauseNotReady, n.Name+" is "+n.Health.Text(v.since(n.Health.Since))
			u.patient = mayReturn(*row, n.Health, v.now)
		case n.State == "":
			u.cause, u.text = CauseNoDaemon, "no machine-config-daemon has reported from "+n.Name
			u.patient = !n.Created.IsZero() && v.now.Sub(n.Created) < joining
		case silent:
			u.cause, u.text = CauseSilent, "the machine-config-daemon of "+n.Name+" has been silent"+v.since(seen)
		default:
			continue
		}
		all = append(all, u)
	}
	return all
}

// commands help with the node.
func (u unwellNode) commands(f *fleet) []string {
	if u.cause == rollout.CauseNotReady {
		return notReadyCommands(f, u.name)
	}
	return daemonCommands(u.name)
}

// withLiveness adds to the answers for a pool that nothing follows git, and the nodes that do not report.
func (f reasons) withLiveness(v *poolView, out []Answer) []Answer {
	out = append(out, f.noSourceAnswers()...)
	if a, unwell := unwellAnswer(f.fleet, v); unwell {
		if len(v.waits) == 0 { // it says all that the rollout says, and names the other nodes, too
			out = slices.DeleteFunc(out, func(o Answer) bool { return o.Cause == rollout.CauseNotReady })
		}
		out = append(out, a)
	}
	return out
}

// noSourceAnswers say that nothing follows git, where that is so.
func (f reasons) noSourceAnswers() []Answer {
	text := f.withoutSource()
	if text == "" || f.controllers() == nil {
		return nil
	}
	return []Answer{{Outcome: Fine, Cause: CauseSource, Reason: text, Do: []string{createSource(f.fleet)}}}
}

// controllerAnswers say that no controller runs, or that it does not look at the repository of one of these sources any more.
func (f reasons) controllerAnswers(sources []v1alpha1.GitSource) []Answer {
	c := f.controllers()
	if text := c.warning(whenIn(f.fleet)); text != "" {
		return []Answer{{Outcome: Blocked, Cause: CauseController, Reason: text, Do: c.Do}}
	}
	var out []Answer
	if text := c.late(whenIn(f.fleet)); text != "" {
		out = append(out, Answer{Outcome: Progressing, Cause: CauseController, Reason: text, Do: c.Do})
	}
	for i := range sources {
		if row := sourceRow(&sources[i], c, f.now); row.Overdue {
			out = append(out, Answer{Outcome: Blocked, Cause: CauseSource, Reason: row.overdue(whenIn(f.fleet)), Do: c.leader().restartCommands()})
		}
	}
	return out
}

// unwellAnswer sums up the nodes of a pool that are not known or not Ready; false where there are none.
func unwellAnswer(f *fleet, v *poolView) (Answer, bool) {
	const most = 3
	if len(v.unwell) == 0 {
		return Answer{}, false
	}
	a := Answer{Outcome: Progressing, Cause: v.unwell[0].cause}
	var texts []string
	for i, u := range v.unwell {
		if !u.patient {
			a.Outcome = Blocked
		}
		if i < most {
			texts = append(texts, u.text)
			a.Do = append(a.Do, "bunsen why node/"+u.name)
		}
	}
	if len(v.unwell) == 1 {
		a.Do = v.unwell[0].commands(f)
	}
	if more := len(v.unwell) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	a.Reason = strings.Join(texts, "; ")
	if others := len(v.rows) - len(v.unwell); others > 0 && len(v.waits) == 0 && v.facts.Target != "" {
		a.Reason += fmt.Sprintf("; the other %d of %d nodes run %s", others, len(v.rows), v.facts.Target)
	}
	return a, true
}

// nodeLife says that a node's daemon, its kubelet or the controller does not report.
func (f nodeReasons) nodeLife(v *poolView, row NodeRow) []Answer {
	out := append(f.controllerAnswers(f.Sources), f.noSourceAnswers()...)
	for _, u := range v.unwell {
		if u.name != row.Name {
			continue
		}
		a := Answer{Outcome: Blocked, Cause: u.cause}
		switch u.cause {
		case CauseSilent:
			a.Reason = silentText + v.since(*row.AsOf) + ", so its state is not known"
			a.Do = daemonCommands(row.Name)
		case CauseNoDaemon:
			a.Reason = "no machine-config-daemon has reported from it, so that nobody knows what it runs"
			a.Do = daemonCommands(row.Name)
			if u.patient {
				a.Outcome = Progressing
			}
		default:
			continue // what the rollout says of it names it
		}
		out = append(out, a)
	}
	return out
}

// healthOf is the health of a node as its kubelet reports it.
func healthOf(f *fleet, node string) rollout.Health {
	at := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == node })
	return rollout.ReadNode(&f.Nodes[at]).Health
}

// mayReturn reports whether a node that is not Ready is being updated, and may return by itself: a reboot or a restarted kubelet takes
// it away for a while. A kubelet that has stopped reporting outside of a reboot is no part of an update, and has as long as any other node
// before the controller reports it.
func mayReturn(row NodeRow, health rollout.Health, now time.Time) bool {
	if !row.InFlight() || health.Silence != "" && row.Step != StepRebooting {
		return now.Sub(health.Since) < rollout.Flapping
	}
	return now.Sub(health.Since) < updating
}

// notReadyCommands help where a node is not Ready.
func notReadyCommands(f *fleet, node string) []string {
	if healthOf(f, node).Silence != "" {
		return deadNodeCommands(node)
	}
	describe := "kubectl describe node " + node
	if n := nodeNamed(f, node); n != nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue
	}) {
		return []string{describe, "free disk space on " + node + "; its kubelet then reports it by itself"}
	}
	return []string{describe, "journalctl -u kubelet   # on " + node + ": why it is not Ready"}
}

// daemonCommands help where a daemon does not report.
func daemonCommands(node string) []string {
	return []string{
		"kubectl get pods -A -o wide --field-selector spec.nodeName=" + node,
		"journalctl -u machine-config-daemon   # on " + node + "; to install the daemon: docs/daemon.md",
	}
}

// deadNodeCommands help where a kubelet does not report.
func deadNodeCommands(node string) []string {
	return []string{
		"kubectl describe node " + node,
		"systemctl restart kubelet   # on " + node + "; start the machine first, if it is off",
		alternative("the machine is gone for good", "kubectl delete node "+node),
	}
}
