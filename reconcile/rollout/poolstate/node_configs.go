package poolstate

import (
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// NodeConfigs are the configs of a pool whose nodes have configs of their own, by the name of the pool's. A decision is
// about configs of the pool only: a node that runs its own config of one runs that one.
type NodeConfigs map[string]OwnConfigs

// OwnConfigs are the configs of single nodes for a config of the pool.
type OwnConfigs struct {
	v1alpha1.NodeConfigs
	// the revisions of the secrets of these configs, by name, for each known revision of the pool's config
	Revisions map[string]map[string]string
	// The revisions were not read, and each that a node has counts as the right one.
	AnyRevision bool
}

// Own returns what a node runs if the pool runs config: its own config, or config itself. The revision of its secrets
// is that of its own config, so that a changed secret is another config only for nodes that refer to it.
func (c NodeConfigs) Own(config v1alpha1.ConfigVersion, node string) v1alpha1.ConfigVersion {
	of, ok := c[config.Config]
	if !ok || of.IsZero() {
		return config
	}
	own := v1alpha1.ConfigVersion{Config: of.Of(node), Secrets: config.Secrets}
	if of.AnyRevision {
		own.Secrets = ""
	} else if revisions, known := of.Revisions[config.Secrets]; known {
		own.Secrets = revisions[own.Config]
	}
	return own
}

// Of returns the name of what a node runs if the pool runs a config.
func (c NodeConfigs) Of(config, node string) string {
	return c.Own(v1alpha1.ConfigVersion{Config: config}, node).Config
}

// Knows reports whether the configs that nodes run for a config of the pool are known with the revisions of their
// secrets.
func (c NodeConfigs) Knows(config v1alpha1.ConfigVersion) bool {
	of := c[config.Config]
	_, known := of.Revisions[config.Secrets]
	return known || !of.Secrets || of.AnyRevision
}

// IsPools reports whether a config may be that of a whole pool: a known one, if nodes have configs of their own.
func (c NodeConfigs) IsPools(config string) bool {
	_, known := c[config]
	return known || len(c) == 0
}

// InTermsOf returns copies of the nodes with the names of the pool's configs in place of their own. If a node's own
// config is that of several, the first of prefer counts.
func (c NodeConfigs) InTermsOf(nodes []Node, prefer ...v1alpha1.ConfigVersion) []Node {
	if len(c) == 0 {
		return nodes
	}
	var ofPool []v1alpha1.ConfigVersion // without repetitions, of which a decision has many
	for _, p := range prefer {
		if !p.IsZero() && !slices.Contains(ofPool, p) {
			ofPool = append(ofPool, p)
		}
	}
	out, own := slices.Clone(nodes), make([]v1alpha1.ConfigVersion, len(ofPool))
	for i := range out {
		n, current := &out[i], out[i].Config.Current
		for j, p := range ofPool {
			own[j] = c.Own(p, n.Name)
		}
		// of the pool for one of the node, or the latter if there is none
		translate := func(config v1alpha1.ConfigVersion) v1alpha1.ConfigVersion {
			if config.IsZero() {
				return config
			}
			is := c.Own(config, n.Name)
			for j, p := range ofPool {
				if own[j] == is || c[p.Config].AnyRevision && own[j].Config == is.Config {
					return p
				}
			}
			return config
		}
		failed := translate(n.Failure.Version())
		n.Failure.Config, n.Failure.Secrets = failed.Config, failed.Secrets
		n.Config.Current, n.Config.Desired = translate(n.Config.Current), translate(n.Config.Desired)
		if n.Config.Current == n.Config.Desired && current != nodes[i].Config.Desired {
			// Another revision of its secrets, which the Node does not distinguish from that of the pool's config.
			n.Config.Current = current
		}
	}
	return out
}

// Preferred returns the configs of a pool as InTermsOf prefers them: what nodes are assigned, then the others that the
// record names.
func (f Facts) Preferred(assigned v1alpha1.ConfigVersion) []v1alpha1.ConfigVersion {
	r := f.Care.Record
	return []v1alpha1.ConfigVersion{assigned, f.Target, r.Target(), r.LastHealthy(), r.ReturnsTo(), f.Care.Healthy}
}

// Assigned returns what the nodes of the pool are assigned according to its record: the target or, in a reverted pool,
// where it returns to.
func (f Facts) Assigned() v1alpha1.ConfigVersion {
	if r := f.Care.Record; r.Verdict == v1alpha1.RolloutReverted && r.Target() == f.Target {
		return r.ReturnsTo()
	}
	return f.Target
}

// SetNodeConfigs sets the configs of single nodes, for the configs of the pool that the facts name. The function read
// returns the NodeConfigs of a rendered config. If the revisions of their secrets are not known, no decision can be
// made: a user deleted the published ones, and a server publishes them again.
func (f *Facts) SetNodeConfigs(read func(config string) v1alpha1.NodeConfigs) {
	for _, v := range f.Preferred(v1alpha1.ConfigVersion{}) {
		of, had := f.Care.NodeConfigs[v.Config]
		if !had {
			of = OwnConfigs{NodeConfigs: read(v.Config), Revisions: map[string]map[string]string{}}
			of.AnyRevision = of.Secrets && f.Secrets.Unread
		}
		if v.IsZero() || of.IsZero() {
			continue
		}
		if f.Care.NodeConfigs == nil {
			f.Care.NodeConfigs = NodeConfigs{}
		}
		if revisions := f.Secrets.revisionsOf(of.NodeConfigs, v); of.Secrets && revisions != nil {
			of.Revisions[v.Secrets] = revisions
		}
		f.Care.NodeConfigs[v.Config] = of
	}
	for _, v := range []v1alpha1.ConfigVersion{f.Target, f.Assigned()} {
		if f.Secrets.Unresolved == "" && !f.Care.NodeConfigs.Knows(v) {
			f.Secrets.Unresolved = fmt.Sprintf("no machine-config-server has published the revisions of the secrets "+
				"of single nodes for %s in ConfigMap %s/%s", v, v1alpha1.ServerNamespace, v1alpha1.SecretsConfigMap)
		}
	}
}

// SetNodes sets the nodes of the pool, in terms of the pool's configs.
func (f *Facts) SetNodes(nodes []Node) {
	f.Nodes = f.Care.NodeConfigs.InTermsOf(nodes, f.Preferred(f.Assigned())...)
}
