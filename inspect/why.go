package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// Outcome sums up how things stand.
type Outcome string

// Values of Outcome, from good to bad.
const (
	// Fine: there is nothing to wait for.
	Fine Outcome = "Fine"
	// Progressing: it goes on by itself.
	Progressing Outcome = "Progressing"
	// Blocked: a person, a policy or a window has to let it go on.
	Blocked Outcome = "Blocked"
	// Degraded: nodes failed, or the rollout ended before its time.
	Degraded Outcome = "Degraded"
)

// outcomes in their order.
var outcomes = []Outcome{Fine, Progressing, Blocked, Degraded}

func (o Outcome) rank() int { return slices.Index(outcomes, o) }

// Causes that a rollout does not know, because they lie before it or beside it.
const (
	// CauseRender: the newest configuration of the pool cannot be rendered.
	CauseRender rollout.Cause = "Render"
	// CauseSource: the newest commit is not on the cluster.
	CauseSource rollout.Cause = "Source"
	// CauseConflict: the node is in several pools.
	CauseConflict rollout.Cause = "Conflict"
	// CauseNoPool: no pool selects the node.
	CauseNoPool rollout.Cause = "NoPool"
	// CauseNoDaemon: no machine-config-daemon reports from the node.
	CauseNoDaemon rollout.Cause = "NoDaemon"
	// CauseDrift: somebody changed the node.
	CauseDrift rollout.Cause = "Drift"
	// CauseStale: the controller has not seen the newest state of the pool.
	CauseStale rollout.Cause = "Stale"
)

// Answer is one reason.
type Answer struct {
	Outcome Outcome       `json:"outcome"`
	Cause   rollout.Cause `json:"cause,omitempty"`
	// Reason in a sentence.
	Reason string `json:"reason"`
	// Until is when it ends by itself; absent where that is not known.
	Until *time.Time `json:"until,omitempty"`
	// Do are commands that help.
	Do []string `json:"do,omitempty"`
}

// Why is what `bunsen why` answers: the one reason first, then what there is to know.
type Why struct {
	// About is node/NAME, pool/NAME or gitsource/NAME.
	About string `json:"about"`

	Answer `json:",inline"`

	// Also are further reasons, worst first.
	Also []Answer `json:"also,omitempty"`

	Subjects `json:",inline"`

	// Target is the config that the pool should run, Back the one that a reverted pool goes back to, Runs the one that the node
	// runs.
	Target *RenderedRow `json:"target,omitempty"`
	Back   *RenderedRow `json:"back,omitempty"`
	Runs   *RenderedRow `json:"runs,omitempty"`
	// Windows of the pool; absent where it has none.
	Windows *WindowState `json:"windows,omitempty"`
	// Busy are the nodes that were told, and those that failed.
	Busy []BusyNode `json:"busy,omitempty"`
	// Drain under way on the node.
	Drain *v1alpha1.DrainReport `json:"drain,omitempty"`
	// Drift that the node reports.
	Drift []DriftRow `json:"drift,omitempty"`
}

// Subjects are what was asked about, and the pool of a node that was asked about.
type Subjects struct {
	Node   *NodeRow   `json:"node,omitempty"`
	Pool   *PoolRow   `json:"pool,omitempty"`
	Source *SourceRow `json:"source,omitempty"`
}

// BusyNode is a node at work, or one that failed, with the config that it is about.
type BusyNode struct {
	NodeRow `json:",inline"`
	// Config that it was told, or that it Failed, with the commit that brought it.
	Config RenderedRow `json:"config"`
	// Failed is what the node failed before its pool went back.
	Failed string `json:"failed,omitempty"`
	// Cause of its failure, as far as it is known.
	Cause v1alpha1.FailureCause `json:"failureCause,omitempty"`
}

// WhyNode says why a node does not run what its pool should run, or that it does.
func WhyNode(c Cluster, name string, now time.Time) (Why, error) {
	f := newFleet(c, now)
	at := slices.IndexFunc(c.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if at < 0 {
		return Why{}, fmt.Errorf("there is no node %q; `bunsen get nodes` lists them", name)
	}
	why := Why{About: "node/" + name}
	if d := NewDrift(c.Nodes[at:at+1], c.Daemons, now); d.Any() {
		why.Drift = d.Rows
	}
	row, v := f.find(name)
	why.Node = &row
	if v != nil {
		pool := f.poolRow(v)
		why.Pool, why.Windows = &pool, f.window(v)
		why.Target, why.Back, why.Runs = f.config(v.facts.Target), wentBackTo(f, v), f.config(row.Current)
		switch row.Cause { // what other nodes do matters to a node that waits for them
		case rollout.CauseBudget, rollout.CauseStep, rollout.CauseGate, rollout.CauseHalted, rollout.CauseReverted, rollout.CauseTogether:
			why.Busy = f.busy(v, name)
		}
	}
	why.Drain = f.drain(row)
	why.settle(nodeReasons{reasons{f}}.nodeAnswers(v, row, why))
	return why, nil
}

// WhyPool says why a pool does not run its newest configuration on all nodes, or that it does.
func WhyPool(c Cluster, name string, now time.Time) (Why, error) {
	f := newFleet(c, now)
	v := f.pools[name]
	if v == nil {
		return Why{}, fmt.Errorf("there is no pool %q; `bunsen get pools` lists them", name)
	}
	pool := f.poolRow(v)
	why := Why{About: "pool/" + name, Subjects: Subjects{Pool: &pool}, Target: f.config(v.facts.Target), Back: wentBackTo(f, v), Windows: f.window(v), Busy: f.busy(v, "")}
	why.settle(reasons{f}.poolAnswers(v, nil))
	return why, nil
}

// settle takes the first answer; the others are told beside it.
func (w *Why) settle(answers []Answer) { w.Answer, w.Also = answers[0], answers[1:] }

// worstFirst orders answers; of equal ones the first stays first.
func worstFirst(answers []Answer) []Answer {
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(b.Outcome.rank(), a.Outcome.rank()) })
	return answers
}

// find is a node's row, and its pool; nil where it is in none.
func (f *fleet) find(name string) (NodeRow, *poolView) {
	for _, rows := range []map[string]NodeRow{f.torn, f.nobodys} {
		if row, ok := rows[name]; ok {
			return row, nil
		}
	}
	for _, v := range f.pools {
		if i := slices.IndexFunc(v.rows, func(r NodeRow) bool { return r.Name == name }); i >= 0 {
			return v.rows[i], v
		}
	}
	return NodeRow{Name: name}, nil
}

// busy are the nodes of a pool that are at work or failed, but for one.
func (f *fleet) busy(v *poolView, but string) []BusyNode {
	var out []BusyNode
	guilty := v.guilty()
	for _, row := range v.rows {
		switch why := guilty[row.Name]; {
		case row.Name == but:
		case why != "" && row.Step != StepFailed:
			out = append(out, BusyNode{NodeRow: row, Config: *f.config(v.wave.Record.Config), Failed: why})
		case row.InFlight() || row.Step == StepFailed:
			out = append(out, BusyNode{NodeRow: row, Config: *f.config(row.Desired), Cause: failureCause(f, row)})
		}
	}
	slices.SortStableFunc(out, func(a, b BusyNode) int {
		failed := func(r BusyNode) int { return map[bool]int{true: 0, false: 1}[r.Step == StepFailed || r.Failed != ""] }
		return cmp.Compare(failed(a), failed(b))
	})
	return out
}

// wentBackTo is the config that a reverted pool goes back to; nil for another pool.
func wentBackTo(f *fleet, v *poolView) *RenderedRow {
	if v.wave.Record.Verdict != v1alpha1.RolloutReverted {
		return nil
	}
	return f.config(v.wave.Record.Back)
}

// config is what is known of a rendered config: the commit that asked for it last, as the histories of the sources or the pool's
// record have it, else what it says itself: that is the commit for which it was first made.
func (f *fleet) config(name string) *RenderedRow {
	row := &RenderedRow{Name: name}
	for i := range f.Rendered {
		if f.Rendered[i].Name == name {
			*row = f.Rendered[i]
		}
	}
	if v := f.pools[Pool(name)]; v != nil {
		asked := v1alpha1.RequesterOf(v.object.Annotations, name)
		if asked.Revision != "" || len(asked.API) > 0 {
			row.Pool = Pool(name)
			row.setRequester(asked)
		}
		row.Unproven, row.Manual = unprovenCommit(v, name), manualConfigs(f, v, name)
		if row.byAPI() || row.Subject != "" && asked.Subject != "" {
			return row
		}
	}
	var last time.Time
	for i := range f.Sources {
		h := v1alpha1.AskedBy(f.Sources[i].Status.History, Pool(name), name)
		if h == nil || h.Time.Time.Before(last) {
			continue
		}
		last = h.Time.Time
		row.Pool, row.Source, row.Revision, row.Subject, row.Author = Pool(name), f.Sources[i].Name, h.Revision, h.Subject, h.Author
	}
	return row
}

// short is the reason on one line.
func (a Answer) short() string {
	return shorten(oneLine(a.Reason))
}
