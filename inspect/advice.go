package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

const (
	// mostAdvised is how many nodes one answer has commands for.
	mostAdvised = 3
	// slowDrain is after how long a drain that no budget holds up needs a person.
	slowDrain = 10 * time.Minute
	// forceFile on a node lets its daemon restore everything that its config says.
	forceFile = "/run/machine-config-daemon-force"
)

// verdictActions are the commands after a rollout was halted or reverted: what the failed nodes need, then a retry.
func verdictActions(f *fleet, v *poolView) []string {
	r := v.wave.Record
	failed := r.Failed
	if len(failed) == 0 && !strings.HasPrefix(r.Why, "gate ") { // a record of an older controller does not name them
		for _, row := range v.rows {
			if row.Step == StepFailed && row.Desired == r.Config || isSilent(f, row.Name) {
				failed = append(failed, v1alpha1.FailedNode{Node: row.Name, Cause: failureCause(f, row)})
			}
		}
	}
	retry := "bunsen retry pool/" + v.object.Name
	var out, names []string
	blamed := len(failed) == 0
	for _, n := range failed[:min(len(failed), mostAdvised)] {
		row, _ := f.find(n.Node)
		cause := n.Cause
		if row.Desired == r.Config && failureCause(f, row) == v1alpha1.FailureNoConfig { // as a daemon that does not report it would say
			cause = v1alpha1.FailureNoConfig
		}
		switch gone := nodeNamed(f, n.Node) == nil; {
		case gone && cause == v1alpha1.FailureLost: // it was deleted since
		case cause == v1alpha1.FailureLost:
			out = append(out, notReadyCommands(f, n.Node)...)
		case cause == v1alpha1.FailureNoConfig && isRendered(f, r.Config): // it was made again since
		case blamesCommit(cause):
			blamed, names = true, append(names, n.Node)
		default:
			out = append(out, hostActions(f, v, row, cause)...)
		}
	}
	if !blamed {
		return append(out, retry)
	}
	return append(append(undo(f, v, r.Config), out...), alternative(causeGone(names), retry))
}

// alternative is a command to use instead of the commands before it, when something is so. Commands without these words are one
// list: followed in their order they lead to a good state.
func alternative(when, command string) string { return "or, when " + when + ": " + command }

// isAlternative reports whether alternative made a line.
func isAlternative(line string) bool { return strings.HasPrefix(line, "or, when ") }

// causeGone is when a retry helps although a commit is to blame.
func causeGone(nodes []string) string {
	switch len(nodes) {
	case 0:
		return "the cause is gone"
	case 1:
		return "the cause on " + nodes[0] + " is gone"
	}
	return "the causes on the nodes are gone"
}

// blamesCommit reports whether the commit of a config may be why a node failed it.
func blamesCommit(cause v1alpha1.FailureCause) bool {
	switch cause {
	case v1alpha1.FailureDiskFull, v1alpha1.FailureDrift, v1alpha1.FailureNoConfig, v1alpha1.FailureLost, v1alpha1.FailureUnsafePath:
		return false
	}
	return true
}

// blamedConfig is the config of a pool that nodes failed because of its commit; empty where no commit is to blame.
func blamedConfig(f *fleet, v *poolView) string {
	r := v.wave.Record
	if r.Verdict != "" {
		for _, n := range r.Failed {
			if blamesCommit(n.Cause) {
				return r.Config
			}
		}
		if len(r.Failed) == 0 {
			return r.Config
		}
	}
	for _, row := range v.rows {
		if row.Step == StepFailed && row.Current != row.Desired && row.Desired != healthyConfig(v) && blamesCommit(failureCause(f, row)) {
			return row.Desired
		}
	}
	return ""
}

// troubleActions are the commands for the nodes of a pool that need a person; none where they all continue by themselves.
func troubleActions(f *fleet, v *poolView) []string {
	var out []string
	n := 0
	for _, row := range v.rows {
		do := nodeActions(f, v, row)
		if len(do) == 0 {
			continue
		}
		if n++; n <= mostAdvised {
			out = append(out, do...)
		}
	}
	if n > mostAdvised {
		out = append(out, fmt.Sprintf("bunsen get nodes   # %d more nodes need attention", n-mostAdvised))
	}
	return out
}

// nodeActions are the commands for one node, whatever its pool does; none where it continues by itself.
func nodeActions(f *fleet, v *poolView, row NodeRow) []string {
	n := nodeNamed(f, row.Name)
	if n == nil {
		return nil
	}
	facts := rollout.ReadNode(n)
	switch report := f.drain(row); {
	case isSilent(f, row.Name) && !mayReturn(row, facts.Health, f.now):
		return notReadyCommands(f, row.Name)
	case facts.State == "":
		return daemonCommands(row.Name)
	case row.Step == StepFailed:
		return failureActions(f, v, row, failureCause(f, row))
	case len(heldUp(report)) > 0:
		return budgetActions(heldUp(report))
	case row.Step == StepDraining && report != nil && f.now.Sub(drainBegan(facts, report)) > slowDrain && len(report.Pods) > 0:
		namespace, name, _ := strings.Cut(report.Pods[0].Pod, "/")
		return []string{fmt.Sprintf("kubectl -n %s describe pod %s", namespace, name)}
	case facts.Cordon.ByAdministrator():
		return []string{"kubectl uncordon " + row.Name}
	case facts.Health.Trouble != "" && !mayReturn(row, facts.Health, f.now):
		return notReadyCommands(f, row.Name)
	case row.Cause == rollout.CauseGate:
		return gateActions(f, v)
	}
	return nil
}

// drainBegan is when the first drain of a node for its desired config began.
func drainBegan(n rollout.Node, report *v1alpha1.DrainReport) time.Time {
	if n.Drains.For == n.Config.Desired && n.Drains.First.Before(report.Started.Time) {
		return n.Drains.First
	}
	return report.Started.Time
}

// failureActions are the commands for a node whose daemon reports a failure.
func failureActions(f *fleet, v *poolView, row NodeRow, cause v1alpha1.FailureCause) []string {
	retry, halted := "bunsen retry node/"+row.Name, false
	if r := v.wave.Record; r.Verdict != "" && r.Config == row.Desired {
		retry, halted = "bunsen retry pool/"+v.object.Name, true // a retry of the node alone leaves the others halted
	}
	switch {
	case !blamesCommit(cause) && halted && cause != v1alpha1.FailureNoConfig:
		return append(hostActions(f, v, row, cause), retry)
	case !blamesCommit(cause):
		return hostActions(f, v, row, cause)
	case cause == v1alpha1.FailureRefused && !halted:
		return undo(f, v, row.Desired)
	case row.Current == row.Desired: // no config is being applied, so no commit is at fault
		return []string{"kubectl describe node " + row.Name, retry}
	}
	return append(undo(f, v, row.Desired), alternative(causeGone([]string{row.Name}), retry))
}

// hostActions are the commands for a failure for which no commit is to blame.
func hostActions(f *fleet, v *poolView, row NodeRow, cause v1alpha1.FailureCause) []string {
	switch cause {
	case v1alpha1.FailureDiskFull:
		return []string{"free disk space on " + row.Name + "; its daemon tries again by itself"}
	case v1alpha1.FailureUnsafePath:
		return []string{"remove the link or directory that the message names on " + row.Name + "; its daemon tries again by itself"}
	case v1alpha1.FailureDrift:
		do := []string{"bunsen drift " + row.Name}
		if at := nodeNamed(f, row.Name); at != nil {
			if d := NewDrift([]corev1.Node{*at}, f.Daemons, f.now); d.Any() {
				do = driftActions(row.Name, d.Rows[0].Name)
			}
		}
		return append(do, "touch "+forceFile+"   # on "+row.Name+": its daemon restores what the config says")
	case v1alpha1.FailureNoConfig:
		if isRendered(f, row.Desired) { // it was made again since
			return []string{"bunsen retry node/" + row.Name}
		}
		if row.Desired == v.facts.Target {
			return lostConfigActions(f, v)
		}
		config := cmp.Or(row.Current, v.wave.Target)
		return []string{fmt.Sprintf("kubectl annotate node %s --overwrite %s=%s", row.Name, v1alpha1.DesiredConfigAnnotation, config)}
	}
	return notReadyCommands(f, row.Name)
}

// isRendered reports whether a rendered config is on the cluster.
func isRendered(f *fleet, config string) bool {
	return slices.ContainsFunc(f.Rendered, func(r RenderedRow) bool { return r.Name == config })
}

// lostConfigActions are the commands for a pool whose config was deleted and that the controller cannot make again.
func lostConfigActions(f *fleet, v *poolView) []string {
	out := []string{"kubectl get events -A --field-selector reason=RenderedConfigLost   # why the controller cannot make it again"}
	if len(f.Sources) == 0 {
		return append(out, fixWithoutSource(f, v)...)
	}
	return append(out, "push a commit that changes pool "+v.object.Name+"; it gets a new config")
}

func driftActions(node, item string) []string {
	item = shellWord(item)
	return []string{"bunsen drift show node/" + node + " " + item, "bunsen drift adopt node/" + node + " " + item}
}

// shellWord is a text as one word of a shell. What a node reports may be anything, and people paste these commands.
func shellWord(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._@:+-") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// failureCause is why a node failed: as its annotations have it, else as its daemon reports it in structured form. Empty: it
// could not take its config for a reason that only its daemon's words have.
func failureCause(f *fleet, row NodeRow) v1alpha1.FailureCause {
	n := nodeNamed(f, row.Name)
	if n == nil {
		return ""
	}
	missing := !isRendered(f, row.Desired)
	failure, err := v1alpha1.ParseFailure(n.Annotations[v1alpha1.FailureAnnotation])
	switch {
	case isSilent(f, row.Name) && row.Step != StepFailed:
		return v1alpha1.FailureLost
	case f.Rendered != nil && row.Desired != "" && row.Desired != row.Current && missing:
		return v1alpha1.FailureNoConfig
	case err == nil && failure.Cause != "" && failure.Config == row.Desired:
		return failure.Cause
	case row.Current == row.Desired && NewDrift([]corev1.Node{*n}, f.Daemons, f.now).Any():
		return v1alpha1.FailureDrift
	}
	return ""
}

// budgetActions are the commands for the disruption budgets that keep pods on a node.
func budgetActions(held []v1alpha1.DrainedPod) []string {
	var out []string
	for _, p := range held {
		namespace, name, _ := strings.Cut(p.Budget, "/")
		do := fmt.Sprintf("kubectl -n %s describe pdb %s", namespace, name)
		if p.Never {
			do = fmt.Sprintf("kubectl -n %s edit pdb %s   # let it allow one eviction, or run one more pod", namespace, name)
		}
		if !slices.Contains(out, do) && len(out) < mostAdvised {
			out = append(out, do)
		}
	}
	return out
}

// gateActions are the commands for the health gates of a pool that are not open.
func gateActions(f *fleet, v *poolView) []string {
	closed := map[string]bool{}
	for _, g := range v.facts.Care.Gates {
		closed[g.Name] = g.Verdict != rollout.GateOpen
	}
	var out []string
	for _, g := range v.facts.Care.Pace.Gates {
		switch {
		case g.Job != nil && closed[g.Name]:
			out = append(out, fmt.Sprintf("kubectl -n %s get jobs,pods -l %s=%s", g.Job.CronJob.Namespace, v1alpha1.GateLabel, g.Name))
		case g.Prometheus != nil && closed[g.Name]:
			out = append(out, "curl -fsG "+g.Prometheus.URL+"/api/v1/query --data-urlencode 'query="+strings.ReplaceAll(g.Prometheus.Query, "'", `'\''`)+"'")
		case len(g.DaemonSets) > 0:
			for _, d := range g.DaemonSets[:min(len(g.DaemonSets), mostAdvised)] {
				out = append(out, fmt.Sprintf("kubectl -n %s describe daemonset %s", d.Namespace, d.Name))
			}
			continue
		default:
			continue
		}
		for _, p := range f.Policies {
			has := slices.ContainsFunc(p.Spec.Gates, func(o v1alpha1.HealthGate) bool { return o.Name == g.Name })
			if has && slices.Contains(v.facts.Care.Pace.Policies, p.Name) {
				out = append(out, editPolicy(f, p.Name)+"   # change or remove gate "+g.Name)
			}
		}
	}
	return out
}

// editPolicy is the command that changes a RolloutPolicy. A GitSource puts its own back, so they are changed in git.
func editPolicy(f *fleet, name string) string {
	for i := range f.Policies {
		if p := &f.Policies[i]; p.Name == name && p.Labels[v1alpha1.SourceLabel] != "" {
			return "change RolloutPolicy " + name + " in cluster/ of the repository of GitSource " + p.Labels[v1alpha1.SourceLabel] + ", and push"
		}
	}
	return "kubectl edit rolloutpolicy " + name
}

// nodeNamed is the Node of that name; nil where there is none.
func nodeNamed(f *fleet, name string) *corev1.Node {
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return &f.Nodes[i]
		}
	}
	return nil
}

// isSilent reports whether the kubelet of a node has stopped reporting.
func isSilent(f *fleet, name string) bool {
	return nodeNamed(f, name) != nil && healthOf(f, name).Silence != ""
}

// label is the command that labels the first of these nodes as a selector asks for; empty where no label does that.
func label(s labels.Selector, rows []NodeRow) string {
	requirements, _ := s.Requirements()
	var pairs []string
	for _, r := range requirements {
		values := r.Values().List()
		if r.Operator() != selection.Equals && r.Operator() != selection.DoubleEquals && r.Operator() != selection.In || len(values) == 0 {
			return ""
		}
		pairs = append(pairs, r.Key()+"="+values[0])
	}
	if len(pairs) == 0 || len(rows) == 0 {
		return ""
	}
	return "kubectl label node " + rows[0].Name + " " + strings.Join(pairs, " ")
}

// conflictActions are the commands that take a node out of one of the custom pools that select it. The labels of master and
// worker stay: they do not conflict with a custom pool.
func conflictActions(f *fleet, node string) []string {
	n := nodeNamed(f, node)
	if n == nil {
		return nil
	}
	var out []string
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
			out = append(out, fmt.Sprintf("kubectl label node %s %s   # takes it out of pool %s", node, keys[0], p.Name))
		}
	}
	slices.Sort(out)
	return append(out, "kubectl get node "+node+" --show-labels")
}
