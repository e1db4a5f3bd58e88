package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// ConfigTrace is where a MachineConfig that is not rendered comes from, and which rendered configs hold it.
type ConfigTrace struct {
	Name string `json:"name"`
	// Role is the label by which pools select it.
	Role string `json:"role,omitempty"`
	// Source is the GitSource that applied it; empty for one made through the API. Commit is the one in force there, and Files are
	// those of the repository that it was made from.
	Source     string       `json:"source,omitempty"`
	Repository string       `json:"repository,omitempty"`
	Commit     *CommitTrace `json:"commit,omitempty"`
	Files      []string     `json:"files,omitempty"`
	// Managers are the field managers that wrote its spec, in the order of their last writes.
	Managers []string `json:"managers,omitempty"`
	// Pools take it by its labels, by name.
	Pools []string `json:"pools"`
	// Rendered are the rendered configs that were made of it, by name.
	Rendered []HolderTrace `json:"rendered"`
}

// HolderTrace is a rendered config that a MachineConfig went into.
type HolderTrace struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	// Changed tells that the MachineConfig has other content now than the rendered config was made of.
	Changed bool `json:"changed,omitempty"`
}

// IsRendered reports whether a MachineConfig is one that the controller rendered for a pool.
func IsRendered(mc *mcfgv1.MachineConfig) bool {
	return strings.HasPrefix(mc.Name, "rendered-") && (mc.Annotations[v1alpha1.InputsAnnotation] != "" || poolOf(mc) != "")
}

// poolOf is the pool that a rendered config belongs to; empty for another MachineConfig.
func poolOf(mc *mcfgv1.MachineConfig) string {
	for _, o := range mc.OwnerReferences {
		if o.Kind == "MachineConfigPool" {
			return o.Name
		}
	}
	return ""
}

// TraceConfig says where a MachineConfig comes from that is not rendered, and who takes it. All are the MachineConfigs on the cluster,
// sources the GitSources, pools the pools.
func TraceConfig(mc *mcfgv1.MachineConfig, all map[string]*mcfgv1.MachineConfig, sources []v1alpha1.GitSource, pools []mcfgv1.MachineConfigPool) (ConfigTrace, error) {
	t := ConfigTrace{
		Name: mc.Name, Role: mc.Labels[v1alpha1.RoleLabel], Source: mc.Labels[v1alpha1.SourceLabel], Files: filesOf(mc), Pools: []string{}, Rendered: []HolderTrace{},
	}
	t.Managers = specManagers(mc.ManagedFields)
	for i := range pools {
		s, err := metav1.LabelSelectorAsSelector(pools[i].Spec.MachineConfigSelector)
		if err == nil && !s.Empty() && s.Matches(labels.Set(mc.Labels)) { // a pool whose selector cannot be read takes nothing, and says so itself
			t.Pools = append(t.Pools, pools[i].Name)
		}
	}
	slices.Sort(t.Pools)
	for i := range sources {
		src := &sources[i]
		if src.Name != t.Source {
			continue
		}
		t.Repository = src.Spec.URL
		if c := src.Status.AppliedCommit; c != nil {
			t.Commit = &CommitTrace{c.Revision, c.Subject, c.Author, c.Time.UTC().Format("2006-01-02T15:04:05Z")}
		}
	}
	for _, name := range sortedKeys(all) {
		raw := all[name].Annotations[v1alpha1.InputsAnnotation]
		if raw == "" || !IsRendered(all[name]) {
			continue
		}
		inputs := map[string]string{}
		if err := json.Unmarshal([]byte(raw), &inputs); err != nil {
			return t, fmt.Errorf("reading annotation %s of MachineConfig %q: %w", v1alpha1.InputsAnnotation, name, err)
		}
		digest, holds := inputs[mc.Name]
		if !holds {
			continue
		}
		now := mc.Annotations[v1alpha1.DigestAnnotation]
		t.Rendered = append(t.Rendered, HolderTrace{Name: name, Pool: poolOf(all[name]), Changed: now != "" && now != digest})
	}
	return t, nil
}

// specManagers are the field managers that own fields of an object's spec, in the order of their last writes.
func specManagers(entries []metav1.ManagedFieldsEntry) []string {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		if a.Time == nil || b.Time == nil {
			return 0
		}
		return a.Time.Compare(b.Time.Time)
	})
	var out []string
	for _, e := range entries {
		var owned struct {
			Spec json.RawMessage `json:"f:spec"`
		}
		if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.GetRawBytes(), &owned) != nil || owned.Spec == nil || slices.Contains(out, e.Manager) {
			continue
		}
		out = append(out, e.Manager)
	}
	return out
}

// Text prints what it is, where it comes from, and what holds it.
func (t ConfigTrace) Text() string {
	b := blocks{}
	kind := "MachineConfig " + t.Name + " is not a rendered config: "
	switch {
	case t.Source != "":
		b.line("", kind+"GitSource "+t.Source+" applied it")
	case len(t.Managers) > 0:
		b.line("", kind+"it was made through the API by "+strings.Join(t.Managers, ", "))
	default:
		b.line("", kind+"it was made through the API")
	}
	b.gap()
	b.line("Role", t.Role)
	if t.Source != "" {
		b.line("Source", t.Source+"   "+t.Repository)
	}
	if c := t.Commit; c != nil {
		b.line("In force", fmt.Sprintf("%s   %s   %s   %s", c.Revision, source.Quote(c.Subject), c.Author, c.Time))
	}
	for _, file := range t.Files {
		b.line("File", file)
	}
	if len(t.Pools) > 0 {
		b.line("Taken by", "pool "+strings.Join(t.Pools, ", pool "))
	}
	for _, r := range t.Rendered {
		text := r.Name + "   pool " + dash(r.Pool)
		if r.Changed {
			text += "   (with other content than now)"
		}
		b.line("Held by", text)
	}
	if len(t.Rendered) == 0 {
		b.line("Held by", "no rendered config"+t.untaken())
	}
	return b.String()
}

// untaken says why no rendered config has been made of it.
func (t ConfigTrace) untaken() string {
	switch {
	case len(t.Pools) > 0:
		return " yet: bunsen why pool/" + t.Pools[0]
	case t.Role == "":
		return ": it has no label " + v1alpha1.RoleLabel + ", and no pool's machineConfigSelector matches it"
	}
	return ": no pool's machineConfigSelector matches its labels"
}
