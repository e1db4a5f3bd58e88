package review

import (
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/policy/secret"
	"github.com/bunsen-os/bunsen/review/lineage"
)

// Side is one of the two states that are compared.
type Side struct {
	// Name for people: a revision or a directory.
	Name string
	// Commit of the side; nil for a directory, or for what runs in a cluster.
	Commit *Commit
	// Pools by name.
	Pools map[string]Pool
	// Folder of the repository that the side is, "" for all of it: what an undo may touch.
	Folder string
	// Warnings of its documents.
	Warnings []Warning
	// Declared are the pools of which the side has a MachineConfigPool, whether or not it has documents for them.
	Declared []string
	// Overrides say how much running nodes take in place under the MachineConfiguration of this side; head's count.
	Overrides policy.Overrides
	// Marks of the cluster objects. In a review only those of base hide contents.
	Marks Marks
	// PolicyFile is the file of the side's MachineConfiguration, or `MachineConfiguration cluster` where the cluster alone has
	// it; "" where there is none.
	PolicyFile string
}

// declares tells that the pool has a MachineConfigPool: every cluster has the standard ones, whatever its repository says.
func (s Side) declares(pool string) bool {
	return isStandard(pool) || slices.Contains(s.Declared, pool)
}

// Pool is what one pool renders to.
type Pool struct {
	// Rendered is the name, `rendered-<pool>-<hash>`. Pools of one name hold the same content and are not looked into.
	Rendered string
	// Config is the content.
	Config machineconfig.Config
	// Origin says where the repository sets an item: `file:line:col`, or "" where that is not known. An argument of the
	// kernel and an extension are their own names. Nil knows nothing. It is asked for items that changed, only.
	Origin func(kind policy.ChangeKind, name string) string
	// Lineage says who wrote each attribute of an item. Nil knows nothing. It is asked for items that changed, only.
	Lineage func(kind policy.ChangeKind, name string) (lineage.Item, bool)
	// Secrets mark items whose contents nobody prints; see v1alpha1.SecretPathsAnnotation.
	Secrets secret.Paths
	// Notices of the renderer.
	Notices []Notice
}

// Compare says what going from base to head does under p. Its cost is that of comparing the pools whose rendered names
// differ, and of decoding and diffing what differs in them.
func Compare(base, head Side, p policy.Policy) Comparison {
	out := Comparison{Version: "1", Base: base.Name, Head: head.Name, BaseCommit: base.Commit, HeadCommit: head.Commit, Pools: []PoolChange{}}
	names := map[string]bool{}
	for _, s := range []Side{base, head} {
		for name := range s.Pools {
			names[name] = true
		}
	}
	d := differ{known: map[texts]string{}}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if from := base.Pools[name].Rendered; from != "" && head.Pools[name].Rendered == "" && head.declares(name) {
			out.Pools = append(out.Pools, PoolChange{Pool: name, From: from, Leaving: Leaving{KeepsConfig: true}, Disruption: policy.None.String(), Actions: []Action{}, Items: []Item{}})
			continue
		}
		out.Pools = append(out.Pools, d.poolOrNext(name, base, head, terms{policy: p, overrides: head.Overrides}))
	}
	out.Warnings, out.folder = newWarnings(base.Warnings, head.Warnings), head.Folder
	out.Overview = overviewOf(out)
	out.AvoidReboots = avoidRebootsOf(out, head.PolicyFile)
	out.Undo = undo(out)
	return out
}

// terms are what costs and limits are judged by.
type terms struct {
	policy    policy.Policy
	overrides policy.Overrides
	// marks hide contents.
	marks secret.Paths
}

// nextPool takes the nodes of a custom pool that goes, unless another pool selects them.
const nextPool = "worker"

// poolOrNext compares a pool, or, where the pool goes, its config with that of the pool that takes its nodes.
func (d differ) poolOrNext(name string, base, head Side, t terms) PoolChange {
	from, to := base.Pools[name], head.Pools[name]
	t.marks = trustedMarks(base, name)
	next := head.Pools[nextPool]
	if from.Rendered == "" || to.Rendered != "" || next.Rendered == "" {
		return d.pool(name, from, to, t)
	}
	t.marks = trustedMarks(base, name, nextPool)
	out := d.pool(name, from, next, t)
	out.To, out.MovesTo = "", nextPool
	return out
}

func (d differ) pool(name string, from, to Pool, t terms) PoolChange {
	out := PoolChange{Pool: name, From: from.Rendered, To: to.Rendered, Disruption: policy.None.String(), Actions: []Action{}, Items: []Item{}}
	if from.Rendered == to.Rendered {
		return out
	}
	from.Config, to.Config = machineconfig.Flattened(from.Config), machineconfig.Flattened(to.Config)
	decision := policy.Decide(from.Config, to.Config, t.policy)
	out.Disruption = decision.Disruption.String()
	out.Actions = actions(decision.Actions)
	pairs := look(decision.Items, from, to, t.marks)
	hideCopies(pairs)
	for i, c := range decision.Items {
		at, attributes := placesOf(c.Change, from, to)
		diff, parts, rules := d.difference(pairs[i])
		out.Items = append(out.Items, Item{
			Kind: string(c.Kind), Path: c.Name, Change: string(c.Verb), Parts: parts,
			Actions: actions(c.Actions), Effect: c.Effect, Why: c.Why, AvoidReboot: avoidance(c, from, to, t.policy), Origin: at, Origins: attributes, Content: Content{Diff: diff, Hidden: rules},
		})
	}
	out.NewMarks = newMarks(to.Secrets, t.marks, decision.Items)
	findRenames(out.Items, pairs)
	out.Notices = newNotices(from.Notices, to.Notices)
	if from.Rendered == "" || to.Rendered == "" {
		return out // a pool that comes or goes has no running nodes of its own to refuse anything
	}
	for _, r := range policy.Refuse(from.Config, to.Config, t.overrides) {
		out.Refused = append(out.Refused, r.Field+": "+r.Why)
	}
	for _, r := range policy.CheckedOnNode(from.Config, to.Config) {
		text := r.Field + ": " + r.Why
		if strings.HasPrefix(r.Why, "is ") {
			text = r.Field + " " + r.Why
		}
		out.CheckedOnNode = append(out.CheckedOnNode, text)
	}
	for _, r := range policy.NewNodesOnly(from.Config, to.Config) {
		out.NewNodesOnly = append(out.NewNodesOnly, r.Field+": "+strings.TrimPrefix(r.Why, newNodesWords))
	}
	return out
}

// newNodesWords begin every reason of policy.NewNodesOnly; the printers say them once for all.
const newNodesWords = "existing nodes will not get this: "

func actions(in []policy.Action) []Action {
	out := make([]Action, len(in))
	for i, a := range in {
		out[i] = Action{Type: string(a.Type), Service: a.Service}
	}
	return out
}

// originOf is where head sets the item, or base where it is gone. Lists of arguments have one place for each that changed.
func originOf(c policy.Change, from, to Pool) string {
	at := func(p Pool, name string) string {
		if p.Origin == nil {
			return ""
		}
		return p.Origin(c.Kind, name)
	}
	was, is := listOf(c.Kind, from.Config), listOf(c.Kind, to.Config)
	if len(was)+len(is) == 0 {
		if c.Verb == policy.Removed {
			return at(from, c.Name)
		}
		return at(to, c.Name)
	}
	var places []string
	add := func(p Pool, names, others []string) {
		for _, name := range names {
			if place := at(p, name); place != "" && !slices.Contains(others, name) && !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
	}
	add(to, is, was)
	add(from, was, is)
	return strings.Join(places, ", ")
}

// placesOf says where the repository sets what changed: the one line of all attributes that did, or where the item begins
// with a place for each attribute.
func placesOf(c policy.Change, from, to Pool) (at string, attributes map[string]string) {
	at = originOf(c, from, to)
	if c.Verb != policy.Changed || len(listOf(c.Kind, from.Config))+len(listOf(c.Kind, to.Config)) > 0 {
		return at, nil // the place of the whole, or of each
	}
	written := func(p Pool) []lineage.Attribute {
		if p.Lineage == nil {
			return nil
		}
		item, _ := p.Lineage(c.Kind, c.Name)
		return item.Attributes
	}
	was, attributes, places := written(from), map[string]string{}, map[string]bool{}
	for _, a := range written(to) {
		same := slices.ContainsFunc(was, func(o lineage.Attribute) bool { return unnumbered(o.Name) == unnumbered(a.Name) && o.Value == a.Value })
		if place := a.At.String(); !same && place != "" {
			attributes[a.Name], places[place] = place, true
		}
	}
	if len(places) > 1 {
		return at, attributes
	}
	for place := range places {
		at = place
	}
	return at, nil
}

// unnumbered is an attribute's name without its place in a list, which others move.
func unnumbered(name string) string { return strings.TrimRight(name, "0123456789") }

// listOf is what a kind lists, nil for kinds of another sort.
func listOf(kind policy.ChangeKind, c machineconfig.Config) []string {
	switch kind {
	case policy.KindKargs:
		return machineconfig.SplitKargs(c.KernelArguments)
	case policy.KindExtensions:
		return slices.Sorted(slices.Values(c.Extensions))
	}
	return nil
}

// newWarnings leaves out what the base had already, whichever line it stands in now.
func newWarnings(base, head []Warning) (out []Warning) {
	for _, w := range head {
		if !slices.ContainsFunc(base, func(o Warning) bool { return o.Rule == w.Rule && o.Message == w.Message && o.file == w.file }) {
			out = append(out, w)
		}
	}
	return out
}

// newNotices leaves out what the base drew already: a review is about the change.
func newNotices(base, head []Notice) (out []Notice) {
	for _, n := range head {
		if !slices.ContainsFunc(base, func(o Notice) bool { return o.Rule == n.Rule && o.text() == n.text() }) {
			out = append(out, n)
		}
	}
	return out
}
