package poolstate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/membership"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Facts are the input of a decision about a pool, besides the time.
type Facts struct {
	// Pool is the pool's name.
	Pool string
	// Target is the rendered config that the pool should run, with the revision of its secrets as v1alpha1.ConfigAt
	// writes it; empty while nothing is rendered.
	Target string
	// Secrets has the revisions of secrets; zero in a cluster without secrets.
	Secrets Secrets
	// Requester is who requested Target; zero if that is unknown.
	Requester v1alpha1.Requester
	// Paused is true if the pool is paused and assigns no configs.
	Paused bool
	// PausedBy says who paused the pool and why; empty if that is unknown.
	PausedBy string
	// Held is a text that says at which revision the pool is held, by whom and why; empty if the pool is not held.
	Held string
	// MaxUnavailable is the pool's own budget, from the function MaxUnavailable. A pool with a budget below 1 assigns
	// nothing. A limit in a RolloutPolicy overrides MaxUnavailable.
	MaxUnavailable int
	// Host is the node on which the controller runs; empty if it is unknown. The node Host is updated last.
	Host string
	// Nodes are the nodes whose primary pool is this pool, in any order. A list that is sorted by name is fastest.
	Nodes []Node
	// If Timestamps is true, texts contain points in time instead of durations.
	Timestamps bool
	// Care has the limits of the rollout besides maxUnavailable, and the record; zero for none.
	Care Care
}

// Care has the input of a decision from RolloutPolicies, the pool's annotations and the other pools.
type Care struct {
	// Pace has the settings of the pool's RolloutPolicies.
	Pace schedule.Pace
	// Record is the record on the pool; zero for none.
	Record v1alpha1.RolloutRecord
	// Healthy is the last config with which the whole pool was healthy: a revert returns to it. Healthy is
	// Record.LastHealthy or, without a record, status.configuration.name. Healthy is empty if there is no such config,
	// or if the config does not exist any more.
	Healthy string
	// Around has the limits by other pools.
	Around Around
	// NodeConfigs are the configs of single nodes, for Target and for the configs that Record names; nil if all nodes
	// of the pool run the same config.
	NodeConfigs NodeConfigs
	// Gates are the answers of jobs and queries. A gate of the policy without an answer is closed.
	Gates []Gate
	// OpenUntil is the time until which the pool is rolled out even outside its maintenance windows.
	OpenUntil time.Time
	// RetryAt is when a user requested a retry. The retry lifts an earlier verdict.
	RetryAt time.Time
	// RetriedBy is who requested that retry; empty if that is not known.
	RetriedBy string
	// Invalid says what is invalid in the pool or its policies. The pool assigns nothing until a user has corrected the
	// policy.
	Invalid string
	// InvalidPolicies are the names of the RolloutPolicies in Invalid.
	InvalidPolicies []string
	// Lost is a text that says that the pool's record is invalid and counts as missing.
	Lost string
	// Fetches is true if nodes have to download files of Target that Healthy does not have. The record stores it.
	Fetches bool
}

// Around has the limits for this pool by other pools.
type Around struct {
	// Ahead are the pools that are updated before this pool.
	Ahead []Ahead
	// Together are the budgets that this pool shares with other pools.
	Together []Shared
	// Cycle are pools that wait for each other, in order. This pool is one of the pools in Cycle. Cycle is empty if
	// there is no such cycle.
	Cycle []string
	// Quorum is why every node of this pool has to stay in service: the masters and the arbiter wait for each other,
	// and nodes of etcd wait while etcd can lose no member. Quorum is empty if the pool does not wait.
	Quorum string
	// Customs are the cluster's custom pools. A machine that booted for a custom pool gets the labels of this pool.
	Customs []Custom
}

// Ahead is a pool that is updated before another pool.
type Ahead struct {
	// Pool is the name of the pool.
	Pool string
	// Missing is true if the pool does not exist.
	Missing bool
	// Done is true if the pool runs the config from the same commit as this pool's target.
	Done bool
	// Why is the reason if the pool is not Done.
	Why string
}

// Shared is a budget that nodes of several pools share.
type Shared struct {
	// Policy is the RolloutPolicy with the budget.
	Policy string
	// Max is the number of places in the budget. Used is how many of these places nodes of other pools take.
	Max, Used int
	// Who is a text that says which other pools take places, such as "infra 2, master 1". Pools are the names of these
	// pools.
	Who   string
	Pools []string
}

// Gate is the answer of a job or of a query.
type Gate struct {
	// Name is the name of the gate in the RolloutPolicy.
	Name string
	// Verdict is the answer.
	Verdict GateVerdict
	// Why is the reason if the gate is not open.
	Why string
}

// GateVerdict is the answer of a gate.
type GateVerdict string

// The values of GateVerdict.
const (
	// GateOpen allows the rollout to continue.
	GateOpen GateVerdict = "Open"
	// GateWaits means that the gate is closed or has no answer.
	GateWaits GateVerdict = "Waits"
	// GateFailed ends the rollout, in the same way as failed nodes.
	GateFailed GateVerdict = "Failed"
)

// Read reads a pool, the policies and the published secrets of the cluster. The caller sets Nodes, Host, Care.Around
// and Care.Gates. Care.Invalid lists the invalid settings. The parameter size is the number of the pool's nodes.
func Read(pool *mcfgv1.MachineConfigPool, policies []v1alpha1.RolloutPolicy, secrets Published, size int) Facts {
	f := Facts{Pool: pool.Name, Paused: pool.Spec.Paused, PausedBy: pausedBy(pool), Held: held(pool)}
	f.Requester.Revision = pool.Annotations[v1alpha1.RevisionAnnotation]
	if t, err := v1alpha1.ParsePoolTarget(pool.Annotations[v1alpha1.TargetAnnotation]); err == nil &&
		t.Config == pool.Spec.Configuration.Name {
		f.Requester = t.Requester
	}
	c := &f.Care
	c.OpenUntil, c.RetryAt = ParseTime(pool.Annotations[v1alpha1.OpenUntilAnnotation]),
		ParseTime(pool.Annotations[v1alpha1.RetryAnnotation])
	c.RetriedBy = RequestedBy(pool, pool.Annotations[v1alpha1.RetryAnnotation])
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		c.Lost = err.Error() + "; what the rollout remembered is lost, and it begins again"
	}
	c.Record, c.Healthy = record, HealthyConfig(pool)
	f.Target, f.Secrets = secrets.target(pool.Spec.Configuration.Name, record)
	var budget, policy error
	f.MaxUnavailable, budget = MaxUnavailable(pool.Name, pool.Spec.MaxUnavailable, size)
	c.Pace, policy = schedule.PaceFor(pool, policies)
	if err := errors.Join(SelectingAll(pool), budget, policy); err != nil {
		c.AddInvalid(err)
	}
	return f
}

// pausedBy returns a text that says who paused a pool, why and until when, as far as the pool's annotations say so.
func pausedBy(pool *mcfgv1.MachineConfigPool) string {
	who, until := pool.Annotations[v1alpha1.PausedByAnnotation],
		ParseTime(pool.Annotations[v1alpha1.PausedUntilAnnotation])
	if who == "" || until.IsZero() {
		return who
	}
	return who + ", until " + until.UTC().Format(time.RFC3339)
}

// held returns a text that says at which revision a pool is held, who held it, why and until when, as far as the pool's
// annotations say so.
func held(pool *mcfgv1.MachineConfigPool) string {
	a := pool.Annotations
	if a[v1alpha1.HoldAnnotation] == "" {
		return ""
	}
	text := "held at " + cmp.Or(a[v1alpha1.HeldRevisionAnnotation], a[v1alpha1.HoldAnnotation])
	if who := HeldBy(pool); who != "" {
		text += " by " + who
	}
	if until := ParseTime(a[v1alpha1.HeldUntilAnnotation]); !until.IsZero() {
		text += ", until " + until.UTC().Format(time.RFC3339)
	}
	return text
}

// HeldBy returns who holds a pool and why, in one line; empty if that is unknown.
func HeldBy(pool *mcfgv1.MachineConfigPool) string {
	return Shorten(strings.Join(strings.Fields(pool.Annotations[v1alpha1.HeldByAnnotation]), " "),
		MaxReason)
}

// RequestedBy returns who requested something of a pool, in one line: a retry by the time of RetryAnnotation, or the
// end of a hold by the config at which the pool was held. The result is empty if that is not known.
func RequestedBy(pool *mcfgv1.MachineConfigPool, what string) string {
	requested, who, _ := strings.Cut(pool.Annotations[v1alpha1.SteeredByAnnotation], " ")
	if what == "" || requested != what {
		return ""
	}
	return Shorten(strings.Join(strings.Fields(who), " "), MaxReason)
}

// HealthyConfig returns the last config with which the whole pool was healthy, with the revision of its secrets,
// according to the pool's record; empty for none. Without a valid record, HealthyConfig returns
// status.configuration.name.
func HealthyConfig(pool *mcfgv1.MachineConfigPool) string {
	if record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation]); err == nil &&
		record.Config != "" {
		return record.LastHealthy()
	}
	return pool.Status.Configuration.Name
}

// AddInvalid adds an error to Invalid and InvalidPolicies.
func (c *Care) AddInvalid(err error) {
	if c.Invalid != "" {
		c.Invalid += "\n"
	}
	c.Invalid += err.Error()
	c.InvalidPolicies = append(c.InvalidPolicies, schedule.InvalidPolicies(err)...)
}

// SamePolicies reports whether two lists, each in any order, have the same policies in the same versions.
func SamePolicies(a, b []v1alpha1.RolloutPolicy) bool {
	versions := func(list []v1alpha1.RolloutPolicy) map[string]string {
		out := make(map[string]string, len(list))
		for i := range list {
			out[list[i].Name] = string(list[i].UID) + " " + list[i].ResourceVersion
		}
		return out
	}
	return maps.Equal(versions(a), versions(b))
}

// ArbiterPool is the pool of the node that completes the quorum of two masters.
const ArbiterPool = "arbiter"

// SelectingAll returns an error for a pool with the selector {} for nodes or MachineConfigs. A user may expect that the
// selector {} selects everything, but it selects nothing. The machine-config-operator has an event with the name
// SelectingAll.
func SelectingAll(pool *mcfgv1.MachineConfigPool) error {
	for _, s := range []struct {
		field    string
		selector *metav1.LabelSelector
	}{{"nodeSelector", pool.Spec.NodeSelector}, {"machineConfigSelector", pool.Spec.MachineConfigSelector}} {
		if s.selector != nil && membership.SelectsNothing(s.selector) {
			return fmt.Errorf("spec.%s of MachineConfigPool %q is {}, which selects nothing here: write matchLabels "+
				"or matchExpressions", s.field, pool.Name)
		}
	}
	return nil
}

// MaxUnavailable returns maxUnavailable for a pool with the given number of nodes. If the pool sets no value, the
// result is 1. A percentage of the pool's size is rounded down. 0 becomes 1, so that the rollout of a small pool
// continues. A negative value stays negative, and stops the rollout of the pool. For the arbiter pool, the result is
// always 1.
func MaxUnavailable(pool string, want *intstr.IntOrString, nodes int) (int, error) {
	if want == nil || pool == ArbiterPool {
		return 1, nil
	}
	n, err := ScaleLimit(want, nodes)
	if err != nil {
		return 0, fmt.Errorf("reading maxUnavailable %q of MachineConfigPool %q: %w; write a number such as 2, or a "+
			"percentage such as \"10%%\"", want.String(), pool, err)
	}
	return n, nil
}

// ScaleLimit converts a number or percentage to a number of nodes, by the rules of MaxUnavailable.
func ScaleLimit(want *intstr.IntOrString, nodes int) (int, error) {
	n, err := intstr.GetScaledValueFromIntOrPercent(want, nodes, false)
	if err == nil && n == 0 {
		n = 1
	}
	return n, err
}

// Left returns how many places of a shared budget are left for a pool that uses the given number of places. The result
// may be negative.
func (t Shared) Left(used int) int { return max(0, t.Max) - t.Used - used }

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
