package fleet

import (
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestWithoutTheRightToReadMachineConfigs: nodes with configs of their own are updated if the controller says so.
// Otherwise a sentence says that it is not known, and which role is missing.
func TestWithoutTheRightToReadMachineConfigs(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hash := func(c string) string { return "rendered-worker-" + strings.Repeat(c, 32) }
	pool := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker", Annotations: map[string]string{
		v1alpha1.TargetAnnotation: v1alpha1.PoolTarget{Config: hash("a"), Nodes: 2}.String(),
	}}}
	pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/worker": ""}}
	pool.Spec.Configuration.Name, pool.Status.Configuration.Name = hash("a"), hash("a")
	pool.Status.MachineCount, pool.Status.UpdatedMachineCount = 2, 2
	node := func(name, config, secrets string) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""},
				Annotations: map[string]string{
					v1alpha1.CurrentConfigAnnotation: config, v1alpha1.DesiredConfigAnnotation: config,
					v1alpha1.CurrentSecretsAnnotation: secrets, v1alpha1.DesiredSecretsAnnotation: secrets,
					v1alpha1.StateAnnotation: v1alpha1.StateDone,
				},
			},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type:   corev1.NodeReady,
				Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
			}}},
		}
	}
	read := func(updated int32, record v1alpha1.RolloutRecord) *Pool {
		p := pool.DeepCopy()
		p.Status.UpdatedMachineCount = updated
		p.Annotations[v1alpha1.RolloutAnnotation] = record.String()
		c := Cluster{
			Pools: []mcfgv1.MachineConfigPool{*p},
			Nodes: []corev1.Node{
				node("worker-1", hash("b"), strings.TrimPrefix(record.Secrets, "t")),
				node("worker-2", hash("c"), ""),
			},
		}
		c.Rendered = []RenderedRow{
			{Name: hash("a"), Pool: "worker"},
			{Name: hash("b"), Pool: "worker"},
			{Name: hash("c"), Pool: "worker"},
		}
		return New(c, now).PoolByName["worker"]
	}
	for says, record := range map[string]v1alpha1.RolloutRecord{
		"without secrets": {Config: hash("a"), Began: metav1.NewTime(now)},
		"with secrets":    {Config: hash("a"), Began: metav1.NewTime(now), RecordedSecrets: v1alpha1.RecordedSecrets{Secrets: "t1"}},
	} {
		if v := read(2, record); v.Undecided != "" || v.Decision.Counts.Updated != 2 ||
			v.Rows[0].Current.String() != hash("b") {
			t.Errorf("%s, all updated: %q, %+v, %+v", says, v.Undecided, v.Decision.Counts, v.Rows)
		}
		v := read(1, record)
		if !strings.Contains(v.Undecided, "2 nodes of the pool have configs of their own, and you may not read "+
			"MachineConfigs") || !strings.Contains(v.Undecided, "The controller counts 1 of 2") ||
			len(v.Decision.Assign) > 0 {
			t.Errorf("%s, one updated: %q, %+v", says, v.Undecided, v.Decision)
		}
	}
}
