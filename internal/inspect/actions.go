package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

const (
	// The nodes for which one answer has commands.
	mostAdvised = 3
	// for a drain that no disruption budget delays, before a user has to check it
	slowDrain = 10 * time.Minute
	// If it exists on a node, the daemon applies the complete config again.
	forceFile = "/run/machine-config-daemon-force"
)

// verdictActions are for a halted or reverted rollout: fixes for the failed nodes, then a retry.
func verdictActions(f *fleet.Fleet, v *fleet.Pool) []string {
	failed, config := failedNodes(f, v), v.Decision.Record.Config
	retry := "bunsen retry pool/" + v.Object.Name
	if v.Decision.Record.ChangesSecrets() { // The commit is the same as before.
		return append(undoSecrets(f, v), fleet.Alternative("the secrets are not the cause", retry))
	}
	if well := recovered(f, failed); well != "" && v.Decision.Record.Verdict == v1alpha1.RolloutHalted {
		return []string{retry + "   # " + well}
	}
	var out, names []string
	for _, n := range failed[:min(len(failed), mostAdvised)] {
		do, isCommit := failedNodeActions(f, v, n)
		if out = append(out, do...); isCommit {
			names = append(names, n.Node)
		}
	}
	if counts := v.Counts(); len(failed) > 0 && len(names) == 0 {
		return append(out, fmt.Sprintf("%s   # goes on with the rollout: %s to go", retry,
			fleet.Count(counts.Nodes-counts.Updated, "node")))
	}
	return append(append(undo(f, v, config), out...), fleet.Alternative(causeGone(names), retry))
}

func undoSecrets(f *fleet.Fleet, v *fleet.Pool) []string {
	var out []string
	for _, c := range f.SecretsChangedIn(v.Decision.Record.Config, v.EarlierRollout(),
		v.Decision.Record.Began.Time) {
		kind, name, _ := strings.Cut(c.Object, ":")
		if c.Manager != "" { // Any program may choose any name.
			c.Manager = fleet.ShellWord(safetext.OneLine(c.Manager))
		}
		change := strings.TrimPrefix(fleet.ChangeText(c), fleet.ObjectText(c.Object)+" ")
		out = append(out, fmt.Sprintf("kubectl -n %s edit %s %s   # it %s", v1alpha1.SecretsNamespace,
			fleet.ShellWord(kind), fleet.ShellWord(name), change))
	}
	if len(out) == 0 {
		out = append(out, "kubectl -n "+v1alpha1.SecretsNamespace+" get secrets,configmaps   # correct the values "+
			"that changed")
	}
	return out
}

// ownTarget is the config that a node gets from the recorded rollout, maybe one of its own.
func ownTarget(v *fleet.Pool, node string) v1alpha1.ConfigVersion {
	return v.Facts.Care.NodeConfigs.Own(v.Decision.Record.Target(), node)
}

// recovered says that the nodes that failed the config run it by now; "" if one does not, or if nothing is known of it.
func recovered(f *fleet.Fleet, failed []v1alpha1.FailedNode) string {
	var names []string
	for _, n := range failed {
		row, v := f.Find(n.Node)
		if v == nil || row.Step == fleet.StepFailed || f.IsSilent(n.Node) ||
			row.Current != ownTarget(v, n.Node) {
			return ""
		}
		names = append(names, n.Node)
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0] + " has recovered, and runs the config"
	}
	return fleet.Names(names, mostAdvised) + " have recovered, and run the config"
}

// failedNodes are those of a halted or reverted rollout. The record of an older controller does not name them.
func failedNodes(f *fleet.Fleet, v *fleet.Pool) []v1alpha1.FailedNode {
	r := v.Decision.Record
	if len(r.Failed) > 0 || r.Gate != "" {
		return r.Failed
	}
	var failed []v1alpha1.FailedNode
	for _, row := range v.Rows {
		if row.Step == fleet.StepFailed && row.Desired == ownTarget(v, row.Name) || f.IsSilent(row.Name) {
			failed = append(failed, v1alpha1.FailedNode{Node: row.Name, Cause: FailureCause(f, row)})
		}
	}
	return failed
}

// failedNodeActions are for a node that failed the config of its pool. isCommit: the commit may be the cause.
func failedNodeActions(f *fleet.Fleet, v *fleet.Pool, n v1alpha1.FailedNode) (do []string, isCommit bool) {
	config := ownTarget(v, n.Node)
	row, _ := f.Find(n.Node)
	cause := n.Cause
	// An older daemon does not report this cause.
	if row.Desired == config && FailureCause(f, row) == v1alpha1.FailureNoConfig {
		cause = v1alpha1.FailureNoConfig
	}
	switch {
	case cause == v1alpha1.FailureLost && f.Node(n.Node) == nil: // A user has deleted the Node.
		return nil, false
	case cause == v1alpha1.FailureLost:
		return notReadyCommands(f, n.Node), false
	case cause == v1alpha1.FailureNoConfig && f.HasConfig(config.Config): // The config was created again.
		return nil, false
	case blamesCommit(cause):
		return nil, true
	}
	return hostActions(f, v, row, cause, true), false
}

// causeGone says when a retry helps although a commit caused the failure.
func causeGone(nodes []string) string {
	switch len(nodes) {
	case 0:
		return "the cause is gone"
	case 1:
		return "the cause on " + nodes[0] + " is gone"
	}
	return "the causes on the nodes are gone"
}

// blamesCommit reports whether the commit of a config may be the cause.
func blamesCommit(cause v1alpha1.FailureCause) bool {
	switch cause {
	case v1alpha1.FailureHost, v1alpha1.FailureDiskFull, v1alpha1.FailureDrift, v1alpha1.FailureNoConfig,
		v1alpha1.FailureNoAccess,
		v1alpha1.FailureLost, v1alpha1.FailureUnsafePath, v1alpha1.FailureDrain, v1alpha1.FailureUncordon:
		return false
	}
	return true
}

// blamedConfig returns the config of a pool that nodes failed because of its commit, or "".
func blamedConfig(f *fleet.Fleet, v *fleet.Pool) string {
	r := v.Decision.Record
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
	for _, row := range v.Rows {
		if row.Step == fleet.StepFailed && row.Current != row.Desired && row.Desired != v.HealthyConfig() &&
			blamesCommit(FailureCause(f, row)) {
			return row.Desired.Config
		}
	}
	return ""
}

// troubleActions are for the nodes of a pool that need a user; none if all continue by themselves. All nodes without a
// daemon have the same ones.
func troubleActions(f *fleet.Fleet, v *fleet.Pool) []string {
	var out, lacking []string
	n := 0
	for _, row := range v.Rows {
		do := nodeActions(f, v, row)
		switch {
		case len(do) == 0:
		case slices.Equal(do, daemonCommands(row.Name)):
			lacking = append(lacking, row.Name)
		default:
			if n++; n <= mostAdvised {
				out = append(out, do...)
			}
		}
	}
	if len(lacking) > 0 {
		out = append(out, daemonCommands(lacking...)...)
	}
	if n > mostAdvised {
		out = append(out, fmt.Sprintf("bunsen get nodes   # %d more nodes need attention", n-mostAdvised))
	}
	return out
}

// nodeActions are for one node, whatever its pool; none if it continues by itself.
func nodeActions(f *fleet.Fleet, v *fleet.Pool, row fleet.NodeRow) []string {
	n := f.Node(row.Name)
	if n == nil {
		return nil
	}
	facts := poolstate.ReadNode(n)
	switch report := f.DrainReport(row); {
	case f.IsSilent(row.Name) && !fleet.MayReturn(row, facts.Health, f.Now):
		return notReadyCommands(f, row.Name)
	case facts.State == "":
		return daemonCommands(row.Name)
	case distrusts(facts):
		return []string{trustAction(v)}
	case row.Step == fleet.StepFailed:
		return failureActions(f, v, row, FailureCause(f, row))
	case len(heldUp(report)) > 0:
		return budgetActions(heldUp(report))
	case row.Step == fleet.StepDraining && report != nil && f.Now.Sub(drainBegan(facts, report)) > slowDrain &&
		describeFirst(report) != "":
		return []string{describeFirst(report)}
	case facts.Cordon.ByAdministrator():
		return []string{"kubectl uncordon " + row.Name}
	case facts.Health.Trouble != "" && !fleet.MayReturn(row, facts.Health, f.Now):
		return notReadyCommands(f, row.Name)
	case row.Cause == poolstate.CauseGate:
		return gateActions(f, v)
	}
	return nil
}

// drainActions are for a drain that takes too long. Without a report, the controller does not drain.
func drainActions(node string, report *v1alpha1.DrainReport) []string {
	switch {
	case len(heldUp(report)) > 0:
		return budgetActions(heldUp(report))
	case describeFirst(report) != "":
		return []string{describeFirst(report)}
	}
	return []string{findController + node}
}

// findController is for what the daemon of a node requests in vain. The name of the node follows.
const findController = "kubectl -n bunsen-system get pods,leases   # does machine-config-controller run? Its log names "

// describeFirst shows why the first pod of a drain has not ended; "" without a pod.
func describeFirst(report *v1alpha1.DrainReport) string {
	if report == nil || len(report.Pods) == 0 {
		return ""
	}
	return ofNamespaced("describe", "pod", report.Pods[0].Pod)
}

// drainBegan is the begin of the first drain of a node for its desired config.
func drainBegan(n poolstate.Node, report *v1alpha1.DrainReport) time.Time {
	if n.Drains.For == n.Config.Desired && n.Drains.First.Before(report.Started.Time) {
		return n.Drains.First
	}
	return report.Started.Time
}

func failureActions(f *fleet.Fleet, v *fleet.Pool, row fleet.NodeRow, cause v1alpha1.FailureCause) []string {
	retry, halted := "bunsen retry node/"+row.Name, false
	if v.Decision.Record.Verdict != "" && ownTarget(v, row.Name) == row.Desired {
		retry, halted = "bunsen retry pool/"+v.Object.Name, true // A retry of only this node leaves the rollout halted.
	}
	switch {
	case !blamesCommit(cause) && halted && cause != v1alpha1.FailureNoConfig:
		return append(hostActions(f, v, row, cause, true), retry)
	case !blamesCommit(cause):
		return hostActions(f, v, row, cause, false)
	case cause == v1alpha1.FailureRefused && !halted:
		return undo(f, v, row.Desired.Config)
	case row.Current == row.Desired: // The node applies no config now, so no commit is the cause.
		return []string{"kubectl describe node " + row.Name, retry}
	}
	return append(undo(f, v, row.Desired.Config), fleet.Alternative(causeGone([]string{row.Name}), retry))
}

// hostActions are for a failure that no commit caused. halted: a command of the caller follows, that goes on.
func hostActions(f *fleet.Fleet, v *fleet.Pool, row fleet.NodeRow, cause v1alpha1.FailureCause,
	halted bool,
) []string {
	// The longest pause of a daemon is a minute and a quarter.
	again := map[bool]string{true: ", then:", false: "; its daemon tries again by itself within 75 seconds"}[halted]
	switch cause {
	case v1alpha1.FailureHost:
		do := []string{"change on " + row.Name + " what the message names" + again}
		failed := row.Desired.Config
		if r := v.Decision.Record; r.Verdict == v1alpha1.RolloutReverted { // It went back, and is desired to be there.
			failed = r.Config
		}
		if undone := undo(f, v, failed); len(undone) > 0 {
			if commits := undoCommits(f, v, failed); len(commits) > 1 {
				undone = commits[1:] // The first one only lists what the second reverts.
			}
			do = append(do, fleet.Alternative("no machine should have "+fleet.ShortRendered(failed), undone[0]))
		}
		return do
	case v1alpha1.FailureDiskFull:
		return []string{"free disk space on " + row.Name + again}
	case v1alpha1.FailureUnsafePath:
		return []string{"remove the link or directory that the message names on " + row.Name + again}
	case v1alpha1.FailureDrain:
		return drainActions(row.Name, f.DrainReport(row))
	case v1alpha1.FailureUncordon:
		return []string{findController + row.Name}
	case v1alpha1.FailureNoAccess:
		return serverActions(f, " "+row.Name+" tries again by itself")
	case v1alpha1.FailureDrift:
		do := []string{"bunsen drift " + row.Name + "   # what differs"}
		if at := f.Node(row.Name); at != nil {
			if d := NewDriftReport([]corev1.Node{*at}, f.Daemons, f.Now); d.Any() {
				return restoreActions(row.Name, d.Rows[0].Name)
			}
		}
		return append(do, restoreAction(row.Name))
	case v1alpha1.FailureNoConfig:
		if f.HasConfig(row.Desired.Config) { // The config was created again.
			return []string{"bunsen retry node/" + row.Name}
		}
		if row.Desired == v.Facts.Target {
			return lostConfigActions(f, v)
		}
		config := cmp.Or(row.Current, v.Decision.Target)
		return []string{fmt.Sprintf("kubectl annotate node %s --overwrite %s=%s", row.Name,
			v1alpha1.DesiredConfigAnnotation, config)}
	}
	return notReadyCommands(f, row.Name)
}

// lostConfigActions are for a config that was deleted and that the controller cannot create again.
func lostConfigActions(f *fleet.Fleet, v *fleet.Pool) []string {
	out := []string{"kubectl get events -A --field-selector reason=RenderedConfigLost   # why the controller cannot " +
		"make it again"}
	if len(f.Sources) == 0 {
		return append(out, fixWithoutSource(f, v)...)
	}
	return append(out, "push a commit that changes pool "+v.Object.Name+"; it gets a new config")
}

func driftActions(node, item string) []string {
	item = fleet.ShellWord(item)
	return []string{"bunsen drift show node/" + node + " " + item, "bunsen drift adopt node/" + node + " " + item}
}

// restoreActions are for a change that degrades a node: a user undoes or adopts it.
func restoreActions(node, item string) []string {
	do := driftActions(node, item)
	return []string{
		do[0] + "   # what differs", restoreAction(node),
		fleet.Alternative("the change on "+node+" is to stay", do[1]+"   # prints it as a document, to commit and push"),
	}
}

// restoreAction lets the daemon restore what the config says.
func restoreAction(node string) string {
	return "touch " + forceFile + "   # run on " + node + ": everything is again as its config says, and changes by " +
		"hand are lost"
}

// FailureCause returns why a node failed, by its annotations, or else by the daemon's structured report; "" if only the
// daemon's message says it.
func FailureCause(f *fleet.Fleet, row fleet.NodeRow) v1alpha1.FailureCause {
	n := f.Node(row.Name)
	if n == nil {
		return ""
	}
	missing := !f.HasConfig(row.Desired.Config)
	failure, err := v1alpha1.ParseFailure(n.Annotations[v1alpha1.FailureAnnotation])
	switch {
	case f.IsSilent(row.Name) && row.Step != fleet.StepFailed:
		return v1alpha1.FailureLost
	case f.Rendered != nil && !row.Desired.IsZero() && row.Desired != row.Current && missing:
		return v1alpha1.FailureNoConfig
	case err == nil && failure.Cause != "" && failure.Version() == row.Desired:
		return failure.Cause
	case row.Current == row.Desired && NewDriftReport([]corev1.Node{*n}, f.Daemons, f.Now).Any():
		return v1alpha1.FailureDrift
	}
	return ""
}

// budgetActions are for disruption budgets that prevent evictions. One that waits for a pod needs no change: the
// command shows the pod.
func budgetActions(held []v1alpha1.DrainedPod) []string {
	var out []string
	for _, p := range held {
		do := ofNamespaced("describe", "pdb", p.Budget)
		switch {
		case p.Never && do != "":
			do = ofNamespaced("edit", "pdb", p.Budget) + "   # let it allow one eviction, or run one more pod"
		case p.Unhealthy != nil:
			do = cmp.Or(ofNamespaced("describe", "pod", p.Unhealthy.Pod), do)
		}
		if do != "" && !slices.Contains(out, do) && len(out) < mostAdvised {
			out = append(out, do)
		}
	}
	return out
}

// ofNamespaced is a command of kubectl for an object that is given as namespace/name; "" for any other text, which
// would be unsafe in a command.
func ofNamespaced(verb, kind, of string) string {
	namespace, name, _ := strings.Cut(of, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s %s %s %s", namespace, verb, kind, name)
}

func gateActions(f *fleet.Fleet, v *fleet.Pool) []string {
	closed := map[string]bool{}
	for _, g := range v.Facts.Care.Gates {
		closed[g.Name] = g.Verdict != poolstate.GateOpen
	}
	var out []string
	for _, g := range v.Facts.Care.Pace.Gates {
		switch {
		case g.Job != nil && closed[g.Name]:
			out = append(out, fmt.Sprintf("kubectl -n %s get jobs,pods -l %s=%s",
				fleet.ShellWord(g.Job.CronJob.Namespace), v1alpha1.GateLabel, fleet.ShellWord(g.Name)))
		case g.Prometheus != nil && closed[g.Name]:
			out = append(out, "curl -fsG "+fleet.ShellWord(g.Prometheus.URL+"/api/v1/query")+
				" --data-urlencode 'query="+strings.ReplaceAll(safetext.OneLine(g.Prometheus.Query), "'", `'\''`)+"'")
		case len(g.DaemonSets) > 0:
			for _, d := range g.DaemonSets[:min(len(g.DaemonSets), mostAdvised)] {
				out = append(out, fmt.Sprintf("kubectl -n %s describe daemonset %s",
					fleet.ShellWord(d.Namespace), fleet.ShellWord(d.Name)))
			}
			continue
		default:
			continue
		}
		for _, p := range f.Policies {
			has := slices.ContainsFunc(p.Spec.Gates, func(o v1alpha1.HealthGate) bool { return o.Name == g.Name })
			if has && slices.Contains(v.Facts.Care.Pace.Policies, p.Name) {
				out = append(out, editPolicy(f, p.Name)+"   # change or remove gate "+g.Name)
			}
		}
	}
	return out
}

// editPolicy changes a RolloutPolicy, in git if a GitSource applies it, which would restore it.
func editPolicy(f *fleet.Fleet, name string) string {
	for i := range f.Policies {
		if p := &f.Policies[i]; p.Name == name && p.Labels[v1alpha1.SourceLabel] != "" {
			return "change RolloutPolicy " + name + " in cluster/ of the repository of GitSource " +
				p.Labels[v1alpha1.SourceLabel] + ", and push"
		}
	}
	return "kubectl edit rolloutpolicy " + name
}
