package fleet

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

const (
	// for the first report of a new node's daemon, before a user has to check it
	joinTimeout = 10 * time.Minute
	// for a node that is being updated to be not Ready
	updateTimeout = 10 * time.Minute
)

// noDaemon: the daemon has never reported.
const noDaemon = "no machine-config-daemon has reported from it"

// DaemonReports returns the heartbeats of daemons by node, without those that cannot be read.
func DaemonReports(nodes []metav1.PartialObjectMetadata) map[string]v1alpha1.DaemonReport {
	out := map[string]v1alpha1.DaemonReport{}
	for i := range nodes {
		if r, err := v1alpha1.ParseDaemonReport(nodes[i].Annotations[v1alpha1.DaemonAnnotation]); err == nil {
			out[nodes[i].Name] = r
		}
	}
	return out
}

// SilentSince returns the time of the last heartbeat of a node's daemon, and whether it is too old. A daemon counts as
// silent while its machine reboots. One without any heartbeat may be of a version without them.
func SilentSince(daemons map[string]v1alpha1.DaemonReport, n *poolstate.Node, now time.Time) (time.Time, bool) {
	report, ok := daemons[n.Name]
	if !ok || n.Step.Rebooting {
		return report.Seen.Time, false
	}
	return report.Seen.Time, now.Sub(report.Seen.Time) > v1alpha1.DaemonSilentAfter
}

// SilentText is the reason of a node whose daemon is silent; a duration follows it.
const SilentText = "its machine-config-daemon has been silent"

// UnhealthyNode is a node that a user has to check although it reports no failure.
type UnhealthyNode struct {
	Name string
	// Text names the node. Since is how long the problem has lasted, for a text about several nodes; empty if unknown.
	Text, Since string
	Cause       poolstate.Cause
	// MayRecover: the problem may end by itself.
	MayRecover bool
}

// unhealthyNodes are those whose state is unknown, or that are not Ready without being updated.
func (v *Pool) unhealthyNodes() (all []UnhealthyNode) {
	for i := range v.Facts.Nodes {
		n, row := &v.Facts.Nodes[i], &v.Rows[i]
		u := UnhealthyNode{Name: n.Name}
		seen, silent := SilentSince(v.daemons, n, v.now)
		switch {
		case n.Degraded():
			continue
		case n.Health.Trouble != "":
			if row.InFlight() { // stuckNodesAnswers reports such a node.
				continue
			}
			u.Cause, u.Text = poolstate.CauseNotReady, n.Name+" is "+n.Health.Text(v.Since(n.Health.Since))
			u.MayRecover = MayReturn(*row, n.Health, v.now)
		case n.State == "":
			u.Cause, u.Text = CauseNoDaemon, "no machine-config-daemon has reported from "+n.Name
			u.MayRecover = !n.Created.IsZero() && v.now.Sub(n.Created) < joinTimeout
		case silent:
			u.Cause, u.Since = CauseSilent, v.Since(seen)
			u.Text = "the machine-config-daemon of " + n.Name + " has been silent" + u.Since
		default:
			continue
		}
		all = append(all, u)
	}
	return all
}

// UnhealthyGroup are nodes that a user has to check for the same reason.
type UnhealthyGroup struct {
	// Nodes are the names.
	Nodes []string
	// Text names the first nodes.
	Text  string
	Cause poolstate.Cause
	// MayRecover: the problem may end by itself on all nodes.
	MayRecover bool
}

// UnhealthyGroups groups the nodes without a daemon, and those whose daemon is silent. Any other node is a group of its
// own, because its kubelet has its own reason.
func (v *Pool) UnhealthyGroups() (groups []UnhealthyGroup) {
	at, words := map[poolstate.Cause]int{}, map[poolstate.Cause][]string{}
	for _, u := range v.Unhealthy {
		i, known := at[u.Cause]
		if u.Cause == poolstate.CauseNotReady || !known {
			at[u.Cause] = len(groups)
			groups = append(groups, UnhealthyGroup{[]string{u.Name}, u.Text, u.Cause, u.MayRecover})
		} else {
			g := &groups[i]
			g.Nodes, g.MayRecover = append(g.Nodes, u.Name), g.MayRecover && u.MayRecover
		}
		words[u.Cause] = append(words[u.Cause], u.Name+u.Since)
	}
	for i := range groups {
		g := &groups[i]
		switch count := Count(len(g.Nodes), "node"); {
		case len(g.Nodes) == 1:
		case g.Cause == CauseNoDaemon:
			g.Text = "no machine-config-daemon has reported from " + count + ": " + Names(words[g.Cause], mostNamed)
		default:
			g.Text = "the machine-config-daemons of " + count + " have been silent: " + Names(words[g.Cause], mostNamed)
		}
	}
	return groups
}

// mostNamed is for a text about a group.
const mostNamed = 3

// HealthOf returns the health of a node as its kubelet reports it.
func (f *Fleet) HealthOf(node string) poolstate.Health {
	return poolstate.ReadNode(f.Node(node)).Health
}

// MayReturn reports whether a node that is not Ready is being updated, and so may become Ready by itself, after a
// reboot or a restart of its kubelet. A kubelet that stops reporting outside of a reboot is not part of an update, and
// is reported after the same time as that of any other node.
func MayReturn(row NodeRow, health poolstate.Health, now time.Time) bool {
	if !row.InFlight() || health.Silence != "" && row.Step != StepRebooting {
		return now.Sub(health.Since) < rollout.Flapping
	}
	return now.Sub(health.Since) < updateTimeout
}
