package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/source"
)

// ConfigTrace says where a MachineConfig that is not rendered comes from, and which rendered configs contain it.
type ConfigTrace struct {
	Name string `json:"name"`
	// Role is the role label of the MachineConfig, by which pools select it.
	Role string `json:"role,omitempty"`
	// Source applied the MachineConfig, from Files of its applied Commit; empty if a user created it through the API.
	Source     string       `json:"source,omitempty"`
	Repository string       `json:"repository,omitempty"`
	Commit     *CommitTrace `json:"commit,omitempty"`
	Files      []string     `json:"files,omitempty"`
	// Managers are the field managers that wrote the spec, in the order of their last writes.
	Managers []string `json:"managers,omitempty"`
	// Pools select the MachineConfig.
	Pools []string `json:"pools"`
	// Rendered configs contain the MachineConfig, by name.
	Rendered []HolderTrace `json:"rendered"`
}

// HolderTrace is a rendered config that contains a MachineConfig.
type HolderTrace struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	// Changed: the MachineConfig changed since the config was rendered.
	Changed bool `json:"changed,omitempty"`
	// VariantOf is set for a config of single nodes, and names the config of the pool's other nodes.
	VariantOf string `json:"variantOf,omitempty"`
}

// IsRendered reports whether the controller rendered a MachineConfig for a pool.
func IsRendered(mc *mcfgv1.MachineConfig) bool {
	return strings.HasPrefix(mc.Name, "rendered-") && (mc.Annotations[v1alpha1.InputsAnnotation] != "" ||
		poolOf(mc) != "")
}

// poolOf is empty for a MachineConfig that is not rendered.
func poolOf(mc *mcfgv1.MachineConfig) string {
	for _, o := range mc.OwnerReferences {
		if o.Kind == "MachineConfigPool" {
			return o.Name
		}
	}
	return ""
}

// TraceConfig returns where a MachineConfig that is not rendered comes from, and which configs contain it, among all
// objects of the cluster.
func TraceConfig(mc *mcfgv1.MachineConfig, all map[string]*mcfgv1.MachineConfig, sources []v1alpha1.GitSource,
	pools []mcfgv1.MachineConfigPool,
) (ConfigTrace, error) {
	t := ConfigTrace{
		Name: mc.Name, Role: mc.Labels[v1alpha1.RoleLabel], Source: mc.Labels[v1alpha1.SourceLabel], Files: FilesOf(mc),
		Pools: []string{}, Rendered: []HolderTrace{},
	}
	t.Managers = specManagers(mc.ManagedFields)
	for i := range pools {
		s, err := metav1.LabelSelectorAsSelector(pools[i].Spec.MachineConfigSelector)
		if err == nil && !s.Empty() && s.Matches(labels.Set(mc.Labels)) { // An invalid selector selects nothing.
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
	for _, name := range slices.Sorted(maps.Keys(all)) {
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
		t.Rendered = append(t.Rendered, HolderTrace{
			Name: name, Pool: poolOf(all[name]), Changed: now != "" && now != digest,
			VariantOf: all[name].Annotations[v1alpha1.VariantOfAnnotation],
		})
	}
	return t, nil
}

// specManagers own fields of an object's spec, in the order of their last writes.
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
		if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.GetRawBytes(), &owned) != nil || owned.Spec == nil ||
			slices.Contains(out, e.Manager) {
			continue
		}
		out = append(out, e.Manager)
	}
	return out
}

// Text prints the MachineConfig, its origin, and the configs that contain it.
func (t ConfigTrace) Text() string {
	b := terminal.Labels{}
	kind := "MachineConfig " + t.Name + " is not a rendered config: "
	switch {
	case t.Source != "":
		b.Add("", kind+"GitSource "+t.Source+" applied it")
	case len(t.Managers) > 0:
		b.Add("", kind+"a user created it through the API by "+strings.Join(t.Managers, ", "))
	default:
		b.Add("", kind+"a user created it through the API")
	}
	b.Gap()
	b.Add("Role", t.Role)
	if t.Source != "" {
		b.Add("Source", t.Source+"   "+t.Repository)
	}
	if c := t.Commit; c != nil {
		b.Add("In force", fmt.Sprintf("%s   %s   %s   %s", c.Revision, source.Quote(c.Subject), c.Author, c.Time))
	}
	for _, file := range t.Files {
		b.Add("File", file)
	}
	if len(t.Pools) > 0 {
		b.Add("Taken by", "pool "+strings.Join(t.Pools, ", pool "))
	}
	variants := 0
	for _, r := range t.Rendered {
		if r.VariantOf != "" {
			variants++
			continue
		}
		text := r.Name + "   pool " + terminal.Dash(r.Pool)
		if r.Changed {
			text += "   (with other content than now)"
		}
		b.Add("Held by", text)
	}
	if variants > 0 {
		b.Add("Held by", fleet.Count(variants, "config")+" of single nodes")
	}
	if len(t.Rendered) == 0 {
		b.Add("Held by", "no rendered config"+t.untaken())
	}
	return b.String()
}

// untaken says why no rendered config contains the MachineConfig.
func (t ConfigTrace) untaken() string {
	switch {
	case len(t.Pools) > 0:
		return " yet: bunsen why pool/" + t.Pools[0]
	case t.Role == "":
		return ": it has no label " + v1alpha1.RoleLabel + ", and no pool's machineConfigSelector matches it"
	}
	return ": no pool's machineConfigSelector matches its labels"
}
