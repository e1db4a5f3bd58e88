package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// text is the outcome in words.
func (o HistoryOutcome) text() string {
	why := ""
	if o.Why != "" {
		why = ": " + shorten(o.Why)
	}
	switch o.Result {
	case HistoryResult(v1alpha1.RolloutCompleted):
		if o.RanBefore {
			return "no rollout: " + count(o.Nodes, "node") + " ran it already"
		}
		text := "rolled out to " + count(o.Nodes-o.UpdatedBefore, "node")
		if o.Began != nil && o.Ended != nil {
			text += " in " + took(o.Ended.Sub(*o.Began))
		}
		if o.UpdatedBefore > 0 {
			text += "; " + count(o.UpdatedBefore, "node") + " ran it already"
		}
		return text
	case HistoryResult(v1alpha1.RolloutWasHalted):
		return "halted at " + o.at() + why
	case HistoryResult(v1alpha1.RolloutWasReverted):
		return "reverted to " + shorten(o.Back) + " at " + o.at() + why
	case HistoryResult(v1alpha1.RolloutSuperseded):
		if o.Nodes == 0 {
			return "superseded by " + shortRevision(o.By) + "; the pool had no nodes"
		}
		return "superseded by " + shortRevision(o.By) + " at " + o.at() + o.failures()
	case ResultNoNodes:
		return "the pool has no nodes; the next one gets it"
	case ResultWaiting:
		return "waiting at " + o.at() + ": " + shorten(strings.TrimPrefix(o.Why, "waiting for "))
	case ResultPaused:
		if o.Why != "" {
			return "paused at " + o.at() + " by " + o.Why
		}
		return "paused at " + o.at()
	}
	return "rolling out: " + o.at()
}

// failures says how many nodes failed the config; empty for none.
func (o HistoryOutcome) failures() string {
	if o.Failed == 0 {
		return ""
	}
	return "; " + count(o.Failed, "node") + " failed it"
}

// at says how far a rollout came.
func (o HistoryOutcome) at() string {
	return fmt.Sprintf("%d of %d nodes", o.Updated, o.Nodes)
}

// took is a duration for people, in hours from a day on. Records keep whole seconds.
func took(d time.Duration) string {
	if d < time.Second {
		return "less than 1s"
	}
	text := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}
