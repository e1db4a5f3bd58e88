package kstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	upstream "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kinds that the rules know.
const (
	source  = "GitSource"
	pool    = "MachineConfigPool"
	cluster = "BunsenStatus"
)

// longestUnknown is how long Ready may be Unknown, which means that an attempt is under way.
const longestUnknown = 2 * time.Minute

// state is the part of an object's status to which the rules apply.
type state struct {
	kind, name string
	generation int64
	observed   int64
	conditions []metav1.Condition
}

// stateOf reads an object. An object without conditions has a nil list of them.
func stateOf(o *unstructured.Unstructured) (state, error) {
	s := state{kind: o.GetKind(), name: o.GetName(), generation: o.GetGeneration()}
	var status struct {
		Status struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &status); err != nil {
		return s, fmt.Errorf("reading the status of %s %q: %w", s.kind, s.name, err)
	}
	s.observed, s.conditions = status.Status.ObservedGeneration, status.Status.Conditions
	return s, nil
}

func (s state) find(kind string) (metav1.Condition, bool) {
	at := slices.IndexFunc(s.conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if at < 0 {
		return metav1.Condition{}, false
	}
	return s.conditions[at], true
}

// is reports whether a condition exists and is True.
func (s state) is(kind string) bool {
	c, ok := s.find(kind)
	return ok && c.Status == metav1.ConditionTrue
}

// Check returns the rules that a version of an object breaks, alone and as the successor of the version before. before
// is nil for the first version. An object of another kind, or without a status, breaks none.
func Check(before, now *unstructured.Unstructured) ([]string, error) {
	s, err := stateOf(now)
	if err != nil || len(s.conditions) == 0 {
		return nil, err
	}
	broken := s.each()
	switch s.kind {
	case source:
		more, err := s.ready(now)
		if err != nil {
			return nil, err
		}
		broken = append(broken, more...)
	case pool:
		broken = append(broken, s.poolRules()...)
	}
	if before != nil && before.GetUID() == now.GetUID() && writtenByUser(before) == writtenByUser(now) {
		old, err := stateOf(before)
		if err != nil {
			return nil, err
		}
		broken = append(broken, s.follows(old)...)
	}
	for i := range broken {
		broken[i] = fmt.Sprintf("%s %q: %s", s.kind, s.name, broken[i])
	}
	return broken, nil
}

// writtenByUser returns when users wrote the status with kubectl, which may restore an older one from a backup.
func writtenByUser(o *unstructured.Unstructured) (times string) {
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "status" && strings.HasPrefix(m.Manager, "kubectl") {
			times += m.Manager + " " + m.Time.String() + "\n"
		}
	}
	return times
}

// each returns the broken rules about single conditions and generations.
func (s state) each() (broken []string) {
	if s.observed > s.generation {
		broken = append(broken, fmt.Sprintf("status.observedGeneration %d is ahead of generation %d", s.observed,
			s.generation))
	}
	seen := map[string]bool{}
	for _, c := range s.conditions {
		if seen[c.Type] {
			broken = append(broken, "there are two conditions "+c.Type)
		}
		seen[c.Type] = true
		if c.LastTransitionTime.IsZero() {
			broken = append(broken, c.Type+" has no lastTransitionTime")
		}
		if s.kind == pool {
			// the kind is OpenShift's: its conditions have no generation, and may have neither reason nor message
			continue
		}
		if c.Reason == "" || c.Message == "" {
			broken = append(broken, fmt.Sprintf("%s=%s has the reason %q and the message %q", c.Type, c.Status,
				c.Reason, c.Message))
		}
		if c.ObservedGeneration != s.observed {
			broken = append(broken, fmt.Sprintf("%s is about generation %d, status.observedGeneration is %d", c.Type,
				c.ObservedGeneration, s.observed))
		}
	}
	return broken
}

// ready returns the rules about Ready, Reconciling and Stalled that a GitSource breaks, also as kstatus computes them.
func (s state) ready(o *unstructured.Unstructured) (broken []string, err error) {
	ready, there := s.find("Ready")
	if !there {
		return []string{"it has conditions, but no condition Ready"}, nil
	}
	reconciling, stalled := s.is("Reconciling"), s.is("Stalled")
	suspended := ready.Reason == "Suspended" // the spec says so: nothing is under way, and nothing failed
	switch {
	case reconciling && stalled:
		broken = append(broken, "Reconciling and Stalled are both True")
	case stalled && ready.Status != metav1.ConditionFalse:
		broken = append(broken, "Stalled is True, and Ready is "+string(ready.Status))
	case reconciling && ready.Status == metav1.ConditionTrue:
		broken = append(broken, "Reconciling and Ready are both True")
	case ready.Status == metav1.ConditionUnknown && !reconciling:
		broken = append(broken, "Ready is Unknown, although nothing reconciles")
	case ready.Status == metav1.ConditionFalse && !reconciling && !stalled && !suspended:
		broken = append(broken, "Ready is False, and neither Reconciling nor Stalled says what happens next")
	}
	if s.observed != s.generation {
		return broken, nil // kstatus waits for the controller, whatever the conditions are
	}
	result, err := upstream.Compute(o)
	if err != nil {
		return nil, fmt.Errorf("computing the kstatus of %s %q: %w", s.kind, s.name, err)
	}
	want := upstream.InProgressStatus
	switch {
	case stalled:
		want = upstream.FailedStatus
	case ready.Status == metav1.ConditionTrue:
		want = upstream.CurrentStatus
	}
	if result.Status != want && result.Status != upstream.TerminatingStatus {
		broken = append(broken, fmt.Sprintf("kstatus is %s (%s), the conditions say %s", result.Status, result.Message,
			want))
	}
	return broken, nil
}

// poolRules returns the rules about the conditions of a pool that it breaks.
func (s state) poolRules() (broken []string) {
	if s.is("Updated") && s.is("Updating") {
		broken = append(broken, "Updated and Updating are both True")
	}
	if s.is("Reconciling") && s.is("Stalled") {
		broken = append(broken, "Reconciling and Stalled are both True")
	}
	for _, cause := range []string{"NodeDegraded", "RenderDegraded"} {
		if _, summarized := s.find("Degraded"); summarized && s.is(cause) && !s.is("Degraded") {
			broken = append(broken, cause+" is True, and Degraded is not")
		}
	}
	return broken
}

// follows returns the rules about changes that are broken since the version before.
func (s state) follows(old state) (broken []string) {
	if s.observed < old.observed {
		broken = append(broken, fmt.Sprintf("status.observedGeneration went back from %d to %d", old.observed,
			s.observed))
	}
	for _, c := range s.conditions {
		was, there := old.find(c.Type)
		if !there {
			continue
		}
		switch moved := c.LastTransitionTime.Compare(was.LastTransitionTime.Time); {
		case moved < 0:
			broken = append(broken, fmt.Sprintf("lastTransitionTime of %s went back from %s to %s", c.Type,
				was.LastTransitionTime, c.LastTransitionTime))
		case moved > 0 && c.Status == was.Status:
			broken = append(broken, fmt.Sprintf("lastTransitionTime of %s changed, and its status is %s as before",
				c.Type, c.Status))
		}
	}
	return broken
}

// Lasting returns the rule that an object breaks by staying as it is until now.
func Lasting(o *unstructured.Unstructured, now time.Time) ([]string, error) {
	s, err := stateOf(o)
	if err != nil {
		return nil, err
	}
	if ready, _ := s.find("Ready"); ready.Status == metav1.ConditionUnknown &&
		now.Sub(ready.LastTransitionTime.Time) > longestUnknown {
		return []string{fmt.Sprintf("%s %q: Ready has been Unknown since %s: %s", s.kind, s.name,
			ready.LastTransitionTime, ready.Message)}, nil
	}
	return nil, nil
}
