package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// HasConfig reports whether a rendered config is on the cluster.
func (f *Fleet) HasConfig(config string) bool {
	return slices.ContainsFunc(f.Rendered, func(r RenderedRow) bool { return r.Name == config })
}

// Node returns the Node of that name, or nil.
func (f *Fleet) Node(name string) *corev1.Node {
	if i, known := f.nodeAt[name]; known {
		return &f.Nodes[i]
	}
	return nil
}

// IsSilent reports whether the kubelet of a node has stopped reporting.
func (f *Fleet) IsSilent(name string) bool {
	return f.Node(name) != nil && f.HealthOf(name).Silence != ""
}

// WithoutSource returns a sentence that says that no GitSource follows a repository, or "" if a GitSource follows one.
func (f *Fleet) WithoutSource() string {
	if len(f.Sources) > 0 || len(f.Pools) == 0 {
		return ""
	}
	var from []string
	for i := range f.Pools {
		if of := f.Pools[i].Annotations[v1alpha1.SourceAnnotation]; of != "" && !slices.Contains(from, of) {
			from = append(from, of)
		}
	}
	slices.Sort(from)
	if f.IsUnconfigured() {
		return "there is no GitSource yet, so no pool has a config and nodes stay as they are"
	}
	text := "there is no GitSource: pushes have no effect"
	if len(from) > 0 {
		text += "; these pools came from GitSource " + strings.Join(from, ", ")
	}
	return text
}

// IsUnconfigured reports whether nobody has given the cluster a config yet: it has neither a GitSource nor a pool with
// a config.
func (f *Fleet) IsUnconfigured() bool {
	return len(f.Sources) == 0 && !slices.ContainsFunc(f.Pools, func(p mcfgv1.MachineConfigPool) bool {
		return p.Spec.Configuration.Name != "" || p.Annotations[v1alpha1.SourceAnnotation] != ""
	})
}

// LostItsSource reports whether the config of a pool came from git, and no GitSource exists any more.
func (f *Fleet) LostItsSource() bool {
	return len(f.Sources) == 0 && slices.ContainsFunc(f.Pools, func(p mcfgv1.MachineConfigPool) bool {
		return p.Annotations[v1alpha1.SourceAnnotation] != ""
	})
}

// Fleet is a cluster's pools and nodes as the rollout sees them at one moment. Decisions, counts and reasons of nodes
// are results of the rollout's own code.
type Fleet struct {
	Cluster
	Now        time.Time
	PoolByName map[string]*Pool
	Others     poolstate.Others
	// Conflicts are nodes in several custom pools, and Unmanaged those in none, by name.
	Conflicts, Unmanaged map[string]NodeRow
	// by name, in Cluster.Nodes
	nodeAt map[string]int
}

// Pool is one pool with its nodes and the rollout's decision.
type Pool struct {
	Object   *mcfgv1.MachineConfigPool
	Facts    poolstate.Facts
	Decision poolstate.Decision
	// Undecided says why there is no Decision of the rollout, or is empty.
	Undecided string
	// Rows are nodes by name. Waits says why one does not run the target.
	Rows  []NodeRow
	Waits map[string]poolstate.Waiting
	// the heartbeats of the nodes' daemons, and the time of the check
	daemons map[string]v1alpha1.DaemonReport
	now     time.Time
	// Unhealthy are nodes whose state is unknown, or that are not Ready without being updated.
	Unhealthy []UnhealthyNode
	// without regard to other pools
	ownCounts *poolstate.Counts
}

// NoPool returns the error for the name of a pool that the cluster does not have.
func NoPool(name string) error {
	return fmt.Errorf("there is no pool %q; `bunsen get pools` lists them", name)
}

// FindPool returns the pool with a name that a user gave, or an error.
func (f *Fleet) FindPool(name string) (*Pool, error) {
	if v := f.PoolByName[name]; v != nil {
		return v, nil
	}
	return nil, NoPool(name)
}

// FindNode returns the Node with a name that a user gave, or an error.
func (f *Fleet) FindNode(name string) (*corev1.Node, error) {
	if n := f.Node(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("there is no node %q; `bunsen get nodes` lists them", name)
}

// New reads a cluster's pools and nodes, and makes the decision for each pool that the rollout would make now.
func New(c Cluster, now time.Time) *Fleet {
	f := &Fleet{
		Cluster: c, Now: now, PoolByName: map[string]*Pool{}, Conflicts: map[string]NodeRow{},
		Unmanaged: map[string]NodeRow{}, nodeAt: make(map[string]int, len(c.Nodes)),
	}
	objects := make([]*mcfgv1.MachineConfigPool, len(c.Pools))
	for i := range c.Pools {
		objects[i] = &c.Pools[i]
	}
	f.Others = poolstate.Others{
		Pools: map[string]*mcfgv1.MachineConfigPool{}, Policies: c.Policies, Customs: poolstate.NewCustoms(objects),
		Count: func(p *mcfgv1.MachineConfigPool) poolstate.Counts { return f.count(f.PoolByName[p.Name]) },
	}
	nodes := f.sortNodes(membership.New(objects))
	for _, p := range objects {
		v := &Pool{
			Object: p, Facts: poolstate.Read(p, c.Policies, published(c, p), len(nodes[p.Name])),
			daemons: c.Daemons, now: now,
		}
		v.Facts.Timestamps = c.Timestamps
		v.Facts.SetNodeConfigs(configsOfNodes(c, v, nodes[p.Name]))
		v.Facts.SetNodes(nodes[p.Name])
		v.readGates()
		f.PoolByName[p.Name], f.Others.Pools[p.Name] = v, p
	}
	for _, p := range objects {
		f.decide(f.PoolByName[p.Name])
	}
	return f
}

// published returns what a cluster says about the secrets of a pool's configs, by the condition of the controller,
// which alone reads whether a config refers to secrets.
func published(c Cluster, pool *mcfgv1.MachineConfigPool) poolstate.Published {
	waits := (&Pool{Object: pool}).waitsForSecrets()
	return poolstate.Published{Revisions: c.Secrets.Revisions, Unread: c.Secrets.Note != "", Refers: func(string) bool {
		return waits
	}}
}

// configsOfNodes returns the configs of single nodes that the rendered configs of a pool name. For a user who may not
// read MachineConfigs, they follow from the nodes while the controller counts all of them as updated; otherwise
// v.Undecided says that they are not known.
func configsOfNodes(c Cluster, v *Pool, nodes []poolstate.Node) func(config string) v1alpha1.NodeConfigs {
	target := unreadTarget(c, v.Object)
	if target.Nodes == 0 {
		return func(config string) v1alpha1.NodeConfigs { return nodeConfigs(c, config) }
	}
	status := v.Object.Status
	if status.Configuration.Name != target.Config || status.UpdatedMachineCount != status.MachineCount {
		v.Undecided = fmt.Sprintf("%d nodes of the pool have configs of their own, and you may not read "+
			"MachineConfigs, so which nodes are updated is not known here. The controller counts %d of %d. "+
			"ClusterRole bunsen-config-viewer grants that right", target.Nodes, status.UpdatedMachineCount,
			status.MachineCount)
		return func(string) v1alpha1.NodeConfigs { return v1alpha1.NodeConfigs{} }
	}
	of := v1alpha1.NodeConfigs{Base: target.Config}
	for i := range nodes {
		if at := nodes[i].Config; at.Current == at.Desired &&
			v1alpha1.RenderedPool(at.Current.Config) == v.Object.Name {
			of.Set(nodes[i].Name, at.Current.Config)
		}
	}
	of.Secrets, v.Facts.Secrets.Unread = v.Facts.Target.Secrets != "", true
	return func(config string) v1alpha1.NodeConfigs {
		if config == target.Config {
			return of
		}
		return v1alpha1.NodeConfigs{}
	}
}

func nodeConfigs(c Cluster, config string) v1alpha1.NodeConfigs {
	for i := range c.Rendered {
		if c.Rendered[i].Name == config {
			return c.Rendered[i].Nodes
		}
	}
	return v1alpha1.NodeConfigs{}
}

// sortNodes adds each node to its pool, in the order of names, or to those without one.
func (f *Fleet) sortNodes(pools membership.Pools) map[string][]poolstate.Node {
	order := make([]int, len(f.Nodes)) // To sort indexes is faster than to sort large structs.
	for i := range f.Nodes {
		f.nodeAt[f.Nodes[i].Name], order[i] = i, i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(f.Nodes[a].Name, f.Nodes[b].Name) })
	out := map[string][]poolstate.Node{}
	for _, i := range order {
		n := poolstate.ReadNode(&f.Nodes[i])
		n.Ahead = f.Daemons[n.Name].FetchesAhead || n.Next.Config != ""
		n.Images, n.Pins = n.Pin.Digest, f.Daemons[n.Name].PinsImages || n.Pinned.Digest != ""
		row := NodeRow{
			Name: n.Name, Current: n.Config.Current, Desired: n.Config.Desired,
			State: cmp.Or(n.State, StateUnknown),
		}
		switch pool, _, err := pools.For(n.Name, n.Labels); {
		case err != nil:
			row.State, row.Cause, row.Reason = "Conflict", CauseConflict, err.Error()
			f.Conflicts[n.Name] = row
		case pool == "":
			row.Cause, row.Reason = CauseNoPool, "no pool selects it, so Bunsen does not manage it"
			f.Unmanaged[n.Name] = row
		default:
			out[pool] = append(out[pool], n)
		}
	}
	return out
}

// Condition returns the pool's condition of a type, or the zero value.
func (v *Pool) Condition(kind mcfgv1.MachineConfigPoolConditionType) mcfgv1.MachineConfigPoolCondition {
	for _, c := range v.Object.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return mcfgv1.MachineConfigPoolCondition{}
}

// readGates adds the answers of health gates, which only the controller can request and which it records on the pool.
// Others are open.
func (v *Pool) readGates() {
	closed, err := v1alpha1.ParseClosedGates(v.Object.Annotations[v1alpha1.ClosedGatesAnnotation])
	if err != nil {
		closed = nil // The state of the gates is unknown.
	}
	pool, nodes := map[string]string{}, map[string]string{}
	for _, c := range closed {
		if c.Gate != "" {
			pool[c.Gate] = c.Why
		} else {
			nodes[c.Node] = c.Why
		}
	}
	for _, g := range v.Facts.Care.Pace.Gates {
		a := poolstate.Gate{Name: g.Name, Verdict: poolstate.GateOpen}
		if why, closed := pool[g.Name]; closed {
			a.Verdict, a.Why = poolstate.GateWaits, why
		}
		if g.Job != nil || g.Prometheus != nil {
			v.Facts.Care.Gates = append(v.Facts.Care.Gates, a)
		}
	}
	for i := range v.Facts.Nodes {
		if n := &v.Facts.Nodes[i]; n.Done() {
			n.Gate = nodes[n.Name]
		}
	}
}

// decide sets what the rollout would decide now.
func (f *Fleet) decide(v *Pool) {
	target := v.Facts.Target
	f.Others.Surround(v.Object, &v.Facts)
	v.Facts.HoldForEtcd(f.Daemons, f.Now)
	if !target.IsZero() && f.Rendered != nil && !f.HasConfig(target.Config) {
		v.Undecided = fmt.Sprintf("MachineConfig %s, which the pool should run, is not on the cluster",
			target.Config)
	}
	applying, waits := f.applyingBlock(v)
	if v.Undecided != "" || waits || !v.Object.DeletionTimestamp.IsZero() {
		v.Decision = poolstate.Decision{Record: v.Facts.Care.Record, Target: target, Counts: f.count(v)}
		switch {
		case v.Undecided != "":
			v.Decision.Blocks = []poolstate.Block{{Cause: poolstate.CauseInvalid, Reason: v.Undecided}}
		case waits:
			v.Decision.Blocks = []poolstate.Block{applying}
		}
	} else {
		v.Decision = rollout.Next(v.Facts, f.Now)
	}
	f.explainNodes(v)
	for i := range v.Rows {
		row := &v.Rows[i]
		n := f.Node(row.Name)
		if n == nil || row.Cause != poolstate.CauseFailed {
			continue
		}
		_, is := Drifted(n)
		text := driftText(n)
		if !is || text == "" {
			continue
		}
		if row.Current != row.Desired {
			text += Undecided
		}
		row.Reason = v1alpha1.TruncateReason(text)
	}
}

// explainNodes sets what each node of a pool runs, and why it does not run the config that it should run.
func (f *Fleet) explainNodes(v *Pool) {
	v.Waits = map[string]poolstate.Waiting{}
	if applying, waits := f.applyingBlock(v); waits {
		for i := range v.Facts.Nodes {
			if n := &v.Facts.Nodes[i]; !n.UpdatedTo(v.Facts.Target) {
				v.Waits[n.Name] = poolstate.Waiting{Node: n.Name, Cause: applying.Cause, Reason: applying.Reason}
			}
		}
	} else if v.Undecided == "" {
		for _, w := range rollout.Explain(v.Facts, v.Decision, f.Now) {
			v.Waits[w.Node] = w
		}
	}
	for _, a := range v.Decision.Assign {
		v.Waits[a.Node] = poolstate.Waiting{Node: a.Node, Cause: poolstate.CauseNext, Reason: "next to be assigned " +
			a.Config.String()}
	}
	v.Rows = make([]NodeRow, len(v.Facts.Nodes))
	requested := map[v1alpha1.ConfigVersion]*RenderedRow{} // Most nodes run one of two configs.
	for i := range v.Facts.Nodes {
		n := &v.Facts.Nodes[i]
		row, current := v.nodeRow(n, f.Now), n.Config.Current
		if requested[current] == nil {
			requested[current] = f.Config(current)
		}
		row.Revision, row.API = requested[current].Revision, requested[current].API
		v.Rows[i] = row
	}
	v.Unhealthy = v.unhealthyNodes()
	slices.SortFunc(v.Rows, func(a, b NodeRow) int { return CompareNames(a.Name, b.Name) })
}

func (v *Pool) nodeRow(n *poolstate.Node, now time.Time) NodeRow {
	row := NodeRow{
		Name: n.Name, Pool: v.Object.Name, State: cmp.Or(n.State, StateUnknown),
	}
	own := v.Facts.Care.NodeConfigs
	row.Current, row.Desired = own.Own(n.Config.Current, n.Name), own.Own(n.Config.Desired, n.Name)
	row.Step, row.Since = stepOf(n, v.Waits[n.Name])
	row.Phase = v.phase(n)
	inService := n.UpdatedTo(v.Decision.Target) && n.Ready() && n.Gate == ""
	if inService {
		row.Step = ""
	}
	if !v.setUnreported(n, &row) && !inService {
		row.Cause, row.Reason = v.nodeReason(n, row.Step)
	}
	return row
}

// setUnreported says that a node does not report, if no other reason explains its state; false for other nodes.
func (v *Pool) setUnreported(n *poolstate.Node, row *NodeRow) bool {
	seen, silent := SilentSince(v.daemons, n, v.now)
	switch {
	case silent:
		row.AsOf = TimeOrNil(seen)
	case n.Health.Silence != "" && n.State != "" && !n.Step.Rebooting:
		if _, reports := v.daemons[n.Name]; !reports {
			row.AsOf = TimeOrNil(n.Health.Since)
		}
	}
	_, waits := v.Waits[n.Name]
	switch {
	case n.State == "":
		row.Cause, row.Reason = CauseNoDaemon, noDaemon
	case silent && n.Health.Trouble == "" && !n.Degraded() && (row.InFlight() || !waits):
		row.Cause, row.Reason = CauseSilent, SilentText+v.Since(seen)
	default:
		return false
	}
	return true
}

// nodeReason says why a node at a step is not in service with its pool's config.
func (v *Pool) nodeReason(n *poolstate.Node, step string) (poolstate.Cause, string) {
	wait, waits := v.Waits[n.Name]
	switch {
	// The failure of another config must be named.
	case n.Degraded() && !n.Config.Desired.IsZero() && n.Failure.Version() == n.Config.Desired:
		return poolstate.CauseFailed, n.Problem()
	case n.Degraded():
		return poolstate.CauseFailed, n.Reason
	// The daemon of this node reports what it does besides the update.
	case waits && step == StepApplying && n.Reason != "":
		return wait.Cause, n.Reason
	case waits:
		return wait.Cause, wait.Reason
	case v.Undecided != "" && n.Config.Desired != v.Facts.Target:
		return poolstate.CauseInvalid, v.Undecided
	case n.Cordon.ByAdministrator():
		return poolstate.CauseCordoned, "cordoned by an administrator"
	case n.Health.Trouble != "":
		return poolstate.CauseNotReady, n.Health.Text(v.Since(n.Health.Since))
	case n.Gate != "":
		return poolstate.CauseGate, "updated, and held by a gate: " + n.Gate
	case n.Step.Uncordoning:
		return poolstate.CauseUpdating, "being uncordoned"
	}
	return "", ""
}

// count is for another pool's decision.
func (f *Fleet) count(v *Pool) poolstate.Counts {
	if v.ownCounts == nil {
		facts := v.Facts
		facts.Care.Around = poolstate.Around{Customs: f.Others.Customs}
		counts := rollout.Next(facts, f.Now).Counts
		v.ownCounts = &counts
	}
	return *v.ownCounts
}

// Since returns a text that says how long ago a time was, or the time itself; "" for an unknown time.
func (v *Pool) Since(t time.Time) string {
	return SinceIn(Cluster{Timestamps: v.Facts.Timestamps}, t, v.now)
}

// phase makes an updated node unready if a gate says so.
func (v *Pool) phase(n *poolstate.Node) poolstate.Phase {
	var back v1alpha1.ConfigVersion
	if v.Decision.Record.Verdict == v1alpha1.RolloutReverted {
		back = v.Decision.Record.ReturnsTo()
	}
	_, silent := SilentSince(v.daemons, n, v.now)
	phase := n.Phase(v.Facts.Target, back, silent)
	if phase == poolstate.PhaseUpdated && n.Gate != "" {
		return poolstate.PhaseUnready
	}
	return phase
}

// Counts returns the numbers of the pool's nodes.
func (v *Pool) Counts() PoolCounts {
	out := PoolCounts{Nodes: len(v.Facts.Nodes)}
	for i := range v.Facts.Nodes {
		switch v.phase(&v.Facts.Nodes[i]) {
		case poolstate.PhaseUpdated:
			out.Updated++
		case poolstate.PhaseUnready:
			out.Unready++
		case poolstate.PhaseWaiting:
			out.Waiting++
		case poolstate.PhaseDegraded:
			out.Degraded++
		case poolstate.PhaseBack:
			out.Back++
		case poolstate.PhaseUnknown:
			out.Unknown++
		default:
			out.Busy++
		}
	}
	return out
}

// RenderFailure returns why the newest configuration of the pool cannot be rendered, or "".
func (v *Pool) RenderFailure() string {
	c := v.Condition(mcfgv1.MachineConfigPoolRenderDegraded)
	if c.Status != corev1.ConditionTrue {
		return ""
	}
	return cmp.Or(v1alpha1.RenderProblem(v.Object.Name, c.Message), "no reason given")
}

// Find returns a node's row and its pool; the pool is nil if the node has none.
func (f *Fleet) Find(name string) (NodeRow, *Pool) {
	for _, rows := range []map[string]NodeRow{f.Conflicts, f.Unmanaged} {
		if row, ok := rows[name]; ok {
			return row, nil
		}
	}
	for _, v := range f.PoolByName {
		if i := slices.IndexFunc(v.Rows, func(r NodeRow) bool { return r.Name == name }); i >= 0 {
			return v.Rows[i], v
		}
	}
	return NodeRow{Name: name}, nil
}

// ConfigNamed is Config for a name, without the revision of its secrets.
func (f *Fleet) ConfigNamed(name string) *RenderedRow {
	return f.Config(v1alpha1.ConfigVersion{Config: name})
}

// Config describes a rendered config with the commit that requested it last, from the histories of the sources or the
// pool's record, or else from the config itself, which names the commit for which it was first created.
func (f *Fleet) Config(config v1alpha1.ConfigVersion) *RenderedRow {
	row, name := &RenderedRow{}, config.Config
	for i := range f.Rendered {
		if f.Rendered[i].Name == name {
			*row = f.Rendered[i]
		}
	}
	row.Name, row.Secrets = config.String(), f.SecretsOf(config)
	if v := f.PoolByName[v1alpha1.RenderedPool(name)]; v != nil {
		asked := v1alpha1.RequesterOf(v.Object.Annotations, name)
		if asked.Revision != "" || len(asked.API) > 0 {
			row.Pool = v1alpha1.RenderedPool(name)
			row.setRequester(asked)
		}
		row.Unproven, row.Manual = v.unprovenCommit(name), f.manualConfigs(v, name)
		if row.ByAPI() || row.Subject != "" && asked.Subject != "" {
			return row
		}
	}
	var last time.Time
	for i := range f.Sources {
		h := v1alpha1.AskedBy(f.Sources[i].Status.History, v1alpha1.RenderedPool(name), name)
		if h == nil || h.Time.Time.Before(last) {
			continue
		}
		last = h.Time.Time
		row.Pool, row.Source, row.Revision, row.Subject, row.Author = v1alpha1.RenderedPool(name), f.Sources[i].Name,
			h.Revision, h.Subject, h.Author
	}
	return row
}

// manualConfigs returns the MachineConfigs of a pool's target that users created through the API, without those that
// requested it; none if no GitSource exists.
func (f *Fleet) manualConfigs(v *Pool, config string) []string {
	target, err := v1alpha1.ParsePoolTarget(v.Object.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || target.Config != config || len(f.Sources) == 0 {
		return nil
	}
	var out []string
	for _, in := range target.Inputs {
		asked := slices.ContainsFunc(target.API, func(c v1alpha1.APIChange) bool {
			return c.Kind == KindMachineConfig && c.Name == in.Name
		})
		if in.Source == "" && !asked {
			out = append(out, in.Name)
		}
	}
	return out
}

// ConfigOfPool returns the config of a pool to which the config of a node belongs: the target, or else the newest one.
// Without configs of single nodes, it is the config itself.
func (f *Fleet) ConfigOfPool(v *Pool, config, node string) string {
	if v.Facts.Care.NodeConfigs.Of(v.TargetConfig(), node) == config {
		return v.TargetConfig()
	}
	for i := range f.Rendered { // the newest first
		if r := &f.Rendered[i]; !r.Nodes.IsZero() && r.Nodes.Of(node) == config {
			return r.Name
		}
	}
	return config
}

// ConfigOfNode describes the config of a node, which may be its own, with the commit that requested the pool's config
// to which it belongs.
func (f *Fleet) ConfigOfNode(v *Pool, config v1alpha1.ConfigVersion, node string) *RenderedRow {
	of := v1alpha1.ConfigVersion{Config: f.ConfigOfPool(v, config.Config, node)}
	switch of.Config {
	case config.Config:
		return f.Config(config)
	case v.TargetConfig():
		of = v.Facts.Target
	}
	row := f.Config(of)
	row.Name = config.String()
	return row
}

// DrainReport returns the report of a running drain; nil if there is no report or the report cannot be read.
func (f *Fleet) DrainReport(row NodeRow) *v1alpha1.DrainReport {
	if row.Step != StepDraining {
		return nil
	}
	r, err := v1alpha1.ParseDrainReport(f.Node(row.Name).Annotations[v1alpha1.DrainReportAnnotation])
	if err != nil || r.For == "" {
		return nil
	}
	return &r
}
