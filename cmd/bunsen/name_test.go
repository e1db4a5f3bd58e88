package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
)

func clusterOf(pools, nodes string) inspect.Cluster {
	var c inspect.Cluster
	for _, n := range strings.Fields(pools) {
		p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: n}}
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": n}}
		p.Spec.Configuration.Name = "rendered-" + n + "-2"
		c.Pools = append(c.Pools, p)
	}
	for _, n := range strings.Fields(nodes) {
		c.Nodes = append(c.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"role": "worker"}}})
	}
	return c
}

// TestNames: what a person may call a node or a pool.
func TestNames(t *testing.T) {
	c := clusterOf("worker both", "n1 both")
	for arg, want := range map[string]string{
		"node/n1": "node/n1", "no/n1": "node/n1", "nodes/n1": "node/n1", "n1": "node/n1",
		"pool/worker": "pool/worker", "mcp/worker": "pool/worker", "machineconfigpool/worker": "pool/worker", "worker": "pool/worker",
		"node/both": "node/both", "both": `"both" is the name of several things: write node/both or pool/both`,
		"nobody": `there is no node or pool named "nobody" on the cluster`,
	} {
		got, err := named(c, arg, aNode, aPool)
		var exit *exitError
		switch {
		case err == nil && got.String() != want:
			t.Errorf("%s is %s, want %s", arg, got, want)
		case err != nil && (!strings.Contains(err.Error(), want) || !errors.As(err, &exit) || exit.code != exitInvalid):
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}

// TestNothingThatIsShownIsDropped: a status is the same whether the watches' objects were slimmed or not.
func TestNothingThatIsShownIsDropped(t *testing.T) {
	c := clusterOf("worker", "n1 n2 n3")
	c.Sources = []v1alpha1.GitSource{{ObjectMeta: metav1.ObjectMeta{Name: "os"}}}
	c.Sources[0].Status.Inventory = []v1alpha1.InventoryEntry{{Kind: "MachineConfig", Name: "x"}}
	c.Sources[0].Status.AppliedRevision = "main@sha1:" + strings.Repeat("a", 40)
	n := &c.Nodes[0]
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	n.Spec.Unschedulable = true
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"large"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady"}}
	n.Annotations = map[string]string{
		"example.com/other": "x", v1alpha1.DriftAnnotation: "{}", v1alpha1.CurrentConfigAnnotation: "rendered-worker-1", v1alpha1.DesiredConfigAnnotation: "rendered-worker-2",
		v1alpha1.StateAnnotation: v1alpha1.StateWorking, v1alpha1.DesiredDrainAnnotation: "drain-rendered-worker-2", v1alpha1.DrainStartedAnnotation: "2026-01-02T11:00:00Z",
		v1alpha1.DrainStatusAnnotation: "1 pod left", v1alpha1.CordonedAnnotation: "rendered-worker-2",
	}
	before, err := json.Marshal(inspect.NewStatus(c, noon))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Nodes {
		if _, err := slim(&c.Nodes[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := slim(&c.Sources[0]); err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(inspect.NewStatus(c, noon))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("another status (-whole +slim):\n%s", diff)
	}
	if n.ManagedFields != nil || n.Status.Images != nil || len(n.Annotations) != 7 || c.Sources[0].Status.Inventory != nil {
		t.Errorf("it keeps what nobody reads: %v", n)
	}
}
