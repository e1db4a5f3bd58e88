package review

import (
	"sort"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
)

// Side is one of the two states that are compared.
type Side struct {
	// Name for people: a revision or a directory.
	Name string
	// Pools by name.
	Pools map[string]Pool
}

// Pool is what one pool renders to.
type Pool struct {
	// Rendered is the name, `rendered-<pool>-<hash>`.
	Rendered string
	// Config is the content.
	Config machineconfig.Config
	// Origins maps an item, as ItemKey names it, to `file:line:col` of the repository.
	Origins map[string]string
}

// ItemKey names an item of a config in Pool.Origins.
func ItemKey(kind policy.ChangeKind, name string) string { return string(kind) + " " + name }

// Comparison is what a change does. Its JSON form is what tools may build on; Version moves with it.
type Comparison struct {
	// Version of the form, "1".
	Version string `json:"version"`
	// Base and Head name the two sides.
	Base string `json:"base"`
	Head string `json:"head"`
	// Policy names each rule of the disruption policy that changes: `/etc/motd: None → Reboot`.
	Policy []string `json:"policy,omitempty"`
	// Pools of either side, by name; unchanged ones have disruption "none" and no items.
	Pools []PoolChange `json:"pools"`
}

// PoolChange is what a change does to one pool.
type PoolChange struct {
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
	// Refused names what running nodes cannot take; new nodes get it.
	Refused []string `json:"refused,omitempty"`
}

// Action is one action of the disruption policy.
type Action struct {
	Type    string `json:"type"`
	Service string `json:"service,omitempty"`
}

// Item is one thing that changed.
type Item struct {
	// Kind as in policy.ChangeKind.
	Kind string `json:"kind"`
	// Path of a file, or the name of a unit or user; empty for kinds of which there is one.
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// Actions of this item alone, and why.
	Actions []Action `json:"actions"`
	Why     string   `json:"why"`
	// Origin is `file:line:col` in the repository, where it is known.
	Origin string `json:"origin,omitempty"`
	// Diff is a unified diff of the decoded content, or one line where the content is hidden or binary.
	Diff string `json:"diff"`
}

// Changed tells whether any pool, or what changes cost, changed.
func (c Comparison) Changed() bool {
	if len(c.Policy) > 0 {
		return true
	}
	for _, p := range c.Pools {
		if len(p.Items) > 0 || p.From != p.To {
			return true
		}
	}
	return false
}

// Compare says what going from base to head does under p.
func Compare(base, head Side, p policy.Policy) Comparison {
	out := Comparison{Version: "1", Base: base.Name, Head: head.Name, Pools: []PoolChange{}}
	names := map[string]bool{}
	for name := range base.Pools {
		names[name] = true
	}
	for name := range head.Pools {
		names[name] = true
	}
	for name := range names {
		out.Pools = append(out.Pools, comparePool(name, base.Pools[name], head.Pools[name], p))
	}
	sort.Slice(out.Pools, func(i, j int) bool { return out.Pools[i].Pool < out.Pools[j].Pool })
	return out
}

func comparePool(name string, from, to Pool, p policy.Policy) PoolChange {
	out := PoolChange{Pool: name, From: from.Rendered, To: to.Rendered, Disruption: policy.None.String(), Actions: []Action{}, Items: []Item{}}
	if from.Rendered == to.Rendered {
		return out
	}
	decision := policy.Decide(from.Config, to.Config, p)
	out.Disruption = decision.Disruption.String()
	out.Actions = actions(decision.Actions)
	for _, c := range decision.Items {
		origin := to.Origins[ItemKey(c.Kind, c.Name)]
		if c.Verb == policy.Removed {
			origin = from.Origins[ItemKey(c.Kind, c.Name)]
		}
		out.Items = append(out.Items, Item{
			Kind: string(c.Kind), Path: c.Name, Change: string(c.Verb),
			Actions: actions(c.Actions), Why: c.Why, Origin: origin,
			Diff: difference(c.Change, from.Config, to.Config),
		})
	}
	if from.Rendered == "" || to.Rendered == "" {
		return out // a pool that comes or goes has no running nodes of its own to refuse anything
	}
	for _, r := range policy.Refuse(from.Config, to.Config, policy.Overrides{}) {
		out.Refused = append(out.Refused, r.Field+": "+r.Why)
	}
	for _, r := range policy.RefusePasswords(from.Config.Ignition.Passwd.Users, to.Config.Ignition.Passwd.Users) {
		out.Refused = append(out.Refused, r.Field+": "+r.Why)
	}
	return out
}

func actions(in []policy.Action) []Action {
	out := make([]Action, len(in))
	for i, a := range in {
		out[i] = Action{Type: string(a.Type), Service: a.Service}
	}
	return out
}
