package review

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// Comparison says what a change does to nodes. The JSON form of a Comparison is an interface for tools;
// docs/review-json.md describes it. Version changes if the meaning of a field changes or a field is removed.
type Comparison struct {
	// Version is the version of the JSON form, "1".
	Version string `json:"version"`
	// Base and Head name the two sides.
	Base string `json:"base"`
	Head string `json:"head"`
	// BaseCommit and HeadCommit are the commits of the sides. The commit is nil for a side that is not a commit.
	BaseCommit *Commit `json:"baseCommit,omitempty"`
	HeadCommit *Commit `json:"headCommit,omitempty"`
	// Changes are the changes in cluster/ that no rendered config has.
	ClusterChanges
	// FileChanges are the changes of files that no rendered config has.
	FileChanges
	// Readers are the changes of who can read the secrets of the repository.
	Readers
	// Overview summarizes all pools.
	Overview
	// Pools are the pools of both sides, by name. An unchanged pool has the disruption "none" and no items.
	Pools []PoolChange `json:"pools"`
	// Together are the forecasts of pools with several entries, such as for nodes with configs of their own.
	Together map[string]Rollout `json:"together,omitempty"`
	// Undo is the command that reverts the change, or a text if the change is not a commit.
	Undo string `json:"undo,omitempty"`

	// folder is the Folder of head.
	folder string
	// own are the nodes of each pool that have a config of their own on one of the sides.
	own map[string]map[string]bool
}

// Overview summarizes all pools.
type Overview struct {
	// Warnings are head's warnings that base does not have, as `bunsen validate` reports them.
	Warnings []Warning `json:"warnings,omitempty"`
	// Counts are the numbers of added, changed and removed items.
	Counts Counts `json:"summary"`
	// Hidden is how many items leave out a secret. An item that several pools get is counted once.
	Hidden int `json:"hidden,omitempty"`
	// AvoidReboots are rules that a user can paste, so that items do not reboot nodes; nil if there are none.
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
	// Origin is the position of the mistake, `file:line:col`. Unknown parts are missing.
	Origin string `json:"origin,omitempty"`

	file string
}

// WithCluster adds the changes of a repository's cluster/ that no rendered config has.
func (c Comparison) WithCluster(changes ClusterChanges) Comparison {
	c.ClusterChanges = changes
	c.Undo = undo(c)
	return c
}

// Commit describes the commit of a side.
type Commit struct {
	// Hash is the full hash of the commit.
	Hash string `json:"hash"`
	// Subject, Author and Time are those of the commit. Time has the format of RFC 3339.
	Subject string `json:"subject,omitempty"`
	Author  string `json:"author,omitempty"`
	Time    string `json:"time,omitempty"`
	// Parents are the full hashes of the commit's parents. The parents show whether one revert undoes the whole change.
	Parents []string `json:"parents,omitempty"`
}

// PoolChange says what a change does to one pool.
type PoolChange struct {
	// Pool is the pool's name.
	Pool string `json:"pool"`
	// From and To are the names of the old and the new rendered config. From or To is empty if only one side has the
	// pool.
	From string `json:"from"`
	To   string `json:"to"`
	// Disruption is the strongest action on the nodes: none, daemon-reload, reload, restart, drain or reboot.
	Disruption string `json:"disruption"`
	// Actions are the actions of the whole change, in order.
	Actions []Action `json:"actions"`
	// Items are the changed items, in the order of disruption.Changes.
	Items []Item `json:"items"`
	// Leaving says what happens to the nodes of a pool that has no config at head.
	Leaving
	// Remarks have further information for reviewers.
	Remarks
	// Refused names the parts of the config that running nodes refuse. New nodes get the refused parts.
	Refused []string `json:"refused,omitempty"`
	// NewNodesOnly names the parts of the config that only new nodes get.
	NewNodesOnly []string `json:"newNodesOnly,omitempty"`
	// Notices are the renderer's remarks on the new config that the old config does not have.
	Notices []Notice `json:"notices,omitempty"`
	// Rollout is the forecast of the rollout. Rollout is nil if the pool's nodes are unknown.
	Rollout *Rollout `json:"rollout,omitempty"`
}

// Leaving says what happens to the nodes of a pool that has no config at head. At most one field is set.
type Leaving struct {
	// KeepsConfig is true if head has the pool's MachineConfigPool, but no document that the pool selects. The pool's
	// nodes then keep the config From, and the pool becomes degraded.
	KeepsConfig bool `json:"keepsConfig,omitempty"`
	// MovesTo is the pool that gets the nodes of a removed pool, unless another pool selects them. The items are then
	// the differences between the configs of the two pools.
	MovesTo string `json:"movesTo,omitempty"`
}

// Remarks are information on a pool besides its items.
type Remarks struct {
	// Nodes are the nodes with configs of their own that the change is about; empty for the nodes without them.
	Nodes []string `json:"nodes,omitempty"`
	// Absent are those of Nodes that the pool does not have. It is nil if only the number of the pool's nodes is known.
	Absent []string `json:"absentNodes,omitempty"`
	// CheckedOnNode names the parts of the config that only a node can check. The node may refuse the config because of
	// these parts.
	CheckedOnNode []string `json:"checkedOnNode,omitempty"`
	// Fetches is what running nodes download before they are drained.
	Fetches []Download `json:"fetches,omitempty"`
	// Unreadable are the paths of files whose new content is encrypted. Whoever has the public key can have written it.
	Unreadable []string `json:"unreadable,omitempty"`
	// NewlyUnreviewed are the paths that only head allows to have contents that no reviewer can read.
	NewlyUnreviewed []string `json:"newlyUnreviewed,omitempty"`
	// NotYetAllowed are the contents that no reviewer can read and that base does not allow: the check of a pull
	// request refuses them until the allowance is merged.
	NotYetAllowed []string `json:"notYetAllowed,omitempty"`
	// NodeWrites is what the cluster stores for the nodes with configs of their own; nil below 1 MiB.
	NodeWrites *NodeWrites `json:"nodeWrites,omitempty"`
	// NewMarks are the marks of secrets that only head has. They hide nothing in this comparison.
	NewMarks []string `json:"newMarks,omitempty"`
	// RemovedMarks are the marks of secrets that only base has. They still hide contents in this comparison.
	RemovedMarks []string `json:"removedMarks,omitempty"`
}

// Action is one action of the disruption policy.
type Action struct {
	// Type is the type of the action as a MachineConfiguration names it: None, DaemonReload, Reload, Restart, Drain,
	// Reboot.
	Type string `json:"type"`
	// Service is the service that a Reload or Restart applies to.
	Service string `json:"service,omitempty"`
}

// Notice is a remark of the renderer that does not prevent a rollout.
type Notice struct {
	// Rule is a stable name, such as same-file.
	Rule string `json:"rule"`
	// Kind and Path are the kind and the path of the item that the notice is about.
	Kind string `json:"kind"`
	Path string `json:"path"`
	// Message is one sentence, without contents.
	Message string `json:"message"`
	// Inputs are the MachineConfigs in the order of merging. The last MachineConfig wins.
	Inputs []string `json:"inputs,omitempty"`
}

// Item is one changed item of a config, such as a file or a unit.
type Item struct {
	// Kind is a disruption.ChangeKind.
	Kind string `json:"kind"`
	// Path is the path of a file, or the name of a unit or user. Path is empty for kinds with only one item.
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// Parts names the changed parts of the item: `mode`, `owner`, `contents`, `drop-in 20-limits.conf`, ….
	Parts []string `json:"parts,omitempty"`
	// Renamed connects an added item with the removed item of the same content.
	Renamed
	// Effect says what happens to an account that the config no longer has, or that existing nodes do not change the
	// item.
	Effect string `json:"effect,omitempty"`
	// Actions are the actions that this item alone causes, and the reasons for them.
	Actions []Action `json:"actions"`
	Why     string   `json:"why"`
	// AvoidReboot is the rule that would avoid the reboot. AvoidReboot is nil if no rule avoids it.
	AvoidReboot *DisruptionRule `json:"avoidReboot,omitempty"`
	// Origin is the position of the item in the repository, `file:line:col`, if it is known. Commas separate several
	// positions.
	Origin string `json:"origin,omitempty"`
	// Origins maps the changed attributes to `file:line` if they come from different lines.
	Origins map[string]string `json:"origins,omitempty"`
	// Content is the difference of the item as a text for people.
	Content
}

// Renamed connects an added item with a removed item of the same content.
type Renamed struct {
	RenamedFrom string `json:"renamedFrom,omitempty"`
	RenamedTo   string `json:"renamedTo,omitempty"`
}

// Content is the difference of an item, with secrets hidden.
type Content struct {
	// Diff has the changed attributes, and then a unified diff of the decoded content. If the whole content is hidden
	// or binary, one line replaces the unified diff. A mark with a digest replaces each secret.
	Diff string `json:"diff"`
	// Hidden is true if Diff leaves out a secret: the contents of a marked path, the hash of a password or the key of a
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

// Refused returns an error if the change has contents that no reviewer can read and that only the change itself allows.
// A controller sees one commit only and takes them, so the check of a pull request has to fail.
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

// WithReaders adds the changes of who can read the secrets.
func (c Comparison) WithReaders(changes Readers) Comparison {
	c.Readers = changes
	return c
}

// runningCluster is the name of a base that is read from a cluster.
const runningCluster = "the cluster"

// undo returns the command that reverts the change: `git revert` for one commit on top of base. For several commits, or
// for a base on another branch, the command restores the files of base, because the commits may include merges. If a
// side is not a commit, undo returns a text.
func undo(c Comparison) string {
	switch base, head := c.BaseCommit, c.HeadCommit; {
	case !c.Changed():
		return ""
	case base == nil && c.Base == runningCluster:
		return "revert the commit after it is pushed; every pool then returns to its earlier rendered config"
	case c.Base == runningCluster && (head == nil || head.Hash == ""):
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

// pathspec returns the git pathspec of a folder from the repository's root, quoted for a shell.
func pathspec(folder string) string {
	spec := ":/" + folder
	if strings.ContainsFunc(folder, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
	}) {
		spec = "'" + strings.ReplaceAll(spec, "'", `'\''`) + "'"
	}
	return spec
}

// ShortHash shortens a hash to eight digits. ShortHash returns any other name unchanged.
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

// DisruptionRule is a rule of the disruption policy that would avoid a reboot for an item. In a DisruptionRule either
// Path or Unit is set.
type DisruptionRule struct {
	Path    string   `json:"path,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Actions []Action `json:"actions"`
	// Note names the effects of the item that the rule's actions do not cover. Note may be "".
	Note string `json:"note,omitempty"`
}

// AvoidReboots are rules that a user can paste, so that items do not reboot nodes.
type AvoidReboots struct {
	// File is the file of head's MachineConfiguration, or "". Side.PolicyFile explains it.
	File string `json:"file,omitempty"`
	// YAML is a whole MachineConfiguration. If File is set, YAML is only an addition to spec.nodeDisruptionPolicy of
	// that file.
	YAML string `json:"yaml"`
	// StillReboot are the pools that reboot even with these rules, because no rule is known for all of their items.
	StillReboot []string `json:"stillReboot,omitempty"`
}

// NewPolicyFile is the file for a new MachineConfiguration, if a repository has none.
const NewPolicyFile = "cluster/machine-configuration.yaml"

// reboots reports whether the item alone reboots nodes.
func (it Item) reboots() bool {
	return slices.ContainsFunc(it.Actions, func(a Action) bool { return a.Type == string(disruption.ActionReboot) })
}

// Name is the path or the unit of the rule; a nil rule has the name "".
func (r *DisruptionRule) Name() string {
	if r == nil {
		return ""
	}
	return cmp.Or(r.Path, r.Unit)
}

// yaml writes the rule as an entry of a list, with the rule's note as a comment below it.
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
