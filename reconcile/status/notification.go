package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// NotificationFacts are the input for a Notification's status, besides the old status.
type NotificationFacts struct {
	// Generation is the generation of the Notification that was read.
	Generation int64
	// Sent is the record of the states that the receiver got.
	Sent []v1alpha1.SentState
	// Suspended is true if the spec suspends the Notification.
	Suspended bool
	// Until is the end of the present quiet hours; it is zero outside of quiet hours.
	Until time.Time
	// Reason and Problem say why the receiver does not have the present state; empty if it has. Reason and Problem
	// contain no secret.
	Reason, Problem string
	// Warning says what the token may not do, such as writing comments; empty for no warning.
	Warning string
}

// Notification returns the status of a Notification after an attempt.
func Notification(old v1alpha1.NotificationStatus, f NotificationFacts, now time.Time) v1alpha1.NotificationStatus {
	s := *old.DeepCopy()
	s.ObservedGeneration, s.Sent = f.Generation, f.Sent
	c := metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded,
		Message: "the receiver has the last state",
	}
	switch {
	case f.Problem != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, f.Reason, message(f.Problem)
	case f.Suspended:
		c.Reason, c.Message = v1alpha1.ReasonSuspended, "suspended; the receiver gets the last state when "+
			"spec.suspend is false"
	case f.Warning != "":
		c.Message = message("the receiver has the last state, except for a comment: " + f.Warning)
	case !f.Until.IsZero():
		c.Message = "quiet hours until " + f.Until.UTC().Format(time.RFC3339) + "; the receiver then gets the " +
			"last state"
	}
	s.Conditions = replace(s.Conditions, []metav1.Condition{c}, f.Generation, now)
	return s
}
