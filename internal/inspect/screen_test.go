package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// fleetOf is a pool of so many nodes, some of them at work, in a cluster with a policy.
func fleetOf(size int) fleet.Cluster {
	const was, is = "rendered-worker-11111111111111111111111111111111",
		"rendered-worker-22222222222222222222222222222222"
	pool := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
	pool.Spec.Configuration.Name = is
	policy := v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	policy.Spec.MaxUnavailable = new(intstr.FromString("10%"))
	policy.Spec.Batches = []v1alpha1.RolloutBatch{{UpTo: intstr.FromString("50%")}}
	c := fleet.Cluster{Pools: []mcfgv1.MachineConfigPool{pool}, Policies: []v1alpha1.RolloutPolicy{policy}}
	for i := range size {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("node-%05d", i),
			Labels: map[string]string{"role": "worker"},
		}}
		current, desired, state := was, was, v1alpha1.StateDone
		switch {
		case i%3 == 0:
			current, desired = is, is
		case i%50 == 1:
			desired, state = is, v1alpha1.StateWorking
		case i%7 == 5:
			desired, state = is, v1alpha1.StateDegraded
		}
		n.Annotations = map[string]string{
			v1alpha1.CurrentConfigAnnotation: current,
			v1alpha1.DesiredConfigAnnotation: desired, v1alpha1.StateAnnotation: state,
		}
		if state == v1alpha1.StateDegraded {
			n.Annotations[v1alpha1.ReasonAnnotation] = "updating to " + is +
				": writing /etc/chrony/sources.d/site.sources: no space left on device\nMain PID: 1"
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

// TestAScreenFitsAnyTerminal: it has no more lines than the terminal, and none is wider.
func TestAScreenFitsAnyTerminal(t *testing.T) {
	for _, nodes := range []int{0, 1, 7, 500} {
		s := inspect.NewOverview(fleetOf(nodes), noon)
		for width := 1; width < 140; width += 7 {
			for height := 1; height < 60; height += 3 {
				lines := s.Screen(terminal.Size{Width: width, Height: height}, noon)
				if len(lines) > height {
					t.Fatalf("%d nodes: %d lines on a terminal of %d", nodes, len(lines), height)
				}
				for _, l := range lines {
					if w := terminal.Width(l.Cut(width, false)); w > width {
						t.Fatalf("%d nodes: a line of %d columns on a terminal of %d", nodes, w, width)
					}
				}
			}
		}
	}
}

// TestChanges: what is told of a status after another one.
func TestChanges(t *testing.T) {
	before := inspect.NewStatus(fleetOf(4), noon)
	c := fleetOf(4)
	if later := inspect.NewStatus(c, noon.Add(time.Hour)); len(later.Changes(&before)) > 0 {
		t.Errorf("nothing changed but the time, and it tells %q", later.Changes(&before))
	}
	c.Nodes = c.Nodes[:3]
	c.Nodes[1].Annotations[v1alpha1.StateAnnotation],
		c.Nodes[1].Annotations[v1alpha1.ReasonAnnotation] = v1alpha1.StateDegraded, "no space"
	text := strings.Join(inspect.NewStatus(c, noon).Changes(&before), "\n")
	for _, want := range []string{
		"pool/worker ", "1 failed", "node/node-00001 failed ", ": no space",
		"node/node-00003 is gone",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "node-00000") {
		t.Errorf("a node is told that did not change:\n%s", text)
	}
}

// BenchmarkStatus is the cost of one look at a large cluster.
func BenchmarkStatus(b *testing.B) {
	c := fleetOf(5000)
	for b.Loop() {
		inspect.NewOverview(c, noon).Screen(terminal.Size{Width: 120, Height: 50}, noon)
	}
}

// TestAScreenTellsAFailureWhole where there are lines to spare.
func TestAScreenTellsAFailureWhole(t *testing.T) {
	var b strings.Builder
	for _, l := range inspect.NewOverview(fleetOf(7), noon).Screen(terminal.Size{Width: 80, Height: 40}, noon) {
		b.WriteString(l.Cut(80, false) + " ")
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"writing /etc/chrony/sources.d/site.sources: no space left on device",
		"$ kubectl get",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}
