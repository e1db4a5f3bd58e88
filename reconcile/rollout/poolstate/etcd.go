package poolstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// HoldForEtcd sets Care.Around.Quorum if the nodes of the pool have to stay in service for etcd, and LiveMember of the
// nodes. The parameter reports has the last reports of all daemons.
func (f *Facts) HoldForEtcd(reports map[string]v1alpha1.DaemonReport, now time.Time) {
	for i := range f.Nodes {
		r := reports[f.Nodes[i].Name]
		f.Nodes[i].LiveMember = r.Etcd != nil && !r.Etcd.Down && isRecent(r, now)
	}
	if around := &f.Care.Around; around.Quorum == "" {
		around.Quorum = EtcdHold(f.Nodes, reports, now)
	}
}

// isRecent reports whether a daemon still sends heartbeats. If the node's clock is wrong, the age of the report is
// unknown.
func isRecent(r v1alpha1.DaemonReport, now time.Time) bool {
	return now.Sub(r.Seen.Time).Abs() <= v1alpha1.DaemonSilentAfter
}

// EtcdHold returns why every node of a pool has to stay in service for etcd; empty if the pool does not wait. The
// parameter reports has the last reports of all daemons. A pool waits only if one of its nodes runs a member of etcd. A
// pool with members of etcd waits while a member is unhealthy and etcd could not lose another member. The pool also
// waits until a daemon has reported after the last node of the pool became Ready.
//
// If all members are healthy, the pool never waits; otherwise a cluster of one or two members, which can lose none of
// them, could never be updated. Reports of nodes of other pools do not count, because a node without a member could
// report anything. The daemon of each member asks all members.
func EtcdHold(nodes []Node, reports map[string]v1alpha1.DaemonReport, now time.Time) string {
	own, back, last := map[string]v1alpha1.DaemonReport{}, time.Time{}, ""
	for i := range nodes {
		if r := reports[nodes[i].Name]; r.Etcd != nil {
			own[nodes[i].Name] = r
		}
		if since := nodes[i].Health.ReadySince; since.After(back) {
			back, last = since, nodes[i].Name
		}
	}
	if len(own) == 0 {
		return ""
	}
	worst, known := worstOf(own, back, now)
	switch {
	case !known && now.Sub(back) < v1alpha1.DaemonSilentAfter:
		return "waiting for a report about the members of etcd after " + last + " became Ready"
	case !known:
		return "no daemon of a node with etcd has reported its members for " +
			FormatDuration(v1alpha1.DaemonSilentAfter)
	case worst.Problem != "":
		return "the state of etcd is unknown: " + bounded(worst.Problem)
	case worst.Healthy < worst.Members && worst.Healthy-1 < worst.Members/2+1:
		return fmt.Sprintf("%d of %d members of etcd are healthy, and without another one it would lose its quorum",
			worst.Healthy, worst.Members)
	}
	return ""
}

// maxProblem is how many bytes of a node's problem a message has.
const maxProblem = 300

// bounded returns a text of a node as one line of limited length, because it becomes part of the pool's status.
func bounded(text string) string {
	text = safetext.OneLine(text)
	if len(text) <= maxProblem {
		return text
	}
	return strings.ToValidUTF8(text[:maxProblem], "") + "…"
}

// worstOf returns the report about etcd with the fewest healthy members. Only reports of daemons that still send
// heartbeats, and that are newer than a given time, count. A report with a problem counts only if all reports have a
// problem.
func worstOf(reports map[string]v1alpha1.DaemonReport, after, now time.Time) (worst v1alpha1.EtcdReport, known bool) {
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		r := reports[name]
		if !isRecent(r, now) || r.Seen.Time.Before(after) {
			continue
		}
		if !known || r.Etcd.Problem == "" && (worst.Problem != "" || r.Etcd.Healthy < worst.Healthy) {
			worst, known = *r.Etcd, true
		}
	}
	return worst, known
}
