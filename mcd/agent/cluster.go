package agent

import (
	"context"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Cluster is what the agent needs of one: its own Node, configs by name, the cluster's rules.
type Cluster interface {
	// Assignment reads the Node's annotations that the protocol uses.
	Assignment(ctx context.Context) (Assignment, error)
	// Report sets annotations on the Node and leaves others alone.
	Report(ctx context.Context, annotations map[string]string) error
	// Config fetches a MachineConfig.
	Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error)
	// Rules reads the disruption policy and the overrides; the defaults where the cluster has none.
	Rules(ctx context.Context) (plan.Rules, error)
}

// Assignment is a Node as the protocol sees it.
type Assignment struct {
	// Current and Desired are names of rendered configs, "" where not set.
	Current, Desired string
	// State and Reason as last reported.
	State, Reason string
	// DesiredDrain and LastAppliedDrain are `drain-<rendered>` or `uncordon-<rendered>`.
	DesiredDrain, LastAppliedDrain string
	// PostAction is `Rebooting` while the machine does.
	PostAction string
}

// AssignmentOf reads annotations.
func AssignmentOf(annotations map[string]string) Assignment {
	return Assignment{
		Current: annotations[v1alpha1.CurrentConfigAnnotation], Desired: annotations[v1alpha1.DesiredConfigAnnotation],
		State: annotations[v1alpha1.StateAnnotation], Reason: annotations[v1alpha1.ReasonAnnotation],
		DesiredDrain: annotations[v1alpha1.DesiredDrainAnnotation], LastAppliedDrain: annotations[v1alpha1.LastAppliedDrainAnnotation],
		PostAction: annotations[v1alpha1.PostConfigActionAnnotation],
	}
}
