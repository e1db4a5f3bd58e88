package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

// DisruptionRule would avoid a reboot for an item. Either Path or Unit is set.
type DisruptionRule struct {
	Path    string   `json:"path,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Actions []Action `json:"actions"`
	// Note names the effects that the actions do not cover, or is "".
	Note string `json:"note,omitempty"`
}

// AvoidReboots are rules that a user can paste, so that items do not reboot nodes.
type AvoidReboots struct {
	// File is Side.PolicyFile of head.
	File string `json:"file,omitempty"`
	// YAML is a whole MachineConfiguration, or with File an addition to spec.nodeDisruptionPolicy there.
	YAML string `json:"yaml"`
	// StillReboot are pools that reboot even so: not all of their items have a rule.
	StillReboot []string `json:"stillReboot,omitempty"`
}

// avoidance returns the rule that avoids the reboot of a change; nil if it reboots no node, or if no rule can.
func avoidance(c disruption.Costed, from, to Pool, p disruption.Policy) *DisruptionRule {
	reboots := slices.ContainsFunc(c.Actions,
		func(a disruption.Action) bool { return a.Type == disruption.ActionReboot })
	if !reboots || from.Rendered == "" || to.Rendered == "" {
		return nil // A new or removed pool has no running nodes of its own.
	}
	rule, ok := disruption.AvoidReboot(c.Change, from.Config, to.Config, p)
	if !ok {
		return nil
	}
	out := &DisruptionRule{Path: rule.Name, Actions: actions(rule.Actions), Note: rule.Note}
	if c.Kind == disruption.KindUnit {
		out.Path, out.Unit = "", rule.Name
	}
	return out
}

// avoidRebootsOf has each rule once: that of a directory can apply to several items. Without rules, it is nil.
func avoidRebootsOf(c Comparison, file string) *AvoidReboots {
	lists := map[string]string{}
	var known []string
	for _, p := range c.Pools {
		for _, it := range p.Items {
			r := it.AvoidReboot
			if r == nil || slices.Contains(known, r.Name()) {
				continue
			}
			known = append(known, r.Name())
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
		out.YAML = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata:\n  name: cluster\n" +
			"spec:\n  managementState: Managed\n  nodeDisruptionPolicy:\n" + Indented(out.YAML, "    ")
	}
	return out
}

// NewPolicyFile is the file for a new MachineConfiguration, if a repository has none.
const NewPolicyFile = "cluster/machine-configuration.yaml"

// Name is the path or the unit of the rule; a nil rule has the name "".
func (r *DisruptionRule) Name() string {
	if r == nil {
		return ""
	}
	return cmp.Or(r.Path, r.Unit)
}

// yaml writes an entry of a list, with the note as a comment below it.
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

// Indented puts a prefix before each line.
func Indented(text, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(prefix + line)
	}
	return b.String()
}

// stillReboot names the pools with an item that reboots nodes and that no rule covers. The rule of a directory also
// covers a removed file, for which none is suggested.
func stillReboot(c Comparison, rules []string) (pools []string) {
	for _, p := range c.Pools {
		hasNodes := p.From != "" && (p.To != "" || p.MovesTo != "")
		if hasNodes && slices.ContainsFunc(p.Items, func(it Item) bool {
			covers := func(rule string) bool {
				return strings.HasSuffix(rule, "/") && strings.HasPrefix(it.Path+"/", rule)
			}
			return it.reboots() && it.AvoidReboot == nil && !slices.ContainsFunc(rules, covers)
		}) {
			pools = append(pools, p.Pool)
		}
	}
	return pools
}

func (it Item) reboots() bool {
	return slices.ContainsFunc(it.Actions, func(a Action) bool { return a.Type == string(disruption.ActionReboot) })
}
