package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// checkRefusals compares a rendered config with the current target. The error names the changes that running nodes
// refuse, and the inputs that changed. A change that only new nodes get is not an error.
func (r *Controller) checkRefusals(f facts, rendered Rendered) (newNodes []disruption.Refusal, err error) {
	old, err := machineconfig.Parse(f.current.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading the config in force, MachineConfig %q: %w", f.current.Name, err)
	}
	refusals := disruption.Refuse(old, rendered.Config, f.overrides)
	lines := make([]string, len(refusals))
	for i, refusal := range refusals {
		lines[i] = refusal.Field + ": " + refusal.Why
	}
	if len(lines) == 0 {
		if lines, err = nodeRefusals(f, rendered); err != nil {
			return nil, err
		}
	}
	if len(lines) == 0 {
		return disruption.NewNodesOnly(old, rendered.Config), nil
	}
	changed, err := r.changedInputs(f)
	if err != nil {
		return nil, err
	}
	return nil, fault.NewStalled(v1alpha1.ReasonInvalidTree,
		fmt.Errorf("running nodes cannot take %s: %s; changed since %s: %s",
			rendered.Name, strings.Join(lines, "; "), f.current.Name, strings.Join(changed, ", ")))
}

// maxNodeRefusals is how many refusals of single nodes an error names.
const maxNodeRefusals = 10

// nodeRefusals returns the changes of single nodes that these nodes refuse.
func nodeRefusals(f facts, rendered Rendered) ([]string, error) {
	was, err := v1alpha1.ParseNodeConfigs(f.current.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfig %q: %w", f.current.Name, err)
	}
	names := maps.Clone(was.Nodes)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, rendered.Nodes.Nodes)
	if was.IsZero() {
		was.Base = f.current.Name
	}
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(names)) {
		old, known := f.byName[was.Of(node)]
		if !known || was.Of(node) == nodeConfigName(rendered, node) {
			continue
		}
		from, err := machineconfig.Decode(old.Spec)
		if err != nil {
			return nil, fmt.Errorf("reading MachineConfig %q: %w", old.Name, err)
		}
		to, err := configOfNode(f, rendered, node)
		if err != nil {
			return nil, err
		}
		for _, refusal := range disruption.Refuse(from, to, f.overrides) {
			lines = append(lines, "node "+node+": "+refusal.Field+": "+refusal.Why)
		}
		if len(lines) >= maxNodeRefusals {
			break
		}
	}
	return lines, nil
}

// configOfNode returns the config of a node, from the cluster if it has it: a held config was merged before.
func configOfNode(f facts, rendered Rendered, node string) (machineconfig.Config, error) {
	if mc, ok := f.byName[nodeConfigName(rendered, node)]; ok {
		return machineconfig.Decode(mc.Spec)
	}
	own, err := rendered.content(node)
	return own.Config, err
}

// nodeConfigName returns the name of the config of a node.
func nodeConfigName(rendered Rendered, node string) string {
	if rendered.Nodes.IsZero() {
		return rendered.Name
	}
	return rendered.Nodes.Of(node)
}

// changedInputs names the inputs that differ from those of the current target, with their files, because one of them
// causes a refusal.
func (r *Controller) changedInputs(f facts) ([]string, error) {
	was := map[string]string{}
	if raw := f.current.Annotations[v1alpha1.InputsAnnotation]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &was); err != nil {
			return nil, fmt.Errorf("reading annotation %s of MachineConfig %q: %w", v1alpha1.InputsAnnotation,
				f.current.Name, err)
		}
	}
	var out []string
	for _, mc := range f.selected {
		digest, err := r.seen.Of(mc)
		if err != nil {
			return nil, err
		}
		if was[mc.Name] != digest {
			out = append(out, mc.Name+filesText(mc))
		}
		delete(was, mc.Name)
	}
	for name := range was {
		out = append(out, name+" (gone)")
	}
	sort.Strings(out)
	return out, nil
}

// filesText names the files of the repository that a fragment comes from; empty for a MachineConfig that was created
// through the API.
func filesText(mc *mcfgv1.MachineConfig) string {
	var files []struct {
		File string `json:"file"`
	}
	if json.Unmarshal([]byte(mc.Annotations[v1alpha1.FileAnnotation]), &files) != nil || len(files) == 0 {
		return ""
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.File
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// checkAbandoned refuses fragments of a source that was deleted while it was being applied.
func (r *Controller) checkAbandoned(f facts) error {
	recorded := map[string]string{}
	if f.current != nil && f.current.Annotations[v1alpha1.InputsAnnotation] != "" {
		if err := json.Unmarshal([]byte(f.current.Annotations[v1alpha1.InputsAnnotation]), &recorded); err != nil {
			return fmt.Errorf("reading annotation %s of MachineConfig %q: %w", v1alpha1.InputsAnnotation,
				f.current.Name, err)
		}
	}
	was, err := v1alpha1.ParsePoolTarget(f.pool.Annotations[v1alpha1.TargetAnnotation])
	if err != nil {
		was = v1alpha1.PoolTarget{} // A user has changed the annotation, so the inputs of the config in force decide.
	}
	facts, err := r.targetFacts(f, was)
	if err != nil {
		return err
	}
	return revision.Left(was, facts, recorded)
}
