package inspect_test

import (
	"encoding/json"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
)

func reporting(t *testing.T, node string, d *v1alpha1.Drift) corev1.Node {
	t.Helper()
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        node,
		Annotations: map[string]string{v1alpha1.StateAnnotation: v1alpha1.StateDone},
	}}
	if d != nil {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		n.Annotations[v1alpha1.DriftAnnotation] = string(text)
	}
	return n
}

func TestDriftIsListedByNode(t *testing.T) {
	since := metav1.NewTime(noon.Add(-5 * time.Minute))
	d := inspect.NewDriftReport([]corev1.Node{
		reporting(t, "b", &v1alpha1.Drift{Config: "rendered-worker-77b0cfa4c32a", More: 3, Items: []v1alpha1.DriftItem{
			{Name: "/etc/a", Kind: v1alpha1.DriftContent, Action: v1alpha1.DriftDegrade, Since: since},
			{Name: "chronyd.service", Kind: v1alpha1.DriftEnablement, Action: v1alpha1.DriftReport, Since: since},
		}}),
		reporting(t, "c", nil),
		reporting(t, "a", &v1alpha1.Drift{
			Config: "rendered-worker-77b0cfa4c32a",
			Items: []v1alpha1.DriftItem{{
				Name: "/etc/z", Kind: v1alpha1.DriftMode, Action: v1alpha1.DriftReport,
				Since: since,
			}},
		}),
	}, nil, noon)
	want := `NODE   PATH              KIND         ACTION    SINCE
a      /etc/z            mode         Report    5m
b      /etc/a            content      Degrade   5m
b      chronyd.service   enablement   Report    5m
b: 3 more; on the node: machine-config-daemon drift list
`
	if diff := gocmp.Diff(want, d.Text(noon)); diff != "" {
		t.Error(diff)
	}
	if got := inspect.NewDriftReport([]corev1.Node{reporting(t, "c", nil)}, nil, noon); got.Any() ||
		got.Text(noon) != "No drift: 1 node is as its config has it.\n" {
		t.Error(got.Text(noon))
	}
}

// TestDriftOfNodesThatDoNotReport: nothing is claimed of a node whose daemon or kubelet does not report.
func TestDriftOfNodesThatDoNotReport(t *testing.T) {
	never, dead, silent := reporting(t, "never", nil), reporting(t, "dead", nil), reporting(t, "silent", nil)
	never.Annotations = nil
	dead.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
		LastTransitionTime: metav1.NewTime(noon.Add(-6 * time.Minute)),
	}}
	daemons := map[string]v1alpha1.DaemonReport{
		"well":   {Seen: metav1.NewTime(noon.Add(-time.Minute))},
		"silent": {Seen: metav1.NewTime(noon.Add(-12 * time.Minute))},
	}
	for sentence, tc := range map[string]struct {
		nodes []corev1.Node
		want  string
	}{
		"every daemon reports": {[]corev1.Node{reporting(t, "well", nil)}, "No drift: 1 node is as its config has it.\n"},
		"some do not": {[]corev1.Node{reporting(t, "well", nil), silent, never, dead}, `No drift on 1 of 4 nodes.
dead is not known: its kubelet has been silent for 6m
never is not known: no machine-config-daemon has reported
silent is not known: its machine-config-daemon has been silent for 12m
`},
		"none does": {[]corev1.Node{never}, "Drift is not known.\nnever is not known: no machine-config-daemon has reported\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, inspect.NewDriftReport(tc.nodes, daemons, noon).Text(noon)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOneDifferenceIsABlock(t *testing.T) {
	modified := metav1.NewTime(noon.Add(-time.Hour))
	row := inspect.DriftRow{Node: "a", Config: "rendered-worker-77b0cfa4c32a", DriftItem: v1alpha1.DriftItem{
		Name: "/etc/key", Kind: v1alpha1.DriftMode, Action: v1alpha1.DriftReport, Since: metav1.NewTime(noon),
		Modified: &modified, Secret: true,
		Expected: &v1alpha1.DriftEntry{Type: "file", Mode: "0600", Owner: "0:0"},
		Actual:   &v1alpha1.DriftEntry{Type: "link", Target: "/x", Owner: "0:0"},
	}}
	want := `Node:      a   rendered-worker-77b0c
Path:      /etc/key
Differs:   mode, since 2026-01-02T12:00:00Z (0s)
Action:    Report
Expected:  file 0600 0:0 (contents hidden: they are secret)
Actual:    link 0:0 -> /x
Modified:  2026-01-02T11:00:00Z
`
	if diff := gocmp.Diff(want, row.Text(noon)); diff != "" {
		t.Error(diff)
	}
}
