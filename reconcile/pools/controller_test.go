package pools_test

import (
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/pools"
)

func nodeDisruption(path string,
	actions ...operatorv1.NodeDisruptionPolicySpecActionType,
) *operatorv1.MachineConfiguration {
	file := operatorv1.NodeDisruptionPolicySpecFile{Path: path}
	for _, a := range actions {
		file.Actions = append(file.Actions, operatorv1.NodeDisruptionPolicySpecAction{Type: a})
	}
	mc := &operatorv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Generation: 4}}
	mc.Spec.NodeDisruptionPolicy.Files = []operatorv1.NodeDisruptionPolicySpecFile{file}
	return mc
}

// TestThePolicyInForce is what the daemons read.
func TestThePolicyInForce(t *testing.T) {
	w := controllertest.NewCluster(t, nodeDisruption("/etc/motd", operatorv1.NoneSpecAction))
	r := &pools.DisruptionController{Client: w.Client, Events: w.Events}
	look := func(name string) {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), controllertest.Request(name)); err != nil {
			t.Errorf("it is tried again, though only a person can help: %v", err)
		}
	}
	look("cluster")
	mc := controllertest.Get(w, "cluster", &operatorv1.MachineConfiguration{})
	controllertest.Equal(t, "the generation that the status speaks of", mc.Status.ObservedGeneration, 4)
	p, err := disruption.FromStatus(mc.Status.NodeDisruptionPolicyStatus)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "rules for files: the defaults and the user's", len(p.Files),
		len(disruption.Default().Files)+1)

	t.Run("looking again writes nothing", func(t *testing.T) {
		w.Writes.Done = nil
		look("cluster")
		controllertest.Equal(t, "writes", len(w.Writes.Done), 0)
	})
	t.Run("a policy that cannot be read leaves the last status in force and is told, with every bad rule",
		func(t *testing.T) {
			controllertest.Modify(w, controllertest.Get(w, "cluster", &operatorv1.MachineConfiguration{}),
				func(mc *operatorv1.MachineConfiguration) {
					mc.Spec.NodeDisruptionPolicy = nodeDisruption("etc/motd", operatorv1.NoneSpecAction,
						operatorv1.RebootSpecAction).Spec.NodeDisruptionPolicy
				})
			look("cluster")
			after := controllertest.Get(w, "cluster", &operatorv1.MachineConfiguration{})
			controllertest.Equal(t, "the generation that the status speaks of", after.Status.ObservedGeneration, 4)
			controllertest.Equal(t, "rules for files",
				len(after.Status.NodeDisruptionPolicyStatus.ClusterPolicies.Files), len(p.Files))
			controllertest.Contains(t, "the event", w.LastEvent(), "Warning InvalidNodeDisruptionPolicy: ",
				"its path is not absolute", "cannot be combined with others")
		})
	t.Run("another object of that kind does not count", func(t *testing.T) {
		other := nodeDisruption("/etc/issue", operatorv1.NoneSpecAction)
		other.Name = "other"
		w.Create(other)
		look("other")
		controllertest.Equal(t, "its status", controllertest.Get(w, "other", &operatorv1.MachineConfiguration{}).
			Status.ObservedGeneration, 0)
	})
	t.Run("none at all is no error", func(t *testing.T) {
		w.Remove(controllertest.Get(w, "cluster", &operatorv1.MachineConfiguration{}))
		look("cluster")
	})
}
