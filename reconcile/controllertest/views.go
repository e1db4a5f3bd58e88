package controllertest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Node returns a Node, which must exist.
func (w *Cluster) Node(name string) *corev1.Node { return Get(w, name, &corev1.Node{}) }

// GitSource returns the GitSource `os`.
func (w *Cluster) GitSource() *v1alpha1.GitSource { return Get(w, "os", &v1alpha1.GitSource{}) }

// Pool returns a pool, which must exist.
func (w *Cluster) Pool(name string) *mcfgv1.MachineConfigPool {
	return Get(w, name, &mcfgv1.MachineConfigPool{})
}

// Config returns a MachineConfig, which must exist.
func (w *Cluster) Config(name string) *mcfgv1.MachineConfig {
	return Get(w, name, &mcfgv1.MachineConfig{})
}

// Configs returns all MachineConfigs by name.
func (w *Cluster) Configs() map[string]*mcfgv1.MachineConfig {
	w.T.Helper()
	var list mcfgv1.MachineConfigList
	if err := w.Admin.List(w.T.Context(), &list); err != nil {
		w.T.Fatal(err)
	}
	out := map[string]*mcfgv1.MachineConfig{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// Names returns the names of the MachineConfigs that no controller rendered, in order.
func (w *Cluster) Names() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.Configs())) {
		if !strings.HasPrefix(name, "rendered-") {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// Condition returns a condition of the GitSource as `Status|Reason|Message`, or "absent".
func (w *Cluster) Condition(kind string) string {
	c := meta.FindStatusCondition(w.GitSource().Status.Conditions, kind)
	if c == nil {
		return "absent"
	}
	return fmt.Sprintf("%s|%s|%s", c.Status, c.Reason, c.Message)
}

// Versions returns the resourceVersions of all MachineConfigs and pools. While they are equal, no object was written.
func (w *Cluster) Versions() map[string]string {
	w.T.Helper()
	out := map[string]string{}
	for name, mc := range w.Configs() {
		out["mc/"+name] = mc.ResourceVersion
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := w.Admin.List(w.T.Context(), &pools); err != nil {
		w.T.Fatal(err)
	}
	for i := range pools.Items {
		out["mcp/"+pools.Items[i].Name] = pools.Items[i].ResourceVersion
	}
	return out
}

// Objects returns all objects that sources applied, without versions, labels and annotations of Bunsen.
func (w *Cluster) Objects() string {
	w.T.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.Configs())) {
		if mc := w.Config(name); mc.Labels[v1alpha1.SourceLabel] != "" {
			fmt.Fprintf(&b, "%s %v %s %v\n", name, mc.Labels, mc.Spec.Config.Raw, mc.Spec.KernelArguments)
		}
	}
	var pools mcfgv1.MachineConfigPoolList
	var policies v1alpha1.RolloutPolicyList
	if err := errors.Join(w.Admin.List(w.T.Context(), &pools), w.Admin.List(w.T.Context(), &policies)); err != nil {
		w.T.Fatal(err)
	}
	for _, p := range pools.Items {
		fmt.Fprintf(&b, "pool %s %v %v %v\n", p.Name, p.Labels, p.Spec.MachineConfigSelector, p.Spec.NodeSelector)
	}
	for _, p := range policies.Items {
		fmt.Fprintf(&b, "policy %s %v %v\n", p.Name, p.Labels, p.Spec)
	}
	return b.String()
}

// Order returns the controllers' writes as words. Equal ones in a row are merged, except for fragments.
func (w *Cluster) Order() string {
	var out []string
	recorded := false
	for _, write := range w.Writes.Done {
		word := write
		switch {
		case strings.HasPrefix(write, "create *v1alpha1.RevisionContent"):
			word = "keep content"
		case strings.HasPrefix(write, "delete *v1.PartialObjectMetadata"):
			word = "drop content"
		case strings.HasPrefix(write, "update status *v1alpha1.GitSource") && !recorded:
			word, recorded = "record what is applied", true
		case strings.HasPrefix(write, "update status *v1alpha1.GitSource"):
			word, recorded = "record the inventory", false
		}
		if len(out) == 0 || out[len(out)-1] != word || word == "apply" {
			out = append(out, word)
		}
	}
	return strings.Join(out, ", ")
}

// LastEvent returns the last event; "none" before the first.
func (w *Cluster) LastEvent() string {
	if len(w.Events.Lines) == 0 {
		return "none"
	}
	return cmp.Or(w.Events.Lines[len(w.Events.Lines)-1], "empty")
}
