package render

import (
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/policy"
)

// The rules of notices. Nothing is said where inputs agree, or where each sets another attribute of one thing: then the
// order of merging decides nothing.
const (
	// RuleSameFile, RuleSameDirectory and RuleSameLink: several give a path other contents, modes, owners or targets.
	RuleSameFile      = "same-file"
	RuleSameDirectory = "same-directory"
	RuleSameLink      = "same-link"
	// RuleSamePath: a path is a file to one and a directory or a link to another; the last decides what is there.
	RuleSamePath = "same-path"
	// RuleSameUnit: several give a unit other contents, or disagree whether it is enabled or masked.
	RuleSameUnit = "same-unit"
	// RuleDropinReplaced: a drop-in of one gives way to one of the same name, or to another's mask of its unit.
	RuleDropinReplaced = "dropin-replaced"
	// RuleSameUser and RuleSameGroup: several set another password, number, shell or home. Keys and groups add up.
	RuleSameUser  = "same-user"
	RuleSameGroup = "same-group"
	// RuleSameKarg: one kernel argument has other values. All of them are on the command line, and mostly the last one counts.
	// Arguments that are meant to be repeated (console=, ip=, rd.…) are left out.
	RuleSameKarg = "same-karg"
	// RuleSameSetting: the OS image or the kernel type, of which there is one.
	RuleSameSetting = "same-setting"
	// RuleOverridesWorker: any of the above, but only between those of role worker and the pool's own: that is what
	// inheriting is for, and worth less attention.
	RuleOverridesWorker = "overrides-worker"
)

// Notice is something that several MachineConfigs set differently, which their order decides. It never tells contents.
type Notice struct {
	// Rule is one of the constants above.
	Rule string
	// Kind and Name of the thing, as in policy.Change; of a path, the kind that it ends as.
	Kind, Name string
	// Message says which attribute of whom wins over whose: `mode: 20-b wins over 10-a`.
	Message string
	// Inputs are the MachineConfigs that disagree, in the order of merging: of each attribute, the last wins.
	Inputs []string
}

// String is the notice in one line.
func (n Notice) String() string {
	return strings.TrimRight(n.Rule+": "+n.Kind+" "+n.Name, " ") + ": " + n.Message
}

// clash is one attribute that inputs set differently.
type clash struct {
	rule, attribute string
	// by are those that set it: places in a contest, or among all inputs.
	by []int
	// winning tells of each whether it says what the last one says.
	winning []bool
	// last is what the last one says; never shown.
	last string
}

// clashesOf finds the attributes that differ among what each input says.
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

// withinLayer tells that two inputs of one layer disagree.
func (c clash) withinLayer(inputs []input) bool {
	seen := map[bool]bool{} // layer → whether it is on the winning side
	for n, i := range c.by {
		side, again := seen[inputs[i].worker]
		if again && side != c.winning[n] {
			return true
		}
		seen[inputs[i].worker] = c.winning[n]
	}
	return false
}

// message says who wins over whom.
func (c clash) message(inputs []input) string {
	var losers []string
	for n, i := range c.by {
		if !c.winning[n] {
			losers = append(losers, inputs[i].name)
		}
	}
	return c.attribute + ": " + inputs[c.by[len(c.by)-1]].name + " wins over " + strings.Join(losers, ", ")
}

// notice words the clashes of one thing that have one rule; their places are among all inputs.
func notice(inputs []input, kind policy.ChangeKind, name string, clashes []clash) Notice {
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
		n.Inputs = append(n.Inputs, inputs[i].name)
	}
	n.Message = strings.Join(messages, "; ")
	return n
}

// notices are all of a merge: by list and name, then kernel arguments, then the rest.
func notices(inputs []input, all contests) (out []Notice) {
	for list := range listTable {
		found := all[listTable[list].space]
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if found[name].list == list {
				out = append(out, found[name].notices(inputs, name)...)
			}
		}
	}
	for _, c := range kargClashes(inputs) {
		out = append(out, alone(inputs, policy.KindKargs, c.attribute, c))
	}
	for _, c := range settingClashes(inputs) {
		out = append(out, alone(inputs, policy.ChangeKind(c.attribute), "", c))
	}
	return out
}

// alone words a clash of something that has a value and no attributes.
func alone(inputs []input, kind policy.ChangeKind, name string, c clash) Notice {
	c.attribute = "value"
	return notice(inputs, kind, name, []clash{c})
}

// notices of one contest, one for each rule.
func (c *contest) notices(inputs []input, name string) (out []Notice) {
	byRule := map[string][]clash{}
	for _, clash := range c.clashes {
		moved := clash
		moved.by = nil
		for _, place := range clash.by {
			moved.by = append(moved.by, c.by[place])
		}
		byRule[clash.rule] = append(byRule[clash.rule], moved)
	}
	for _, rule := range slices.Sorted(maps.Keys(byRule)) {
		out = append(out, notice(inputs, listTable[c.list].kind, name, byRule[rule]))
	}
	return out
}

// repeated are kernel arguments that are meant to be given several times; those that begin with rd. are too.
var repeated = []string{
	"acpi_osi", "blacklist", "bond", "bridge", "console", "crashkernel", "dyndbg", "earlycon", "earlyprintk", "hugepages", "hugepagesz",
	"ifname", "ip", "memmap", "modprobe.blacklist", "module_blacklist", "nameserver", "netdev", "pci", "rootflags", "systemd.mask",
	"systemd.setenv", "systemd.wants", "team", "trace_event", "video", "vlan",
}

func kargClashes(inputs []input) []clash {
	all := make([]said, len(inputs))
	for i, in := range inputs {
		values := map[string]string{}
		for _, k := range in.kargs {
			key, value, _ := strings.Cut(k, "=")
			if !slices.Contains(repeated, key) && !strings.HasPrefix(key, "rd.") && !strings.HasSuffix(key, ".dyndbg") {
				values[key] = value // an input that repeats one means its last
			}
		}
		for key, value := range values {
			all[i].add(RuleSameKarg, key, value)
		}
	}
	return clashesOf(all)
}

func settingClashes(inputs []input) []clash {
	all := make([]said, len(inputs))
	for i, in := range inputs {
		if c := &in.config; c.OSImageURL != "" && !in.generated {
			all[i].add(RuleSameSetting, string(policy.KindOSImage), c.OSImageURL)
		}
		if c := &in.config; !defaultKernel(c.KernelType) {
			all[i].add(RuleSameSetting, string(policy.KindKernelType), c.KernelType)
		}
	}
	return clashesOf(all)
}
