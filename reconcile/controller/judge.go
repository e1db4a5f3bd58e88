package controller

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// judge holds a rendered config against the one in force: an error says what running nodes cannot take and where it comes
// from. What only new nodes get stops nothing.
func (r *Render) judge(f renderFacts, rendered render.Rendered) (newNodes []policy.Refusal, err error) {
	old, err := machineconfig.Parse(f.current.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading the config in force, MachineConfig %q: %w", f.current.Name, err)
	}
	refusals := policy.Refuse(old, rendered.Config, f.overrides)
	if len(refusals) == 0 {
		return policy.NewNodesOnly(old, rendered.Config), nil
	}
	lines := make([]string, len(refusals))
	for i, refusal := range refusals {
		lines[i] = refusal.Field + ": " + refusal.Why
	}
	moved, err := r.moved(f)
	if err != nil {
		return nil, err
	}
	return nil, fault.NewStalled(v1alpha1.ReasonInvalidTree, fmt.Errorf("running nodes cannot take %s: %s; changed since %s: %s",
		rendered.Name, strings.Join(lines, "; "), f.current.Name, strings.Join(moved, ", ")))
}

// tellNewNodes says once, when the pool moves, what its existing nodes will not get.
func (r *Render) tellNewNodes(pool *mcfgv1.MachineConfigPool, newNodes []policy.Refusal) {
	if len(newNodes) == 0 {
		return
	}
	lines := make([]string, len(newNodes))
	for i, n := range newNodes {
		lines[i] = n.Field + ": " + n.Why
	}
	r.Events.Eventf(pool, nil, corev1.EventTypeWarning, "NewNodesOnly", "Render", "%s", clip(strings.Join(lines, "; ")))
}

// tellRendered tells what is worth knowing about a config that is new.
func (r *Render) tellRendered(pool *mcfgv1.MachineConfigPool, mc *mcfgv1.MachineConfig, rendered render.Rendered) {
	from := fmt.Sprintf("%s %q", short(mc.Annotations[v1alpha1.RevisionAnnotation]), mc.Annotations[v1alpha1.CommitSubjectAnnotation])
	if asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], mc.Name); len(asked.API) > 0 || len(asked.After) > 0 {
		from = requesterText(asked)
	}
	r.Events.Eventf(pool, mc, corev1.EventTypeNormal, "RenderedConfigGenerated", "Render", "%s", clip(mc.Name+" from "+from))
	for _, w := range rendered.Warnings {
		r.Events.Eventf(pool, mc, corev1.EventTypeWarning, "RenderWarning", "Render", "%s", clip(w))
	}
	if n := len(rendered.Notices); n > 0 {
		lines := make([]string, n)
		for i, notice := range rendered.Notices {
			lines[i] = notice.String()
		}
		r.Events.Eventf(pool, mc, corev1.EventTypeNormal, "RenderNotice", "Render", "%s", clip("several MachineConfigs set the same thing: "+strings.Join(lines, "; ")))
	}
}

// took tells how long a commit took to the config that it is the first to give.
func (r *Render) took(f renderFacts, mc *mcfgv1.MachineConfig) {
	src := newest(f.sourcesOf())
	if r.Took != nil && src != nil && src.Status.AppliedCommit.Revision == mc.Annotations[v1alpha1.RevisionAnnotation] {
		r.Took(f.pool.Name, r.Now().Sub(src.Status.AppliedCommit.Time.Time))
	}
}

// moved names the inputs that are not those of the config in force, with their files: a refusal comes from one of them.
func (r *Render) moved(f renderFacts) ([]string, error) {
	was := map[string]string{}
	if raw := f.current.Annotations[v1alpha1.InputsAnnotation]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &was); err != nil {
			return nil, fmt.Errorf("reading annotation %s of MachineConfig %q: %w", v1alpha1.InputsAnnotation, f.current.Name, err)
		}
	}
	var out []string
	for _, mc := range f.selected {
		digest, err := r.seen.Of(mc)
		if err != nil {
			return nil, err
		}
		if was[mc.Name] != digest {
			out = append(out, mc.Name+madeFrom(mc))
		}
		delete(was, mc.Name)
	}
	for name := range was {
		out = append(out, name+" (gone)")
	}
	sort.Strings(out)
	return out, nil
}

// madeFrom says which files of the repository a fragment was made from; nothing for one made through the API.
func madeFrom(mc *mcfgv1.MachineConfig) string {
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

// left refuses fragments of a source that was deleted while it was being applied.
func (r *Render) left(f renderFacts) error {
	recorded := map[string]string{}
	if f.current != nil && f.current.Annotations[v1alpha1.InputsAnnotation] != "" {
		if err := json.Unmarshal([]byte(f.current.Annotations[v1alpha1.InputsAnnotation]), &recorded); err != nil {
			return fmt.Errorf("reading annotation %s of MachineConfig %q: %w", v1alpha1.InputsAnnotation, f.current.Name, err)
		}
	}
	was, err := v1alpha1.ParsePoolTarget(f.pool.Annotations[v1alpha1.TargetAnnotation])
	if err != nil {
		was = v1alpha1.PoolTarget{} // a user changed the annotation; what the config in force was rendered from decides
	}
	facts, err := targetFacts(r, f, was)
	if err != nil {
		return err
	}
	return revision.Left(was, facts, recorded)
}
