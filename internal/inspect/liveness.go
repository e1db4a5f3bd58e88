package inspect

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// unhealthyCommands help with nodes that are not healthy for the same reason.
func unhealthyCommands(g fleet.UnhealthyGroup, f *fleet.Fleet) []string {
	if g.Cause == poolstate.CauseNotReady {
		return notReadyCommands(f, g.Nodes[0])
	}
	return daemonCommands(g.Nodes...)
}

// addLivenessAnswers adds two answers for a pool: that no GitSource exists, and that nodes do not report.
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

// onlyUnhealthyWait reports whether each node that waits for the pool's config is itself a node that does not report.
func onlyUnhealthyWait(v *fleet.Pool) bool {
	for name := range v.Waits {
		if !slices.ContainsFunc(v.Unhealthy, func(u fleet.UnhealthyNode) bool { return u.Name == name }) {
			return false
		}
	}
	return true
}

// noSourceAnswers returns an answer if no GitSource exists.
func noSourceAnswers(f *fleet.Fleet) []Answer {
	text := fleet.WithoutSource(f)
	if text == "" || fleet.ReadControllers(f) == nil {
		return nil
	}
	return []Answer{{Outcome: Fine, Cause: fleet.CauseSource, Reason: text, Do: []string{createSource(f, "")}}}
}

// goneSourcesAnswers returns an answer for each deleted GitSource whose MachineConfigs are still in the pool's config,
// while another GitSource exists.
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

// Controllers returns answers if no controller runs, or if the controller no longer reads the repository of one of the
// given sources.
func Controllers(f *fleet.Fleet, sources []v1alpha1.GitSource) []Answer {
	c := fleet.ReadControllers(f)
	if text := c.WarningText(fleet.WhenIn(f)); text != "" {
		return []Answer{{Outcome: Blocked, Cause: fleet.CauseController, Reason: text, Do: c.Do}}
	}
	var out []Answer
	if text := c.LateText(fleet.WhenIn(f)); text != "" {
		out = append(out, Answer{Outcome: Progressing, Cause: fleet.CauseController, Reason: text, Do: c.Do})
	}
	for i := range sources {
		if at, ok := c.LastCheck(&sources[i]); ok && c.IsOverdue(&sources[i]) {
			out = append(out, Answer{
				Outcome: Blocked, Cause: fleet.CauseSource,
				Reason: fleet.OverdueText(sources[i].Name, fleet.WhenIn(f)(at)), Do: c.Leader().RestartCommands(),
			})
		}
	}
	return out
}

// unhealthyAnswer summarizes the nodes of a pool whose state is unknown or that are not Ready; false if there are none.
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
	if others := len(v.Rows) - len(v.Unhealthy); others > 0 && len(v.Waits) == 0 && v.Facts.Target != "" {
		a.Reason += fmt.Sprintf("; the other %d of %d nodes run %s", others, len(v.Rows), v.Facts.Target)
	}
	return a, true
}

// unhealthyOutcome is the outcome for a node that does not recover by itself. Of a node whose daemon does not report,
// only the last report is known.
func unhealthyOutcome(cause poolstate.Cause) Outcome {
	if cause == poolstate.CauseNotReady {
		return Blocked
	}
	return Unknown
}

// livenessAnswers are the answers for a node whose daemon, kubelet or controller does not report.
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
			a.Do = daemonCommands(row.Name)
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

// notReadyCommands help if a node is not Ready.
func notReadyCommands(f *fleet.Fleet, node string) []string {
	if fleet.HealthOf(f, node).Silence != "" {
		return deadNodeCommands(node)
	}
	describe := "kubectl describe node " + node
	if n := fleet.Node(f, node); n != nil && slices.ContainsFunc(n.Status.Conditions,
		func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue
		}) {
		return []string{describe, "free disk space on " + node + "; its kubelet then reports it by itself"}
	}
	return []string{describe, "journalctl -u kubelet   # on " + node + ": why it is not Ready"}
}

// daemonCommands help if the daemons of nodes do not report. The commands are for the first node.
func daemonCommands(nodes ...string) []string {
	on := "on " + nodes[0]
	if len(nodes) > 1 {
		on += ", and in the same way on " + fleet.Names(nodes[1:], mostAdvised-1)
	}
	return []string{
		"kubectl get pods -A -o wide --field-selector spec.nodeName=" + nodes[0],
		"journalctl -u machine-config-daemon   # " + on + "; to install the daemon: docs/daemon.md",
	}
}

// deadNodeCommands help if a kubelet does not report.
func deadNodeCommands(node string) []string {
	return []string{
		"kubectl describe node " + node,
		"systemctl restart kubelet   # on " + node + "; start the machine first, if it is off",
		fleet.Alternative("the machine is gone permanently", "kubectl delete node "+node),
	}
}
