package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
)

// The words that text and Markdown share.

// changeSign returns + for an added, - for a removed and ~ for a changed item, with a ! if it drains nodes.
func changeSign(it review.Item) string {
	sign := map[string]string{"added": "+", "removed": "-"}[it.Change]
	if sign == "" {
		sign = "~"
	}
	if movesPods(it) {
		sign += "!"
	}
	return sign
}

func movesPods(it review.Item) bool {
	return slices.ContainsFunc(it.Actions, func(a review.Action) bool {
		return a.Type == string(disruption.ActionReboot) || a.Type == string(disruption.ActionDrain)
	})
}

// nouns: any other kind is its own name.
var nouns = map[string]string{
	string(disruption.KindKargs):          "kernel arguments",
	string(disruption.KindKernelType):     "kernel type",
	string(disruption.KindOSImage):        "OS image",
	string(disruption.KindFirstBootKargs): "first-boot kernel arguments",
	string(disruption.KindFIPS):           "FIPS mode",
}

// itemTitle is such as `file /etc/motd`, `unit kubelet.service drop-in 20-limits.conf`, `kernel arguments`.
func itemTitle(it review.Item) string {
	title := it.Kind
	if noun, ok := nouns[it.Kind]; ok {
		title = noun
	}
	if it.Path != "" {
		title += " " + it.Path
	}
	if only := changedDropIn(it); only != "" {
		title += " " + only
	}
	return title
}

// changedDropIn returns the drop-in if it is the only changed part of a unit.
func changedDropIn(it review.Item) string {
	if len(it.Parts) == 1 && strings.HasPrefix(it.Parts[0], "drop-in ") {
		return it.Parts[0]
	}
	return ""
}

// diffOf leaves the title out. A renamed item has no difference.
func diffOf(it review.Item) string {
	if it.RenamedTo != "" || it.RenamedFrom != "" {
		return ""
	}
	if only := changedDropIn(it); only != "" {
		if head, rest, ok := strings.Cut(it.Diff, "\n"); ok && strings.HasPrefix(head, "# "+only) {
			return rest
		}
	}
	return it.Diff
}

func renameText(it review.Item) string {
	switch {
	case it.RenamedFrom != "":
		return "renamed from " + it.RenamedFrom
	case it.RenamedTo != "":
		return "renamed to " + it.RenamedTo
	}
	return ""
}

// actionWords keeps the order: `restart chronyd.service`, `drain + reboot`. An action that follows itself is counted:
// `restart app.service ×2`.
func actionWords(actions []review.Action) string {
	words := make([]string, 0, len(actions))
	times := 1
	for i, a := range actions {
		text := strings.TrimSpace(strings.ToLower(a.Type) + " " + a.Service)
		switch a.Type {
		case string(disruption.ActionNone):
			text = noDisruption
		case string(disruption.ActionDaemonReload):
			text = "daemon-reload"
		case string(disruption.ActionReboot):
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

// Effect says what nodes do for a decision, in the words of a comparison.
func Effect(d disruption.Decision) string {
	actions := make([]review.Action, len(d.Actions))
	for i, a := range d.Actions {
		actions[i] = review.Action{Type: string(a.Type), Service: a.Service}
	}
	words := actionWords(actions)
	forNewNodes := !slices.ContainsFunc(d.Items, func(c disruption.Costed) bool {
		return c.Effect != disruption.EffectNewNodes
	})
	switch {
	case words == noDisruption && forNewNodes && len(d.Items) > 0:
		return disruption.EffectNewNodes
	case d.Drain && !strings.Contains(words, "drain"):
		return "drain, " + words
	}
	return words
}

// maxCauses: the others are counted only.
const maxCauses = 3

func effectText(it review.Item) string {
	words := actionWords(it.Actions)
	switch {
	case it.Effect == "":
		return words
	case words == noDisruption:
		return it.Effect
	}
	return it.Effect + ", " + words
}

// noDisruption is the text for no action.
const noDisruption = "applied live, no disruption"

// actionsOf says what the pool's nodes do for all items together.
func actionsOf(p review.PoolChange) string {
	words := actionWords(p.Actions)
	newNodes := func(it review.Item) bool { return it.Effect == disruption.EffectNewNodes }
	if words == noDisruption && len(p.Items) == 0 {
		return "no disruption" // Only the encoding of a content differs.
	}
	if words == noDisruption && len(p.Items) > 0 && !slices.ContainsFunc(p.Items, func(it review.Item) bool {
		return !newNodes(it)
	}) {
		return disruption.EffectNewNodes
	}
	if p.Level() == disruption.Drain && !strings.Contains(words, "drain") {
		return "drain, " + words
	}
	return words
}

// nothing is for a comparison in which no config changes. Even then, nodes may move to another pool and get its config.
func nothing(c review.Comparison) string {
	switch {
	case c.MovesNodes:
		return "No rendered change, but a change of pools: nodes may take other configs than now."
	case len(c.MachineConfigPools) > 0:
		return "No rendered change, but from the next rollout on, another number of nodes is out of service at once."
	case len(c.ClusterObjects) > 0:
		return "No rendered change, but objects of cluster/ change."
	case len(c.Submodules) > 0:
		return "No rendered change in the files that this review reads, but " +
			count(len(c.Submodules), "submodule") + " with other files."
	}
	if changes := notRendered(c); changes != "" {
		return "No rendered change, but " + changes + "."
	}
	if c.FromCluster() {
		text := "No rendered change: these configs are the targets of the cluster's pools already. "
		if of := c.HeadCommit; of != nil && len(of.Parents) > 0 {
			hash := of.Hash[:min(len(of.Hash), 8)]
			text += "What this commit changes: `bunsen diff --cluster " + hash + "~ " + hash + "`. "
		}
		return text + "Which nodes do not run it yet: `bunsen status`."
	}
	return "No rendered change: nothing will be rolled out."
}

// submoduleTexts has a text for each submodule that another commit is named for.
func submoduleTexts(c review.Comparison) (out []string) {
	for _, s := range c.Submodules {
		text := "the submodule " + s.Path
		switch s.Change {
		case "added":
			text += " is new"
		case "removed":
			text += " is removed"
		default:
			text += " is " + review.ShortHash(s.To) + " instead of " + review.ShortHash(s.From)
		}
		out = append(out, text+": this review does not read its files, and a GitSource that includes submodules does")
	}
	return out
}

// withoutEffectText names the changed files that change nothing on nodes, or is "".
func withoutEffectText(c review.Comparison) string {
	names := slices.Clone(c.WithoutEffect)
	if more := len(names) - maxNames; more > 0 {
		names = append(names[:maxNames], thousands(more)+" more")
	}
	return enumerate(names)
}

// noConfigText is the text in place of the rendered name, for a pool that no longer has a rendered config.
func noConfigText(p review.PoolChange) string {
	if p.KeepsConfig {
		return "(no documents)"
	}
	return "(gone)"
}

// moving is about nodes that get the config of another pool, with which theirs is not compared.
func moving(p review.PoolChange) []string {
	switch {
	case p.From == "" && p.To != "":
		return []string{"a node that it takes over from another pool goes to this config, which may reboot it"}
	case p.KeepsConfig:
		return []string{"they keep " + p.From + ", and the pool becomes degraded, because its MachineConfigPool " +
			"stays and selects no document; add documents, or remove the MachineConfigPool too"}
	case p.MovesTo != "":
		return []string{"they move to pool " + p.MovesTo + ", whose config is compared here, or to another pool that " +
			"selects them"}
	case p.To == "" && p.From != "":
		return []string{"if you also delete the MachineConfigPool, they move to pool worker or to another pool that " +
			"selects them, and may reboot. If it stays, they keep their config, and the pool becomes degraded"}
	}
	return nil
}

// causes are the items that drain nodes.
func causes(p review.PoolChange) (out []review.Item) {
	if p.Level() < disruption.Drain {
		return nil
	}
	for _, it := range p.Items {
		reboots := slices.ContainsFunc(it.Actions, func(a review.Action) bool {
			return a.Type == string(disruption.ActionReboot)
		})
		if reboots || p.Level() == disruption.Drain && movesPods(it) {
			out = append(out, it)
		}
	}
	return out
}

func noticeText(n review.Notice) string {
	return strings.TrimPrefix(strings.TrimSpace(n.Kind+" "+n.Path)+": ", ": ") + n.Message
}

func noticeTexts(p review.PoolChange) (out []string) {
	for _, n := range p.Notices {
		out = append(out, noticeText(n))
	}
	return out
}

// visible calls safetext.Visible; its name is only shorter.
func visible(text string) string { return safetext.Visible(text) }

// tally counts changes by their signs: `+1 ~2 -3`.
func tally(items []review.Item) string {
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

// because returns the reasons for a disruption of one level in a pool.
func because(level disruption.Disruption) func(review.PoolChange) []string {
	return func(p review.PoolChange) []string {
		if p.Rollout != nil && p.Rollout.Nodes == 0 {
			return nil // The pool has no node to disrupt.
		}
		return reasonsFor(p, level, func(it review.Item) string { return causeText(it) })
	}
}

// reasonsFor names the causes of a disruption of one level; nothing for a new or a removed pool.
func reasonsFor(p review.PoolChange, level disruption.Disruption, name func(review.Item) string) []string {
	causes := causes(p)
	if len(causes) == 0 || p.Level() != level || p.From == "" || p.To == "" {
		return nil
	}
	var reasons []string
	for _, it := range causes[:min(maxCauses, len(causes))] {
		reasons = append(reasons, name(it))
	}
	if more := len(causes) - maxCauses; more > 0 {
		reasons = append(reasons, thousands(more)+" more")
	}
	return []string{strings.Join(reasons, "; ")}
}

// causeText has the reason for the item's disruption.
func causeText(it review.Item) string {
	why := it.Why
	if isListed(it) {
		lines := strings.Split(strings.TrimSuffix(it.Diff, "\n"), "\n")
		why = strings.Join(lines[:min(maxCauses, len(lines))], " ")
	}
	if place := it.Places(); place != "" {
		why += ", from " + place
	}
	return itemTitle(it) + " (" + strings.TrimPrefix(why, ", ") + ")"
}

// isListed reports whether the difference itself can be the reason: a short list of arguments, or one value.
func isListed(it review.Item) bool {
	switch disruption.ChangeKind(it.Kind) {
	case disruption.KindKargs, disruption.KindExtensions, disruption.KindKernelType, disruption.KindOSImage:
		return true
	}
	return false
}

// notEvicted says that nodes reboot with their pods.
func notEvicted(p review.PoolChange) []string {
	switch {
	case p.Rollout == nil || p.Rollout.NotEvicted == 0:
		return nil
	case p.Rollout.NotEvicted == 1:
		return []string{"the pods of 1 node are not evicted, because no other node can run them, whatever their " +
			"PodDisruptionBudgets say"}
	}
	return []string{fmt.Sprintf("the pods of %d nodes are not evicted, because no other node can run them, whatever "+
		"their PodDisruptionBudgets say", p.Rollout.NotEvicted)}
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// DurationText returns a text that says how long a rollout takes: `5–20 min`, `3–14 h`, `less than a minute`.
func DurationText(r review.Rollout) string {
	low, lowUnit := minutesIn(r.MinMinutes)
	high, highUnit := minutesIn(r.MaxMinutes)
	switch {
	case r.MaxMinutes == 0:
		return "no time"
	case r.MinMinutes == 0:
		return "up to " + high + " " + highUnit
	case lowUnit == highUnit && low == high:
		return low + " " + lowUnit
	case lowUnit == highUnit:
		return low + "–" + high + " " + highUnit
	}
	return low + " " + lowUnit + " – " + high + " " + highUnit
}

func minutesIn(m int) (number, unit string) {
	switch {
	case m >= 2880 && m%1440 == 0:
		return fmt.Sprint(m / 1440), "days"
	case m >= 60 && m%60 == 0:
		return fmt.Sprint(m / 60), "h"
	case m >= 60 && m%30 == 0:
		return fmt.Sprintf("%.1f", float64(m)/60), "h"
	}
	return fmt.Sprint(m), "min"
}

// countsText is such as `2 to add, 1 to change, 0 to remove`.
func countsText(n review.Counts) string {
	return fmt.Sprintf("%s to add, %s to change, %s to remove", thousands(n.Add), thousands(n.Change),
		thousands(n.Remove))
}

// hiddenText says how many items leave out a secret, or is "".
func hiddenText(hidden int) string {
	if hidden == 0 {
		return ""
	}
	return thousands(hidden) + " hidden"
}

// warningText has the position and the message.
func warningText(w review.Warning) string {
	if w.Origin == "" {
		return w.Message
	}
	return w.Origin + ": " + w.Message
}

// ruleHint names below an item the rule that would avoid its reboot, or is "".
func ruleHint(r *review.DisruptionRule) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("a rule for %s avoids this reboot: %s", r.Name(), actionWords(r.Actions))
}

// avoidTitle says what to do with the YAML.
func avoidTitle(a *review.AvoidReboots) string {
	if a.File == "" {
		return "to avoid reboots, create " + review.NewPolicyFile
	}
	return "to avoid reboots, add this to the lists in spec.nodeDisruptionPolicy of " + a.File
}

// stillRebootText names the pools that reboot in spite of the rules, or is "".
func stillRebootText(a *review.AvoidReboots) string {
	if len(a.StillReboot) == 0 {
		return ""
	}
	return "even so, other changes still reboot " + enumerate(a.StillReboot)
}
