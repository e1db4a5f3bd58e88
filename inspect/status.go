package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/source"
)

// Cluster is what a status is made of.
type Cluster struct {
	Sources []v1alpha1.GitSource
	Pools   []mcfgv1.MachineConfigPool
	Nodes   []corev1.Node
	// Rendered configs by name, as far as they were read.
	Rendered map[string]*mcfgv1.MachineConfig
}

// Status is the one screen for a whole cluster.
type Status struct {
	Sources []SourceRow `json:"sources"`
	Pools   []PoolRow   `json:"pools"`
	Nodes   []NodeRow   `json:"nodes"`
}

// SourceRow is one GitSource.
type SourceRow struct {
	Name     string `json:"name"`
	Revision string `json:"revision"`
	Ready    string `json:"ready"`
	Message  string `json:"message"`
}

// PoolRow is one pool.
type PoolRow struct {
	Name     string `json:"name"`
	Target   string `json:"target"`
	Revision string `json:"revision"`
	Nodes    int    `json:"nodes"`
	Updated  int    `json:"updated"`
	Busy     int    `json:"busy"`
	Degraded int    `json:"degraded"`
	State    string `json:"state"`
}

// NodeRow is one node that is not done, and why.
type NodeRow struct {
	Name    string `json:"name"`
	Pool    string `json:"pool"`
	Current string `json:"current"`
	Desired string `json:"desired"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// NewStatus makes the screen. It decides nothing anew: why a node waits is what the rollout says at this moment.
func NewStatus(c Cluster, now time.Time) Status {
	s := Status{Sources: []SourceRow{}, Pools: []PoolRow{}, Nodes: []NodeRow{}}
	for i := range c.Sources {
		s.Sources = append(s.Sources, sourceRow(&c.Sources[i]))
	}
	all := make([]*mcfgv1.MachineConfigPool, len(c.Pools))
	for i := range c.Pools {
		all[i] = &c.Pools[i]
	}
	members := rollout.NewPools(all)
	byPool := map[string][]rollout.Node{}
	for i := range c.Nodes {
		n := rollout.ReadNode(&c.Nodes[i])
		pool, _, err := members.For(n)
		switch {
		case err != nil:
			s.Nodes = append(s.Nodes, NodeRow{Name: n.Name, Current: n.Config.Current, Desired: n.Config.Desired, State: "Conflict", Reason: err.Error()})
		case pool != "":
			byPool[pool] = append(byPool[pool], n)
		}
	}
	for i := range c.Pools {
		p := &c.Pools[i]
		s.Pools = append(s.Pools, poolRow(p, byPool[p.Name]))
		s.Nodes = append(s.Nodes, nodeRows(p, byPool[p.Name], now)...)
	}
	slices.SortFunc(s.Nodes, func(a, b NodeRow) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func sourceRow(src *v1alpha1.GitSource) SourceRow {
	row := SourceRow{Name: src.Name, Revision: src.Status.AppliedRevision, Ready: "Unknown"}
	if c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition); c != nil {
		row.Ready, row.Message = string(c.Status), c.Message
		if c.Status != metav1.ConditionTrue {
			row.Message = c.Reason + ": " + c.Message
		}
	}
	if src.Spec.Suspend {
		row.Ready = "Suspended"
	}
	return row
}

func poolRow(p *mcfgv1.MachineConfigPool, nodes []rollout.Node) PoolRow {
	f := rollout.Facts{Pool: p.Name, Target: p.Spec.Configuration.Name, Nodes: nodes}
	counts := rollout.Count(f)
	row := PoolRow{
		Name: p.Name, Target: f.Target, Revision: p.Annotations[v1alpha1.RevisionAnnotation],
		Nodes: counts.Machines, Updated: counts.Updated, Degraded: counts.Degraded,
	}
	for i := range nodes {
		if n := &nodes[i]; n.Config.Desired == f.Target && !n.UpdatedTo(f.Target) && f.Target != "" {
			row.Busy++
		}
	}
	row.State = poolState(p, counts)
	return row
}

func poolState(p *mcfgv1.MachineConfigPool, counts rollout.Counts) string {
	for _, c := range p.Status.Conditions {
		if c.Type == mcfgv1.MachineConfigPoolRenderDegraded && c.Status == corev1.ConditionTrue {
			_, why, ok := strings.Cut(c.Message, "pool "+p.Name+": ")
			if !ok {
				why = c.Message
			}
			return "Render failed: " + why
		}
	}
	_, err := rollout.MaxUnavailable(p.Name, p.Spec.MaxUnavailable, counts.Machines)
	switch {
	case p.Spec.Configuration.Name == "":
		return "Nothing rendered"
	case err != nil:
		return "Stopped: " + err.Error()
	case counts.Degraded > 0:
		return fmt.Sprintf("Degraded: %d of %d nodes", counts.Degraded, counts.Machines)
	case p.Spec.Paused:
		return "Paused"
	case counts.Updated == counts.Machines:
		return "Updated"
	default:
		return "Updating"
	}
}

func nodeRows(p *mcfgv1.MachineConfigPool, nodes []rollout.Node, now time.Time) []NodeRow {
	budget, err := rollout.MaxUnavailable(p.Name, p.Spec.MaxUnavailable, len(nodes))
	if err != nil {
		budget = 0
	}
	f := rollout.Facts{Pool: p.Name, Target: p.Spec.Configuration.Name, Paused: p.Spec.Paused, MaxUnavailable: budget, Nodes: nodes}
	why := map[string]string{}
	wave := rollout.Next(f, now)
	for _, w := range wave.Wait {
		why[w.Node] = w.Reason
	}
	for _, a := range wave.Assign {
		why[a.Node] = "next to be told " + ShortRendered(a.Config)
	}
	var out []NodeRow
	for i := range nodes {
		n := &nodes[i]
		row := NodeRow{Name: n.Name, Pool: p.Name, Current: n.Config.Current, Desired: n.Config.Desired, State: n.State}
		switch {
		case n.UpdatedTo(f.Target) && n.Ready():
		case n.Degraded():
			row.Reason = n.Reason
		case err != nil && n.Config.Desired != f.Target:
			row.Reason = "pool " + p.Name + " is stopped: its maxUnavailable cannot be read"
		default:
			row.Reason = why[n.Name]
		}
		if row.State == "" {
			row.State = "Unknown"
		}
		out = append(out, row)
	}
	return out
}

// SourceTable shows the sources.
func (s Status) SourceTable() Table {
	t := Table{Head: []string{"SOURCE", "REVISION", "READY", "MESSAGE"}}
	for _, r := range s.Sources {
		t.Rows = append(t.Rows, []string{r.Name, dash(shortRevision(r.Revision)), r.Ready, brief(r.Message)})
	}
	return t
}

// PoolTable shows the pools.
func (s Status) PoolTable() Table {
	t := Table{Head: []string{"POOL", "TARGET", "COMMIT", "NODES", "UPDATED", "BUSY", "DEGRADED", "STATE"}}
	for _, r := range s.Pools {
		t.Rows = append(t.Rows, []string{
			r.Name, dash(ShortRendered(r.Target)), dash(shortRevision(r.Revision)),
			fmt.Sprint(r.Nodes), fmt.Sprint(r.Updated), fmt.Sprint(r.Busy), fmt.Sprint(r.Degraded), brief(r.State),
		})
	}
	return t
}

// NodeTable shows all nodes.
func (s Status) NodeTable() Table { return nodeTable(s.Nodes) }

func nodeTable(rows []NodeRow) Table {
	t := Table{Head: []string{"NODE", "POOL", "CURRENT", "DESIRED", "STATE", "WHY"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{r.Name, dash(r.Pool), dash(ShortRendered(r.Current)), dash(ShortRendered(r.Desired)), r.State, brief(r.Reason)})
	}
	return t
}

// fewNodes fit on a screen whole; of more, only those with something to say are shown.
const fewNodes = 12

// Text prints the screen: sources, pools, then nodes.
func (s Status) Text() string {
	shown := s.Nodes
	if len(shown) > fewNodes {
		shown = nil
		for _, r := range s.Nodes {
			if r.Reason != "" && len(shown) < 2*fewNodes {
				shown = append(shown, r)
			}
		}
	}
	var parts []string
	for _, t := range []Table{s.SourceTable(), s.PoolTable(), nodeTable(shown)} {
		if text := t.String(); text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return "Nothing here yet: no GitSource, pool or node.\n"
	}
	if hidden := len(s.Nodes) - len(shown); hidden > 0 {
		parts = append(parts, fmt.Sprintf("%d more nodes: bunsen get nodes\n", hidden))
	}
	return strings.Join(parts, "\n")
}

func shortRevision(s string) string {
	r, err := source.ParseRevision(s)
	if err != nil {
		return s
	}
	return r.Short()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func firstLine(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return fmt.Sprintf("%s (+%d more)", s[:i], strings.Count(s[i+1:], "\n")+1)
	}
	return s
}
