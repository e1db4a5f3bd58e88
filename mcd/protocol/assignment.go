package protocol

import (
	"errors"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ErrUnreachable tells that the API server gave no answer, or one that is none: 5xx, too many requests, credentials or rights
// that it does not know. What was asked is told or asked again later; the node goes on with what it knows.
var ErrUnreachable = errors.New("the API server does not answer")

// Assignment is a Node as the protocol sees it.
type Assignment struct {
	// UID tells a Node from one of the same name that came after it; "" where nobody knows. It is no annotation.
	UID string
	// Current and Desired are names of rendered configs, "" where not set.
	Current, Desired string
	// State and Reason as last reported.
	State, Reason string
	// DesiredDrain and LastAppliedDrain are `drain-<rendered>` or `uncordon-<rendered>`.
	DesiredDrain, LastAppliedDrain string
	// Drain under way, as whoever drains tells.
	Drain Drain
	// PostAction is `Rebooting` while the machine does.
	PostAction string
	// Notes are what the daemon reports besides.
	Notes
	// Request says who asked for Desired, as v1alpha1.RequestAnnotation has it.
	Request string
	// Retry is when somebody asked to try again, in UTC; zero where nobody did, or in words that are no time.
	Retry time.Time
}

// Notes are annotations of the daemon's own.
type Notes struct {
	// Drift is the report of what drifted, as JSON; SSH is whether a user was logged in.
	Drift, SSH string
	// Failure is the structured cause beside Reason, as JSON.
	Failure string
}

// Drain is one that is under way.
type Drain struct {
	// Status is one line on what it waits for.
	Status string
	// Started is when it began, in UTC; zero where nobody says. By then, the node is closed.
	Started time.Time
}

// AssignmentOf reads annotations.
func AssignmentOf(annotations map[string]string) Assignment {
	return Assignment{
		Current: annotations[v1alpha1.CurrentConfigAnnotation], Desired: annotations[v1alpha1.DesiredConfigAnnotation],
		State: annotations[v1alpha1.StateAnnotation], Reason: annotations[v1alpha1.ReasonAnnotation],
		DesiredDrain: annotations[v1alpha1.DesiredDrainAnnotation], LastAppliedDrain: annotations[v1alpha1.LastAppliedDrainAnnotation],
		Drain:      Drain{annotations[v1alpha1.DrainStatusAnnotation], timeOf(annotations[v1alpha1.DrainStartedAnnotation])},
		PostAction: annotations[v1alpha1.PostConfigActionAnnotation],
		Notes:      Notes{annotations[v1alpha1.DriftAnnotation], annotations[v1alpha1.SSHAnnotation], annotations[v1alpha1.FailureAnnotation]},
		Request:    annotations[v1alpha1.RequestAnnotation],
		Retry:      timeOf(annotations[v1alpha1.RetryAnnotation]),
	}
}

// timeOf reads a time of RFC 3339, as one that is equal to others of the same moment; zero for anything else.
func timeOf(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// Unsaid tells which of the changes the Node does not say yet.
func (n Assignment) Unsaid(want map[string]string) (changes map[string]string) {
	is := map[string]string{
		v1alpha1.CurrentConfigAnnotation: n.Current, v1alpha1.DesiredConfigAnnotation: n.Desired,
		v1alpha1.StateAnnotation: n.State, v1alpha1.ReasonAnnotation: n.Reason,
		v1alpha1.DesiredDrainAnnotation: n.DesiredDrain, v1alpha1.PostConfigActionAnnotation: n.PostAction,
		v1alpha1.DriftAnnotation: n.Drift, v1alpha1.SSHAnnotation: n.SSH, v1alpha1.FailureAnnotation: n.Failure,
	}
	changes = map[string]string{}
	for key, value := range want {
		if is[key] != value {
			changes[key] = value
		}
	}
	return changes
}

// Asks is what is a reason to look again: what somebody else wrote there, or that it is another Node. Of a drain under way, it
// is when it began, and no word about how it goes.
func (n Assignment) Asks() Assignment {
	return Assignment{
		UID: n.UID, Current: n.Current, Desired: n.Desired, State: n.State, Reason: n.Reason,
		DesiredDrain: n.DesiredDrain, LastAppliedDrain: n.LastAppliedDrain, Drain: Drain{Started: n.Drain.Started}, Retry: n.Retry,
	}
}
