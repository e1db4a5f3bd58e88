package pools

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// DisruptionController writes the disruption policy that the daemons read.
//
// Reads: MachineConfiguration
// Writes: MachineConfiguration.status: the default policy merged with the user's policy, and the generation of the
// user's policy
type DisruptionController struct {
	// Client reads from the manager's cache.
	Client client.Client
	Events kube.Events
}

// SetupDisruption merges the policy again after each change of a MachineConfiguration.
func SetupDisruption(mgr ctrl.Manager, policy reconcile.Reconciler) error {
	return ctrl.NewControllerManagedBy(mgr).Named("policy").For(&operatorv1.MachineConfiguration{}).Complete(policy)
}

// Reconcile merges the user's disruption policy into the default policy. An invalid one does not change the status: the
// daemons wait for a status of the newest generation, so it never decides about a reboot.
func (r *DisruptionController) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	live := &operatorv1.MachineConfiguration{}
	if req.Name != kube.DisruptionPolicyName {
		return reconcile.Result{}, nil
	}
	if err := r.Client.Get(ctx, req.NamespacedName, live); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	merged, err := disruption.FromSpec(live.Spec.NodeDisruptionPolicy)
	if err != nil { // A retry does not help; the correction of the policy triggers an event.
		r.Events.Send(kube.Event{
			Object: live, Warning: true, Reason: "InvalidNodeDisruptionPolicy", Action: "ReadPolicy",
			Note: fmt.Sprintf("the last one stays in force: %s", err.Error()),
		})
		return reconcile.Result{}, nil
	}
	before := live.DeepCopy()
	live.Status.ObservedGeneration = live.Generation
	live.Status.NodeDisruptionPolicyStatus = merged.Status()
	if err := kube.WriteStatus(ctx, r.Client, live, before); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of MachineConfiguration %q: %w", live.Name, err)
	}
	return reconcile.Result{}, nil
}
