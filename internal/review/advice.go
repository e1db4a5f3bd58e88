package review

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

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

// UndoCost says that the undo of a change disturbs the nodes of a pool more than the change does, because the undo
// takes rules of the disruption policy back too.
type UndoCost struct {
	Pool string `json:"pool"`
	// Disruption is the strongest action of the undo, in the words of PoolChange.
	Disruption string `json:"disruption"`
}

// undoCosts compares the way back, under base's rules, with the changes of pools that both sides have.
func undoCosts(base, head Side, changes []PoolChange) []UndoCost {
	if reflect.DeepEqual(base.Policy, head.Policy) && reflect.DeepEqual(base.Overrides, head.Overrides) {
		return nil // The way back costs what the change costs.
	}
	t := terms{differ: newDiffer(), policy: base.Policy, overrides: base.Overrides}
	var out []UndoCost
	for _, p := range changes {
		if base.Pools[p.Pool].Rendered == "" || head.Pools[p.Pool].Rendered == "" || len(p.Nodes) > 0 {
			continue
		}
		back := comparePoolOrNext(p.Pool, head, base, t).Disruption
		for _, nodes := range nodeChanges(p.Pool, head, base, t) {
			back = stronger(back, nodes.Disruption)
		}
		if back != p.Disruption && stronger(back, p.Disruption) == back {
			out = append(out, UndoCost{p.Pool, back})
		}
	}
	return out
}

// stronger returns the stronger one of two disruptions.
func stronger(a, b string) string {
	for d := disruption.Reboot; d > disruption.None; d-- {
		if word := d.String(); a == word || b == word {
			return word
		}
	}
	return a
}

func undo(c Comparison) string {
	switch base, head := c.BaseCommit, c.HeadCommit; {
	case !c.Changed():
		return ""
	case base == nil && c.FromCluster():
		return "revert the commit after it is pushed; every pool then returns to its earlier rendered config"
	case c.FromCluster() && (head == nil || head.Hash == ""):
		return "revert the commit after it is pushed; every pool then returns to its earlier rendered config"
	case head == nil || head.Hash == "" || base == nil || base.Hash == "":
		return fmt.Sprintf("restore the files of %s; every pool then returns to its earlier rendered config", c.Base)
	case slices.Equal(head.Parents, []string{base.Hash}):
		return "git revert " + ShortHash(head.Hash)
	case len(head.Parents) > 0 && head.Parents[0] == base.Hash:
		return "git revert -m 1 " + ShortHash(head.Hash)
	default:
		return "git restore --source=" + ShortHash(base.Hash) + " --staged --worktree " + pathspec(c.folder)
	}
}

// pathspec quotes a folder, from the repository's root, for git and a shell.
func pathspec(folder string) string {
	spec := ":/" + folder
	if strings.ContainsFunc(folder, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
	}) {
		spec = "'" + strings.ReplaceAll(spec, "'", `'\''`) + "'"
	}
	return spec
}
