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
	// SameFor are the other subjects of an Overview that have one of these reasons too, such as pool/worker.
	SameFor []string `json:"sameFor,omitempty"`

	Subjects `json:",inline"`

	// Target is the config that the pool should run, or of a node its own config for it. Back is the config to which a
	// pool was reverted. Runs is the config that the node runs.
	Target *fleet.RenderedRow `json:"target,omitempty"`
	Back   *fleet.RenderedRow `json:"back,omitempty"`
	Runs   *fleet.RenderedRow `json:"runs,omitempty"`
	// Windows is the state of the pool's maintenance windows; nil if it has none.
	Windows *fleet.WindowState `json:"windows,omitempty"`
	// Busy are the nodes that were assigned a config, and the nodes that failed.
	Busy []BusyNode `json:"busy,omitempty"`
	// FailureCause is the cause of the node's failure, as far as it is known; empty for a node that did not fail.
	FailureCause v1alpha1.FailureCause `json:"failureCause,omitempty"`
	// Drain is the drain that is under way on the node.
	Drain *v1alpha1.DrainReport `json:"drain,omitempty"`
	// Drift is the drift that the node reports.
	Drift []DriftRow `json:"drift,omitempty"`
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
	// Config is the config that the node was assigned or failed, with its commit.
	Config fleet.RenderedRow `json:"config"`
	// Failed is the node's failure before its pool was reverted.
	Failed string `json:"failed,omitempty"`
	// Cause is the cause of the node's failure, as far as it is known.
	Cause v1alpha1.FailureCause `json:"failureCause,omitempty"`
}

// WhyNode returns the answer that says why a node does not run the config of its pool, or that the node runs this
// config.
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
	why.Drain = fleet.DrainReport(f, row)
	why.setAnswers(append(NodeReason(f, v, row, why.Drift), DeniedOf(f, name)...))
	return why, nil
}

// deniedMachine is the answer about a machine that has no Node, because the controller denied its certificate request.
func deniedMachine(name string, denied []Answer) Why {
	why := Why{About: "node/" + name}
	denied[0].Outcome = Blocked
	why.setAnswers(denied)
	return why
}

// WhyPool returns the answer that says why nodes of a pool do not run its newest configuration, or that all nodes run
// it.
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

// setAnswers sets the first answer as the main reason, and the others as further ones.
func (w *Why) setAnswers(answers []Answer) { w.Answer, w.Also = answers[0], answers[1:] }

// busyNodes returns the nodes of a pool that are at work or failed, without the node with the name in the parameter
// but.
func busyNodes(f *fleet.Fleet, v *fleet.Pool, but string) []BusyNode {
	var out []BusyNode
	guilty := fleet.RevertFailures(v)
	for _, row := range v.Rows {
		switch why := guilty[row.Name]; {
		case row.Name == but:
		case why != "" && row.Step != fleet.StepFailed:
			out = append(out, BusyNode{NodeRow: row, Config: *f.Config(v.Decision.Record.Config), Failed: why})
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

// wentBackTo returns the config to which a pool was reverted, or nil.
func wentBackTo(f *fleet.Fleet, v *fleet.Pool) *fleet.RenderedRow {
	if v.Decision.Record.Verdict != v1alpha1.RolloutReverted {
		return nil
	}
	return f.Config(v.Decision.Record.ReturnsTo())
}

// trustReport reads what a node reports about the files beside its config; nil if it has none.
func trustReport(n *corev1.Node) *v1alpha1.TrustReport {
	r := new(v1alpha1.TrustReport)
	if text := n.Annotations[v1alpha1.TrustReportAnnotation]; text == "" || json.Unmarshal([]byte(text), r) != nil {
		return nil
	}
	return r
}
