package rollout_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// fleet is a pool in the middle of a rollout: some nodes run v1, as many as the budget has places are at work, the rest
// wait.
func fleet(size, updated, atWork int) []*corev1.Node {
	nodes := make([]*corev1.Node, size)
	for i := range nodes {
		config := [3]string{"v0", "v0", v1alpha1.StateDone}
		switch {
		case i < updated:
			config = [3]string{"v1", "v1", v1alpha1.StateDone}
		case i < updated+atWork:
			config = [3]string{"v0", "v1", v1alpha1.StateWorking}
		}
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:              fmt.Sprintf("worker-%05d", i),
				CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(i*7919%size) * time.Minute)),
				Labels: map[string]string{
					"node-role.kubernetes.io/worker": "", corev1.LabelTopologyZone: string(rune('a' + i%3)),
					"kubernetes.io/hostname": fmt.Sprintf("worker-%05d", i),
					corev1.LabelOSStable:     "linux", "kubernetes.io/arch": "amd64",
					"node.kubernetes.io/instance-type": "m5.large",
				},
				Annotations: map[string]string{
					v1alpha1.CurrentConfigAnnotation: config[0], v1alpha1.DesiredConfigAnnotation: config[1],
					v1alpha1.StateAnnotation: config[2],
				},
			},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour - time.Duration(i)*time.Second))},
			}},
		}
	}
	return nodes
}

// careful is a pace with a word on everything.
func careful() schedule.Pace {
	windows, err := schedule.ParseWindow([]schedule.Window{{
		Name: "day", Schedule: "0 8 * * *", Duration: 10 * time.Hour,
		Zone: "Europe/Berlin",
	}})
	if err != nil {
		panic(err)
	}
	return schedule.Pace{
		Policies: []string{"careful"},
		PerZone:  new(intstr.FromString("10%")),
		Steps: []schedule.Step{
			{Canary: true, Selector: labels.SelectorFromSet(labels.Set{"canary": "true"}), Soak: time.Minute},
			{UpTo: intstr.FromString("100%"), Soak: time.Minute},
		},
		Gates: []v1alpha1.HealthGate{{
			Name:  "ready",
			Ready: &v1alpha1.ReadyGate{For: metav1.Duration{Duration: time.Minute}},
		}},
		Failures: schedule.Failures{After: 1, Action: v1alpha1.FailureRevert, NodeDeadline: time.Hour},
		Windows:  windows,
		Drain:    schedule.Drain{WhenBlocked: v1alpha1.DrainMoveOn, After: time.Hour},
	}
}

func rolling(size int, nodes []*corev1.Node) poolstate.Facts {
	f := poolstate.Facts{Pool: "worker", Target: version("v1"), MaxUnavailable: size / 10}
	f.Care = poolstate.Care{Pace: careful(), Healthy: version("v0"), Record: v1alpha1.RolloutRecord{
		Config: "v1",
		Began:  metav1.NewTime(noon.Add(-time.Hour)), Steps: 1,
	}}
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, poolstate.ReadNode(n))
	}
	return f
}

// BenchmarkDecision decides for a pool in the middle of a rollout, with a pace: once where the budget is used up, and
// once where a tenth of the pool may be told.
func BenchmarkDecision(b *testing.B) {
	for _, size := range []int{100, 1000, 5000, 10000} {
		for name, atWork := range map[string]int{"full": size / 10, "telling": 0} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				f := rolling(size, fleet(size, size/2, atWork))
				if w := rollout.Next(f, noon); (len(w.Assign) > 0) != (atWork == 0) {
					b.Fatalf("%d nodes are told with %d at work: %v", len(w.Assign), atWork, w.Blocks)
				}
				b.ReportAllocs()
				for b.Loop() {
					rollout.Next(f, noon)
				}
			})
		}
	}
}

// BenchmarkNewTarget decides about a new target that no node runs yet: every node is a candidate.
func BenchmarkNewTarget(b *testing.B) {
	for _, size := range []int{10, 1000, 5000, 10000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f := rolling(size, fleet(size, 0, 0))
			b.ReportAllocs()
			for b.Loop() {
				rollout.Next(f, noon)
			}
		})
	}
}
