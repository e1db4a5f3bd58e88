package poolstate

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// How many runes of a daemon's reason a text quotes: in most texts, and in a text about a failure that ended a rollout.
const (
	MaxReason        = 240
	MaxVerdictReason = 500
)

// Wording has the settings for texts that describe nodes.
type Wording struct {
	Now time.Time
	// what nodes are assigned
	Target v1alpha1.ConfigVersion
	// Texts contain points in time instead of durations, so that they stay the same while nothing changes.
	Stable bool
	// quoted runes of a daemon's reason
	Most int
	// without why a node failed, because another message has it
	Bare bool
	// without the target of a node that failed it, because the text around has it
	OfTarget bool
}

// State returns a text about a node that is out of service or was assigned the target, such as "draining for 6m".
func (w Wording) State(n *Node) string {
	switch {
	case n.StoppedReporting():
		return w.Health(n)
	case n.Step.Draining:
		return w.Draining(n)
	case n.Degraded():
		return w.failure(n)
	case n.Step.Rebooting:
		return w.rebooting(n)
	case n.Step.Uncordoning:
		return "being uncordoned"
	case n.Cordon.ByAdministrator():
		return "cordoned, not by Bunsen"
	case n.Health.Trouble != "":
		return w.Health(n)
	}
	return w.progress(n)
}

// maxReboot is how long a reboot may take before a text says that the node has not returned.
const maxReboot = 10 * time.Minute

// rebooting names the desired config only if it can be the reason for the reboot. One that was assigned during the
// reboot, for example by a revert, has not reached the node yet.
func (w Wording) rebooting(n *Node) string {
	if n.Health.Trouble != "" && !n.Health.Since.IsZero() && w.Now.Sub(n.Health.Since) > maxReboot {
		return "has not returned from its reboot: " + w.Health(n)
	}
	text := "rebooting into " + n.Config.Desired.String()
	if n.Config.Current == n.Config.Desired {
		text = "rebooting for an earlier config"
	}
	if n.Health.Trouble != "" {
		text += ", " + w.Health(n)
	}
	return text
}

// Health returns a text that says what is wrong with a node, and since when.
func (w Wording) Health(n *Node) string { return n.Health.Text(w.since(n.Health.Since)) }

func (w Wording) failure(n *Node) string {
	desired, why := n.Config.Desired, Quote(n.Problem(), w.Most)
	if w.Bare {
		why = ""
	}
	switch {
	case n.Failing() && desired == w.Target && n.FailedOther(desired):
		return "assigned " + desired.String() + "; its last failure is about the config before" + why
	case n.Failing() && desired == w.Target && w.OfTarget:
		return "failed" + why
	case n.Failing():
		return "failed " + desired.String() + why
	}
	return "degraded" + why
}

// progress is for a Ready node that is not degraded.
func (w Wording) progress(n *Node) string {
	c := n.Config
	switch {
	case n.Gate != "" && n.UpdatedTo(w.Target):
		return "updated, and held by a gate: " + n.Gate
	case n.State == "":
		return "no machine-config-daemon has reported"
	case n.LacksFiles():
		return "waits for content of " + n.Fetched.Config + Quote(n.Fetched.Problem, w.Most)
	case n.State == v1alpha1.StateWorking:
		return "applying " + c.Desired.String()
	case c.Current != c.Desired:
		return "assigned " + c.Desired.String() + ", not started yet"
	case n.Cordon.Unschedulable:
		return "cordoned for " + n.Cordon.For
	}
	return "at work on " + c.Desired.String()
}

// Draining says how long a node has been draining, and why the drain waits.
func (w Wording) Draining(n *Node) string {
	text := "draining" + w.since(n.Step.DrainStarted) + n.PostponedText()
	if n.Step.DrainStatus != "" {
		text += ": " + n.Step.DrainStatus
	}
	return text
}

// since says how long ago a time was, in whole minutes, or with w.Stable the time itself; empty for the zero time.
func (w Wording) since(t time.Time) string {
	if w.Stable && !t.IsZero() {
		return " since " + FormatTime(t)
	}
	if t.IsZero() || w.Now.Before(t) {
		return ""
	}
	switch age := w.Now.Sub(t); {
	case age < time.Minute:
		return " for less than 1m"
	case age < time.Hour:
		return fmt.Sprintf(" for %dm", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf(" for %dh%dm", int(age.Hours()), int(age.Minutes())%60)
	default:
		return fmt.Sprintf(" for %dd", int(age.Hours())/24)
	}
}

// Filter returns the nodes for which the function is returns true.
func Filter(nodes []*Member, is func(*Member) bool) []*Member {
	var out []*Member
	for _, m := range nodes {
		if is(m) {
			out = append(out, m)
		}
	}
	return out
}

// Describe returns a text that names the first of the given nodes, with a text about each, and counts the rest.
func Describe(nodes []*Member, text func(*Node) string) string {
	var texts []string
	for _, m := range nodes[:min(len(nodes), MaxNamed)] {
		texts = append(texts, m.Name+" "+text(m.Node))
	}
	return JoinFirst(texts, len(nodes))
}

// LabelText says what has to happen before a node that booted for another pool gets its labels.
func (m *Member) LabelText() string {
	if !m.Checked {
		return "it says that it booted with " + m.Booted + "; the controller first reads for which pool the server " +
			"admitted it"
	}
	return "the server admitted it for pool " + m.Attested + ", and it is labelled for that pool first"
}

// Ready reports whether the kubelet is healthy and the node accepts pods.
func (n *Node) Ready() bool { return n.Health.Trouble == "" && !n.Cordon.Unschedulable }

// Done reports whether the node runs its desired config, according to its daemon.
func (n *Node) Done() bool {
	c := n.Config
	return !c.Current.IsZero() && c.Current == c.Desired && n.State == v1alpha1.StateDone
}

// layered: the node has an image besides its config.
func (c Configs) layered() bool { return c.DesiredImage != "" && c.CurrentImage == c.DesiredImage }

// StrayImage reports whether the node names an image without having it besides its config. It has no effect on a
// decision, and is removed.
func (c Configs) StrayImage() bool { return c.CurrentImage != c.DesiredImage }

// Degraded reports whether the daemon reports a failure.
func (n *Node) Degraded() bool {
	return n.State == v1alpha1.StateDegraded || n.State == v1alpha1.StateUnreconcilable
}

// StoppedReporting reports whether the kubelet stopped reporting for another reason than a reboot or a failure.
func (n *Node) StoppedReporting() bool {
	return n.Health.Silence != "" && !n.Step.Rebooting && !n.Degraded()
}

// Failing reports whether the daemon failed to bring the node to its desired config.
func (n *Node) Failing() bool { return n.Degraded() && n.Config.Current != n.Config.Desired }

// Blank reports whether the daemon is healthy and the node was never assigned a config, for example because it did not
// boot from the Bunsen server. Such a node runs pods and waits for its first config.
func (n *Node) Blank() bool {
	return n.Config.Current.IsZero() && n.Config.Desired.IsZero() && n.State == v1alpha1.StateDone
}

// Unavailable reports whether the node counts as out of service. A failing node that still runs pods is in service, and
// so is a blank one. One whose daemon has never reported is not, because its state is unknown.
func (n *Node) Unavailable() bool { return !n.Ready() || (!n.Done() && !n.Failing() && !n.Blank()) }

// CountsForQuorum reports whether a quorum may need the node: not one that is not Ready, unless its daemon reports that
// its member of etcd runs.
func (n *Node) CountsForQuorum() bool { return !n.Health.NotReady || n.LiveMember }

// UpdatedTo reports whether the node runs the target, and has no image besides its config.
func (n *Node) UpdatedTo(target v1alpha1.ConfigVersion) bool {
	return n.Done() && n.Config.Desired == target && !n.Config.layered()
}

// assigned reports whether the target is the desired config. A layered node needs an assignment that removes its image.
func (n *Node) assigned(target v1alpha1.ConfigVersion) bool {
	return n.Config.Desired == target && !n.Config.layered()
}

// FailedOther reports whether the daemon recorded the failure of another config than the target. A node that was
// assigned a config still reports the failure of the earlier one until its daemon starts the update. A failure without
// a record counts for the desired config.
func (n *Node) FailedOther(target v1alpha1.ConfigVersion) bool {
	return n.Failure.Config != "" && n.Failure.Version() != target
}

// Problem returns the problem that the daemon reports: the problem in its recorded failure, or else the whole reason.
func (n *Node) Problem() string { return cmp.Or(n.Failure.Problem, n.Reason) }

// LacksFiles reports whether a node was assigned a config and waits for content of it, which it cannot download now.
func (n *Node) LacksFiles() bool {
	return n.State == v1alpha1.StateWorking && n.Config.Current != n.Config.Desired && n.Fetched.Problem != ""
}

// LacksSecrets reports whether the node has not begun to update to its desired config and cannot: the server has
// published a newer revision of its secrets. It waits for its next assignment.
func (n *Node) LacksSecrets(published map[string]string) bool {
	desired := n.Config.Desired
	revision := published[desired.Config]
	newer := desired.Secrets != "" && revision != "" && revision != desired.Secrets
	return newer && n.Config.Current != n.Config.Desired && !n.Step.Draining && !n.Step.Rebooting
}
