package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/policy"
)

// DisruptionRule is a rule of the disruption policy with which an item would not reboot nodes. Path or Unit is set.
type DisruptionRule struct {
	Path    string   `json:"path,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Actions []Action `json:"actions"`
	// Note names what the actions do not reach; "" for nothing.
	Note string `json:"note,omitempty"`
}

// AvoidReboots is what to paste so that items do not reboot nodes.
type AvoidReboots struct {
	// File of head's MachineConfiguration; empty where it has none. See Side.PolicyFile.
	File string `json:"file,omitempty"`
	// YAML is a whole MachineConfiguration, or with File what to add to its spec.nodeDisruptionPolicy.
	YAML string `json:"yaml"`
	// StillReboot are the pools that reboot even with these rules, because no rule is known for all of their items.
	StillReboot []string `json:"stillReboot,omitempty"`
}

// newFile is where a repository without a MachineConfiguration gets one.
const newFile = "cluster/machine-configuration.yaml"

// reboots tells whether the item alone reboots nodes.
func (it Item) reboots() bool {
	return slices.ContainsFunc(it.Actions, func(a Action) bool { return a.Type == string(policy.ActionReboot) })
}

// avoidance returns the rule that avoids the reboot of a change, nil where the change reboots no nodes or no rule is known.
func avoidance(c policy.Costed, from, to Pool, p policy.Policy) *DisruptionRule {
	reboots := slices.ContainsFunc(c.Actions, func(a policy.Action) bool { return a.Type == policy.ActionReboot })
	if !reboots || from.Rendered == "" || to.Rendered == "" {
		return nil // a pool that comes or goes has no running nodes of its own
	}
	rule, ok := policy.AvoidReboot(c.Change, from.Config, to.Config, p)
	if !ok {
		return nil
	}
	out := &DisruptionRule{Path: rule.Name, Actions: actions(rule.Actions), Note: rule.Note}
	if c.Kind == policy.KindUnit {
		out.Path, out.Unit = "", rule.Name
	}
	return out
}

// name is the path or the unit of the rule; "" for no rule.
func (r *DisruptionRule) name() string {
	if r == nil {
		return ""
	}
	return cmp.Or(r.Path, r.Unit)
}

// avoidRebootsOf joins the rules of all items, each once: a rule of a directory can serve several items. It returns nil
// where there are none.
func avoidRebootsOf(c Comparison, file string) *AvoidReboots {
	lists := map[string]string{}
	var known []string
	for _, p := range c.Pools {
		for _, it := range p.Items {
			r := it.AvoidReboot
			if r == nil || slices.Contains(known, r.name()) {
				continue
			}
			known = append(known, r.name())
			list := "files"
			if r.Unit != "" {
				list = "units"
			}
			lists[list] += r.yaml()
		}
	}
	if len(known) == 0 {
		return nil
	}
	out := &AvoidReboots{File: file, StillReboot: stillReboot(c, known)}
	for _, list := range []string{"files", "units"} {
		if lists[list] != "" {
			out.YAML += list + ":\n" + lists[list]
		}
	}
	if file == "" {
		out.YAML = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata:\n  name: cluster\nspec:\n  managementState: Managed\n  nodeDisruptionPolicy:\n" + indented(out.YAML, "    ")
	}
	return out
}

// stillReboot names the pools with an item that reboots nodes and that none of the rules covers. A rule of a directory also
// covers a removed file, for which it is not offered.
func stillReboot(c Comparison, rules []string) (pools []string) {
	for _, p := range c.Pools {
		hasNodes := p.From != "" && (p.To != "" || p.MovesTo != "")
		if hasNodes && slices.ContainsFunc(p.Items, func(it Item) bool {
			covers := func(rule string) bool { return strings.HasSuffix(rule, "/") && strings.HasPrefix(it.Path+"/", rule) }
			return it.reboots() && it.AvoidReboot == nil && !slices.ContainsFunc(rules, covers)
		}) {
			pools = append(pools, p.Pool)
		}
	}
	return pools
}

// yaml writes the rule as an entry of a list, with its note as a comment below.
func (r DisruptionRule) yaml() string {
	var b strings.Builder
	if r.Unit != "" {
		fmt.Fprintf(&b, "  - name: %s\n    actions:\n", r.Unit)
	} else {
		fmt.Fprintf(&b, "  - path: %s\n    actions:\n", r.Path)
	}
	for _, a := range r.Actions {
		fmt.Fprintf(&b, "      - type: %s\n", a.Type)
		if a.Service != "" {
			fmt.Fprintf(&b, "        %s:\n          serviceName: %s\n", strings.ToLower(a.Type), a.Service)
		}
	}
	if r.Note != "" {
		fmt.Fprintf(&b, "    # %s\n", r.Note)
	}
	return b.String()
}

// firstHints leaves the rule of an item out where an item above has it: a directory of 40 files has one hint.
func firstHints(sections []section) {
	known := map[string]bool{}
	for _, sec := range sections {
		for i := range sec.items {
			name := sec.items[i].AvoidReboot.name()
			if known[name] {
				sec.items[i].AvoidReboot = nil
			}
			known[name] = true
		}
	}
}

// hint is the line below an item whose reboot can be avoided; "" for none.
func (r *DisruptionRule) hint() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("a rule for %s avoids this reboot: %s", r.name(), actionWords(r.Actions))
}

// title says what to do with the YAML.
func (a *AvoidReboots) title() string {
	if a.File == "" {
		return "to avoid reboots, create " + newFile
	}
	return "to avoid reboots, add to the lists in spec.nodeDisruptionPolicy of " + a.File
}

// stillText names the pools that reboot all the same; "" for none.
func (a *AvoidReboots) stillText() string {
	if len(a.StillReboot) == 0 {
		return ""
	}
	return "even so, other changes of this review reboot " + enumerate(a.StillReboot)
}

// text prints what to paste.
func (a *AvoidReboots) text(b *strings.Builder, s Style) {
	if a == nil {
		return
	}
	fmt.Fprintf(b, "%s\n%s", s.bold(safetext.Line(a.title())), indented(a.YAML, "  "))
	if still := a.stillText(); still != "" {
		b.WriteString(safetext.Line(still) + "\n")
	}
	b.WriteString("\n")
}

// markdown prints what to paste, folded, if it fits into the room.
func (a *AvoidReboots) markdown(room int) string {
	if a == nil {
		return ""
	}
	still := ""
	if text := a.stillText(); text != "" {
		still = prose(capital(text)) + ".\n\n"
	}
	summary := escape(visible(capital(a.title())), func(r rune) bool { return odd(r) || r == '@' || r == '#' })
	text := "<details><summary>" + summary + "</summary>\n\n```yaml\n" + a.YAML + "```\n\n" + still + detailsEnd
	if len(text) > room {
		return "`bunsen diff` prints rules that avoid reboots.\n\n"
	}
	return text
}

// indented puts a prefix before each line.
func indented(text, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(prefix + line)
	}
	return b.String()
}
