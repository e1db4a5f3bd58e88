package overlay

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// groupVersions are the group and the version that a target may name for a kind.
var groupVersions = map[Kind]struct{ group, version string }{
	Butane:        {group, version},
	MachineConfig: {machineConfigGroup, machineConfigVersion},
}

// checkTarget refuses a target that means no document so far: kustomize would skip the patch in silence, and the change
// would be missing on every node. kind is what a target that names none means.
func (p patcher) checkTarget(target *yaml.Node, kind Kind) bool {
	if target == nil {
		return true
	}
	if target.Kind != yaml.MappingNode {
		p.add(fatal(p.t.pos(target), "patch-target", "a target is a mapping, such as {name: 10-chrony}"))
		return false
	}
	if k, v := field(target, "kind"); k != nil {
		kind = Kind(v.Value)
		if _, known := groupVersions[kind]; !known {
			p.add(fatal(p.t.pos(v), "patch-target", "there is no kind %q here; a target is of kind %s or %s", v.Value, Butane, MachineConfig))
			return false
		}
	}
	for i := 0; i+1 < len(target.Content); i += 2 {
		k, v := target.Content[i], target.Content[i+1]
		want := groupVersions[kind]
		switch {
		case k.Value == "name" || k.Value == "kind":
		case k.Value == "group" && v.Value == want.group || k.Value == "version" && v.Value == want.version:
		default:
			p.add(fatal(p.t.pos(k), "patch-target", "a target has a name and a kind, and %s: %s means no document here; remove it", k.Value, oneWord(v)))
			return false
		}
	}
	return p.checkName(target, kind)
}

// checkName looks for the documents that a target means.
func (p patcher) checkName(target *yaml.Node, kind Kind) bool {
	at, name := target, scalarAt(target, "name")
	if _, n := field(target, "name"); n != nil {
		at = n
	}
	re, err := regexp.Compile("^(?:" + name + ")$")
	if err != nil {
		p.add(fatal(p.t.pos(at), "patch-target", "%q is not a regular expression: %v", name, err))
		return false
	}
	var all, others []string
	for d := range p.kinds {
		switch meant := name == "" || re.MatchString(d.name); {
		case meant && d.kind == kind:
			return true
		case meant:
			others = append(others, d.name)
		}
		all = append(all, d.name)
	}
	slices.Sort(all)
	switch {
	case len(others) > 0:
		slices.Sort(others)
		p.add(fatal(p.t.pos(at), "patch-target", "no document of kind %s is meant here, but %s of another kind; give the target its kind, %s or %s", kind, strings.Join(others, ", "), Butane, MachineConfig))
	case name == "":
		p.add(fatal(p.t.pos(at), "patch-target", "no document of kind %s is here", kind))
	default:
		p.add(fatal(p.t.pos(at), "patch-target", "no document is named %q here; there are %s", name, strings.Join(slices.Compact(all), ", ")))
	}
	return false
}

func oneWord(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return "…"
	}
	return n.Value
}

// operations are those of a JSON patch, and whether each has a place to take a value from.
var operations = map[string]bool{"add": false, "remove": false, "replace": false, "test": false, "move": true, "copy": true}

// checkOperation refuses an operation that would fail with the patch's text in the message, or write beside the document.
func (p patcher) checkOperation(body text, op *yaml.Node) bool {
	name := scalarAt(op, "op")
	from, known := operations[name]
	keys := []string{"path"}
	if from {
		keys = []string{"from", "path"}
	}
	switch {
	case op.Kind != yaml.MappingNode:
		p.add(fatal(body.pos(op), "patch", "an operation of a JSON patch is a mapping, such as {op: remove, path: /storage/files/0}"))
		return false
	case !known:
		p.add(fatal(body.pos(op), "patch", "there is no operation %q: known are %s", name, strings.Join(sortedKeys(operations), ", ")))
		return false
	}
	for _, key := range keys {
		if v := scalarAt(op, key); !strings.HasPrefix(v, "/") {
			p.add(fatal(body.pos(op), "patch", "the %s %q of operation %s does not begin with /: write it as /storage/files/0/mode", key, v, name))
			return false
		}
	}
	return true
}
