package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// Cluster is what a status is made of.
type Cluster struct {
	Sources  []v1alpha1.GitSource
	Pools    []mcfgv1.MachineConfigPool
	Nodes    []corev1.Node
	Policies []v1alpha1.RolloutPolicy
	// Rendered configs that are there; nil where they were not read.
	Rendered []RenderedRow
	// Leases of machine-config-controllers and machine-config-servers, and LeasesNote why they were not read. Where both are
	// nil, nothing is said of either.
	Leases     []coordinationv1.Lease
	LeasesNote string
	// Daemons are the heartbeats of the daemons, by node; nil where they were not read, for the reason in DaemonsNote.
	Daemons     map[string]v1alpha1.DaemonReport
	DaemonsNote string
	// Timestamps has reasons name points in time instead of ages, for programs.
	Timestamps bool
}

// Status is the one screen for a whole cluster.
type Status struct {
	Sources []SourceRow `json:"sources"`
	Pools   []PoolRow   `json:"pools"`
	Nodes   []NodeRow   `json:"nodes"`
	// Unmanaged are the nodes that no pool selects.
	Unmanaged []NodeRow `json:"unmanaged,omitempty"`
	// Controllers that render and roll out; absent where that was not read.
	Controllers *Controllers `json:"controllers,omitempty"`
	// Servers of first configs; absent where none was ever there.
	Servers *Servers `json:"servers,omitempty"`
	// Warnings are what concerns no pool, node or server alone. They name no ages.
	Warnings []string `json:"warnings,omitempty"`
	// at is when it was so.
	at time.Time
}

// SourceRow is one GitSource.
type SourceRow struct {
	Name     string `json:"name"`
	Revision string `json:"revision"`
	Subject  string `json:"subject,omitempty"`
	Ready    string `json:"ready"`
	Message  string `json:"message"`
	// LastLook is when the controller last asked the repository; absent where that is not known. Overdue: it should have asked
	// again by now.
	LastLook *time.Time `json:"lastLook,omitempty"`
	Overdue  bool       `json:"overdue,omitempty"`
}

// PoolRow is one pool.
type PoolRow struct {
	Name     string `json:"name"`
	Target   string `json:"target"`
	Revision string `json:"revision"`
	// API are the changes through the API that asked for Target; Revision is empty where no commit did.
	API []v1alpha1.APIChange `json:"api,omitempty"`
	// Unproven is the revision that these changes came on, where the pool was never healthy with it.
	Unproven string `json:"unproven,omitempty"`

	PoolCounts `json:",inline"`

	State string `json:"state"`
	// Step of the rollout under way, and Blocked why it does not go on; empty where there is none.
	Step    string   `json:"step,omitempty"`
	Blocked []string `json:"blocked,omitempty"`
	// patient tells of each of Blocked whether it ends by itself.
	patient []bool
	// Next is what happens next by itself: nodes that are told, or when a wait ends.
	Next string `json:"next,omitempty"`
	// Outcome sums it up.
	Outcome Outcome `json:"outcome"`
}

// PoolCounts are the numbers of a pool's nodes. Each node counts once, so the others add up to Nodes; see rollout.Standing.
type PoolCounts struct {
	Nodes int `json:"nodes"`
	// Updated nodes run the target and serve pods. Unready ones run it, and are not Ready or are cordoned.
	Updated int `json:"updated"`
	Unready int `json:"unready"`
	// Busy nodes are being updated, Waiting ones have not been assigned the target.
	Busy    int `json:"busy"`
	Waiting int `json:"waiting"`
	// Degraded nodes report a failure.
	Degraded int `json:"degraded"`
	// Back are the nodes of a reverted pool that run the config to which it went back.
	Back int `json:"back"`
	// Unknown nodes do not report: no daemon ever did, their kubelet stopped, or their daemon is silent.
	Unknown int `json:"unknown"`
}

// NewStatus makes the screen. It decides nothing anew: why a node waits is what the rollout says at this moment.
func NewStatus(c Cluster, now time.Time) Status {
	f := newFleet(c, now)
	s := Status{Sources: []SourceRow{}, Pools: []PoolRow{}, Nodes: []NodeRow{}, Servers: f.servers(), Controllers: f.controllers(), at: now}
	s.Warnings = warnings(f, s.Controllers)
	for i := range c.Sources {
		s.Sources = append(s.Sources, sourceRow(&c.Sources[i], s.Controllers, now))
	}
	for i := range c.Pools {
		v := f.pools[c.Pools[i].Name]
		s.Pools = append(s.Pools, f.poolRow(v))
		s.Nodes = append(s.Nodes, v.rows...)
	}
	for _, row := range f.torn {
		s.Nodes = append(s.Nodes, row)
	}
	for _, name := range sortedKeys(f.nobodys) {
		s.Unmanaged = append(s.Unmanaged, f.nobodys[name])
	}
	slices.SortFunc(s.Nodes, func(a, b NodeRow) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func sourceRow(src *v1alpha1.GitSource, c *Controllers, now time.Time) SourceRow {
	row := SourceRow{Name: src.Name, Revision: src.Status.AppliedRevision, Ready: unknown}
	if src.Status.AppliedCommit != nil {
		row.Subject = src.Status.AppliedCommit.Subject
	}
	if c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition); c != nil {
		row.Ready, row.Message = string(c.Status), c.Message
		if c.Status != metav1.ConditionTrue {
			row.Message = c.Reason + ": " + c.Message
		}
	}
	if src.Spec.Suspend {
		row.Ready = "Suspended"
	}
	if look, ok := c.look(src.Name); ok {
		at := look.At.Time
		// The report is some seconds old. A commit that is applied was seen after it was made, if its author's clock is right.
		if made := src.Status.AppliedCommit; made != nil && made.Time.After(at) && made.Time.Time.Before(now) {
			at = made.Time.Time
		}
		row.LastLook, row.Overdue = known(at), c.overdue(src)
	}
	return row
}

func (f *fleet) poolRow(v *poolView) PoolRow {
	p := v.object
	target := f.config(v.facts.Target)
	first := reasons{f}.poolAnswers(v, nil)[0]
	row := PoolRow{
		Name: p.Name, Target: p.Spec.Configuration.Name, Revision: target.Revision, API: target.API, PoolCounts: v.counts(), Outcome: first.Outcome,
	}
	if row.Revision == "" && !target.byAPI() {
		row.Revision = p.Annotations[v1alpha1.RevisionAnnotation]
	}
	if target.Unproven != nil {
		row.Unproven = target.Unproven.Revision
	}
	if row.Updated < row.Nodes || v.wave.Record.Verdict != "" {
		row.Step = v.stepText()
	}
	for _, b := range v.wave.Blocks {
		if b.Cause == rollout.CausePaused {
			b.Reason = "paused" + by(p)
		}
		row.Blocked = append(row.Blocked, shorten(b.Reason))
		row.patient = append(row.patient, b.Cause == rollout.CauseSoak || b.Cause == rollout.CauseWindow || b.Cause == rollout.CauseAfterPool)
	}
	if row.State, row.Next = v.state(row), f.next(v); strings.HasPrefix(row.State, stateUpdating) && first.Outcome == Blocked {
		row.State = "Blocked: " + first.Reason
	}
	return row
}

// counts are the numbers of the pool's nodes.
func (v *poolView) counts() PoolCounts {
	out := PoolCounts{Nodes: len(v.facts.Nodes)}
	back := ""
	if v.wave.Record.Verdict == v1alpha1.RolloutReverted {
		back = v.wave.Record.Back
	}
	for i := range v.facts.Nodes {
		n := &v.facts.Nodes[i]
		_, silent := silentSince(v.daemons, n, v.now)
		switch n.Standing(v.facts.Target, back, silent) {
		case rollout.StandingUpdated:
			if n.Gate == "" {
				out.Updated++
			} else {
				out.Unready++
			}
		case rollout.StandingUnready:
			out.Unready++
		case rollout.StandingWaiting:
			out.Waiting++
		case rollout.StandingDegraded:
			out.Degraded++
		case rollout.StandingBack:
			out.Back++
		case rollout.StandingUnknown:
			out.Unknown++
		default:
			out.Busy++
		}
	}
	return out
}

const (
	// renderFailed begins the state of a pool that cannot be rendered.
	renderFailed = "Render failed: "
	// stateUpdating begins the state of a pool whose rollout proceeds.
	stateUpdating = "Updating"
)

// state is the pool's state in a few words.
func (v *poolView) state(row PoolRow) string {
	if why := v.renderFailure(); why != "" {
		return renderFailed + why
	}
	var first rollout.Block
	if len(v.wave.Blocks) > 0 {
		first = v.wave.Blocks[0]
	}
	switch {
	case row.Target == "":
		return "Nothing rendered"
	case first.Cause == rollout.CauseApplying:
		return "Waiting: " + first.Reason
	case first.Cause == rollout.CauseInvalid:
		return "Stopped: " + first.Reason
	case v.wave.Record.Verdict != "":
		return string(v.wave.Record.Verdict) + ": " + v.wave.Record.Why
	case row.Degraded > 0:
		return fmt.Sprintf("Degraded: %d of %d nodes", row.Degraded, row.Nodes)
	case v.object.Spec.Paused:
		return "Paused" + by(v.object)
	case row.Updated == row.Nodes:
		return "Updated"
	case len(v.unwell) > 0 && len(v.waits) == 0:
		return fmt.Sprintf("%d of %d nodes updated: %s", row.Updated, row.Nodes, v.unwell[0].text)
	case row.Updated+row.Unready == row.Nodes && len(v.wave.Blocks) == 0 && !slices.ContainsFunc(v.facts.Nodes, func(n rollout.Node) bool { return n.Gate != "" }):
		return fmt.Sprintf("Updated, %d cordoned", row.Unready)
	case first.Reason != "":
		return "Waiting: " + strings.TrimPrefix(first.Reason, "waiting for ")
	case row.Step != "":
		return stateUpdating + ", " + row.Step
	}
	return stateUpdating
}

// by says who paused a pool and why, as far as that is known.
func by(p *mcfgv1.MachineConfigPool) string {
	if who := p.Annotations[v1alpha1.PausedByAnnotation]; who != "" {
		return " by " + who
	}
	return ""
}

// renderFailure is why the newest configuration of the pool cannot be rendered; empty while it can.
func (v *poolView) renderFailure() string {
	c := v.condition(mcfgv1.MachineConfigPoolRenderDegraded)
	if c.Status != corev1.ConditionTrue {
		return ""
	}
	if _, why, ok := strings.Cut(c.Message, "pool "+v.object.Name+": "); ok {
		return why
	}
	return cmp.Or(c.Message, "no reason given")
}

// next is what happens next without anybody's doing: who is told, or when a wait ends.
func (f *fleet) next(v *poolView) string {
	const most = 3
	var names []string
	for _, a := range v.wave.Assign {
		if len(names) == most {
			names = append(names, fmt.Sprintf("%d more", len(v.wave.Assign)-most))
			break
		}
		names = append(names, a.Node)
	}
	if len(names) > 0 {
		return "told now: " + strings.Join(names, ", ")
	}
	if len(v.waits) > 0 { // some node does not run what it should
		if w := f.window(v); w != nil && !w.Open && w.OpenUntil == nil && w.Changes != nil {
			return "windows " + w.Text(f.now)
		}
	}
	for _, b := range v.wave.Blocks {
		if !b.Until.IsZero() && b.Until.After(f.now) {
			return "goes on " + moment(b.Until, nil, f.now)
		}
	}
	return ""
}
