package main

import (
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/flow"
	"github.com/bunsen-os/bunsen/bench/machines"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// decisionGoals are the maximum times of a decision, by number of nodes.
var decisionGoals = map[int]time.Duration{
	1000: time.Millisecond, 5000: 5 * time.Millisecond,
	10000: 10 * time.Millisecond,
}

// noon is the time for all decisions.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// decide measures decisions on a half updated pool. A tenth of its nodes are being updated. The pool has the policy.
func decide(o options) (*measure.Table, error) {
	t := &measure.Table{Title: "One decision", Explained: "half of the nodes updated, as many at work as may be, " +
		"with the policy", Of: "nodes"}
	limit := measure.Limit{Runs: 5, Time: o.time}
	for _, size := range o.sizes {
		facts := rolling(size)
		decisions, err := limit.Median(func(int) (measure.Sample, error) {
			return measure.Many(20, func() error {
				if w := rollout.Next(facts, noon); w.Target.IsZero() {
					return fmt.Errorf("deciding on %d nodes: nothing is decided", size)
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		t.Add(measure.Row{
			What: "decision", Size: size, Sample: decisions, Goal: measure.Goal{CPU: decisionGoals[size]},
		})
	}
	return t, nil
}

// rolling returns a pool in the middle of a rollout.
func rolling(size int) poolstate.Facts {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: flow.Pool}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/worker": ""}}
	p.Spec.Configuration.Name, p.Status.Configuration.Name = "rendered-worker-1", "rendered-worker-0"
	policy := *carefully()
	f := poolstate.Read(p, []v1alpha1.RolloutPolicy{policy}, poolstate.Published{}, size)
	for i := range size {
		current, desired, state := "rendered-worker-0", "rendered-worker-0", v1alpha1.StateDone
		switch {
		case i < size/2:
			current, desired = "rendered-worker-1", "rendered-worker-1"
		case i < size*6/10:
			desired, state = "rendered-worker-1", v1alpha1.StateWorking
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:              fmt.Sprintf("worker-%05d", i),
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(i*7919%size) * time.Minute)),
			Labels: map[string]string{
				"node-role.kubernetes.io/worker": "",
				corev1.LabelTopologyZone:         fmt.Sprintf("zone-%d", i%machines.Zones),
			},
			Annotations: map[string]string{
				v1alpha1.CurrentConfigAnnotation: current, v1alpha1.DesiredConfigAnnotation: desired,
				v1alpha1.StateAnnotation: state,
			},
		}}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
		}}
		f.Nodes = append(f.Nodes, poolstate.ReadNode(n))
	}
	f.MaxUnavailable = size / 10
	f.Care.Record = v1alpha1.RolloutRecord{
		Config: "rendered-worker-1", Began: metav1.NewTime(noon.Add(-time.Hour)),
		Steps: 3,
	}
	return f
}
