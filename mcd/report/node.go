package report

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ErrUnreachable reports that the API server gave no usable answer: it did not answer, it answered with a status 5xx,
// too many requests, or rejected credentials or rights, or there is no connection to it. The caller retries later.
// Until then, the node uses its stored data. Each such error is also an error of one of the types below, with its own
// text.
var ErrUnreachable = errors.New("the API server gives no usable answer")

// NoAnswerError is the error for a request that the API server did not answer.
type NoAnswerError struct{ Err error }

// Error says that there was no answer.
func (e *NoAnswerError) Error() string { return "the API server does not answer: " + e.Err.Error() }

// Unwrap returns the error of the request.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// Is reports that the error is ErrUnreachable.
func (e *NoAnswerError) Is(target error) bool { return target == ErrUnreachable }

// AnswerError is the error for an answer of the API server, or of a proxy in front of it, with which the daemon cannot
// continue now.
type AnswerError struct {
	// Code is the HTTP status of the answer.
	Code int
	Err  error
}

// Error has the answer, and what to do about rejected credentials and rights.
func (e *AnswerError) Error() string {
	text := fmt.Sprintf("the API server answered %d: %v", e.Code, e.Err)
	switch e.Code {
	case 401: // Unauthorized
		return text + "; it does not accept the credentials in the kubeconfig: check whether they have expired, and " +
			"the clock of this machine"
	case 403: // Forbidden
		return text + "; check that the rights in config/rbac are installed, and that the kubeconfig is that of the " +
			"kubelet of this machine"
	}
	return text
}

// Unwrap returns the answer.
func (e *AnswerError) Unwrap() error { return e.Err }

// Is reports that the error is ErrUnreachable.
func (e *AnswerError) Is(target error) bool { return target == ErrUnreachable }

// NotConnectedError is the error for a connection that the daemon cannot make, such as without a kubeconfig.
type NotConnectedError struct{ Err error }

// Error says that there is no connection.
func (e *NotConnectedError) Error() string {
	return "cannot connect to the API server: " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *NotConnectedError) Unwrap() error { return e.Err }

// Is reports that the error is ErrUnreachable.
func (e *NotConnectedError) Is(target error) bool { return target == ErrUnreachable }

// ErrNoSecrets reports that the servers have no secrets of a config for this node.
var ErrNoSecrets = errors.New("the machine-config-server has no secrets for this node")

// Node has the data that the daemon reads from its Node object. A file on the node contains this type, so its fields
// must keep their names.
type Node struct {
	// UID distinguishes this Node from an earlier one with the same name; "" if it is unknown. UID is not an
	// annotation.
	UID string
	// Current and Desired are texts of a v1alpha1.ConfigVersion; "" if not set.
	Current, Desired string
	// State and Reason are the daemon's last report.
	State, Reason string
	// DesiredDrain and LastAppliedDrain are texts of a v1alpha1.DrainRequest.
	DesiredDrain, LastAppliedDrain string
	// Unschedulable is true while the node is cordoned. Unschedulable is not an annotation.
	Unschedulable bool
	// Recordoned is true if somebody uncordoned the node after Bunsen cordoned it, and cordoned it again.
	Recordoned bool `json:",omitempty"`
	// Drain is the progress of the drain under way.
	Drain Drain
	// PostAction is `Rebooting` while the machine reboots.
	PostAction string
	// DaemonAnnotations have the daemon's drift report, the cause of Reason, and what the daemon downloads.
	DaemonAnnotations
	// Request says who requested Desired, in the form of v1alpha1.RequestAnnotation.
	Request string
	// Retry is when a user requested a retry, in UTC; zero if there is no valid request.
	Retry time.Time
}

// DaemonAnnotations are annotations that only Bunsen has.
type DaemonAnnotations struct {
	// Drift is the drift report as JSON; SSH says whether a user was logged in over SSH.
	Drift, SSH string
	// Failure is the structured cause of Reason, as JSON.
	Failure string
	// Trust is the report of the files beside the config, as JSON.
	Trust string
	// Next is the config that the node gets next, as the controller says. Fetched is the report about its files, as
	// JSON.
	Next, Fetched string
	// Pin names the PinnedImageSets whose images the node pulls, as JSON. Pinned is the report about them, as JSON.
	Pin, Pinned string
}

// Drain is the progress of a drain, as the controller reports it.
type Drain struct {
	// Status is one line that says what the drain waits for.
	Status string
	// Started is when the drain started, in UTC; zero if that is unknown. At this time, the node is cordoned already.
	Started time.Time
}

// NodeOf reads the annotations of a Node. A desired config without a revision of its secrets is the current one with
// its revision, if both are one config: a node does not lose its secrets with an annotation.
func NodeOf(annotations map[string]string) Node {
	current := v1alpha1.NewConfigVersion(annotations[v1alpha1.CurrentConfigAnnotation],
		annotations[v1alpha1.CurrentSecretsAnnotation])
	desired := v1alpha1.NewConfigVersion(annotations[v1alpha1.DesiredConfigAnnotation],
		annotations[v1alpha1.DesiredSecretsAnnotation])
	if desired.Secrets == "" && desired.Config == current.Config {
		desired = current
	}
	return Node{
		Current: current.String(), Desired: desired.String(),
		State: annotations[v1alpha1.StateAnnotation], Reason: annotations[v1alpha1.ReasonAnnotation],
		DesiredDrain:     annotations[v1alpha1.DesiredDrainAnnotation],
		LastAppliedDrain: annotations[v1alpha1.LastAppliedDrainAnnotation],
		Drain: Drain{
			annotations[v1alpha1.DrainStatusAnnotation],
			parseTime(annotations[v1alpha1.DrainStartedAnnotation]),
		},
		PostAction: annotations[v1alpha1.PostConfigActionAnnotation],
		DaemonAnnotations: DaemonAnnotations{
			annotations[v1alpha1.DriftAnnotation], annotations[v1alpha1.SSHAnnotation],
			annotations[v1alpha1.FailureAnnotation], annotations[v1alpha1.TrustReportAnnotation],
			v1alpha1.ParseNextConfig(annotations[v1alpha1.NextConfigAnnotation]).Config,
			annotations[v1alpha1.FetchedAnnotation], annotations[v1alpha1.PinAnnotation],
			annotations[v1alpha1.PinnedAnnotation],
		},
		Request: annotations[v1alpha1.RequestAnnotation],
		Retry:   parseTime(annotations[v1alpha1.RetryAnnotation]),
	}
}

// CurrentAnnotations returns the annotations that report a config in force, the text of a v1alpha1.ConfigVersion. A
// config without secrets removes the revision of the config before.
func CurrentAnnotations(at string) map[string]string {
	is := v1alpha1.ParseConfigVersion(at)
	return map[string]string{v1alpha1.CurrentConfigAnnotation: is.Config, v1alpha1.CurrentSecretsAnnotation: is.Secrets}
}

// parseTime parses a time in RFC 3339 and returns it in UTC, so that == compares moments. parseTime returns the zero
// time for an invalid text.
func parseTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// MissingChanges returns the wanted annotations that the Node does not have yet.
func (n Node) MissingChanges(want map[string]string) map[string]string {
	is := CurrentAnnotations(n.Current)
	maps.Copy(is, map[string]string{
		v1alpha1.DesiredConfigAnnotation: v1alpha1.ParseConfigVersion(n.Desired).Config,
		v1alpha1.StateAnnotation:         n.State, v1alpha1.ReasonAnnotation: n.Reason,
		v1alpha1.DesiredDrainAnnotation: n.DesiredDrain, v1alpha1.PostConfigActionAnnotation: n.PostAction,
		v1alpha1.DriftAnnotation: n.Drift, v1alpha1.SSHAnnotation: n.SSH, v1alpha1.FailureAnnotation: n.Failure,
		v1alpha1.FetchedAnnotation: n.Fetched, v1alpha1.PinnedAnnotation: n.Pinned,
	})
	missing := maps.Clone(want)
	maps.DeleteFunc(missing, func(key, value string) bool { return is[key] == value })
	return missing
}

// Watched returns the parts of the Node whose change starts a sync: the parts that other programs write, and the UID.
// The progress of a drain is not part of the result.
func (n Node) Watched() Node {
	return Node{
		UID: n.UID, Current: n.Current, Desired: n.Desired, State: n.State, Reason: n.Reason,
		DesiredDrain: n.DesiredDrain, LastAppliedDrain: n.LastAppliedDrain, Drain: Drain{Started: n.Drain.Started},
		Unschedulable: n.Unschedulable, Recordoned: n.Recordoned, Retry: n.Retry,
		DaemonAnnotations: DaemonAnnotations{Next: n.Next, Pin: n.Pin},
	}
}
