package main

import (
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// The goals: a decision, and one node's event.
var decisionGoals = map[int]time.Duration{1000: 100 * time.Microsecond, 10000: time.Millisecond}

const eventGoal = 5 * time.Microsecond

// looks are what a peer needs for one look at a pool that is being rolled out.
var looks = map[int]time.Duration{1000: 25 * time.Millisecond, 10000: 479 * time.Millisecond}

// noon is when decisions are made.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// decide measures decisions on a pool that is half updated, with a tenth of its nodes at work and with the policy.
func decide(o options) (*measure.Table, error) {
	t := &measure.Table{Title: "One decision", Explained: "half of the nodes updated, as many at work as may be, with the policy; one node changes before each", Of: "nodes"}
	limit := measure.Limit{Runs: 5, Time: o.time}
	for _, size := range o.sizes {
		r, facts, nodes := roster(size)
		next := 0
		event := func() error {
			next = (next + 1) % len(nodes)
			n := nodes[next]
			n.Annotations = map[string]string{
				v1alpha1.CurrentConfigAnnotation: "rendered-worker-0", v1alpha1.DesiredConfigAnnotation: "rendered-worker-1",
				v1alpha1.StateAnnotation: []string{v1alpha1.StateWorking, v1alpha1.StateDone}[next%2],
			}
			r.Put(n)
			return nil
		}
		const times = 200
		events, err := limit.Median(func(int) (measure.Sample, error) { return measure.Many(times, event) })
		if err != nil {
			return nil, err
		}
		both, err := limit.Median(func(int) (measure.Sample, error) {
			return measure.Many(times, func() error {
				if err := event(); err != nil {
					return err
				}
				if w := r.Pool(pool).Next(facts, noon); w.Target == "" {
					return fmt.Errorf("deciding on %d nodes: nothing is decided", size)
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		t.Add(measure.Row{What: "one node's event", Size: size, Sample: events, Goal: measure.Goal{CPU: eventGoal}})
		t.Add(measure.Row{
			What: "event and decision", Size: size, Sample: both, Goal: measure.Goal{CPU: decisionGoals[size]},
			Peer: measure.Peer{Name: "machine-config-operator", CPU: looks[size], Quoted: true},
		})
	}
	return t, nil
}

// roster of a pool in the middle of a rollout; nodes are those at work.
func roster(size int) (*rollout.Roster, rollout.Facts, []*corev1.Node) {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: pool}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/worker": ""}}
	p.Spec.Configuration.Name, p.Status.Configuration.Name = "rendered-worker-1", "rendered-worker-0"
	r := rollout.NewRoster()
	r.SetPools([]*mcfgv1.MachineConfigPool{p})
	var working []*corev1.Node
	for i := range size {
		current, desired, state := "rendered-worker-0", "rendered-worker-0", v1alpha1.StateDone
		switch {
		case i < size/2:
			current, desired = "rendered-worker-1", "rendered-worker-1"
		case i < size*6/10:
			desired, state = "rendered-worker-1", v1alpha1.StateWorking
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("worker-%05d", i), CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(i*7919%size) * time.Minute)),
			Labels: map[string]string{"node-role.kubernetes.io/worker": "", corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones)},
			Annotations: map[string]string{
				v1alpha1.CurrentConfigAnnotation: current, v1alpha1.DesiredConfigAnnotation: desired, v1alpha1.StateAnnotation: state,
			},
		}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
		r.Put(n)
		if state == v1alpha1.StateWorking {
			working = append(working, n)
		}
	}
	policy := *carefully()
	f := rollout.ReadFacts(p, []v1alpha1.RolloutPolicy{policy}, size)
	f.MaxUnavailable = size / 10
	f.Care.Record = v1alpha1.RolloutRecord{Config: "rendered-worker-1", Began: metav1.NewTime(noon.Add(-time.Hour)), Steps: 3}
	return r, f, working
}
