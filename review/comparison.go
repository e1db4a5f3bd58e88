package review

// Comparison is what a change does. Its JSON form is what tools may build on, and docs/review-json.md describes it;
// Version moves when a field changes its meaning or goes.
type Comparison struct {
	// Version of the form, "1".
	Version string `json:"version"`
	// Base and Head name the two sides.
	Base string `json:"base"`
	Head string `json:"head"`
	// BaseCommit and HeadCommit are the commits of the sides, nil where a side is none.
	BaseCommit *Commit `json:"baseCommit,omitempty"`
	HeadCommit *Commit `json:"headCommit,omitempty"`
	// Policy names each rule of the disruption policy that changes: `/etc/motd: None → Reboot`.
	Policy []string `json:"policy,omitempty"`
	// MachineConfigPools names what changes in them and is in no rendered config: which nodes a pool takes, and how many are
	// away at once.
	MachineConfigPools []string `json:"machineConfigPools,omitempty"`
	// ClusterObjects names what changes in the other fields of the objects of cluster/, and which of them come and go:
	// RolloutPolicies, DriftPolicies, MachineConfigPools and the MachineConfiguration.
	ClusterObjects []string `json:"clusterObjects,omitempty"`
	// Overview is about all pools together.
	Overview
	// Pools of either side, by name; unchanged ones have disruption "none" and no items.
	Pools []PoolChange `json:"pools"`
	// Undo is the one line that takes the change back, or words where it is no commit.
	Undo string `json:"undo,omitempty"`

	// folder as head's Folder.
	folder string
}

// Overview is what a comparison says of all pools together.
type Overview struct {
	// Warnings are those of head's documents that base's did not draw: what `bunsen validate` says of the change.
	Warnings []Warning `json:"warnings,omitempty"`
	// Counts of the items.
	Counts Counts `json:"summary"`
	// HiddenItems counts the items in which something is hidden; nil where nothing is.
	HiddenItems *HiddenItems `json:"hidden,omitempty"`
	// AvoidReboots is what to paste so that items do not reboot nodes; nil where no rule is known.
	AvoidReboots *AvoidReboots `json:"avoidReboots,omitempty"`
}

// Counts are numbers of items. An item that several pools get is counted once.
type Counts struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
}

// HiddenItems counts the items whose difference hides something.
type HiddenItems struct {
	// Items are counted once, whatever the number of pools that get them.
	Items int `json:"items"`
	// Rules that hid something, sorted; see secret.Rules.
	Rules []string `json:"rules"`
}

// Warning is something that may not be meant, and stops nothing.
type Warning struct {
	// Rule is a stable name, such as unused-file.
	Rule string `json:"rule"`
	// Message says it, and what to do.
	Message string `json:"message"`
	// Origin is `file:line:col`, as far as it is known.
	Origin string `json:"origin,omitempty"`

	file string
}

// text is the place and what is wrong there.
func (w Warning) text() string {
	if w.Origin == "" {
		return w.Message
	}
	return w.Origin + ": " + w.Message
}

// WithCluster adds what changes in a repository's cluster/ and is in no rendered config, as ComparePolicies, ComparePools and
// CompareObjects name it.
func (c Comparison) WithCluster(policies, pools, objects []string) Comparison {
	c.Policy, c.MachineConfigPools, c.ClusterObjects = policies, pools, objects
	c.Undo = undo(c)
	return c
}

// Commit is what is known of the commit of a side.
type Commit struct {
	// Hash in full.
	Hash string `json:"hash"`
	// Subject, Author and Time (RFC 3339) as the commit says them.
	Subject string `json:"subject,omitempty"`
	Author  string `json:"author,omitempty"`
	Time    string `json:"time,omitempty"`
	// Parents in full; with them it is known whether one revert undoes all that is between base and head.
	Parents []string `json:"parents,omitempty"`
}

// PoolChange is what a change does to one pool.
type PoolChange struct {
	// Pool is the pool's name.
	Pool string `json:"pool"`
	// From and To are rendered names; empty where the pool is on one side only.
	From string `json:"from"`
	To   string `json:"to"`
	// Disruption is none, daemon-reload, reload, restart, drain or reboot.
	Disruption string `json:"disruption"`
	// Actions of the whole change, in order.
	Actions []Action `json:"actions"`
	// Items in the order of policy.Changes.
	Items []Item `json:"items"`
	// Leaving is what becomes of the nodes of a pool that has no config at head.
	Leaving
	// Remarks are what a reviewer has to know besides.
	Remarks
	// Refused names what running nodes cannot take; new nodes get it.
	Refused []string `json:"refused,omitempty"`
	// NewNodesOnly names what running nodes keep as it is while they take the rest.
	NewNodesOnly []string `json:"newNodesOnly,omitempty"`
	// Notices are the renderer's remarks on the new config that the old one did not draw.
	Notices []Notice `json:"notices,omitempty"`
	// Rollout is the forecast; nil where nothing is known of the pool's nodes.
	Rollout *Rollout `json:"rollout,omitempty"`
}

// Leaving is what becomes of the nodes of a pool that has no config at head. At most one field is set.
type Leaving struct {
	// KeepsConfig: head has the pool's MachineConfigPool and no document that it selects. Its nodes keep From, and the pool becomes
	// degraded.
	KeepsConfig bool `json:"keepsConfig,omitempty"`
	// MovesTo is the pool that takes the nodes of a pool that goes, unless another pool selects them. The items are then what
	// differs between the configs of the two pools.
	MovesTo string `json:"movesTo,omitempty"`
}

// Remarks are what a reviewer has to know of a pool besides its items.
type Remarks struct {
	// CheckedOnNode names what only a node knows, and for which it may refuse the config.
	CheckedOnNode []string `json:"checkedOnNode,omitempty"`
	// NewMarks are the marks of head that base does not have and that match a changed item. They hide nothing here.
	NewMarks []string `json:"newMarks,omitempty"`
}

// Action is one action of the disruption policy.
type Action struct {
	// Type as in MachineConfiguration: None, DaemonReload, Reload, Restart, Drain, Reboot.
	Type string `json:"type"`
	// Service of a Reload or Restart.
	Service string `json:"service,omitempty"`
}

// Notice is something that rendering saw and nothing is stopped by.
type Notice struct {
	// Rule is a stable name, such as same-file.
	Rule string `json:"rule"`
	// Kind and Path as in Item: what it is about.
	Kind string `json:"kind"`
	Path string `json:"path"`
	// Message says it in a sentence, without contents.
	Message string `json:"message"`
	// Inputs are the MachineConfigs in the order of merging; the last wins.
	Inputs []string `json:"inputs,omitempty"`
}

// Item is one thing that changed.
type Item struct {
	// Kind as in policy.ChangeKind.
	Kind string `json:"kind"`
	// Path of a file, or the name of a unit or user; empty for kinds of which there is one.
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// Parts names what of the item changed: `mode`, `owner`, `contents`, `drop-in 20-limits.conf`, ….
	Parts []string `json:"parts,omitempty"`
	// Renamed joins two items.
	Renamed
	// Effect is what becomes of an account that leaves the config, or that existing nodes keep what they have.
	Effect string `json:"effect,omitempty"`
	// Actions of this item alone, and why.
	Actions []Action `json:"actions"`
	Why     string   `json:"why"`
	// AvoidReboot is the rule with which the item would not reboot nodes; nil where none is known.
	AvoidReboot *DisruptionRule `json:"avoidReboot,omitempty"`
	// Origin is `file:line:col` in the repository, where it is known; several are separated by commas.
	Origin string `json:"origin,omitempty"`
	// Origins maps what changed in the item to its `file:line`, where attributes come from different lines.
	Origins map[string]string `json:"origins,omitempty"`
	// Content is what differs, to read.
	Content
}

// Renamed joins an item that was added with one that was removed and had the same content.
type Renamed struct {
	RenamedFrom string `json:"renamedFrom,omitempty"`
	RenamedTo   string `json:"renamedTo,omitempty"`
}

// Content is what differs in an item, with its secrets hidden.
type Content struct {
	// Diff is attributes that moved, then a unified diff of the decoded content, or one line where all of the content is
	// hidden or binary. A mark with a digest stands for each secret.
	Diff string `json:"diff"`
	// Hidden are the rules that hid something in what differs, sorted; see secret.Rules. "attribute" stands for a hidden value outside of texts.
	Hidden []string `json:"hidden,omitempty"`
}

// Changed tells whether any pool, its nodes, or what changes cost, changed.
func (c Comparison) Changed() bool {
	if len(c.Policy)+len(c.MachineConfigPools)+len(c.ClusterObjects) > 0 {
		return true
	}
	for i := range c.Pools {
		if c.Pools[i].changed() {
			return true
		}
	}
	return false
}

func (p PoolChange) changed() bool { return len(p.Items) > 0 || p.From != p.To }
