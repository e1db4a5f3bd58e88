package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// Status is the one-screen status of a whole cluster.
type Status struct {
	// Outcome is the worst of the pools and sources. A node in several pools, so that none has it, is Blocked.
	Outcome Outcome `json:"outcome"`

	Sources   []SourceRow     `json:"sources"`
	Pools     []PoolRow       `json:"pools"`
	Nodes     []fleet.NodeRow `json:"nodes"`
	Unmanaged []fleet.NodeRow `json:"unmanaged,omitempty"`
	// Controllers is nil if they were not read.
	Controllers *fleet.Controllers `json:"controllers,omitempty"`
	// Notifier is a problem; nil while the Notifications are sent, or without any.
	Notifier *fleet.Notifier `json:"notifier,omitempty"`
	// Servers is nil if there never was one.
	Servers *fleet.Servers `json:"servers,omitempty"`
	// ConfigAccess is a risk; nil if no node reports it.
	ConfigAccess *ConfigAccess `json:"configAccess,omitempty"`
	// Denied are machines whose certificate requests the controller denied. Kubernetes deletes them after an hour.
	Denied []fleet.DeniedMachine `json:"deniedMachines,omitempty"`
	// Warnings belong to no single pool, node or server, and contain no ages.
	Warnings []string `json:"warnings,omitempty"`
	// PoolReports have problems of certificates, the pull secret or secrets.
	PoolReports []PoolReport `json:"poolReports,omitempty"`
	// Targets are the configs that pools should run, by pool.
	Targets map[string]fleet.RenderedRow `json:"-"`
	// Unfollowed says in a few words that no GitSource exists, where that is not how users want it: nothing is
	// configured yet, or the GitSource was deleted. Begin has the commands that create one. Both may be empty.
	Unfollowed string   `json:"unfollowed,omitempty"`
	Begin      []string `json:"begin,omitempty"`
	at         time.Time
}

// SourceRow is one GitSource.
type SourceRow struct {
	Name     string `json:"name"`
	Revision string `json:"revision"`
	Subject  string `json:"subject,omitempty"`
	Ready    string `json:"ready"`
	Message  string `json:"message"`
	// Message on one line
	brief string
	// Verified is the status of SourceVerified, and SignedBy the key of the applied commit; empty if no signature is
	// required.
	Verified string `json:"verified,omitempty"`
	SignedBy string `json:"signedBy,omitempty"`
	// LastLook is when the controller last read the repository; nil if unknown. Overdue: it should have read it again.
	LastLook *time.Time `json:"lastLook,omitempty"`
	Overdue  bool       `json:"overdue,omitempty"`
	Outcome  Outcome    `json:"outcome"`
	// Progress is nil if the controller applies nothing.
	Progress *v1alpha1.ApplyProgress `json:"progress,omitempty"`
}

// PoolRow is one pool.
type PoolRow struct {
	Name     string `json:"name"`
	Target   string `json:"target"`
	Revision string `json:"revision"`
	// API are the changes that requested Target; without a commit, Revision is empty.
	API []v1alpha1.APIChange `json:"api,omitempty"`
	// Unproven is the revision that was applied at the changes in API, if the pool was never healthy with it.
	Unproven string `json:"unproven,omitempty"`

	fleet.PoolCounts `json:",inline"`

	State string `json:"state"`
	// Step and Blocked may be empty.
	Step    string   `json:"step,omitempty"`
	Blocked []string `json:"blocked,omitempty"`
	// for each of Blocked, whether it ends by itself
	temporary []bool `json:"-"`
	// Next is what happens next without a user: which nodes get the config, or when a wait ends.
	Next    string  `json:"next,omitempty"`
	Outcome Outcome `json:"outcome"`
}

// NewStatus decides nothing: the reasons of waiting nodes are the rollout's.
func NewStatus(c fleet.Cluster, now time.Time) Status { return StatusOf(fleet.New(c, now)) }

// StatusOf returns the status of a cluster whose decisions are known.
func StatusOf(f *fleet.Fleet) Status {
	c, now := f.Cluster, f.Now
	s := Status{
		Sources: []SourceRow{}, Pools: []PoolRow{}, Nodes: []fleet.NodeRow{},
		Servers: f.ReadServers(), Controllers: f.ReadControllers(),
		Targets: map[string]fleet.RenderedRow{}, at: now, Outcome: Fine,
	}
	s.ConfigAccess, s.Notifier = configAccess(f), f.ReadNotifier()
	s.Unfollowed, s.Begin = unfollowed(f)
	s.Warnings = warnings(f, s.Controllers)
	if risk := s.ConfigAccess.text(); risk != "" {
		s.Warnings = append(s.Warnings, risk)
	}
	s.PoolReports = poolReports(f)
	for _, r := range s.PoolReports {
		s.Warnings = append(s.Warnings, r.texts()...)
	}
	if s.Denied = c.Denied; len(s.Denied) > 0 {
		s.Warnings = append(s.Warnings, DeniedText(s.Denied))
	}
	for i := range c.Sources {
		row := sourceRow(&c.Sources[i], s.Controllers, now)
		row.Outcome = sourceAnswers(f, &c.Sources[i], poolsOf(f, &c.Sources[i]))[0].Outcome
		s.Sources, s.Outcome = append(s.Sources, row), s.Outcome.Worse(row.Outcome)
	}
	for i := range c.Pools {
		v := f.PoolByName[c.Pools[i].Name]
		row := poolRow(f, v)
		s.Pools, s.Targets[v.Object.Name] = append(s.Pools, row), *f.Config(v.Facts.Target)
		s.Nodes, s.Outcome = append(s.Nodes, v.Rows...), s.Outcome.Worse(row.Outcome)
	}
	for _, row := range f.Conflicts {
		s.Nodes, s.Outcome = append(s.Nodes, row), s.Outcome.Worse(Blocked)
	}
	for _, name := range slices.SortedFunc(maps.Keys(f.Unmanaged), fleet.CompareNames) {
		s.Unmanaged = append(s.Unmanaged, f.Unmanaged[name])
	}
	slices.SortFunc(s.Nodes, func(a, b fleet.NodeRow) int { return fleet.CompareNames(a.Name, b.Name) })
	return s
}

// stepText is empty for a rollout without steps.
func stepText(v *fleet.Pool) string {
	s, r, steps := v.Decision.Stage, v.Decision.Record, v.Facts.Care.Pace.Steps
	switch {
	case s.Of == 0, r.Verdict == v1alpha1.RolloutReverted:
		return ""
	case r.Verdict != "" && r.Steps >= len(steps):
		return fmt.Sprintf("stopped after step %d of %d", s.Of, s.Of)
	case r.Verdict != "" && steps[r.Steps].Canary:
		return fmt.Sprintf("stopped in step %d of %d (canary)", r.Steps+1, s.Of)
	case r.Verdict != "":
		return fmt.Sprintf("stopped in step %d of %d", r.Steps+1, s.Of)
	}
	if s.Step >= s.Of {
		return fmt.Sprintf("all %d steps done: %d of %d nodes assigned, %d healthy", s.Of, s.Assigned, s.Want,
			max(0, s.Healthy))
	}
	kind := ""
	if s.Canary {
		kind = " (canary)"
	}
	return fmt.Sprintf("step %d of %d%s: %d of %d nodes assigned, %d healthy", s.Step+1, s.Of, kind, s.Assigned, s.Want,
		max(0, s.Healthy))
}

// warnings belong to no single pool, node or server.
func warnings(f *fleet.Fleet, c *fleet.Controllers) []string {
	var all []string
	if text := f.WithoutSource(); text != "" && c != nil {
		all = append(all, text)
	}
	if text := withoutWorkers(f); text != "" {
		all = append(all, text)
	}
	if f.DaemonsNote != "" {
		all = append(all, "it is not known which daemons run: "+f.DaemonsNote)
	}
	for i := range f.Pools {
		v := f.PoolByName[f.Pools[i].Name]
		if c := v.Condition(v1alpha1.ImageWithoutDigestCondition); c.Status == corev1.ConditionTrue {
			all = append(all, "pool "+v.Object.Name+": "+c.Message)
		}
	}
	return all
}

// withoutWorkers warns if the pool worker, to which most nodes belong, does not exist.
func withoutWorkers(f *fleet.Fleet) string {
	if n := len(f.Unmanaged); n > 0 && f.PoolByName["worker"] == nil {
		return "there is no MachineConfigPool worker: " + fleet.Count(n, "node") + " of no pool get no config"
	}
	return ""
}

func poolReports(f *fleet.Fleet) []PoolReport {
	var out []PoolReport
	for i := range f.Pools {
		v := f.PoolByName[f.Pools[i].Name]
		r := PoolReport{Pool: v.Object.Name, Secrets: v.Facts.Secrets.Problems}
		r.SecretsKept = len(r.Secrets) > 0 && v.Facts.Secrets.Unresolved == ""
		for _, row := range v.Rows {
			if n := f.Node(row.Name); n != nil {
				r.Trust.add(row.Name, trustReport(n))
			}
		}
		if r.Trust.First != "" || len(r.Secrets) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// configAccess is nil if no node reports that it can read every config.
func configAccess(f *fleet.Fleet) *ConfigAccess {
	a := new(ConfigAccess)
	for i := range f.Nodes {
		name := f.Nodes[i].Name
		if _, unmanaged := f.Unmanaged[name]; unmanaged {
			continue
		}
		a.Nodes++
		report := f.Daemons[name]
		if report.ReadsAllConfigs {
			a.ReadAll++
		}
		if report.ConfigsFrom != v1alpha1.ConfigsFromServer {
			a.NeededBy = append(a.NeededBy, name)
		}
	}
	if a.ReadAll == 0 {
		return nil
	}
	return a
}

func sourceRow(src *v1alpha1.GitSource, c *fleet.Controllers, now time.Time) SourceRow {
	row := SourceRow{Name: src.Name, Revision: src.Status.AppliedRevision, Ready: fleet.StateUnknown}
	if src.Status.AppliedCommit != nil {
		row.Subject = src.Status.AppliedCommit.Subject
	}
	if c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition); c != nil {
		row.Ready, row.Message = string(c.Status), c.Message
		if c.Status != metav1.ConditionTrue {
			row.Message = c.Reason + ": " + c.Message
		}
		row.brief = fleet.SourceProblemLine(src, row.Message)
		if at := src.Status.ObservedRevision; c.Status == metav1.ConditionFalse && at != src.Status.AppliedRevision {
			row.brief = strings.TrimSpace(fleet.HashOf(at) + " " + row.brief) // The applied commit is not the cause.
		}
	} else {
		row.Message = "the controller has not read it yet"
		row.brief = row.Message
	}
	if c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.SourceVerifiedCondition); c != nil {
		row.Verified = string(c.Status)
		if src.Status.AppliedCommit != nil {
			row.SignedBy = src.Status.AppliedCommit.VerifiedBy
		}
	}
	if row.Progress = src.Status.Progress; row.Progress != nil && row.Ready == string(metav1.ConditionTrue) {
		row.Message = fleet.ProgressText(src)
		row.brief = row.Message
	}
	if src.Spec.IsSuspended(now) {
		row.Ready = "Suspended"
		if who := fleet.SuspendedBy(src); who != "" {
			row.Message = "suspended" + who
			row.brief = row.Message
		}
	}
	if at, ok := c.LastCheck(src); ok {
		row.LastLook, row.Overdue = fleet.TimeOrNil(at), c.IsOverdue(src)
	}
	return row
}

func poolRow(f *fleet.Fleet, v *fleet.Pool) PoolRow {
	p := v.Object
	target := f.Config(v.Facts.Target)
	first := PoolReason(f, v, nil)[0]
	row := PoolRow{
		Name: p.Name, Target: p.Spec.Configuration.Name, Revision: target.Revision, API: target.API,
		PoolCounts: v.Counts(), Outcome: first.Outcome,
	}
	if row.Revision == "" && !target.ByAPI() {
		row.Revision = p.Annotations[v1alpha1.RevisionAnnotation]
	}
	if target.Unproven != nil {
		row.Unproven = target.Unproven.Revision
	}
	if row.Updated < row.Nodes || v.Decision.Record.Verdict != "" {
		row.Step = stepText(v)
	}
	for _, b := range v.Decision.Blocks {
		if b.Cause == poolstate.CausePaused {
			b.Reason = "paused" + fleet.PausedBy(p)
		}
		row.Blocked = append(row.Blocked, fleet.Shorten(b.Reason))
		row.temporary = append(row.temporary, b.EndsByItself())
	}
	if held := fleet.HeldBy(p); held != "" {
		row.Blocked, row.temporary = append(row.Blocked, "held"+held), append(row.temporary, false)
	}
	row.Next = f.NextText(v)
	running := false
	unwell := first.Outcome == Blocked || first.Outcome == Unknown
	row.State, running = poolState(v, row)
	if rest, waits := strings.CutPrefix(row.State, waiting); unwell && waits {
		row.State = string(first.Outcome) + ": " + rest
	} else if unwell && running {
		row.State = blockedState(first)
	}
	return row
}

// blockedState returns the state of a pool that a user must help. A reason that another line of the status has is not
// repeated.
func blockedState(a Answer) string {
	switch a.Cause {
	case fleet.CauseSource:
		return "Blocked by its GitSource"
	case fleet.CauseController:
		return "Blocked by the controller"
	}
	return string(a.Outcome) + ": " + a.Reason
}

const waiting = "Waiting: "

// updated is the state of a pool whose nodes all run its config.
const updated = "Updated"

const renderFailed = "Render failed: "

// poolState is short. running: it names no problem.
func poolState(v *fleet.Pool, row PoolRow) (text string, running bool) {
	if text := stoppedState(v, row); text != "" {
		return text, false
	}
	blocks := v.Decision.Blocks
	const prefix = "Updating"
	switch {
	case row.Updated == row.Nodes:
		return updated, true
	case len(v.Unhealthy) > 0 && len(v.Waits) == 0:
		return fmt.Sprintf("%d of %d nodes updated: %s", row.Updated, row.Nodes, v.UnhealthyGroups()[0].Text), false
	case row.Updated+row.Unready == row.Nodes && len(blocks) == 0 && !slices.ContainsFunc(v.Facts.Nodes,
		func(n poolstate.Node) bool { return n.Gate != "" }):
		return fmt.Sprintf("Updated, %d cordoned", row.Unready), false
	case len(blocks) > 0 && blocks[0].Reason != "":
		return waiting + strings.TrimPrefix(blocks[0].Reason, "waiting for "), false
	case row.Step != "":
		return prefix + ", " + row.Step, true
	}
	return prefix, true
}

// stoppedState is empty for a pool with a running rollout.
func stoppedState(v *fleet.Pool, row PoolRow) string {
	var first poolstate.Block
	if len(v.Decision.Blocks) > 0 {
		first = v.Decision.Blocks[0]
	}
	switch why := v.RenderFailure(); {
	case why != "":
		return renderFailed + why
	case row.Target == "":
		return "Nothing rendered"
	case first.Cause == poolstate.CauseApplying:
		return waiting + first.Reason
	case first.Cause == poolstate.CauseInvalid:
		return "Stopped: " + first.Reason
	case v.Decision.Record.Verdict != "":
		return string(v.Decision.Record.Verdict) + ": " + v.Decision.Record.Why
	case row.Degraded > 0:
		return fmt.Sprintf("Degraded: %d of %d nodes", row.Degraded, row.Nodes)
	case v.Object.Spec.Paused:
		return "Paused" + fleet.PausedBy(v.Object)
	case row.Updated == row.Nodes && fleet.HeldBy(v.Object) != "":
		return "Held" + fleet.HeldBy(v.Object)
	}
	return ""
}

// ConfigAccess is a risk: nodes that can read the configs of every pool, with their secrets, through the API server.
type ConfigAccess struct {
	// ReadAll counts Nodes of pools that can read every config.
	ReadAll int `json:"readAll"`
	Nodes   int `json:"nodes"`
	// NeededBy are nodes that might get no config otherwise: the machine-config-server does not serve them, or their
	// daemon does not report from where it reads configs.
	NeededBy []string `json:"neededBy,omitempty"`
}

// text is empty for nil.
func (a *ConfigAccess) text() string {
	const most = 3
	if a == nil {
		return ""
	}
	risk := fmt.Sprintf("%d of %s report that they may read the configs of every pool through the API server",
		a.ReadAll, fleet.Count(a.Nodes, "node"))
	if len(a.NeededBy) == 0 {
		return risk + ", and none needs to: remove the component nodes-read-configs (docs/security.md)"
	}
	return risk + "; needed by " + fleet.Names(a.NeededBy, most) + ", which do not read theirs from a " +
		"machine-config-server"
}
