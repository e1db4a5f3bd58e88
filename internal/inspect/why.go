package inspect

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	corev1 "k8s.io/api/core/v1"
)

// Why is the answer of `bunsen why`: the main reason first, then further facts.
type Why struct {
	// About is node/NAME, pool/NAME or gitsource/NAME.
	About string `json:"about"`

	Answer `json:",inline"`

	// Also are further reasons, worst first.
	Also []Answer `json:"also,omitempty"`
	// SameFor are other subjects of an Overview with one of these reasons, such as pool/worker.
	SameFor []string `json:"sameFor,omitempty"`
	// Since is when a person was first needed; only in an Overview, and nil if unknown or if nobody is.
	Since *time.Time `json:"since,omitempty"`

	Subjects `json:",inline"`

	// Target is what the pool should run, or of a node its own config for it. Back is where a pool was reverted to,
	// Runs what the node runs.
	Target *fleet.RenderedRow `json:"target,omitempty"`
	Back   *fleet.RenderedRow `json:"back,omitempty"`
	Runs   *fleet.RenderedRow `json:"runs,omitempty"`
	// Windows is nil if the pool has none.
	Windows *fleet.WindowState `json:"windows,omitempty"`
	// Busy nodes were assigned a config, or failed.
	Busy []BusyNode `json:"busy,omitempty"`
	// FailureCause is empty if unknown, and for a node that did not fail.
	FailureCause v1alpha1.FailureCause `json:"failureCause,omitempty"`
	Drain        *v1alpha1.DrainReport `json:"drain,omitempty"`
	Drift        []DriftRow            `json:"drift,omitempty"`
	// Trust is the node's report of the files beside its config; nil if it has none.
	Trust *v1alpha1.TrustReport `json:"trust,omitempty"`
}

// Subjects are the objects that the user asks about: a node and its pool, a pool, or a source.
type Subjects struct {
	Node   *fleet.NodeRow `json:"node,omitempty"`
	Pool   *PoolRow       `json:"pool,omitempty"`
	Source *SourceRow     `json:"source,omitempty"`
}

// BusyNode is a node at work, or a failed one, with its config.
type BusyNode struct {
	fleet.NodeRow `json:",inline"`
	// Config was assigned, or failed.
	Config fleet.RenderedRow `json:"config"`
	// Failed before the pool was reverted.
	Failed string                `json:"failed,omitempty"`
	Cause  v1alpha1.FailureCause `json:"failureCause,omitempty"`
}

// WhyNode says why a node does not run the config of its pool, or that it does.
func WhyNode(c fleet.Cluster, name string, now time.Time) (Why, error) {
	return whyNode(fleet.New(c, now), name)
}

func whyNode(f *fleet.Fleet, name string) (Why, error) {
	node, err := f.FindNode(name)
	if denied := DeniedOf(f, name); err != nil && len(denied) > 0 {
		return deniedMachine(name, denied), nil
	}
	if err != nil {
		return Why{}, err
	}
	why := Why{About: "node/" + name}
	if d := NewDriftReport([]corev1.Node{*node}, f.Daemons, f.Now); d.Any() {
		why.Drift = d.Rows
	}
	why.Trust = trustReport(node)
	row, v := f.Find(name)
	why.Node = &row
	if v != nil {
		pool := poolRow(f, v)
		why.Pool, why.Windows = &pool, f.Window(v)
		why.Target = f.ConfigOfNode(v, v.Facts.Care.NodeConfigs.Own(v.Facts.Target, name), name)
		why.Back, why.Runs = wentBackTo(f, v), f.ConfigOfNode(v, row.Current, name)
		switch row.Cause { // When a waiting node continues depends on the other nodes.
		case poolstate.CauseBudget, poolstate.CauseStep, poolstate.CauseGate, poolstate.CauseHalted,
			poolstate.CauseReverted,
			poolstate.CauseTogether:
			why.Busy = busyNodes(f, v, name)
		}
	}
	if row.Step == fleet.StepFailed {
		why.FailureCause = FailureCause(f, row)
	}
	why.Drain = f.DrainReport(row)
	why.setAnswers(append(NodeReason(f, v, row, why.Drift), DeniedOf(f, name)...))
	return why, nil
}

// deniedMachine is about a machine without a Node: the controller denied its certificate request.
func deniedMachine(name string, denied []Answer) Why {
	why := Why{About: "node/" + name}
	denied[0].Outcome = Blocked
	why.setAnswers(denied)
	return why
}

// WhyPool says why nodes of a pool do not run its newest configuration, or that all do.
func WhyPool(c fleet.Cluster, name string, now time.Time) (Why, error) {
	return WhyPoolOf(fleet.New(c, now), name)
}

// WhyPoolOf is WhyPool for a cluster whose decisions are known.
func WhyPoolOf(f *fleet.Fleet, name string) (Why, error) {
	v, err := f.FindPool(name)
	if err != nil {
		return Why{}, err
	}
	pool := poolRow(f, v)
	why := Why{
		About: "pool/" + name, Subjects: Subjects{Pool: &pool}, Target: f.Config(v.Facts.Target),
		Back: wentBackTo(f, v), Windows: f.Window(v), Busy: busyNodes(f, v, ""),
	}
	why.setAnswers(append(PoolReason(f, v, nil), DeniedFor(f, name)...))
	return why, nil
}

func (w *Why) setAnswers(answers []Answer) { w.Answer, w.Also = answers[0], answers[1:] }

// busyNodes returns the nodes that are at work or failed, but one.
func busyNodes(f *fleet.Fleet, v *fleet.Pool, but string) []BusyNode {
	var out []BusyNode
	guilty := v.RevertFailures()
	for _, row := range v.Rows {
		switch why := guilty[row.Name]; {
		case row.Name == but:
		case why != "" && row.Step != fleet.StepFailed:
			out = append(out, BusyNode{NodeRow: row, Config: *f.ConfigNamed(v.Decision.Record.Config), Failed: why})
		case row.InFlight() || row.Step == fleet.StepFailed:
			out = append(out, BusyNode{
				NodeRow: row, Config: *f.ConfigOfNode(v, row.Desired, row.Name),
				Cause: FailureCause(f, row),
			})
		}
	}
	slices.SortStableFunc(out, func(a, b BusyNode) int {
		failed := func(r BusyNode) int {
			return map[bool]int{true: 0, false: 1}[r.Step == fleet.StepFailed || r.Failed != ""]
		}
		return cmp.Compare(failed(a), failed(b))
	})
	return out
}

// wentBackTo is nil unless the pool was reverted.
func wentBackTo(f *fleet.Fleet, v *fleet.Pool) *fleet.RenderedRow {
	if v.Decision.Record.Verdict != v1alpha1.RolloutReverted {
		return nil
	}
	return f.Config(v.Decision.Record.ReturnsTo())
}

// trustReport is nil if the node has no files beside its config.
func trustReport(n *corev1.Node) *v1alpha1.TrustReport {
	r := new(v1alpha1.TrustReport)
	if text := n.Annotations[v1alpha1.TrustReportAnnotation]; text == "" || json.Unmarshal([]byte(text), r) != nil {
		return nil
	}
	return r
}
