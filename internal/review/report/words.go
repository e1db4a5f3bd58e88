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
