package rollout_test

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

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
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: v1alpha1.UpdateInProgressTaint, Effect: corev1.TaintEffectPreferNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", LastTransitionTime: metav1.NewTime(noon)},
		}},
	}
	want := rollout.Node{
		Name: "n0", Labels: n.Labels, Zone: "a", Created: noon.Add(-time.Hour),
		Config: rollout.Configs{Current: "v0", Desired: "v1", CurrentImage: "i0", DesiredImage: "i1"},
		State:  v1alpha1.StateDegraded, Reason: "no space",
		Health: rollout.Health{Trouble: "not Ready (KubeletNotReady)", Since: noon},
		Cordon: rollout.Cordon{Unschedulable: true, For: "v1"},
		Step:   rollout.Step{Draining: true, DrainStarted: noon.Add(-time.Minute), DrainStatus: "2 pods left", HeldUpSince: noon.Add(-30 * time.Second), Rebooting: true},
		Marks:  rollout.Marks{Tainted: true, Postponed: rollout.Postponed{For: "v0", At: noon.Add(-time.Hour)}, Booted: "rendered-infra-1a2b", Checked: true, Attested: "infra"},
	}
	if diff := gocmp.Diff(want, rollout.ReadNode(n)); diff != "" {
		t.Errorf("another node (-want +got):\n%s", diff)
	}
}

// TestHealthOfANode says what of a kubelet's conditions counts.
func TestHealthOfANode(t *testing.T) {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(noon)}
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
			h := rollout.ReadNode(&corev1.Node{Status: corev1.NodeStatus{Conditions: tc.conditions}}).Health
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

func pool(name string, s *metav1.LabelSelector) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigPoolSpec{NodeSelector: s}}
}

// TestPoolsOfANode covers what the vectors in test/vectors do not.
func TestPoolsOfANode(t *testing.T) {
	role := func(r string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{r: ""}}
	}
	normal := []*mcfgv1.MachineConfigPool{pool("worker", role("w")), pool("infra", role("i")), pool("gpu", role("g")), pool("nil", nil), pool("empty", &metav1.LabelSelector{})}
	broken := append(normal[:len(normal):len(normal)], pool("broken", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Near"}}}))
	for sentence, tc := range map[string]struct {
		pools   []*mcfgv1.MachineConfigPool
		labels  map[string]string
		primary string
		err     string
	}{
		"an absent or empty selector matches nothing":          {normal, map[string]string{"other": ""}, "", ""},
		"a custom pool comes before worker":                    {normal, map[string]string{"w": "", "i": ""}, "infra", ""},
		"a Windows node belongs to nobody":                     {normal, map[string]string{"w": "", corev1.LabelOSStable: "windows"}, "", ""},
		"two custom pools are refused by name":                 {normal, map[string]string{"i": "", "g": ""}, "", "2 custom pools (gpu, infra)"},
		"a selector that cannot be read keeps every node back": {broken, map[string]string{"w": ""}, "", `nodeSelector of MachineConfigPool "broken"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			primary, _, err := rollout.NewPools(tc.pools).For(rollout.Node{Name: "n0", Labels: tc.labels})
			if primary != tc.primary {
				t.Errorf("pool %q, want %q", primary, tc.primary)
			}
			if got := errText(err); tc.err == "" && got != "" || !strings.Contains(got, tc.err) {
				t.Errorf("error %q, want %q", got, tc.err)
			}
		})
	}
}

// TestMaxUnavailable covers what the vectors in test/vectors do not.
func TestMaxUnavailable(t *testing.T) {
	if n, err := rollout.MaxUnavailable("arbiter", new(intstr.FromString("50%")), 10); n != 1 || err != nil {
		t.Errorf("the arbiter pool's budget is always 1, got %d, %v", n, err)
	}
	_, err := rollout.MaxUnavailable("worker", new(intstr.FromString("many")), 10)
	for _, want := range []string{`"many"`, `MachineConfigPool "worker"`, `"10%"`} {
		if !strings.Contains(errText(err), want) {
			t.Errorf("error %q does not name %s", errText(err), want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAPoolThatSelectsEverythingIsToldAbout(t *testing.T) {
	named := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for does, c := range map[string]struct {
		nodes, configs *metav1.LabelSelector
		want           string
	}{
		"both name labels":              {named, named, ""},
		"a selector that is not there":  {nil, nil, ""},
		"a nodeSelector of {}":          {&metav1.LabelSelector{}, named, "spec.nodeSelector"},
		"a machineConfigSelector of {}": {named, &metav1.LabelSelector{}, "spec.machineConfigSelector"},
	} {
		pool := &mcfgv1.MachineConfigPool{Spec: mcfgv1.MachineConfigPoolSpec{NodeSelector: c.nodes, MachineConfigSelector: c.configs}}
		got := rollout.ReadFacts(pool, nil, 3).Care.Invalid
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", does, got, c.want)
		}
	}
}
