package agent

import (
	"context"
	"errors"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// ErrUnreachable tells that the API server gave no answer, or one that is none: 5xx, too many requests, credentials or rights
// that it does not know. What was asked is told or asked again later; the node goes on with what it knows.
var ErrUnreachable = errors.New("the API server does not answer")

// Cluster is what the agent needs of one: its own Node, configs by name, the cluster's rules. Errors wrap ErrUnreachable
// where there was no answer.
type Cluster interface {
	// Assignment reads the Node's annotations that the protocol uses.
	Assignment(ctx context.Context) (Assignment, error)
	// Report sets annotations on the Node and leaves others alone.
	Report(ctx context.Context, annotations map[string]string) error
	// Config fetches a MachineConfig.
	Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error)
	// Rules reads the disruption policy and the overrides; the defaults where the cluster has none.
	Rules(ctx context.Context) (plan.Rules, error)
	// DriftRules reads what the cluster says about drift on nodes of a pool; the zero Policy where it says nothing.
	DriftRules(ctx context.Context, pool string) (drift.Policy, error)
}

// Assignment is a Node as the protocol sees it.
type Assignment struct {
	// Current and Desired are names of rendered configs, "" where not set.
	Current, Desired string
	// State and Reason as last reported.
	State, Reason string
	// DesiredDrain and LastAppliedDrain are `drain-<rendered>` or `uncordon-<rendered>`.
	DesiredDrain, LastAppliedDrain string
	// DrainStatus is one line on what a drain waits for; DrainStarted is when it began, zero where nobody says.
	DrainStatus  string
	DrainStarted time.Time
	// PostAction is `Rebooting` while the machine does.
	PostAction string
	// Drift is the report of what drifted, as JSON; SSH is whether somebody was logged in.
	Drift, SSH string
}

// AssignmentOf reads annotations.
func AssignmentOf(annotations map[string]string) Assignment {
	started, err := time.Parse(time.RFC3339, annotations[v1alpha1.DrainStartedAnnotation])
	if err != nil {
		started = time.Time{}
	}
	return Assignment{
		Current: annotations[v1alpha1.CurrentConfigAnnotation], Desired: annotations[v1alpha1.DesiredConfigAnnotation],
		State: annotations[v1alpha1.StateAnnotation], Reason: annotations[v1alpha1.ReasonAnnotation],
		DesiredDrain: annotations[v1alpha1.DesiredDrainAnnotation], LastAppliedDrain: annotations[v1alpha1.LastAppliedDrainAnnotation],
		DrainStatus: annotations[v1alpha1.DrainStatusAnnotation], DrainStarted: started,
		PostAction: annotations[v1alpha1.PostConfigActionAnnotation],
		Drift:      annotations[v1alpha1.DriftAnnotation], SSH: annotations[v1alpha1.SSHAnnotation],
	}
}

// says tells which of the changes the Node does not say yet.
func (n Assignment) says(want map[string]string) (changes map[string]string) {
	is := map[string]string{
		v1alpha1.CurrentConfigAnnotation: n.Current, v1alpha1.DesiredConfigAnnotation: n.Desired,
		v1alpha1.StateAnnotation: n.State, v1alpha1.ReasonAnnotation: n.Reason,
		v1alpha1.DesiredDrainAnnotation: n.DesiredDrain, v1alpha1.PostConfigActionAnnotation: n.PostAction,
		v1alpha1.DriftAnnotation: n.Drift, v1alpha1.SSHAnnotation: n.SSH,
	}
	changes = map[string]string{}
	for key, value := range want {
		if is[key] != value {
			changes[key] = value
		}
	}
	return changes
}

// asks is what somebody else wrote there: only that is a reason to look again.
func (n Assignment) asks() Assignment {
	return Assignment{Current: n.Current, Desired: n.Desired, State: n.State, Reason: n.Reason, DesiredDrain: n.DesiredDrain, LastAppliedDrain: n.LastAppliedDrain}
}
