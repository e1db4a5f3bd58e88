package review

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	pathpkg "path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Comparison says what a change does to nodes. Its JSON form is an interface for tools: docs/review-json.md. Version
// changes if the meaning of a field changes or a field is removed.
type Comparison struct {
	Version string `json:"version"`
	Base    string `json:"base"`
	Head    string `json:"head"`
	// BaseCommit and HeadCommit are nil for a side that is not a commit.
	BaseCommit *Commit `json:"baseCommit,omitempty"`
	HeadCommit *Commit `json:"headCommit,omitempty"`
	// What cluster/ changes and no rendered config has.
	ClusterChanges
	// What files change and no rendered config has.
	FileChanges
	// Who can read the secrets of the repository.
	Readers
	Overview
	// Pools of both sides, by name. An unchanged one has the disruption "none" and no items.
	Pools []PoolChange `json:"pools"`
	// Together are forecasts of pools with several entries, such as for nodes with configs of their own.
	Together map[string]Rollout `json:"together,omitempty"`
	// Undo is the command that reverts the change, or a text if it is not a commit.
	Undo string `json:"undo,omitempty"`
	// UndoCosts are pools whose nodes the undo disturbs more than the change.
	UndoCosts []UndoCost `json:"undoCosts,omitempty"`

	// of head
	folder string
	// nodes that have a config of their own on one of the sides, by pool
	own map[string]map[string]bool
}

// Overview summarizes all pools.
type Overview struct {
	// Warnings that base does not have, as `bunsen validate` reports them.
	Warnings []Warning `json:"warnings,omitempty"`
	// Counts of items.
	Counts Counts `json:"summary"`
	// Hidden counts items that leave out a secret, once for all pools.
	Hidden int `json:"hidden,omitempty"`
	// AvoidReboots has rules to paste; nil if there are none.
	AvoidReboots *AvoidReboots `json:"avoidReboots,omitempty"`
}

// Counts are numbers of items. An item that several pools get is counted once.
type Counts struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
}

// Warning is a probable mistake that does not prevent a rollout.
type Warning struct {
	// Rule is a stable name, such as unused-file.
	Rule string `json:"rule"`
	// Message says what the mistake is, and how to correct it.
	Message string `json:"message"`
	// Origin is `file:line:col`, as far as known.
	Origin string `json:"origin,omitempty"`

	file string
}

// Commit describes the commit of a side.
type Commit struct {
	Hash string `json:"hash"`
	// Time has the format of RFC 3339.
	Subject string `json:"subject,omitempty"`
	Author  string `json:"author,omitempty"`
	Time    string `json:"time,omitempty"`
	// Parents are full hashes. They show whether one revert undoes the whole change.
	Parents []string `json:"parents,omitempty"`
}

// PoolChange says what a change does to one pool.
type PoolChange struct {
	Pool string `json:"pool"`
	// From and To are rendered configs; one is empty if only one side has the pool.
	From string `json:"from"`
	To   string `json:"to"`
	// Disruption is the strongest action on the nodes: none, daemon-reload, reload, restart, drain or reboot.
	Disruption string `json:"disruption"`
	// Actions are in order.
	Actions []Action `json:"actions"`
	// Items are in the order of disruption.Changes.
	Items []Item `json:"items"`
	// About a pool that has no config at head.
	Leaving
	// For reviewers.
	Remarks
	// Refused parts are not for running nodes. New nodes get them.
	Refused []string `json:"refused,omitempty"`
	// NewNodesOnly names the parts of the config that only new nodes get.
	NewNodesOnly []string `json:"newNodesOnly,omitempty"`
	// Notices that the old config does not have.
	Notices []Notice `json:"notices,omitempty"`
	// Rollout is the forecast; nil if the pool's nodes are unknown.
	Rollout *Rollout `json:"rollout,omitempty"`
}

// Leaving says what happens to the nodes of a pool that has no config at head. At most one field is set.
type Leaving struct {
	// KeepsConfig: head has the pool's MachineConfigPool, but no document for it. Its nodes keep the config From, and
	// the pool becomes degraded.
	KeepsConfig bool `json:"keepsConfig,omitempty"`
	// MovesTo is the pool that gets the nodes of a removed one, unless another selects them. The items are then the
	// differences between both configs.
	MovesTo string `json:"movesTo,omitempty"`
}

// Remarks are information on a pool besides its items.
type Remarks struct {
	// Nodes with configs of their own that the change is about; empty for those without.
	Nodes []string `json:"nodes,omitempty"`
	// Absent are Nodes that the pool does not have; nil if only their number is known.
	Absent []string `json:"absentNodes,omitempty"`
	// CheckedOnNode are parts that only a node can check, and for which it may refuse the config.
	CheckedOnNode []string `json:"checkedOnNode,omitempty"`
	// Fetches are downloads before the drain.
	Fetches []Download `json:"fetches,omitempty"`
	// Unreadable are files whose new content is encrypted. Whoever has the public key can have written it.
	Unreadable []string `json:"unreadable,omitempty"`
	// NewlyUnreviewed are paths that only head allows to have contents that no reviewer can read.
	NewlyUnreviewed []string `json:"newlyUnreviewed,omitempty"`
	// NotYetAllowed are contents that no reviewer can read and that base does not allow: the check of a pull request
	// refuses them until the allowance is merged.
	NotYetAllowed []string `json:"notYetAllowed,omitempty"`
	// NodeWrites is what the cluster stores for nodes with configs of their own; nil below 1 MiB.
	NodeWrites *NodeWrites `json:"nodeWrites,omitempty"`
	// NewMarks of secrets are only at head, and hide nothing here.
	NewMarks []string `json:"newMarks,omitempty"`
	// RemovedMarks of secrets are only at base, and still hide contents here.
	RemovedMarks []string `json:"removedMarks,omitempty"`
}

// Action is one action of the disruption policy.
type Action struct {
	// Type is as in a MachineConfiguration: None, DaemonReload, Reload, Restart, Drain, Reboot.
	Type    string `json:"type"`
	Service string `json:"service,omitempty"`
}

// Notice is a remark of the renderer that does not prevent a rollout.
type Notice struct {
	// Rule is a stable name, such as same-file.
	Rule string `json:"rule"`
	// Kind and Path are of the item.
	Kind string `json:"kind"`
	Path string `json:"path"`
	// Message is one sentence, without contents.
	Message string `json:"message"`
	// Inputs are MachineConfigs in the order of merging. The last one wins.
	Inputs []string `json:"inputs,omitempty"`
}

// Item is one changed item of a config, such as a file or a unit.
type Item struct {
	// Kind is a disruption.ChangeKind.
	Kind string `json:"kind"`
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// Parts that changed: `mode`, `owner`, `contents`, `drop-in 20-limits.conf`, ….
	Parts []string `json:"parts,omitempty"`
	// Connects an added item with the removed one of the same content.
	Renamed
	// Effect on an account or a service that the config no longer has, or that existing nodes do not change the item.
	Effect string `json:"effect,omitempty"`
	// Actions of this item alone, with their reasons.
	Actions []Action `json:"actions"`
	Why     string   `json:"why"`
	// AvoidReboot would avoid the reboot; nil if no rule does.
	AvoidReboot *DisruptionRule `json:"avoidReboot,omitempty"`
	// Origin is `file:line:col`; empty if unknown. Commas separate several.
	Origin string `json:"origin,omitempty"`
	// Origins maps changed attributes to `file:line` if their lines differ.
	Origins map[string]string `json:"origins,omitempty"`
	// For people.
	Content
}

// Renamed connects an added item with a removed item of the same content.
type Renamed struct {
	RenamedFrom string `json:"renamedFrom,omitempty"`
	RenamedTo   string `json:"renamedTo,omitempty"`
}

// Content is the difference of an item, with secrets hidden.
type Content struct {
	// Diff has the changed attributes, and then a unified diff of the decoded content, or a line if all of it is hidden
	// or binary. A mark with a digest replaces each secret.
	Diff string `json:"diff"`
	// Hidden: Diff leaves out a secret, such as the contents of a marked path, the hash of a password or the key of a
	// volume.
	Hidden bool `json:"hidden,omitempty"`
}

// Changed reports whether any pool, its nodes, the disruption policy or a submodule changes.
func (c Comparison) Changed() bool {
	if len(c.NewRecipients)+len(c.CreationRules) > 0 {
		return true
	}
	if len(c.Policy)+len(c.MachineConfigPools)+len(c.ClusterObjects)+len(c.Submodules) > 0 {
		return true
	}
	for i := range c.Pools {
		if c.Pools[i].Changed() || len(c.Pools[i].NewlyUnreviewed)+len(c.Pools[i].NewMarks)+
			len(c.Pools[i].RemovedMarks) > 0 {
			return true
		}
	}
	return false
}

// Refused returns an error if the change has contents that no reviewer can read and that only itself allows. A
// controller sees one commit only and takes them, so the check of a pull request has to fail.
func (c Comparison) Refused() error {
	var bad []error
	for i := range c.Pools {
		for _, text := range c.Pools[i].NotYetAllowed {
			bad = append(bad, fmt.Errorf("pool %s: %s", c.Pools[i].Pool, text))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("this change itself allows contents that no reviewer can read. Merge the annotation %s of the "+
		"pool first, in a change of its own:\n%w", v1alpha1.UnreviewedPathsAnnotation, errors.Join(bad...))
}

// Changed reports whether the pool has changed items or another rendered config, or is new or removed.
func (p PoolChange) Changed() bool { return len(p.Items) > 0 || p.From != p.To }

// Section has the changes that one group of pools gets.
type Section struct {
	Pools []string
	Items []Item
}

// identity is equal for changes with the same text, whatever their origins.
type identity struct{ kind, path, change, parts, from, to, actions, why, avoid, diff string }

func identityOf(it Item) identity {
	return identity{
		it.Kind, it.Path, it.Change, strings.Join(it.Parts, "\n"), it.RenamedFrom, it.RenamedTo,
		fmt.Sprint(it.Effect, it.Actions), it.Why, it.AvoidReboot.Name(), it.Diff,
	}
}

// Sections groups the changes of all pools by the pools that get them, so that a change of a shared document is shown
// once: sections with more pools first, then by name, each in the order of disruption.Changes.
func (c Comparison) Sections() []Section {
	type shared struct {
		item   Item
		pools  []string
		places []string // The indexes are those of the pools.
	}
	var all []*shared
	known := map[identity]*shared{}
	for _, p := range c.Pools {
		for _, it := range p.Items {
			id := identityOf(it)
			s := known[id]
			if s == nil {
				s = &shared{item: it}
				known[id] = s
				all = append(all, s)
			}
			s.pools = append(s.pools, p.Pool)
			s.places = append(s.places, it.Places())
		}
	}
	byPools := map[string]*Section{}
	var out []*Section
	for _, s := range all {
		key := strings.Join(s.pools, "\n")
		sec := byPools[key]
		if sec == nil {
			sec = &Section{Pools: s.pools}
			byPools[key] = sec
			out = append(out, sec)
		}
		it := s.item
		it.Origin, it.Origins = joinPlaces(s.pools, s.places), nil
		sec.Items = append(sec.Items, it)
	}
	slices.SortStableFunc(out, func(a, b *Section) int {
		return cmp.Or(len(b.Pools)-len(a.Pools), slices.Compare(a.Pools, b.Pools))
	})
	sections := make([]Section, len(out))
	for i, s := range out {
		sections[i] = *s
	}
	firstHints(sections)
	return sections
}

// firstHints removes a rule that an item above has too, so that a directory of 40 files has one hint.
func firstHints(sections []Section) {
	known := map[string]bool{}
	for _, sec := range sections {
		for i := range sec.Items {
			name := sec.Items[i].AvoidReboot.Name()
			if known[name] {
				sec.Items[i].AvoidReboot = nil
			}
			known[name] = true
		}
	}
}

// joinPlaces lists each position once; of several, each has the names of its pools.
func joinPlaces(pools, places []string) string {
	of := map[string][]string{}
	var order []string
	for i, place := range places {
		if of[place] == nil {
			order = append(order, place)
		}
		of[place] = append(of[place], pools[i])
	}
	if len(order) == 1 {
		return order[0]
	}
	var out []string
	for _, place := range order {
		if place != "" {
			out = append(out, place+" ("+strings.Join(of[place], ", ")+")")
		}
	}
	return strings.Join(out, ", ")
}

// Places lists where the repository sets the changed values, with the names of attributes that come from different
// lines.
func (it Item) Places() string {
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

// runningCluster is the name of a base that is read from a cluster.
const runningCluster = "the cluster"

// FromCluster reports whether the base is what the pools of a cluster should run.
func (c Comparison) FromCluster() bool { return c.Base == runningCluster }

// ShortHash shortens a hash to eight digits. It returns any other name unchanged.
func ShortHash(name string) string {
	if len(name) != 40 && len(name) != 64 {
		return name
	}
	for _, r := range name {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return name
		}
	}
	return name[:8]
}

// FileChanges are the changed files of the repository that the rendered configs do not show.
type FileChanges struct {
	// Submodules are those that another commit is named for. Their files are not in the review, though a source that
	// includes submodules has them.
	Submodules []SubmoduleChange `json:"submodules,omitempty"`
	// WithoutEffect are changed files that no program reads, or whose documents give the same configs as before.
	WithoutEffect []string `json:"filesWithoutEffect,omitempty"`
}

// SubmoduleChange is one submodule that another commit is named for.
type SubmoduleChange struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	// From and To are full hashes; empty where there is no submodule, and for one in a work tree, whose commit is
	// unknown.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// fileChanges returns the changed files that the rest of the comparison does not show.
func (c Comparison) fileChanges(base, head Side) (out FileChanges) {
	if base.Entries == nil || head.Entries == nil {
		return out
	}
	effective := map[string]bool{}
	for i := range c.Pools {
		if p := &c.Pools[i]; p.Changed() {
			for _, path := range slices.Concat(base.Reads[p.Pool], head.Reads[p.Pool]) {
				effective[path] = true
			}
		}
	}
	inCluster := len(c.Policy)+len(c.MachineConfigPools)+len(c.ClusterObjects) > 0
	all := maps.Clone(base.Entries)
	maps.Copy(all, head.Entries)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, is := base.Entries[path], head.Entries[path]
		switch {
		case was == is:
		case isSubmodule(was) && !isSubmodule(is):
			out.Submodules = append(out.Submodules, SubmoduleChange{Path: path, Change: "removed", From: was.State})
		case !isSubmodule(was) && isSubmodule(is):
			out.Submodules = append(out.Submodules, SubmoduleChange{Path: path, Change: "added", To: is.State})
		case isSubmodule(is):
			if was.State != "" && is.State != "" { // The commit of a work tree is unknown, and counts as unchanged.
				out.Submodules = append(out.Submodules, SubmoduleChange{path, "changed", was.State, is.State})
			}
		case effective[path], inCluster && strings.HasPrefix(path, transpile.ClusterDir+"/"):
		case len(c.CreationRules) > 0 && pathpkg.Base(path) == rulesFile: // its lines are shown
		default:
			out.WithoutEffect = append(out.WithoutEffect, path)
		}
	}
	return out
}

func isSubmodule(e source.Entry) bool { return strings.HasPrefix(e.Refused, source.SubmoduleWhy) }

// rulesFile: the creation rules of SOPS
const rulesFile = ".sops.yaml"
