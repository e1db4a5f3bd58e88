package history

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Update is one update of a node, as the events about the node say.
type Update struct {
	// Began is the time of the first event, and Ended that of the last. Ended is zero while the update is under way.
	Began, Ended time.Time
	// Text is the message of the event that ended the update, or of the newest event of an update that is under way. It
	// names the config.
	Text string
	// Failed is true if the node did not get the config.
	Failed bool
	// Steps are the steps of the update, in their order.
	Steps []TimelineStep
}

// TimelineStep is one step of an update.
type TimelineStep struct {
	// Name is a word for the step, such as "drain".
	Name string
	// At is when the step began.
	At time.Time
}

// Took returns the time from the first event of an update to its end; 0 while it is under way.
func (u Update) Took() time.Duration {
	if u.Ended.IsZero() {
		return 0
	}
	return u.Ended.Sub(u.Began)
}

// stepNames has a word for each reason of an event about a step, from the controller and from the daemon. Ends are the
// reasons that end an update, with whether it failed.
var (
	stepNames = map[string]string{
		"Cordon": "cordoned", eventDrain: "drain", "FailedToDrain": "drain failed", "OSUpdateStaged": "OS image staged",
		"SkipReboot": "no reboot needed", eventReboot: "reboot", "Uncordon": "uncordoned",
		eventDone: "done", eventBack: "went back", eventRefused: "refused",
	}
	ends = map[string]bool{eventDone: false, eventBack: true, eventRefused: true}
)

// Updates returns the updates of a node from the events about it, the newest first. Events of other nodes do not count.
// A node updates to one config after the other, so an update ends where the next one begins. The API server stores
// events for an hour by default, so there may have been earlier updates.
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
