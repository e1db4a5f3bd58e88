package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// of refused revisions
	mostRefused = 10
	// in the status, and of one in runes
	mostWarnings = 20
	mostWarning  = 500
	// of a reason in the history, in runes
	mostOutcome = 200
)

// SourceFacts are the input for a GitSource's status, besides the old status.
type SourceFacts struct {
	// of the GitSource that was read
	Generation int64
	// the value of the annotation bunsen.dev/reconcile that this attempt answers
	Handled string
	// The spec requires signatures.
	Verify bool
	// The spec suspends the source, so that no attempt was made.
	Suspended bool
	// nil if it has no end
	SuspendUntil *metav1.Time
	// the newest revision at the remote; empty if unknown
	Observed string
	// the commit that this attempt read; nil for none
	Tried *v1alpha1.CommitInfo
	// what this attempt applied completely; nil for none
	Applied *Applied
	// The applied revision was restored completely, so that no apply is under way any more.
	Restored bool
	// the current action; empty at the end of an attempt
	Doing string
	// for users; they did not stop the attempt
	Warnings []string
	// what stopped the attempt, with a mark of api/fault; nil for success
	Err error
}

// Applied is a revision that was applied completely.
type Applied struct {
	// the applied one
	Commit v1alpha1.CommitInfo
	// every object of the revision
	Inventory []v1alpha1.InventoryEntry
	// the digest of what the RevisionContent objects store
	Content string
	// the repository and the ref of the spec
	From string
	// says that the commit does not descend from the one that was applied before, or that its tag moved; otherwise
	// empty
	Rewritten string
}

// Source returns the status of a GitSource after an attempt or, if Doing is set, during one.
//
// If it did not apply a revision, the one that was applied before stays, and if it did not observe one, the newest
// observed one.
func Source(old v1alpha1.GitSourceStatus, f SourceFacts, now time.Time) v1alpha1.GitSourceStatus {
	s := *old.DeepCopy()
	s.ObservedGeneration, s.Progress = f.Generation, nil
	if f.Handled != "" {
		s.LastHandledReconcileAt = f.Handled
	}
	if f.Observed != "" {
		s.ObservedRevision = f.Observed
	}
	if f.Applied != nil {
		c := f.Applied.Commit
		c.Subject = cut(c.Subject, mostSubject)
		s.AppliedRevision, s.AppliedGeneration = c.Revision, f.Generation
		s.AppliedCommit, s.AppliedFrom = c.DeepCopy(), f.Applied.From
		s.Inventory, s.AppliedContent = slices.Clone(f.Applied.Inventory), f.Applied.Content
		s.History = remember(s.History, v1alpha1.HistoryEntry{
			CommitInfo: c, At: metav1.NewTime(now.UTC().Truncate(time.Second)), Rewritten: f.Applied.Rewritten != "",
		})
	}
	if f.Applied != nil || f.Restored {
		s.Applying = nil
	}
	if f.Err == nil && f.Doing == "" && !f.Suspended {
		s.Warnings = nil
		for _, w := range f.Warnings[:min(len(f.Warnings), mostWarnings)] {
			s.Warnings = append(s.Warnings, cut(w, mostWarning))
		}
	}
	if e := fault.Of(f.Err, v1alpha1.ReasonApplyFailed); f.Err != nil && f.Tried != nil &&
		f.Tried.Revision != s.AppliedRevision && e.Kind == fault.Stalled {
		s.History = refuse(s.History, *f.Tried, v1alpha1.Refusal{
			Reason:  cmp.Or(e.Reason, v1alpha1.ReasonApplyFailed),
			Message: firstProblem(e.Error()),
		}, now)
	}
	s.Conditions = replace(s.Conditions, append(sourceConditions(s, f), verifiedCondition(s, f)...), f.Generation, now)
	return s
}

// refuse adds a refused commit to the history, or updates its reason.
func refuse(history []v1alpha1.HistoryEntry, c v1alpha1.CommitInfo, why v1alpha1.Refusal,
	now time.Time,
) []v1alpha1.HistoryEntry {
	c.Subject = cut(c.Subject, mostSubject)
	if len(history) == 0 || history[0].Revision != c.Revision {
		first := v1alpha1.HistoryEntry{At: metav1.NewTime(now.UTC().Truncate(time.Second))}
		history = append([]v1alpha1.HistoryEntry{first}, history...)
	}
	history[0] = v1alpha1.HistoryEntry{CommitInfo: c, At: history[0].At, Refused: &why}
	return forget(history)
}

// forget removes the oldest entries of a kind if there are too many.
func forget(history []v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	applied, refused := 0, 0
	return slices.DeleteFunc(history, func(e v1alpha1.HistoryEntry) bool {
		if e.Refused != nil {
			refused++
			return refused > mostRefused
		}
		applied++
		return applied > v1alpha1.MaxHistory
	})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// firstProblem returns the first line of an error, and how many more problems it has. The line that names the commit is
// none.
func firstProblem(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := len(lines) - 1; last > 0 && strings.HasPrefix(lines[last], "in ") &&
		strings.HasSuffix(lines[last], "; nothing of it is applied") {
		lines = lines[:last]
	}
	more := ""
	if n := len(lines) - 1; n > 0 {
		more = fmt.Sprintf(" (+%d more)", n)
	}
	return cut(lines[0], mostOutcome-len(more)) + more
}

// Given is what came of a revision in each pool: its rendered config, why it could not be rendered, or that a user
// holds the pool at another revision.
type Given struct {
	Rendered, Failed map[string]string
	Held             []string
}

// Gave records what came of a revision in each pool. If the revision is not in the history any more, it does nothing.
func Gave(old v1alpha1.GitSourceStatus, revision string, given Given) v1alpha1.GitSourceStatus {
	s := *old.DeepCopy()
	for i := range s.History {
		h := &s.History[i]
		if h.Revision != revision {
			continue
		}
		for pool, rendered := range given.Rendered {
			if h.Pools == nil {
				h.Pools = map[string]string{}
			}
			h.Pools[pool] = rendered
		}
		h.NotRendered, h.Held = nil, given.Held
		for pool, why := range given.Failed {
			if h.NotRendered == nil {
				h.NotRendered = map[string]string{}
			}
			h.NotRendered[pool] = firstProblem(why)
		}
		break
	}
	return s
}

// remember does not add a commit again.
func remember(history []v1alpha1.HistoryEntry, e v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	if len(history) > 0 && history[0].Revision == e.Revision {
		if history[0].CommitInfo = e.CommitInfo; history[0].Refused != nil {
			history[0] = e
		}
		return forget(history)
	}
	return forget(append([]v1alpha1.HistoryEntry{e}, history...))
}

// sourceConditions are those of kstatus: Ready always; Reconciling and Stalled only if they are True.
func sourceConditions(s v1alpha1.GitSourceStatus, f SourceFacts) []metav1.Condition {
	ready := func(status metav1.ConditionStatus, reason, text string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ReadyCondition, Status: status, Reason: reason, Message: text}
	}
	also := func(kind, reason, text string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: text}
	}
	switch {
	case f.Suspended:
		return []metav1.Condition{suspended(s, f.SuspendUntil, ready)}
	case f.Err != nil:
		e := fault.Of(f.Err, v1alpha1.ReasonApplyFailed)
		e.Reason = cmp.Or(e.Reason, v1alpha1.ReasonApplyFailed) // The API server refuses a condition without a reason.
		text := message(e.Error())
		switch e.Kind {
		case fault.Stalled:
			return []metav1.Condition{
				ready(metav1.ConditionFalse, e.Reason, text),
				also(v1alpha1.StalledCondition, e.Reason, text),
			}
		case fault.Wait:
			return []metav1.Condition{
				ready(metav1.ConditionUnknown, e.Reason, text),
				also(v1alpha1.ReconcilingCondition, e.Reason, text),
			}
		default:
			return []metav1.Condition{ready(metav1.ConditionFalse, e.Reason, text), also(v1alpha1.ReconcilingCondition,
				e.Reason, "the controller will try again")}
		}
	case f.Doing != "":
		text := message(f.Doing)
		return []metav1.Condition{
			ready(metav1.ConditionUnknown, v1alpha1.ReasonProgressing, text),
			also(v1alpha1.ReconcilingCondition, v1alpha1.ReasonProgressing, text),
		}
	}
	texts := append([]string{"applied revision " + s.AppliedRevision}, f.Warnings...)
	return []metav1.Condition{ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded, list(texts, "; ", mostMessage))}
}

// verifiedCondition is SourceVerified about the last commit that was read; none if the spec requires no signature, or
// if no commit was read yet. After an attempt that read none, it stays.
func verifiedCondition(s v1alpha1.GitSourceStatus, f SourceFacts) []metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.SourceVerifiedCondition, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonVerified,
	}
	applied := s.AppliedCommit
	switch {
	case !f.Verify:
		return nil
	case f.Err != nil && fault.Of(f.Err, "").Reason == v1alpha1.ReasonSignature:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonSignature, message(f.Err.Error())
	case f.Tried != nil && f.Tried.VerifiedBy != "":
		c.Message = signedBy(f.Tried)
	case !f.Suspended && f.Err == nil && applied != nil && applied.VerifiedBy != "" &&
		s.ObservedRevision == applied.Revision:
		c.Message = signedBy(applied)
	default:
		before := meta.FindStatusCondition(s.Conditions, c.Type)
		if before == nil {
			return nil
		}
		c = *before
	}
	return []metav1.Condition{c}
}

func signedBy(c *v1alpha1.CommitInfo) string {
	return message("revision " + c.Revision + " is signed by " + c.VerifiedBy)
}

// suspended is True if a revision is applied, because it stays applied.
func suspended(s v1alpha1.GitSourceStatus, until *metav1.Time, ready func(metav1.ConditionStatus, string,
	string) metav1.Condition,
) metav1.Condition {
	text := "suspended"
	if until != nil {
		text += " until " + until.UTC().Format(time.RFC3339)
	}
	if s.AppliedRevision == "" {
		return ready(metav1.ConditionFalse, v1alpha1.ReasonSuspended, text+" before any revision was applied")
	}
	return ready(metav1.ConditionTrue, v1alpha1.ReasonSuspended, text+"; revision "+s.AppliedRevision+" stays applied")
}

// ours: those that this package sets
var ours = []string{
	v1alpha1.ReadyCondition, v1alpha1.ReconcilingCondition, v1alpha1.StalledCondition,
	v1alpha1.SourceVerifiedCondition,
}

// replace keeps the conditions of other programs. A transition time changes only with the status.
func replace(old, want []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(old)+len(want))
	for _, c := range want {
		c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now)
		for _, was := range old {
			if was.Type == c.Type && was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
		}
		out = append(out, c)
	}
	for _, was := range old {
		set := slices.ContainsFunc(want, func(c metav1.Condition) bool { return c.Type == was.Type })
		if !set && !slices.Contains(ours, was.Type) {
			out = append(out, was)
		}
	}
	return out
}

// NotificationFacts are the input for a Notification's status, besides the old status.
type NotificationFacts struct {
	// of the Notification that was read
	Generation int64
	// the states that the receiver got
	Sent []v1alpha1.SentState
	// The spec suspends the Notification.
	Suspended bool
	// of the present quiet hours; zero outside of them
	Until time.Time
	// why the receiver does not have the present state, without secrets; empty if it has
	Reason, Problem string
	// what the token may not do, such as writing comments; empty for no warning
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
