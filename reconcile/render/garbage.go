package render

import (
	"cmp"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// keepNewest is how many of the newest rendered configs of a pool the controller keeps even if nothing uses them.
	keepNewest = 10
	// keepYounger is the age up to which the controller keeps every rendered config, because the object that uses it
	// may not be written yet.
	keepYounger = time.Hour
)

// Holders has the rendered configs and all objects of a cluster that name them. Holders is read-only.
type Holders struct {
	// Configs are the MachineConfigs, rendered or not.
	Configs []mcfgv1.MachineConfig
	Pools   []mcfgv1.MachineConfigPool
	Nodes   []corev1.Node
	Sources []v1alpha1.GitSource
}

// Lost is a rendered config that is in use and does not exist.
type Lost struct {
	// Name is the name of the config.
	Name string
	// Pool is the pool for which the config was rendered.
	Pool string
	// For describes the first object that uses the config.
	For string
	// Target is true if the config is the target config of its pool.
	Target bool
}

// Unused returns the rendered configs that can be deleted, the oldest first. Bunsen created these configs for an
// existing pool, they are at least an hour old, and they are not among the pool's newest configs. No node, pool,
// rollout or history of a source names an unused config.
func Unused(h Holders, now time.Time) []*mcfgv1.MachineConfig {
	needed := h.needed()
	for i := range h.Nodes {
		needed.add(h.Nodes[i].Annotations[v1alpha1.FirstPivotConfigAnnotation], "")
	}
	for i := range h.Sources {
		for _, entry := range h.Sources[i].Status.History {
			for _, name := range entry.Pools {
				needed.add(name, "")
			}
		}
	}
	pools := map[string]*mcfgv1.MachineConfigPool{}
	for i := range h.Pools {
		pools[h.Pools[i].Name] = &h.Pools[i]
	}
	byPool := map[string][]*mcfgv1.MachineConfig{}
	for i := range h.Configs {
		if pool, ok := madeFor(&h.Configs[i], pools); ok {
			byPool[pool] = append(byPool[pool], &h.Configs[i])
		}
	}
	var out []*mcfgv1.MachineConfig
	for _, configs := range byPool {
		slices.SortFunc(configs, older)
		for _, mc := range configs[:max(0, len(configs)-keepNewest)] {
			if _, named := needed[mc.Name]; !named && now.Sub(mc.CreationTimestamp.Time) >= keepYounger {
				out = append(out, mc)
			}
		}
	}
	slices.SortFunc(out, older)
	return out
}

// Missing returns the rendered configs that nodes, pools or rollouts use and that do not exist, by name. Missing
// ignores configs that only a history names.
func Missing(h Holders) []Lost {
	there := make(map[string]bool, len(h.Configs))
	for i := range h.Configs {
		there[h.Configs[i].Name] = true
	}
	var out []Lost
	for name, need := range h.needed() {
		if there[name] {
			continue
		}
		for i := range h.Pools {
			if p := &h.Pools[i]; isNameOf(name, p.Name) {
				target := p.Spec.Configuration.Name
				out = append(out, Lost{
					Name: name, Pool: p.Name, For: need,
					Target: target == name || slices.Contains(h.nodeConfigs(target).All(), name),
				})
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b Lost) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// needs has the objects that use each config, by the config's name.
type needs map[string]string

func (n needs) add(name, who string) {
	if _, ok := n[name]; name != "" && !ok {
		n[name] = who
	}
}

// Uses returns, by the name of each config that is in use now, a sentence about the user.
func (h Holders) Uses() map[string]string { return h.needed() }

// needed returns the configs that objects use now, or may use at any time.
func (h Holders) needed() needs {
	n := needs{}
	for i := range h.Pools {
		p := &h.Pools[i]
		n.add(p.Spec.Configuration.Name, "pool "+p.Name+" should run it")
		n.add(p.Status.Configuration.Name, "pool "+p.Name+" ran it last")
		n.add(p.Annotations[v1alpha1.HoldAnnotation], "a user holds pool "+p.Name+" at it")
		for _, list := range [][]corev1.ObjectReference{p.Spec.Configuration.Source, p.Status.Configuration.Source} {
			for _, from := range list {
				n.add(from.Name, "the config of pool "+p.Name+" contains it")
			}
		}
		record, err := v1alpha1.ParseRolloutRecord(p.Annotations[v1alpha1.RolloutAnnotation])
		if err != nil {
			// The rollout controller reports the invalid record, and other objects that use the configs keep them.
			continue
		}
		n.add(record.Back, "pool "+p.Name+" returns to it")
		n.add(record.Healthy, "pool "+p.Name+" was last healthy with it")
		n.add(record.Config, "pool "+p.Name+" rolls it out")
	}
	for i := range h.Configs {
		of := &h.Configs[i]
		if _, used := n[of.Name]; !used || of.Annotations[v1alpha1.NodeConfigsAnnotation] == "" {
			continue
		}
		for _, own := range h.nodeConfigs(of.Name).All() {
			n.add(own, "nodes of pool "+v1alpha1.RenderedPool(of.Name)+" run it as their own config of "+of.Name)
		}
	}
	for i := range h.Nodes {
		node := &h.Nodes[i]
		n.add(node.Annotations[v1alpha1.DesiredConfigAnnotation], "node "+node.Name+" should run it")
		n.add(node.Annotations[v1alpha1.CurrentConfigAnnotation], "node "+node.Name+" runs it")
	}
	return n
}

// nodeConfigs returns the configs of single nodes that a config of a pool names. An invalid annotation counts as
// absent.
func (h Holders) nodeConfigs(config string) v1alpha1.NodeConfigs {
	for i := range h.Configs {
		if h.Configs[i].Name == config {
			of, _ := v1alpha1.ParseNodeConfigs(h.Configs[i].Annotations[v1alpha1.NodeConfigsAnnotation])
			return of
		}
	}
	return v1alpha1.NodeConfigs{}
}

// IsOwnConfigOf reports whether a config is that of single nodes, or of the nodes without their own, of a config of a
// pool.
func (h Holders) IsOwnConfigOf(config, of string) bool {
	return slices.Contains(h.nodeConfigs(of).All(), config)
}

// madeFor reports whether Bunsen rendered a MachineConfig, and returns its pool.
func madeFor(mc *mcfgv1.MachineConfig, pools map[string]*mcfgv1.MachineConfigPool) (string, bool) {
	owner := metav1.GetControllerOfNoCopy(mc)
	if owner == nil || owner.Kind != "MachineConfigPool" || mc.Annotations[v1alpha1.GeneratedByAnnotation] == "" ||
		mc.DeletionTimestamp != nil {
		return "", false
	}
	pool := pools[owner.Name]
	return owner.Name, pool != nil && pool.UID == owner.UID && isNameOf(mc.Name, owner.Name)
}

// isNameOf reports whether a name is that of a rendered config of the pool.
func isNameOf(name, pool string) bool {
	rest, ok := strings.CutPrefix(name, "rendered-"+pool+"-")
	return ok && len(rest) == 32 && strings.Trim(rest, "0123456789abcdef") == ""
}

func older(a, b *mcfgv1.MachineConfig) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// NamedContents returns the hashes of the files of the content store that a cluster needs: those in MachineConfigs that
// Bunsen did not render, in rendered configs that something uses now, and in young rendered configs. An old rendered
// config that only a history names does not count, because a return to it renders it from its commit, and so writes its
// files again.
func NamedContents(h Holders, now time.Time) map[string]bool {
	needed := h.needed()
	named := map[string]bool{}
	for i := range h.Configs {
		mc := &h.Configs[i]
		_, used := needed[mc.Name]
		if isRendered(mc) && !used && now.Sub(mc.CreationTimestamp.Time) >= keepYounger {
			continue
		}
		machineconfig.AddContentHashes(named, mc)
	}
	return named
}

// isRendered reports whether a MachineConfig is a rendered config of a pool. The pool may be gone.
func isRendered(mc *mcfgv1.MachineConfig) bool {
	for _, owner := range mc.OwnerReferences {
		if owner.Kind == "MachineConfigPool" && isNameOf(mc.Name, owner.Name) {
			return true
		}
	}
	return false
}
