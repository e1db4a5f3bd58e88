package history

import (
	"cmp"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Timeline says when each node of a pool took the steps of the pool's last rollout.
type Timeline struct {
	// Config is empty if the pool had none. Reverted: its nodes returned to the config before.
	Config   string
	Reverted bool
	// Ended is nil while the rollout continues.
	Began time.Time
	Ended *time.Time
	// Nodes that took a step, the one with the last step first.
	Nodes []TimelineNode
	// Before is how many nodes run the config without a known step, Waiting how many have not begun.
	Before, Waiting int
}

// TimelineNode has the times of one node. A nil time is unknown, or the node did not take that step.
type TimelineNode struct {
	Name string
	// Began is the begin of the update, Drain of the drain, and Reboot when the node shut down.
	Began, Drain, Reboot *time.Time
	// Done is when the node ran the config, Failed a failure from which it has not recovered.
	Done, Failed *time.Time
}

func (n TimelineNode) last() time.Time {
	var last time.Time
	for _, at := range []*time.Time{n.Began, n.Drain, n.Reboot, n.Done, n.Failed} {
		if at != nil && at.After(last) {
			last = *at
		}
	}
	return last
}

// First returns the time of the node's first known step.
func (n TimelineNode) First() time.Time {
	var first time.Time
	for _, at := range []*time.Time{n.Began, n.Drain, n.Reboot, n.Done, n.Failed} {
		if at != nil && (first.IsZero() || at.Before(first)) {
			first = *at
		}
	}
	return first
}

// Took returns the time from the node's first known step to its last step. It returns 0 if the node is not done.
func (n TimelineNode) Took() time.Duration {
	if n.Began == nil || n.Done == nil {
		return 0
	}
	return n.Done.Sub(*n.Began)
}

// Events of a daemon that have the time of a step.
const (
	eventDrain   = "Drain"
	eventReboot  = "Reboot"
	eventDone    = "NodeDone"
	eventBack    = "WentBack"
	eventRefused = "ConfigRejected"
)

// NewTimeline returns the timeline of a pool. MachineConfigNodes have the times of the present step, and those of the
// end of an update. Events have those of earlier steps for as long as the API server stores them, by default an hour.
func NewTimeline(v *fleet.Pool, machines []mcfgv1.MachineConfigNode, events []corev1.Event) Timeline {
	record := v.Facts.Care.Record
	t := Timeline{
		Config: record.Target().String(), Began: record.Began.Time,
		Reverted: record.Verdict == v1alpha1.RolloutReverted,
	}
	if record.Config == "" || record.Target() != v.Facts.Target {
		return Timeline{}
	}
	switch {
	case record.Ended != nil:
		t.Ended = fleet.TimeOrNil(record.Ended.UTC())
	case t.Reverted && record.At != nil:
		t.Ended = fleet.TimeOrNil(record.At.UTC())
	}
	nodes := map[string]*TimelineNode{}
	for i := range v.Rows {
		nodes[v.Rows[i].Name] = &TimelineNode{Name: v.Rows[i].Name}
	}
	for i := range events {
		if n := nodes[events[i].InvolvedObject.Name]; n != nil && events[i].InvolvedObject.Kind == "Node" &&
			HostTimeline(&events[i]) == n.Name {
			t.addEvent(n, &events[i])
		}
	}
	conditions := map[string][]metav1.Condition{}
	for i := range machines {
		// A new object has the time of its creation in all conditions.
		if m := &machines[i]; m.CreationTimestamp.Time.Before(t.Began) {
			conditions[m.Name] = m.Status.Conditions
		}
	}
	for i := range v.Rows {
		r := &v.Rows[i]
		n := nodes[r.Name]
		own := v.Facts.Care.NodeConfigs.Own(v1alpha1.ParseConfigVersion(t.Config), r.Name)
		t.addConditions(n, r, own, conditions[r.Name])
		updated := r.Current == own
		n.settle(updated)
		switch {
		case !n.last().IsZero():
			t.Nodes = append(t.Nodes, *n)
		case updated:
			t.Before++
		default:
			t.Waiting++
		}
	}
	slices.SortStableFunc(t.Nodes, func(a, b TimelineNode) int {
		return cmp.Or(b.last().Compare(a.last()), fleet.CompareNames(a.Name, b.Name))
	})
	return t
}

// HostTimeline returns the node that wrote an event; empty for a controller. A node cannot name another one: the
// admission policy bunsen-node-events refuses it.
func HostTimeline(e *corev1.Event) string { return e.Source.Host }

// addEvent adds the time of an event during the rollout. The newest of a kind counts, because a node may try again.
func (t *Timeline) addEvent(n *TimelineNode, e *corev1.Event) {
	at := LastTime(e).UTC()
	if at.Before(t.Began) || t.Ended != nil && at.After(t.Ended.Add(time.Minute)) {
		return
	}
	into := map[string]**time.Time{
		eventDrain: &n.Drain, eventReboot: &n.Reboot, eventDone: &n.Done,
		eventBack: &n.Failed, eventRefused: &n.Failed,
	}[e.Reason]
	if into != nil && (*into == nil || at.After(**into)) {
		*into = &at
	}
}

// addConditions adds the times of the present step. The parameter own is the node's own config of the rollout.
func (t *Timeline) addConditions(n *TimelineNode, r *fleet.NodeRow, own v1alpha1.ConfigVersion,
	all []metav1.Condition,
) {
	at := func(kind mcfgv1.StateProgress, statuses ...metav1.ConditionStatus) *time.Time {
		for _, c := range all {
			if c.Type == string(kind) && slices.Contains(statuses, c.Status) &&
				!c.LastTransitionTime.Time.Before(t.Began) {
				return fleet.TimeOrNil(c.LastTransitionTime.UTC())
			}
		}
		return nil
	}
	if r.Current == own {
		n.Done = cmp.Or(at(mcfgv1.MachineConfigNodeUpdated, metav1.ConditionTrue), n.Done)
		return
	}
	n.Done = nil // The time belongs to the update to another config.
	if r.Desired != own {
		return
	}
	n.Began = at(mcfgv1.MachineConfigNodeUpdated, metav1.ConditionFalse)
	n.Drain = cmp.Or(n.Drain, at(mcfgv1.MachineConfigNodeUpdateDrained, metav1.ConditionTrue, metav1.ConditionUnknown))
	if r.Step == fleet.StepDraining {
		n.Drain = cmp.Or(r.Since, n.Drain) // The controller's annotation has the time of the present drain.
	}
	n.Reboot = cmp.Or(n.Reboot, at(mcfgv1.MachineConfigNodeUpdateRebooted, metav1.ConditionTrue,
		metav1.ConditionUnknown))
	n.Failed = cmp.Or(at(mcfgv1.MachineConfigNodeNodeDegraded, metav1.ConditionTrue), n.Failed)
	if n.Failed == nil && r.Step == fleet.StepFailed && r.Since != nil && !r.Since.Before(t.Began) {
		n.Failed = r.Since // The node was Degraded already, so that its condition is older.
	}
}

// settle sets the begin to the first known step before the end, and forgets a failure from which the node recovered.
func (n *TimelineNode) settle(done bool) {
	if done {
		n.Failed = nil
	}
	for _, at := range []*time.Time{n.Drain, n.Reboot, n.Failed} {
		if n.Began == nil || at != nil && at.Before(*n.Began) {
			n.Began = cmp.Or(at, n.Began)
		}
	}
}

// Update is one update of a node, as the events about the node say.
type Update struct {
	// The times of the first and the last event; Ended is zero while the update is under way.
	Began, Ended time.Time
	// Text is the message of the event that ended the update, or of the newest one. It names the config.
	Text string
	// Failed: the node did not get the config.
	Failed bool
	// Steps are in their order.
	Steps []TimelineStep
}

// TimelineStep is one step of an update.
type TimelineStep struct {
	Name string
	At   time.Time
}

// Took returns the time from the first event of an update to its end; 0 while it is under way.
func (u Update) Took() time.Duration {
	if u.Ended.IsZero() {
		return 0
	}
	return u.Ended.Sub(u.Began)
}

// A word for each reason of an event about a step, from the controller and from the daemon; and the reasons that end an
// update, with whether it failed.
var (
	stepNames = map[string]string{
		"Cordon": "cordoned", eventDrain: "drain requested", "FailedToDrain": "drain failed",
		"OSUpdateStaged": "OS image staged",
		"SkipReboot":     "no reboot needed", eventReboot: "reboot", "Uncordon": "uncordoned",
		eventDone: "done", eventBack: "went back", eventRefused: "refused",
	}
	ends = map[string]bool{eventDone: false, eventBack: true, eventRefused: true}
)

// Updates returns the updates of a node from the events about it, the newest first. Events of other nodes do not count.
// An update ends where the next one begins. The API server stores events for an hour by default, so there may have been
// earlier updates.
func Updates(node string, events []corev1.Event) []Update {
	type moment struct {
		at     time.Time
		reason string
		text   string
	}
	var all []moment
	for i := range events {
		e := &events[i]
		if stepNames[e.Reason] == "" || e.InvolvedObject.Kind != "Node" || HostTimeline(e) != "" &&
			HostTimeline(e) != node {
			continue
		}
		all = append(all, moment{LastTime(e), e.Reason, e.Message})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	var out []Update
	var open *Update
	for _, m := range all {
		if open == nil {
			open = &Update{Began: m.at}
		}
		open.Steps, open.Text = append(open.Steps, TimelineStep{stepNames[m.reason], m.at}), m.text
		failed, isEnd := ends[m.reason]
		if !isEnd {
			continue
		}
		open.Ended, open.Failed = m.at, failed
		out, open = append(out, *open), nil
	}
	if open != nil {
		out = append(out, *open)
	}
	slices.Reverse(out)
	return out
}

// LastTime returns when an event happened last.
func LastTime(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time)
}
