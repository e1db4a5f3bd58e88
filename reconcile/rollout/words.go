package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// describe finds the words for a wave.
type describe struct {
	facts  Facts
	survey survey
	picked picked
	now    time.Time
}

// why says why a node that is not told anything does not run the target. full is the text for a full budget.
func (d describe) why(n *Node, full string) (Cause, string) {
	switch {
	case n.told(d.facts.Target) && n.Failing():
		return CauseFailed, d.doing(n)
	case n.told(d.facts.Target):
		return CauseUpdating, d.doing(n)
	case n.Config.Current != n.Config.Desired && !n.Failing():
		return CauseUpdating, d.doing(n)
	case d.facts.Paused:
		return CausePaused, "pool " + d.facts.Pool + " is paused"
	case n.Cordon.ByAdministrator():
		return CauseCordoned, "cordoned by an administrator; uncordon it to let it update"
	case n.recoverable(d.facts.Target):
		return CauseBudget, full
	case n.Cordon.Unschedulable:
		return CauseCordoned, d.doing(n)
	case n.Health.Trouble != "":
		return CauseNotReady, n.Health.Trouble + d.since(n.Health.Since)
	case n.Name == d.facts.Host && d.picked.fresh > 0:
		return CauseHost, "the controller runs on it, so it is told last"
	}
	return CauseBudget, full
}

// budget says who takes the places of the budget, this wave's nodes included.
func (d describe) budget() string {
	if d.facts.MaxUnavailable < 1 {
		return fmt.Sprintf("maxUnavailable of pool %s is %d, so no node may be taken out of service", d.facts.Pool, d.facts.MaxUnavailable)
	}
	var names []string
	for _, n := range d.survey.occupants {
		text := n.Name + " " + d.doing(n)
		if slices.Contains(d.picked.nodes, n) {
			text = n.Name + " told " + d.facts.Target + " now"
		}
		if n.Unavailable() && n.Failing() && n.Config.Desired == d.facts.Target {
			text += ", which takes 2 places"
		}
		names = append(names, text)
	}
	total := d.survey.occupied
	for _, n := range d.picked.nodes {
		if n.recoverable(d.facts.Target) {
			continue
		}
		if !n.Unavailable() {
			total++
		}
		if len(names) < named {
			names = append(names, n.Name+" told "+d.facts.Target+" now")
		}
	}
	text := fmt.Sprintf("pool budget %d/%d used", d.survey.used+d.picked.fresh, d.facts.MaxUnavailable)
	if len(names) == 0 {
		return text
	}
	if more := total - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return text + " (" + strings.Join(names, "; ") + ")"
}

// doing says what a node is at that is out of service or was told something, such as "draining since 6m".
func (d describe) doing(n *Node) string {
	c := n.Config
	switch {
	case n.Failing():
		return "failed " + c.Desired + quoted(n.Reason)
	case n.Degraded():
		return "degraded" + quoted(n.Reason)
	case n.Step.Draining:
		text := "draining" + d.since(n.Step.DrainStarted)
		if n.Step.DrainStatus != "" {
			text += ": " + n.Step.DrainStatus
		}
		return text
	case n.Step.Rebooting:
		if n.Health.Trouble != "" {
			return "rebooting into " + c.Desired + ", " + n.Health.Trouble + d.since(n.Health.Since)
		}
		return "rebooting into " + c.Desired
	case n.Step.Uncordoning:
		return "being uncordoned"
	case n.Cordon.ByAdministrator():
		return "cordoned by an administrator"
	case n.Health.Trouble != "":
		return n.Health.Trouble + d.since(n.Health.Since)
	case n.State == "":
		return "without a report from a machine-config-daemon"
	case n.State == v1alpha1.StateWorking:
		return "applying " + c.Desired
	case c.Current != c.Desired:
		return "told " + c.Desired + ", not begun yet"
	case c.CurrentImage != c.DesiredImage:
		return "changing its image"
	case n.Cordon.Unschedulable:
		return "cordoned for " + n.Cordon.For
	}
	return "at work on " + c.Desired
}

// since says how long ago, in whole minutes so that the text is stable; nothing if it is not known.
func (d describe) since(t time.Time) string {
	if t.IsZero() || d.now.Before(t) {
		return ""
	}
	switch age := d.now.Sub(t); {
	case age < time.Minute:
		return " since less than 1m"
	case age < time.Hour:
		return fmt.Sprintf(" since %dm", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf(" since %dh%dm", int(age.Hours()), int(age.Minutes())%60)
	default:
		return fmt.Sprintf(" since %dd", int(age.Hours())/24)
	}
}

// quoted appends the first line of a daemon's reason, cut where it would flood the text around it.
func quoted(reason string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(reason), "\n")
	if line == "" {
		return ""
	}
	if runes := []rune(line); len(runes) > 160 {
		line = string(runes[:160]) + "…"
	}
	return ": " + line
}
