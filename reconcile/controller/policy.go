package controller

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/policy"
)

// policyName is the one MachineConfiguration that counts.
const policyName = "cluster"

// Policy tells the daemons what the disruption policy is.
//
// Reads: MachineConfiguration
// Writes: MachineConfiguration.status: the default policy with the user's, and the generation that it speaks of
type Policy struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Events tells people.
	Events Events
}

// Reconcile merges the user's policy into the default. A policy that cannot be read leaves the last status in force:
// the daemons wait for a status of the newest generation, so a half-understood policy never decides about a reboot.
func (r *Policy) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	live := &operatorv1.MachineConfiguration{}
	if req.Name != policyName {
		return reconcile.Result{}, nil
	}
	if err := r.Client.Get(ctx, req.NamespacedName, live); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	merged, err := policy.FromSpec(live.Spec.NodeDisruptionPolicy)
	if err != nil { // looking again does not help; the event of a better one comes
		r.Events.Eventf(live, nil, corev1.EventTypeWarning, "InvalidNodeDisruptionPolicy", "ReadPolicy", "the last one stays in force: %s", clip(err.Error()))
		return reconcile.Result{}, nil
	}
	before := live.DeepCopy()
	live.Status.ObservedGeneration = live.Generation
	live.Status.NodeDisruptionPolicyStatus = merged.Status()
	if err := writeStatus(ctx, r.Client, live, before); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of MachineConfiguration %q: %w", live.Name, err)
	}
	return reconcile.Result{}, nil
}
