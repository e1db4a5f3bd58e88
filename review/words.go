package review

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/policy"
)

// The words that text and Markdown share.

// sign is + for what comes, - for what goes, ~ for what changes, and ! behind it where pods have to move.
func (it Item) sign() string {
	sign := map[string]string{"added": "+", "removed": "-"}[it.Change]
	if sign == "" {
		sign = "~"
	}
	if it.disturbs() {
		sign += "!"
	}
	return sign
}

// disturbs tells whether pods have to move for this item alone.
func (it Item) disturbs() bool {
	return slices.ContainsFunc(it.Actions, func(a Action) bool {
		return a.Type == string(policy.ActionReboot) || a.Type == string(policy.ActionDrain)
	})
}

// nouns are kinds as people say them; the others are their own.
var nouns = map[string]string{
	string(policy.KindKargs):          "kernel arguments",
	string(policy.KindKernelType):     "kernel type",
	string(policy.KindOSImage):        "OS image",
	string(policy.KindFirstBootKargs): "first-boot kernel arguments",
	string(policy.KindFIPS):           "FIPS mode",
}

// title names the item: `file /etc/motd`, `unit kubelet.service drop-in 20-limits.conf`, `kernel arguments`.
func (it Item) title() string {
	title := it.Kind
	if noun, ok := nouns[it.Kind]; ok {
		title = noun
	}
	if it.Path != "" {
		title += " " + it.Path
	}
	if only := it.dropin(); only != "" {
		title += " " + only
	}
	return title
}

// dropin is the one part of a unit that changed, if it is a drop-in.
func (it Item) dropin() string {
	if len(it.Parts) == 1 && strings.HasPrefix(it.Parts[0], "drop-in ") {
		return it.Parts[0]
	}
	return ""
}

// body is the difference as printers show it: not what the title says, and not the content of what only moved.
func (it Item) body() string {
	if it.RenamedTo != "" || it.RenamedFrom != "" {
		return ""
	}
	if only := it.dropin(); only != "" {
		if head, rest, ok := strings.Cut(it.Diff, "\n"); ok && strings.HasPrefix(head, "# "+only) {
			return rest
		}
	}
	return it.Diff
}

// move says what the item was, or is now.
func (it Item) move() string {
	switch {
	case it.RenamedFrom != "":
		return "renamed from " + it.RenamedFrom
	case it.RenamedTo != "":
		return "renamed to " + it.RenamedTo
	}
	return ""
}

// places says where the repository sets what changed; attributes are named where they come from different lines.
func (it Item) places() string {
	attributes := map[string][]string{}
	for attribute, place := range it.Origins {
		attributes[place] = append(attributes[place], attribute)
	}
	if len(attributes) < 2 {
		for place := range attributes {
			return place
		}
		return it.Origin
	}
	var out []string
	for place, names := range attributes {
		slices.Sort(names)
		out = append(out, strings.Join(names, " and ")+" "+place)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// actionWords writes actions in their order: `restart chronyd.service`, `drain + reboot`. An action that follows
// itself is counted: `restart app.service ×2`.
func actionWords(actions []Action) string {
	words := make([]string, 0, len(actions))
	times := 1
	for i, a := range actions {
		text := strings.TrimSpace(strings.ToLower(a.Type) + " " + a.Service)
		switch a.Type {
		case string(policy.ActionNone):
			text = noDisruption
		case string(policy.ActionDaemonReload):
			text = "daemon-reload"
		case string(policy.ActionReboot):
			text = "drain + reboot"
		}
		switch {
		case i == 0 || actions[i-1] != a:
			times = 1
			words = append(words, text)
		case a.Service != "":
			times++
			words[len(words)-1] = fmt.Sprintf("%s ×%d", text, times)
		}
	}
	if len(words) == 0 {
		return noDisruption
	}
	return strings.Join(words, ", ")
}

// deed is what becomes of the item on a node: its effect and its actions.
func (it Item) deed() string {
	words := actionWords(it.Actions)
	switch {
	case it.Effect == "":
		return words
	case words == noDisruption:
		return it.Effect
	}
	return it.Effect + ", " + words
}

// noDisruption is written for a change that nodes take without an action.
const noDisruption = "applied live, no disruption"

// sum is what the pool's nodes do for all items together.
func (p PoolChange) sum() string {
	words := actionWords(p.Actions)
	newNodes := func(it Item) bool { return it.Effect == policy.EffectNewNodes }
	if words == noDisruption && len(p.Items) == 0 {
		return "no disruption" // only an encoding differs
	}
	if words == noDisruption && len(p.Items) > 0 && !slices.ContainsFunc(p.Items, func(it Item) bool { return !newNodes(it) }) {
		return policy.EffectNewNodes
	}
	if p.level() == policy.Drain && !strings.Contains(words, "drain") {
		return "drain, " + words
	}
	return words
}

// nothing says that no config changes. Which nodes take which may change all the same.
func nothing(c Comparison) string {
	switch {
	case moves(c):
		return "No rendered change, but a change of pools: nodes may take other configs than now."
	case len(c.MachineConfigPools) > 0:
		return "No rendered change, but from the next roll-out on another number of nodes is away at once."
	case len(c.ClusterObjects) > 0:
		return "No rendered change, but objects of cluster/ change."
	}
	return "No rendered change: nothing will be rolled out."
}

// gone is written in place of the rendered name that a pool has no more.
func (p PoolChange) gone() string {
	if p.KeepsConfig {
		return "(no documents)"
	}
	return "(gone)"
}

// moving tells of nodes that are there and take a config that is not compared here: that of another pool.
func moving(p PoolChange) []string {
	switch {
	case p.From == "" && p.To != "":
		return []string{"a node that it takes over from another pool goes to this config, which may reboot it"}
	case p.KeepsConfig:
		return []string{"they keep " + p.From + ", and the pool becomes degraded, because its MachineConfigPool stays and selects no document; add documents, or remove the MachineConfigPool too"}
	case p.MovesTo != "":
		return []string{"they move to pool " + p.MovesTo + ", whose config is compared here, or to another pool that selects them"}
	case p.To == "" && p.From != "":
		return []string{"if the MachineConfigPool goes too, they move to pool worker, or to another pool that selects them, which may reboot them; if it stays, they keep their config and the pool becomes degraded"}
	}
	return nil
}

// causes are the items that make pods move.
func (p PoolChange) causes() (out []Item) {
	if p.level() < policy.Drain {
		return nil
	}
	for _, it := range p.Items {
		reboots := slices.ContainsFunc(it.Actions, func(a Action) bool { return a.Type == string(policy.ActionReboot) })
		if reboots || p.level() == policy.Drain && it.disturbs() {
			out = append(out, it)
		}
	}
	return out
}

// text is the notice with what it is about.
func (n Notice) text() string {
	return strings.TrimPrefix(strings.TrimSpace(n.Kind+" "+n.Path)+": ", ": ") + n.Message
}

// noticeTexts are what rendering had to say about the pool.
func (p PoolChange) noticeTexts() (out []string) {
	for _, n := range p.Notices {
		out = append(out, n.text())
	}
	return out
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// visible is safetext.Visible, by the name that the printers use.
func visible(text string) string { return safetext.Visible(text) }

// tally counts changes by their signs: `+1 ~2 -3`.
func tally(items []Item) string {
	n := map[string]int{}
	for _, it := range items {
		n[it.Change]++
	}
	var out []string
	for _, s := range []struct{ change, sign string }{{"added", "+"}, {"changed", "~"}, {"removed", "-"}} {
		if n[s.change] > 0 {
			out = append(out, fmt.Sprintf("%s%d", s.sign, n[s.change]))
		}
	}
	return strings.Join(out, " ")
}
