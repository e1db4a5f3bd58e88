package rollout_test

import (
	"fmt"
	"maps"
	"math/rand"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// object is the Node that a rollout.Node is read from.
func object(n rollout.Node) *corev1.Node {
	a := map[string]string{}
	for key, value := range map[string]string{
		v1alpha1.CurrentConfigAnnotation: n.Config.Current, v1alpha1.DesiredConfigAnnotation: n.Config.Desired,
		v1alpha1.CurrentImageAnnotation: n.Config.CurrentImage, v1alpha1.DesiredImageAnnotation: n.Config.DesiredImage,
		v1alpha1.StateAnnotation: n.State, v1alpha1.ReasonAnnotation: n.Reason, v1alpha1.CordonedAnnotation: n.Cordon.For,
		v1alpha1.PostponedAnnotation: n.Postponed.String(),
	} {
		if value != "" {
			a[key] = value
		}
	}
	if n.Step.Draining {
		a[v1alpha1.DesiredDrainAnnotation] = "drain-x"
		a[v1alpha1.DrainStartedAnnotation] = n.Step.DrainStarted.Format(time.RFC3339)
	}
	labels := map[string]string{"worker": "", corev1.LabelTopologyZone: n.Zone}
	for key, value := range n.Labels {
		labels[key] = value
	}
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Annotations: a, Labels: labels, CreationTimestamp: metav1.NewTime(n.Created)}}
	out.Spec.Unschedulable = n.Cordon.Unschedulable
	if n.Tainted {
		out.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UpdateInProgressTaint, Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(n.Health.ReadySince)}
	if n.Health.Trouble != "" {
		ready.Status, ready.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(n.Health.Since)
	}
	out.Status.Conditions = []corev1.NodeCondition{ready}
	return out
}

// TestARosterDecidesAsFromScratch plays random histories: nodes come, change, go, move to another pool and back; gates close
// and open; targets, policies, records and clocks change. After each event the memory decides as somebody who reads all
// nodes anew.
func TestARosterDecidesAsFromScratch(t *testing.T) {
	role := func(r string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{r: ""}}
	}
	pools := []*mcfgv1.MachineConfigPool{pool("worker", role("worker")), pool("infra", role("infra"))}
	for seed := range int64(rounds / 50) {
		r := random{rand.New(rand.NewSource(seed))}
		roster, truth := rollout.NewRoster(), map[string]rollout.Node{}
		roster.SetPools(pools)
		f, now := carefulFacts(r), noon
		for step := range 60 {
			story := r.event(roster, truth, pools)
			if r.one(6) {
				f = carefulFacts(r)
				f.Target = r.of("v1", "v0", "vbad", "")
			}
			if r.one(4) {
				now = r.time()
			}
			f.Nodes = nil
			for _, n := range truth {
				if _, infra := n.Labels["infra"]; !infra {
					f.Nodes = append(f.Nodes, n)
				}
			}
			m := roster.Pool("worker")
			want, got := rollout.Next(f, now), m.Next(f, now)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, step %d, %s: the memory decides otherwise (-scratch +memory):\n%s", seed, step, story, diff)
			}
			if m.Len() != len(f.Nodes) || len(m.Nodes()) != len(f.Nodes) || len(m.Degraded()) != want.Counts.Degraded {
				t.Fatalf("seed %d, step %d, %s: %d nodes, want %d", seed, step, story, m.Len(), len(f.Nodes))
			}
			if len(f.Care.Pace.Gates) == 0 && len(f.Care.Record.Forgiven) == 0 && got.Target == f.Target {
				if diff := gocmp.Diff(rollout.Count(f), got.Counts); diff != "" {
					t.Fatalf("seed %d, step %d, %s: another count (-scratch +memory):\n%s", seed, step, story, diff)
				}
			}
			if r.one(2) && got.Record.Config != "" {
				f.Care.Record = got.Record
			}
		}
	}
}

// event lets one thing happen to a cluster, and says what.
func (r random) event(roster *rollout.Roster, truth map[string]rollout.Node, pools []*mcfgv1.MachineConfigPool) string {
	name := fmt.Sprintf("n%02d", r.Intn(15))
	old, known := truth[name]
	switch {
	case r.one(10):
		roster.Delete(name)
		delete(truth, name)
		return name + " is gone"
	case r.one(10) && known:
		old.Gate = r.of("", "its DaemonSet is not ready")
		roster.SetGate(name, old.Gate)
		truth[name] = old
		return name + " has the gate " + old.Gate
	case r.one(5) && known:
		old.Created, old.Labels = r.time().Truncate(time.Second), maps.Clone(old.Labels)
		roster.Put(object(old))
		truth[name] = old
		return name + " is made anew and is as it was"
	case r.one(30):
		roster.SetPools(pools[:1]) // whoever was in infra is in worker for a moment
		roster.SetPools(pools)
		return "the pools change twice"
	}
	made := carefulFacts(r)
	for len(made.Nodes) == 0 {
		made = carefulFacts(r)
	}
	n := made.Nodes[r.Intn(len(made.Nodes))]
	n.Name = name
	if r.one(6) {
		n.Labels = map[string]string{"infra": ""}
	}
	o := object(n)
	n = rollout.ReadNode(o)
	n.Gate = old.Gate
	_, _, changed := roster.Put(o)
	if _, _, again := roster.Put(o.DeepCopy()); again || !changed && !known {
		panic("a node changes by being put twice, or a new one does not")
	}
	truth[name] = n
	return fmt.Sprintf("%s becomes %+v", name, n)
}

// TestARosterKnowsWhoseANodeIs covers what the histories do not.
func TestARosterKnowsWhoseANodeIs(t *testing.T) {
	role := func(r string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{r: ""}}
	}
	r := rollout.NewRoster()
	n := object(rollout.Node{Name: "n0"})
	if was, is, changed := r.Put(n); was != "" || is != "" || !changed {
		t.Errorf("without pools: %q, %q, %v", was, is, changed)
	}
	pools := []*mcfgv1.MachineConfigPool{pool("worker", role("worker")), pool("infra", role("infra")), pool("gpu", role("gpu"))}
	if !r.SetPools(pools) || r.SetPools(pools) {
		t.Error("the first pools move the node, and the same pools again do not")
	}
	n = n.DeepCopy()
	n.Labels["infra"] = ""
	if was, is, changed := r.Put(n); was != "worker" || is != "infra" || !changed {
		t.Errorf("with another label: %q, %q, %v", was, is, changed)
	}
	n = n.DeepCopy()
	n.Labels["gpu"] = ""
	if was, is, _ := r.Put(n); was != "infra" || is != "" {
		t.Errorf("in two custom pools: %q, %q", was, is)
	}
	if err := r.Conflict("n0"); err == nil || !strings.Contains(err.Error(), "2 custom pools (gpu, infra)") {
		t.Errorf("conflict: %v", err)
	}
	first := r.Delete("n0")
	if again := r.Delete("n0"); first != "" || again != "" || r.Conflict("n0") != nil || r.Pool("worker").Len() != 0 {
		t.Error("a node that is gone is remembered")
	}
}
