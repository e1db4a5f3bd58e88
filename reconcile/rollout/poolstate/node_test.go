package poolstate_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// noon is when the tests run.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestReadNode reads a node with everything on it.
func TestReadNode(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n0", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			Labels: map[string]string{corev1.LabelTopologyZone: "a"},
			Annotations: map[string]string{
				v1alpha1.CurrentConfigAnnotation:    "v0",
				v1alpha1.DesiredConfigAnnotation:    "v1",
				v1alpha1.CurrentImageAnnotation:     "i0",
				v1alpha1.DesiredImageAnnotation:     "i1",
				v1alpha1.StateAnnotation:            v1alpha1.StateDegraded,
				v1alpha1.ReasonAnnotation:           "no space",
				v1alpha1.CordonedAnnotation:         "v1",
				v1alpha1.DesiredDrainAnnotation:     "drain-v1",
				v1alpha1.LastAppliedDrainAnnotation: "uncordon-v0",
				v1alpha1.DrainStartedAnnotation:     noon.Add(-time.Minute).Format(time.RFC3339),
				v1alpha1.DrainStatusAnnotation:      "2 pods left",
				v1alpha1.DrainReportAnnotation:      `{"for":"v1","started":"2026-01-02T11:59:00Z","pods":[{"pod":"a/b","state":"Waiting"},{"pod":"web/shop-1","state":"Waiting","budget":"web/shop","since":"2026-01-02T11:59:30Z"}]}`,
				v1alpha1.PostponedAnnotation:        "v0 2026-01-02T11:00:00Z",
				v1alpha1.FirstPivotConfigAnnotation: "rendered-infra-1a2b",
				v1alpha1.AttestedPoolAnnotation:     "infra",
				v1alpha1.PostConfigActionAnnotation: "Rebooting",
			},
		},
		Spec: corev1.NodeSpec{
			Unschedulable: true,
			Taints: []corev1.Taint{{
				Key:    v1alpha1.UpdateInProgressTaint,
				Effect: corev1.TaintEffectPreferNoSchedule,
			}},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", LastTransitionTime: metav1.NewTime(noon)},
		}},
	}
	want := poolstate.Node{
		Name: "n0", Labels: n.Labels, Zone: "a", Created: noon.Add(-time.Hour),
		Config: poolstate.Configs{
			Current: version("v0"), Desired: version("v1"),
			CurrentImage: "i0", DesiredImage: "i1",
		},
		State: v1alpha1.StateDegraded, Reason: "no space",
		Health: poolstate.Health{Trouble: "not Ready (KubeletNotReady)", NotReady: true, Since: noon},
		Cordon: poolstate.Cordon{Unschedulable: true, For: "v1"},
		Step: poolstate.Step{
			Draining: true, DrainStarted: noon.Add(-time.Minute), DrainStatus: "2 pods left",
			HeldUpSince: noon.Add(-30 * time.Second), Rebooting: true,
		},
		NodeMarks: poolstate.NodeMarks{
			Tainted: true, Postponed: poolstate.Postponed{For: version("v0"), At: noon.Add(-time.Hour)},
			Booted: "rendered-infra-1a2b", Checked: true, Attested: "infra",
		},
	}
	if diff := gocmp.Diff(want, poolstate.ReadNode(n)); diff != "" {
		t.Errorf("another node (-want +got):\n%s", diff)
	}
}

// TestHealthOfANode says what of a kubelet's conditions counts.
func TestHealthOfANode(t *testing.T) {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus,
		reason string,
	) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason,
			LastTransitionTime: metav1.NewTime(noon),
		}
	}
	// In the order in which a kubelet lists them.
	kubelet := func(disk, ready corev1.ConditionStatus, reason string) []corev1.NodeCondition {
		others := corev1.ConditionFalse
		if ready == corev1.ConditionUnknown {
			others = corev1.ConditionUnknown
		}
		return []corev1.NodeCondition{
			condition(corev1.NodeMemoryPressure, others, reason), condition(corev1.NodeDiskPressure, disk, reason),
			condition(corev1.NodePIDPressure, others, reason), condition(corev1.NodeReady, ready, reason),
		}
	}
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	for sentence, tc := range map[string]struct {
		conditions []corev1.NodeCondition
		text       string
	}{
		"no condition at all counts as healthy":           {nil, ""},
		"a Ready node is healthy":                         {kubelet(no, yes, ""), ""},
		"a node that is not Ready says why":               {kubelet(no, no, "KubeletNotReady"), "not Ready (KubeletNotReady) for 6m"},
		"a silent kubelet is not short of disk space":     {kubelet(unknown, unknown, "NodeStatusUnknown"), "not Ready for 6m: its kubelet stopped reporting"},
		"a kubelet that never came up has never reported": {kubelet(unknown, unknown, "NodeStatusNeverUpdated"), "not Ready for 6m: its kubelet has never reported"},
		"Ready decides even where the disk is full":       {kubelet(yes, no, "KubeletNotReady"), "not Ready (KubeletNotReady) for 6m"},
		"a full disk takes a Ready node out of service":   {kubelet(yes, yes, "KubeletHasDiskPressure"), "short of disk space (KubeletHasDiskPressure) for 6m"},
		"an unknown disk of a Ready node says nothing":    {kubelet(unknown, yes, ""), ""},
		"a node without a network is not in service":      {[]corev1.NodeCondition{condition(corev1.NodeNetworkUnavailable, yes, "")}, "without a network for 6m"},
		"an unknown network says nothing":                 {[]corev1.NodeCondition{condition(corev1.NodeNetworkUnavailable, unknown, "")}, ""},
		"memory and processes do not count":               {[]corev1.NodeCondition{condition(corev1.NodeMemoryPressure, yes, ""), condition(corev1.NodePIDPressure, yes, "")}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			h := poolstate.ReadNode(&corev1.Node{Status: corev1.NodeStatus{Conditions: tc.conditions}}).Health
			text := ""
			if h.Trouble != "" {
				text = h.Text(" for 6m")
			}
			if text != tc.text {
				t.Errorf("%q, want %q", text, tc.text)
			}
			if tc.text != "" && !h.Since.Equal(noon) {
				t.Errorf("since %v, want %v", h.Since, noon)
			}
		})
	}
}

// TestTheLabelsOfACustomPool are those that its selector leaves no choice about.
func TestTheLabelsOfACustomPool(t *testing.T) {
	in := func(key string, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
	}
	s := &metav1.LabelSelector{
		MatchLabels: map[string]string{"bunsen.dev/a": "1"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			in("node-role.kubernetes.io/b", "2"), in("c", "3", "4"),
			{Key: "bunsen.dev/d", Operator: metav1.LabelSelectorOpExists},
			{Key: "bunsen.dev/a", Operator: metav1.LabelSelectorOpExists},
			{Key: "e", Operator: metav1.LabelSelectorOpDoesNotExist},
		},
	}
	got := poolstate.NewCustoms([]*mcfgv1.MachineConfigPool{
		pool("worker", s), pool("x", nil), pool("infra", s),
		pool("own", &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/tier": "own"}}),
		pool("head",
			&metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}),
		pool("edge", &metav1.LabelSelector{MatchExpressions: s.MatchExpressions[:1]}),
	})
	want := []poolstate.Custom{
		{Pool: "edge", Labels: map[string]string{"node-role.kubernetes.io/b": "2"}},
		{Pool: "infra", Labels: map[string]string{"bunsen.dev/a": "1", "node-role.kubernetes.io/b": "2", "bunsen.dev/d": ""}},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("other pools or labels (-want +got):\n%s", diff)
	}
}

func pool(name string, s *metav1.LabelSelector) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcfgv1.MachineConfigPoolSpec{NodeSelector: s},
	}
}

// version reads a config in the form of v1alpha1.ConfigVersion.String.
func version(text string) v1alpha1.ConfigVersion { return v1alpha1.ParseConfigVersion(text) }
