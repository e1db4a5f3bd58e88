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
	Pool string
	// what the pool should run; zero while nothing is rendered
	Target v1alpha1.ConfigVersion
	// the revisions; zero in a cluster without secrets
	Secrets Secrets
	// who requested Target; zero if unknown
	Requester v1alpha1.Requester
	// The pool assigns no configs.
	Paused bool
	// who and why; empty if unknown
	PausedBy string
	// at which revision the pool is held, by whom and why; empty if it is not
	Held string
	// the pool's own budget, from the function MaxUnavailable; below 1, it assigns nothing. A RolloutPolicy overrides
	// it.
	MaxUnavailable int
	// the controller's own node, which is updated last; empty if unknown
	Host string
	// those whose primary pool this is, in any order; sorted by name is fastest
	Nodes []Node
	// Texts contain points in time instead of durations.
	Timestamps bool
	// the limits besides maxUnavailable, and the record; zero for none
	Care Care
}

// Care has the input of a decision from RolloutPolicies, the pool's annotations and the other pools.
type Care struct {
	// of the pool's RolloutPolicies
	Pace schedule.Pace
	// on the pool; zero for none
	Record v1alpha1.RolloutRecord
	// the last config with which the whole pool was healthy, to which a revert returns: Record.LastHealthy or, without
	// a record, status.configuration.name. It is zero if there is none, or if it does not exist any more.
	Healthy v1alpha1.ConfigVersion
	// limits by other pools
	Around Around
	// of single nodes, for Target and for the configs that Record names; nil if all nodes run the same config
	NodeConfigs NodeConfigs
	// the answers of jobs and queries; a gate of the policy without one is closed
	Gates []Gate
	// until when the pool is rolled out even outside its maintenance windows
	OpenUntil time.Time
	// when a user requested a retry, which lifts an earlier verdict
	RetryAt time.Time
	// who requested that retry; empty if unknown
	RetriedBy string
	// what is invalid in the pool or its policies; until that is corrected, nothing is assigned
	Invalid string
	// the RolloutPolicies in Invalid
	InvalidPolicies []string
	// says that the pool's record is invalid and counts as missing
	Lost string
	// Nodes have to download files of Target that Healthy does not have. The record stores it.
	Fetches bool
}

// Around has the limits for this pool by other pools.
type Around struct {
	// the pools that are updated before this one
	Ahead []Ahead
	// shared with other pools
	Together []Shared
	// pools that wait for each other, in order, this one among them; empty if there are none
	Cycle []string
	// why every node of this pool has to stay in service: the masters and the arbiter wait for each other, and nodes of
	// etcd wait while etcd can lose no member; empty if it does not wait
	Quorum string
	// the cluster's; a machine that booted for one gets its labels
	Customs []Custom
}

// Ahead is a pool that is updated before another pool.
type Ahead struct {
	Pool string
	// The pool does not exist.
	Missing bool
	// The pool runs the config from the same commit as this pool's target.
	Done bool
	// why it is not Done
	Why string
}

// Shared is a budget that nodes of several pools share.
type Shared struct {
	// with the budget
	Policy string
	// the places in the budget, and those that nodes of other pools take
	Max, Used int
	// which other pools take places, such as "infra 2, master 1", and their names
	Who   string
	Pools []string
}

// Gate is the answer of a job or of a query.
type Gate struct {
	// in the RolloutPolicy
	Name    string
	Verdict GateVerdict
	// why the gate is not open
	Why string
}

// GateVerdict is the answer of a gate.
type GateVerdict string

// The values of GateVerdict.
const (
	// The rollout may continue.
	GateOpen GateVerdict = "Open"
	// The gate is closed or has no answer.
	GateWaits GateVerdict = "Waits"
	// It ends the rollout, as failed nodes do.
	GateFailed GateVerdict = "Failed"
)

// Read reads a pool, the policies and the published secrets of the cluster. size is the number of the pool's nodes. The
// caller sets Nodes, Host, Care.Around and Care.Gates. Care.Invalid lists the invalid settings.
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

// pausedBy says who, why and until when, as far as the annotations do.
func pausedBy(pool *mcfgv1.MachineConfigPool) string {
	who, until := pool.Annotations[v1alpha1.PausedByAnnotation],
		ParseTime(pool.Annotations[v1alpha1.PausedUntilAnnotation])
	if who == "" || until.IsZero() {
		return who
	}
	return who + ", until " + until.UTC().Format(time.RFC3339)
}

// held says at which revision a pool is held, by whom, why and until when, as far as the annotations do.
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
// end of a hold by the config at which it was held; empty if unknown.
func RequestedBy(pool *mcfgv1.MachineConfigPool, what string) string {
	requested, who, _ := strings.Cut(pool.Annotations[v1alpha1.SteeredByAnnotation], " ")
	if what == "" || requested != what {
		return ""
	}
	return Shorten(strings.Join(strings.Fields(who), " "), MaxReason)
}

// HealthyConfig returns the last config with which the whole pool was healthy: by its record, or without a valid one
// status.configuration.name; zero for none.
func HealthyConfig(pool *mcfgv1.MachineConfigPool) v1alpha1.ConfigVersion {
	if record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation]); err == nil &&
		record.Config != "" {
		return record.LastHealthy()
	}
	return v1alpha1.ConfigVersion{Config: pool.Status.Configuration.Name}
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

// SelectingAll returns an error for a pool with the selector {} for nodes or MachineConfigs, which a user may expect to
// select everything, but which selects nothing. The machine-config-operator has an event of this name.
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

// MaxUnavailable returns maxUnavailable for a pool with so many nodes; 1 if it sets none. A percentage is rounded down.
// 0 becomes 1, so that the rollout of a small pool continues. A negative value stays, and stops the rollout. For the
// arbiter pool, it is always 1.
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

// MostAtOnce is the limit of MaxUnavailable that counts for a pool: what its policies say, or else its own. An invalid
// policy counts for nothing here: the controller reports it.
func MostAtOnce(pool *mcfgv1.MachineConfigPool, policies []v1alpha1.RolloutPolicy) *intstr.IntOrString {
	if pace, err := schedule.PaceFor(pool, policies); err == nil && pace.MaxUnavailable != nil {
		return pace.MaxUnavailable
	}
	return pool.Spec.MaxUnavailable
}

// ScaleLimit converts a number or percentage to a number of nodes, by the rules of MaxUnavailable.
func ScaleLimit(want *intstr.IntOrString, nodes int) (int, error) {
	n, err := intstr.GetScaledValueFromIntOrPercent(want, nodes, false)
	if err == nil && n == 0 {
		n = 1
	}
	return n, err
}

// Left returns how many places of a shared budget are left for a pool that uses so many. It may be negative.
func (t Shared) Left(used int) int { return max(0, t.Max) - t.Used - used }

// HoldForEtcd sets Care.Around.Quorum if the nodes of the pool have to stay in service for etcd, and LiveMember of the
// nodes, by the last reports of all daemons.
func (f *Facts) HoldForEtcd(reports map[string]v1alpha1.DaemonReport, now time.Time) {
	for i := range f.Nodes {
		r := reports[f.Nodes[i].Name]
		f.Nodes[i].LiveMember = r.Etcd != nil && !r.Etcd.Down && isRecent(r, now)
	}
	if around := &f.Care.Around; around.Quorum == "" {
		around.Quorum = EtcdHold(f.Nodes, reports, now)
	}
}

// isRecent reports whether a daemon still sends heartbeats. If the node's clock is wrong, the age is unknown.
func isRecent(r v1alpha1.DaemonReport, now time.Time) bool {
	return now.Sub(r.Seen.Time).Abs() <= v1alpha1.DaemonSilentAfter
}

// EtcdHold returns why every node of a pool has to stay in service for etcd, by the last reports of all daemons; empty
// if it does not wait. A pool waits only if one of its nodes runs a member of etcd: while a member is unhealthy and
// etcd could not lose another, and until a daemon has reported after the last node of the pool became Ready.
//
// If all members are healthy, it never waits; otherwise a cluster of one or two members, which can lose none of them,
// could never be updated. Reports of nodes of other pools do not count, because a node without a member could report
// anything. The daemon of each member asks all members.
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

// maxProblem limits a node's problem in a message, in bytes.
const maxProblem = 300

// bounded is one line of limited length, because it becomes part of the pool's status.
func bounded(text string) string {
	text = safetext.OneLine(text)
	if len(text) <= maxProblem {
		return text
	}
	return strings.ToValidUTF8(text[:maxProblem], "") + "…"
}

// worstOf returns the report about etcd with the fewest healthy members, of daemons that still send heartbeats, and
// newer than a time. One with a problem counts only if all have a problem.
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
