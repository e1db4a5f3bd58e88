package rollout

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// named is how many nodes are named in a message.
const named = 3

// How much of a daemon's reason is said of a node, in runes: in passing, and where it ended a rollout.
const (
	mostOfReason = 240
	mostOfWhy    = 500
)

// words finds the words for a decision. Stable ones name points in time instead of durations, so that a text stays the same
// while nothing changes.
type words struct {
	d      *decision
	stable bool
	// most runes of a daemon's reason are said.
	most int
}

func (d *decision) words(stable bool) words { return words{d, stable, mostOfReason} }

// paused says by whom, and why.
func (w words) paused() string {
	text := "pool " + w.d.f.Pool + " is paused"
	if who := strings.Join(strings.Fields(w.d.f.PausedBy), " "); who != "" {
		text += " by " + middle(who, w.most)
	}
	return text
}

// retried says whom all others wait for.
func (w words) retried(names []string, until time.Time) string {
	texts := slices.Clone(names[:min(len(names), named)])
	if more := len(names) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("retrying %s on %s first; the other nodes wait until it succeeds, at most until %s",
		w.d.target, strings.Join(texts, ", "), within(until, patience))
}

// budget says who takes the places of the budget, this wave's nodes included.
func (w words) budget() string {
	d := w.d
	if d.budget.max < 1 {
		return fmt.Sprintf("maxUnavailable of pool %s is %d, so no node may be taken out of service", d.f.Pool, d.budget.max)
	}
	var names []string
	occupants := d.m.in(out)
	for _, s := range occupants[:min(len(occupants), named)] {
		text := w.doing(&s.Node)
		if d.picked.has[s] {
			text = "told " + d.target + " now"
		}
		if s.kind.places() > 1 && !d.forgiven(s) {
			text += "; counts twice"
		}
		names = append(names, s.Name+" ("+text+")")
	}
	total := len(occupants)
	for _, s := range d.picked.seats {
		if s.kind&out != 0 || s.kind&fresh == 0 {
			continue
		}
		total++
		if len(names) < named {
			names = append(names, s.Name+" (told "+d.target+" now)")
		}
	}
	if more := total - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if held := d.budget.young.held; held > 0 {
		names = append(names, fmt.Sprintf("%d updated and not Ready for long enough", held))
	}
	text := fmt.Sprintf("pool %s allows %s", d.f.Pool, unavailableNodes(d.budget.max))
	if len(names) == 0 {
		return text + ", and that many are"
	}
	return "waiting for " + strings.Join(names, ", ") + "; " + text
}

// together says who takes the places of a shared budget.
func (w words) together(t Shared) string {
	own := w.d.budget.used + w.d.picked.fresh
	text := fmt.Sprintf("RolloutPolicy %s allows %s in all its pools; in use: %d (%s %d", t.Policy, unavailableNodes(t.Max), t.Used+own, w.d.f.Pool, own)
	if t.Who != "" {
		text += ", " + t.Who
	}
	return text + ")"
}

// unavailableNodes counts nodes that may be unavailable at a time. A node that failed takes a place as well.
func unavailableNodes(n int) string {
	if n == 1 {
		return "1 unavailable or failed node"
	}
	return fmt.Sprintf("%d unavailable or failed nodes", n)
}

// zone says that a zone's limit is reached.
func (w words) zone(s *seat) string {
	name := s.Zone
	if name == "" {
		name = "(none)"
	}
	used := s.zone.places + w.d.budget.young.zones[s.zone] + w.d.picked.zones[s.zone]
	return fmt.Sprintf("zone %s: %d places used, maxUnavailablePerZone is %s of %d nodes", name, used, w.d.budget.zone, s.zone.nodes)
}

// doing says what a node is at that is out of service or was told something, such as "draining for 6m".
func (w words) doing(n *Node) string {
	c := n.Config
	switch {
	case n.Health.Silence != "" && !n.Step.Rebooting && !n.Degraded():
		return n.Health.Text(w.since(n.Health.Since))
	case n.Step.Draining:
		return w.draining(n)
	case n.Failing() && c.Desired == w.d.target && n.blames(c.Desired):
		return "told " + c.Desired + ", and complaining still of the config before" + quoted(n.Reason, w.most)
	case n.Failing():
		return "failed " + c.Desired + quoted(n.Reason, w.most)
	case n.Degraded():
		return "degraded" + quoted(n.Reason, w.most)
	case n.Step.Rebooting:
		if n.Health.Trouble != "" {
			return "rebooting into " + c.Desired + ", " + n.Health.Text(w.since(n.Health.Since))
		}
		return "rebooting into " + c.Desired
	case n.Step.Uncordoning:
		return "being uncordoned"
	case n.Cordon.ByAdministrator():
		return "cordoned, not by Bunsen"
	case n.Health.Trouble != "":
		return n.Health.Text(w.since(n.Health.Since))
	case n.Gate != "" && n.UpdatedTo(w.d.target):
		return "updated, and held by a gate: " + n.Gate
	case n.State == "":
		return "no machine-config-daemon has reported"
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

// draining says since when, and what for.
func (w words) draining(n *Node) string {
	text := "draining" + w.since(n.Step.DrainStarted) + n.PostponedText()
	if n.Step.DrainStatus != "" {
		text += ": " + n.Step.DrainStatus
	}
	return text
}

// since says for how long, in whole minutes, or since when where the text has to be stable; nothing if it is not known.
func (w words) since(t time.Time) string {
	if w.stable && !t.IsZero() {
		return " since " + at(t)
	}
	if t.IsZero() || w.d.now.Before(t) {
		return ""
	}
	switch age := w.d.now.Sub(t); {
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

// at is a point in time for people.
func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// within is a point in time at the end of a span: of a short one with its seconds.
func within(t time.Time, span time.Duration) string {
	if span < time.Hour {
		return t.UTC().Format("2006-01-02 15:04:05 MST")
	}
	return at(t)
}

// short is a duration without the zeros that Go ends it with.
func short(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "m0s")
	if text != d.String() {
		text += "m"
	}
	return strings.Replace(text, "h0m", "h", 1)
}

// quoted appends the first line of a daemon's reason, without what the text around it says, and cut where it would flood it.
func quoted(reason string, most int) string {
	line, _, _ := strings.Cut(Complaint(reason), "\n")
	if line == "" {
		return ""
	}
	return ": " + middle(line, most)
}

// Complaint is what a daemon's reason says of the machine: without the config and the commit that it begins with, and
// without the advice at the end of its first line. What is left names the path or the unit, and the cause.
func Complaint(reason string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(reason), "\n")
	line = line[len(preamble.FindString(line)):]
	line, _, _ = strings.Cut(line, advice)
	if more {
		line += "\n" + rest
	}
	return line
}

// preamble is how a daemon begins its reasons: with the config, and its commit where that is known.
var preamble = regexp.MustCompile(`^(?:updating to [^\s:]+` + commit + `: |the node refused [^\s:]+` + commit + `, and nothing was changed: |rendered-[^\s:]+` + commit + ` cannot be taken by a running node, and nothing of it was: )`)

const (
	// byCommit and byAPI are who asked for the config: a commit, or changes through the API and perhaps a commit.
	byCommit = `commit \S+?(?: ".*?")?(?: by [^)]*?)?(?: after [^)]*)?`
	byAPI    = `MachineConfig[^()"]*?(?:; (?:on )?` + byCommit + `(?:, with which the pool was not healthy)?)?`
	commit   = `(?: \((?:` + byCommit + `|` + byAPI + `)\))?`
	// advice is how a daemon ends the reason of a config that it rejected. What to do is said of the pool.
	advice = "; it is not tried again until another config is desired"
)

// middle takes what is too much for a text out of its middle: it begins with what was tried, and ends with the cause. It cuts
// between words, unless a word is very long.
func middle(text string, most int) string {
	const longWord = 40
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	tail := most / 3
	head, end := string(runes[:most-tail-3]), string(runes[len(runes)-tail:])
	if at := strings.LastIndexByte(head, ' '); at > 0 && runes[most-tail-3] != ' ' && len(head)-at < longWord {
		head = head[:at]
	}
	if at := strings.IndexByte(end, ' '); at >= 0 && runes[len(runes)-tail-1] != ' ' && at < longWord {
		end = end[at:]
	}
	return strings.TrimSpace(head) + " … " + strings.TrimSpace(end)
}
