package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

func slimmedOf(pools, nodes string) fleet.Cluster {
	var c fleet.Cluster
	for _, n := range strings.Fields(pools) {
		p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: n}}
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": n}}
		p.Spec.Configuration.Name = "rendered-" + n + "-2"
		c.Pools = append(c.Pools, p)
	}
	for _, n := range strings.Fields(nodes) {
		c.Nodes = append(c.Nodes,
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"role": "worker"}}})
	}
	return c
}

// TestObjectsAreSorted: a cache returns its objects in another order each time, and a status shows them in the order of
// their names.
func TestObjectsAreSorted(t *testing.T) {
	c := slimmedOf("worker edge master", "")
	sortObjects(&c)
	var names []string
	for _, row := range inspect.NewStatus(c, noon).Pools {
		names = append(names, row.Name)
	}
	if got := strings.Join(names, " "); got != "edge master worker" {
		t.Errorf("the pools are %s", got)
	}
}

// TestNothingThatIsShownIsDropped: a status is the same whether the watches' objects were slimmed or not.
func TestNothingThatIsShownIsDropped(t *testing.T) {
	c := slimmedOf("worker", "n1 n2 n3")
	c.Sources = []v1alpha1.GitSource{{ObjectMeta: metav1.ObjectMeta{Name: "os"}}}
	c.Sources[0].Status.Inventory = []v1alpha1.InventoryEntry{{Kind: "MachineConfig", Name: "x"}}
	c.Sources[0].Status.AppliedRevision = "main@sha1:" + strings.Repeat("a", 40)
	n := &c.Nodes[0]
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	n.Spec.Unschedulable = true
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"large"}}}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse,
		Reason: "KubeletNotReady",
	}}
	n.Annotations = map[string]string{
		"example.com/other": "x", v1alpha1.DriftAnnotation: strings.Repeat(" ", 2049),
		v1alpha1.CurrentConfigAnnotation: "rendered-worker-1",
		v1alpha1.DesiredConfigAnnotation: "rendered-worker-2",
		v1alpha1.StateAnnotation:         v1alpha1.StateWorking,
		v1alpha1.DesiredDrainAnnotation:  "drain-rendered-worker-2",
		v1alpha1.DrainStartedAnnotation:  "2026-01-02T11:00:00Z",
		v1alpha1.DrainStatusAnnotation:   "1 pod left", v1alpha1.CordonedAnnotation: "rendered-worker-2",
	}
	before, err := json.Marshal(inspect.NewStatus(c, noon))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Nodes {
		if _, err := dropUnused(&c.Nodes[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dropUnused(&c.Sources[0]); err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(inspect.NewStatus(c, noon))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("another status (-whole +slim):\n%s", diff)
	}
	if n.ManagedFields != nil || n.Status.Images != nil || len(n.Annotations) != 7 ||
		c.Sources[0].Status.Inventory != nil {
		t.Errorf("it keeps what nobody reads: %v", n)
	}
}

// TestAHeartbeatChangesNothing: later times of a kubelet are no change; everything else is one, also a change of what
// the watches drop.
func TestAHeartbeatChangesNothing(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n1", ResourceVersion: "1",
			Labels: map[string]string{"a": "b"},
		}}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastHeartbeatTime: metav1.NewTime(noon), LastTransitionTime: metav1.NewTime(noon),
		}}
		n.ResourceVersion = "2"
		change(n)
		return n
	}
	beat := func(n *corev1.Node) {
		n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(noon.Add(time.Minute))
	}
	was := node(func(n *corev1.Node) { n.ResourceVersion = "1" })
	for name, c := range map[string]struct {
		is   any
		want bool
	}{
		"a heartbeat":               {node(beat), true},
		"a dropped field":           {node(func(*corev1.Node) {}), false},
		"a heartbeat and a label":   {node(func(n *corev1.Node) { beat(n); n.Labels["a"] = "c" }), false},
		"a heartbeat and a problem": {node(func(n *corev1.Node) { beat(n); n.Status.Conditions[0].Status = corev1.ConditionFalse }), false},
		"another kind":              {&mcfgv1.MachineConfigPool{}, false},
	} {
		if got := isHeartbeat(was, c.is); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if was.ResourceVersion != "1" {
		t.Error("it changes the object")
	}
}

// TestOneLateAnswerIsNoOutage: a busy API server is not asked for all objects again. Two late answers in a row, or
// another error, are an outage.
func TestOneLateAnswerIsNoOutage(t *testing.T) {
	refused := errors.New("connection refused")
	late := fmt.Errorf("reading: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		answers []error
		// ends is the number of the check that reports the outage.
		ends int
	}{
		"late once, then twice": {[]error{nil, late, nil, late, late, nil}, 5},
		"refused":               {[]error{nil, refused, nil}, 2},
		"late, then refused":    {[]error{late, refused, nil}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := Scheme()
			if err != nil {
				t.Fatal(err)
			}
			check := 0
			reader := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(),
				interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, l client.ObjectList,
					_ ...client.ListOption,
				) error {
					if _, first := l.(*v1alpha1.GitSourceList); !first {
						return nil
					}
					check++
					return c.answers[check-1]
				}})
			synctest.Test(t, func(t *testing.T) {
				f := &watches{refused: make(chan error)}
				if err := f.whileAlive(t.Context(), reader); err == nil || check != c.ends {
					t.Errorf("after check %d: %v", check, err)
				}
			})
		})
	}
}
