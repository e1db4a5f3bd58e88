package render

import (
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// The rules of notices. There is no notice if inputs agree, or if each input sets a different attribute of an item,
// because the order of merging has no effect in these cases.
const (
	// RuleSameFile, RuleSameDirectory and RuleSameLink: several inputs set different contents, modes, owners or
	// targets of a path.
	RuleSameFile      = "same-file"
	RuleSameDirectory = "same-directory"
	RuleSameLink      = "same-link"
	// RuleSamePath: a path is a file in one input and a directory or a link in another. The last input decides.
	RuleSamePath = "same-path"
	// RuleSameUnit: several inputs set different contents of a unit, or disagree whether it is enabled or masked.
	RuleSameUnit = "same-unit"
	// RuleDropinReplaced: a drop-in of another input with the same name replaces a drop-in, or a drop-in has no effect
	// because another input masks its unit.
	RuleDropinReplaced = "dropin-replaced"
	// RuleSameUser and RuleSameGroup: several inputs set different passwords, numbers, shells or homes. Keys and groups
	// do not conflict, because a merge keeps those of all inputs.
	RuleSameUser  = "same-user"
	RuleSameGroup = "same-group"
	// RuleSameKarg: several inputs set different values of a kernel argument. All values are on the command line, and
	// usually the last one counts. The rule ignores arguments that may be repeated (console=, ip=, rd.…).
	RuleSameKarg = "same-karg"
	// RuleSameSetting: several inputs set different OS images or kernel types.
	RuleSameSetting = "same-setting"
	// RuleOverridesWorker: a conflict of any other rule, but only between inputs of the role worker and inputs of the
	// pool. Such a notice is less important, because a pool inherits the inputs of worker in order to override some of
	// them.
	RuleOverridesWorker = "overrides-worker"
)

// Notice describes an item that several MachineConfigs set differently, so that the order of merging decides. Notice
// never has contents.
type Notice struct {
	// Rule is the rule of the notice, such as RuleSameFile.
	Rule string
	// Kind and Name identify the item, as in disruption.Change. For a path, Kind is its final kind.
	Kind, Name string
	// Message says for each attribute which input overrides which other inputs: `mode: 20-b wins over 10-a`.
	Message string
	// Inputs are the MachineConfigs that disagree, in the order of merging. For each attribute, the last one counts.
	Inputs []string
}

// String returns the notice as one line.
func (n Notice) String() string {
	return strings.TrimRight(n.Rule+": "+n.Kind+" "+n.Name, " ") + ": " + n.Message
}

// notices returns all notices of a merge: by list and name, then kernel arguments, then the other settings. An item
// that several inputs set is in the list of its final kind.
func notices(inputs []Input, set setBy, merged lists) (out []Notice) {
	statements := set.statements(inputs)
	for list, keys := range set.only(merged).keys() {
		for _, key := range slices.Sorted(slices.Values(keys)) {
			at := item{listTable[list].space, key}
			out = append(out, itemNotices(inputs, listTable[list].kind, key,
				amongInputs(set[at], clashesOfItem(statements[at])))...)
		}
	}
	for _, c := range kargClashes(inputs) {
		out = append(out, alone(inputs, disruption.KindKargs, c.attribute, c))
	}
	for _, c := range settingClashes(inputs) {
		out = append(out, alone(inputs, disruption.ChangeKind(c.attribute), "", c))
	}
	return out
}

func settingClashes(inputs []Input) []clash {
	all := make([]said, len(inputs))
	for i, in := range inputs {
		if c := &in.Config; c.OSImageURL != "" && !in.Generated {
			all[i].add(RuleSameSetting, string(disruption.KindOSImage), c.OSImageURL)
		}
		if c := &in.Config; !defaultKernel(c.KernelType) {
			all[i].add(RuleSameSetting, string(disruption.KindKernelType), c.KernelType)
		}
	}
	return clashesOf(all)
}

func kargClashes(inputs []Input) []clash {
	all := make([]said, len(inputs))
	for i, in := range inputs {
		values := map[string]string{}
		for _, k := range machineconfig.SplitKargs(in.Config.KernelArguments) {
			key, value, _ := strings.Cut(k, "=")
			if !slices.Contains(repeated, key) && !strings.HasPrefix(key, "rd.") && !strings.HasSuffix(key, ".dyndbg") {
				values[key] = value // If an input repeats an argument, the last value of the input counts.
			}
		}
		for key, value := range values {
			all[i].add(RuleSameKarg, key, value)
		}
	}
	return clashesOf(all)
}

// itemNotices returns the notices about one item, one for each rule.
func itemNotices(inputs []Input, kind disruption.ChangeKind, name string, clashes []clash) (out []Notice) {
	byRule := map[string][]clash{}
	for _, c := range clashes {
		byRule[c.rule] = append(byRule[c.rule], c)
	}
	for _, rule := range slices.Sorted(maps.Keys(byRule)) {
		out = append(out, notice(inputs, kind, name, byRule[rule]))
	}
	return out
}

// clashesOfItem returns the attributes of an item on which its setters disagree. If a path has several kinds,
// clashesOfItem returns only the clash of kinds.
func clashesOfItem(all []said) []clash {
	found := clashesOf(all)
	for i, c := range found {
		switch {
		case c.attribute == kindAttribute:
			return found[i : i+1]
		// The input that masks the unit came first, and its mask stays in effect.
		case c.attribute == maskAttribute && c.last == "used":
			return append(found[:i:i], found[i+1:]...)
		}
	}
	return found
}

// amongInputs converts the indexes in the clashes of an item: from indexes among the inputs that set the item, which
// setters lists, to indexes among all inputs.
func amongInputs(setters []int, clashes []clash) []clash {
	out := slices.Clone(clashes)
	for i := range out {
		out[i].by = nil
		for _, place := range clashes[i].by {
			out[i].by = append(out[i].by, setters[place])
		}
	}
	return out
}

// alone returns the notice for a clash of an item without attributes, which has only a value.
func alone(inputs []Input, kind disruption.ChangeKind, name string, c clash) Notice {
	c.attribute = "value"
	return notice(inputs, kind, name, []clash{c})
}

// notice returns one notice for the clashes of an item under one rule. The indexes in the clashes count all inputs.
func notice(inputs []Input, kind disruption.ChangeKind, name string, clashes []clash) Notice {
	n := Notice{Rule: RuleOverridesWorker, Kind: string(kind), Name: name}
	var messages []string
	var by []int
	for _, c := range clashes {
		if c.withinLayer(inputs) {
			n.Rule = c.rule
		}
		messages = append(messages, c.message(inputs))
		by = append(by, c.by...)
	}
	slices.Sort(by)
	for _, i := range slices.Compact(by) {
		n.Inputs = append(n.Inputs, inputs[i].Name)
	}
	n.Message = strings.Join(messages, "; ")
	return n
}

// clash is one attribute that inputs set differently.
type clash struct {
	rule, attribute string
	// by has the inputs that set the attribute, as indexes. The indexes count either the inputs that set the item, or
	// all inputs.
	by []int
	// winning says for each of these inputs whether its value equals the last value.
	winning []bool
	// last is the value that the last of these inputs sets. No text contains this value.
	last string
}

// clashesOf returns the attributes with different values, from the attributes of each input.
func clashesOf(all []said) (found []clash) {
	values := map[string][]string{}
	byName := map[string]*clash{}
	for i, attributes := range all {
		for _, a := range attributes {
			c := byName[a.name]
			if c == nil {
				c = &clash{rule: a.rule, attribute: a.name}
				byName[a.name] = c
			}
			c.by = append(c.by, i)
			values[a.name] = append(values[a.name], a.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		c, values := byName[name], values[name]
		c.last = values[len(values)-1]
		for _, v := range values {
			c.winning = append(c.winning, v == c.last)
		}
		if slices.Contains(c.winning, false) {
			found = append(found, *c)
		}
	}
	return found
}

// withinLayer reports whether two inputs of the same layer disagree.
func (c clash) withinLayer(inputs []Input) bool {
	seen := map[bool]bool{} // seen maps each layer to whether one of its inputs has the last value.
	for n, i := range c.by {
		side, again := seen[inputs[i].Worker]
		if again && side != c.winning[n] {
			return true
		}
		seen[inputs[i].Worker] = c.winning[n]
	}
	return false
}

// message returns a text that says which inputs override which other inputs.
func (c clash) message(inputs []Input) string {
	var losers []string
	for n, i := range c.by {
		if !c.winning[n] {
			losers = append(losers, inputs[i].Name)
		}
	}
	return c.attribute + ": " + inputs[c.by[len(c.by)-1]].Name + " wins over " + strings.Join(losers, ", ")
}

// repeated are kernel arguments that a command line may contain several times. Arguments that begin with rd may also
// occur several times.
var repeated = []string{
	"acpi_osi", "blacklist", "bond", "bridge", "console", "crashkernel", "dyndbg", "earlycon", "earlyprintk",
	"hugepages", "hugepagesz",
	"ifname", "ip", "memmap", "modprobe.blacklist", "module_blacklist", "nameserver", "netdev", "pci", "rootflags",
	"systemd.mask",
	"systemd.setenv", "systemd.wants", "team", "trace_event", "video", "vlan",
}
