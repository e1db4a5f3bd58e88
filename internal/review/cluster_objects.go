package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile"
)

// ClusterChanges are the changes in the directory cluster/ that no rendered config has.
type ClusterChanges struct {
	// Policy names each rule that changes: `/etc/motd: None → Reboot`.
	Policy []string `json:"policy,omitempty"`
	// MachineConfigPools names changes that are in no rendered config: the nodes that a pool selects, and its
	// maxUnavailable.
	MachineConfigPools []string `json:"machineConfigPools,omitempty"`
	// ClusterObjects names other changes in the objects of cluster/, and added or removed ones: RolloutPolicies,
	// DriftPolicies, PinnedImageSets, MachineConfigPools and the MachineConfiguration.
	ClusterObjects []string `json:"clusterObjects,omitempty"`
	// MovesNodes reports whether nodes may change pools.
	MovesNodes bool `json:"-"`
}

// compareCluster returns what differs between the cluster/ directories of both sides.
func compareCluster(base, head Side) ClusterChanges {
	out := ClusterChanges{
		Policy:         comparePolicies(base.Policy, head.Policy),
		ClusterObjects: compareObjects(base.Objects, head.Objects),
	}
	out.MachineConfigPools, out.MovesNodes = comparePools(base.Declared, head.Declared)
	return out
}

// comparePools names the changes of MachineConfigPools that are in no rendered config: the nodes that a pool selects,
// and its maxUnavailable. movesNodes: nodes may change pools, and so get another config.
func comparePools(base, head []mcfgv1.MachineConfigPool) (out []string, movesNodes bool) {
	was, is := declared(base), declared(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, had := was[name]
		_, has := is[name]
		if had != has && !isStandard(name) {
			continue // The comparison reports a new or removed pool elsewhere.
		}
		if a, b := cmp.Or(was[name].takes, undeclared), cmp.Or(is[name].takes, undeclared); a != b {
			movesNodes = true
			out = append(out, fmt.Sprintf("%s: the nodes that it takes: %s → %s; a node that it gains or loses takes "+
				"another config, which may reboot it", name, a, b))
		}
		if a, b := cmp.Or(was[name].away, "1"), cmp.Or(is[name].away, "1"); a != b {
			out = append(out, fmt.Sprintf("%s: nodes away at once: %s → %s", name, a, b))
		}
	}
	return out, movesNodes
}

func declared(pools []mcfgv1.MachineConfigPool) map[string]declaration {
	out := map[string]declaration{}
	for i := range pools {
		var d declaration
		if s := pools[i].Spec.NodeSelector; s != nil {
			d.takes = metav1.FormatLabelSelector(s)
		}
		if most := pools[i].Spec.MaxUnavailable; most != nil {
			d.away = most.String()
		}
		out[pools[i].Name] = d
	}
	return out
}

// undeclared: the standard pools have default selectors.
const undeclared = "not declared here"

// declaration is which nodes a pool selects, and how many may be out of service at once; "" if the repository does not
// declare it.
type declaration struct{ takes, away string }

// comparePolicies is in lexical order of paths and units.
func comparePolicies(base, head disruption.Policy) []string {
	was, is := rules(base), rules(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] != is[name] {
			out = append(out, fmt.Sprintf("%s: %s → %s", name, cmp.Or(was[name], "no rule, so reboot"),
				cmp.Or(is[name], "no rule, so reboot")))
		}
	}
	return out
}

// rules returns the actions of each rule by the rule's name.
func rules(p disruption.Policy) map[string]string {
	words := func(actions []disruption.Action) string {
		text := make([]string, len(actions))
		for i, a := range actions {
			text[i] = a.String()
		}
		return strings.Join(text, ", ")
	}
	out := map[string]string{"SSH keys": words(p.SSHKey)}
	for _, list := range [][]disruption.Rule{p.Files, p.Units} {
		for _, r := range list {
			out[r.Name] = words(r.Actions)
		}
	}
	return out
}

// shownElsewhere are the fields of specs that comparePolicies and comparePools show.
var shownElsewhere = map[string][]string{
	PolicyKind: {"nodeDisruptionPolicy"},
	PoolKind:   {"nodeSelector", "maxUnavailable"},
}

// PoolKind is the kind of pools.
const PoolKind = "MachineConfigPool"

// compareObjects returns a line for each difference between two cluster/ directories, in the order of kinds, names and
// fields, without what rendered configs, comparePolicies and comparePools show.
func compareObjects(base, head []transpile.ClusterObject) (out []string) {
	was, is := objectsByName(base), objectsByName(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := was[name], is[name]
		if a != nil && b != nil && reflect.DeepEqual(a.Object, b.Object) {
			continue
		}
		kind := names[name].GetKind()
		if line := existence(a, b); line != "" {
			out = append(out, name+": "+line)
		}
		if kind == PoolKind && (a == nil && !isStandard(b.GetName()) || b == nil) {
			continue
		}
		for _, line := range specChanges(kind, a, b) {
			out = append(out, name+": "+line)
		}
	}
	return out
}

// existence says that an object is added or removed, or "". Each of the few fields of a MachineConfiguration has a line
// instead.
func existence(was, is *unstructured.Unstructured) string {
	switch {
	case was == nil && is.GetKind() == PoolKind && !isStandard(is.GetName()):
		return "added; a node that its nodeSelector matches leaves its present pool and gets this pool's config, " +
			"which may reboot it"
	case was == nil && is.GetKind() != PolicyKind:
		return "added"
	case was == nil || is != nil || was.GetKind() == PolicyKind:
		return ""
	case was.GetKind() == PoolKind && isStandard(was.GetName()):
		return "not declared here any more; every cluster has this pool, so it stays"
	case was.GetKind() == PoolKind:
		return "removed; its nodes move to pool worker, or to another pool that selects them, and get that pool's " +
			"config, which may reboot them"
	default:
		return "removed"
	}
}

// specChanges has a line for each difference of two objects of one kind, either of which may be nil. The last line of a
// field ends with its meaning.
func specChanges(kind string, was, is *unstructured.Unstructured) (out []string) {
	a, b, means := comparedFields(kind, was), comparedFields(kind, is), meanings(kind, was, is)
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		lines := fieldChanges(field, a[field], b[field])
		comesOrGoes := (was == nil || is == nil) && (field == "pools" || field == "machineConfigPoolSelector")
		if meaning := means[field]; meaning != "" && len(lines) > 0 && !comesOrGoes {
			lines[len(lines)-1] += ": " + meaning
		}
		out = append(out, lines...)
	}
	return out
}

// meanings explain the new values of fields that need it. Either object may be nil.
func meanings(kind string, was, is *unstructured.Unstructured) map[string]string {
	switch kind {
	case "RolloutPolicy":
		return rolloutMeanings(specOf[v1alpha1.RolloutPolicy](is).Spec)
	case "DriftPolicy":
		return driftMeanings(specOf[v1alpha1.DriftPolicy](was).Spec, specOf[v1alpha1.DriftPolicy](is).Spec)
	case "PinnedImageSet":
		return map[string]string{
			"pinnedImages": imagesMeaning(specOf[mcfgv1.PinnedImageSet](was).Spec,
				specOf[mcfgv1.PinnedImageSet](is).Spec),
			"labels": "they select the pools of the set",
		}
	case PoolKind:
		return map[string]string{
			"machineConfigSelector": "the pool takes the documents that it selects now",
			"pinnedImageSets":       "nodes of the pool pull and keep the images of these sets",
			"labels":                "policies may select pools by these labels",
		}
	}
	return nil
}

// specOf converts a spec to its type. A field of another type stays zero: other code checks whether the object is
// valid.
func specOf[T any](o *unstructured.Unstructured) T {
	var out T
	if o != nil && runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &out) != nil {
		return *new(T)
	}
	return out
}

func rolloutMeanings(s v1alpha1.RolloutPolicySpec) map[string]string {
	const otherwise = "unless another policy says otherwise, "
	out := map[string]string{
		"pools":                     selectionText(s.Pools, s.MachineConfigPoolSelector),
		"machineConfigPoolSelector": selectionText(s.Pools, s.MachineConfigPoolSelector),
		"maxUnavailable":            otherwise + "each pool's own maxUnavailable counts",
		"maxUnavailablePerZone":     otherwise + "zones have no limit of their own",
		"maxUnavailableTogether":    otherwise + "its pools have no limit together",
		"canary":                    otherwise + "no node gets a new config before the others",
		"batches":                   otherwise + "all nodes after the canary are one step",
		"gates":                     otherwise + "a rollout continues without a health gate",
		"failures":                  otherwise + "a rollout halts after the first node that fails",
		"after":                     otherwise + "its pools wait for no other pool",
		"windows":                   otherwise + "nodes are updated at any time",
		"drain":                     otherwise + "a drain waits for its pods without a limit",
	}
	if n := s.MaxUnavailable; n != nil {
		out["maxUnavailable"] = "at most " + n.String() + " of a pool's nodes are away at once"
	}
	if n := s.MaxUnavailablePerZone; n != nil {
		out["maxUnavailablePerZone"] = "at most " + n.String() + " of a pool's nodes in a zone are away at once"
	}
	if n := s.MaxUnavailableTogether; n != nil {
		out["maxUnavailableTogether"] = "at most " + n.String() + " of the nodes of all its pools are away at once"
	}
	if c := s.Canary; c != nil {
		first := "the nodes that it selects"
		if c.Nodes != nil {
			first = c.Nodes.String() + " of a pool's nodes"
		}
		out["canary"] = first + " get a new config first" + soakText(c.Soak.Duration)
	}
	if len(s.Batches) > 0 {
		var steps []string
		for _, b := range s.Batches {
			steps = append(steps, b.UpTo.String()+soakText(b.Soak.Duration))
		}
		out["batches"] = "the steps are up to " + strings.Join(steps, ", then up to ")
	}
	if len(s.Gates) > 0 {
		var names []string
		for _, g := range s.Gates {
			names = append(names, g.Name)
		}
		out["gates"] = "a rollout continues when these gates are open: " + strings.Join(names, ", ")
	}
	if len(s.After) > 0 {
		out["after"] = "its pools wait for: " + strings.Join(s.After, ", ")
	}
	if len(s.Windows) > 0 {
		out["windows"] = windowsText(s.Windows)
	}
	if f := s.Failures; f != nil {
		out["failures"] = failuresText(*f)
	}
	if d := s.Drain; d != nil {
		out["drain"] = drainText(*d)
	}
	return out
}

// windowsText says when the controller assigns configs.
func windowsText(windows []v1alpha1.MaintenanceWindow) string {
	allowed := slices.ContainsFunc(windows, func(w v1alpha1.MaintenanceWindow) bool {
		return w.Kind != v1alpha1.WindowDeny
	})
	denied := slices.ContainsFunc(windows, func(w v1alpha1.MaintenanceWindow) bool {
		return w.Kind == v1alpha1.WindowDeny
	})
	switch {
	case allowed && denied:
		return "nodes are updated while an Allow window is open and no Deny window is"
	case allowed:
		return "nodes are updated while a window is open"
	}
	return "nodes are updated at any time but in the Deny windows"
}

// soakText says how long nodes must be healthy before a rollout continues; "" without a soak.
func soakText(soak time.Duration) string {
	if soak == 0 {
		return ""
	}
	return ", and must be healthy for " + shortDuration(soak)
}

// failuresText says how many failed nodes end a rollout, and what follows.
func failuresText(f v1alpha1.FailureBudget) string {
	text := "a rollout halts"
	if f.Action == v1alpha1.FailureRevert {
		text = "the nodes go back to their last good config"
	}
	if after := max(f.After, 1); after == 1 {
		text += " after 1 failed node"
	} else {
		text += fmt.Sprintf(" after %d failed nodes", after)
	}
	if f.NodeDeadline != nil {
		text += "; a node that is not Ready for " + shortDuration(f.NodeDeadline.Duration) +
			" after its update counts as failed"
	}
	return text
}

// drainText says what happens to a drain that is delayed.
func drainText(d v1alpha1.DrainPolicy) string {
	after := time.Hour // An hour is the default.
	if d.After.Duration > 0 {
		after = d.After.Duration
	}
	switch d.WhenBlocked {
	case v1alpha1.DrainDelete:
		return "drains delete pods after " + shortDuration(after) + ", past their PodDisruptionBudgets"
	case v1alpha1.DrainMoveOn:
		return "a drain that pods block for " + shortDuration(after) + " is postponed, and other nodes are " +
			"updated first"
	}
	return "a drain waits for its pods without a limit"
}

// imagesMeaning says what nodes do with the images of a PinnedImageSet.
func imagesMeaning(was, is mcfgv1.PinnedImageSetSpec) string {
	for _, image := range is.PinnedImages {
		if !slices.Contains(was.PinnedImages, image) {
			return "nodes of its pools pull added images before they are drained for a config, and keep them. Sizes " +
				"are not known. The change itself drains no node"
		}
	}
	return "nodes may remove the images when the disk is full. The change drains no node"
}

// driftMeanings explains a DriftPolicy, and of its rules only the new ones.
func driftMeanings(was, is v1alpha1.DriftPolicySpec) map[string]string {
	out := map[string]string{
		"pools":                     selectionText(is.Pools, is.MachineConfigPoolSelector),
		"machineConfigPoolSelector": selectionText(is.Pools, is.MachineConfigPoolSelector),
	}
	var texts []string
	for _, r := range is.Rules {
		if !slices.Contains(was.Rules, r) {
			texts = append(texts, "drift of "+r.Path+" "+driftText(r.Action))
		}
	}
	switch {
	case len(texts) > 0:
		out["rules"] = strings.Join(texts, "; ")
	case len(is.Rules) == 0:
		out["rules"] = "drift degrades the node, unless another policy has a rule"
	case len(was.Rules) > len(is.Rules):
		out["rules"] = "drift of what no rule matches any more degrades the node"
	default:
		out["rules"] = "the first rule that matches decides, so the order counts"
	}
	return out
}

func driftText(a v1alpha1.DriftAction) string {
	switch a {
	case v1alpha1.DriftRepair:
		return "is repaired"
	case v1alpha1.DriftReport:
		return "is reported, and the node stays in service"
	case v1alpha1.DriftIgnore:
		return "is ignored"
	}
	return "degrades the node"
}

// isStandard reports whether the pool is one of the pools that every cluster has.
func isStandard(pool string) bool { return pool == "master" || pool == "worker" }

func objectsByName(objects []transpile.ClusterObject) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[o.Object.GetKind()+" "+o.Object.GetName()] = o.Object
	}
	return out
}

// comparedFields are the fields of a spec with the labels and annotations. A nil object has none.
func comparedFields(kind string, of *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	if of == nil {
		return out
	}
	spec, _, _ := unstructured.NestedMap(of.Object, "spec") // The transpiler has checked that the spec is a mapping.
	maps.Copy(out, spec)
	for _, field := range shownElsewhere[kind] {
		delete(out, field)
	}
	// The API requires this field, and Bunsen ignores its value.
	if kind == PolicyKind && out["managementState"] == "Managed" {
		delete(out, "managementState")
	}
	for _, field := range []string{"labels", "annotations"} {
		if entries, ok, _ := unstructured.NestedMap(of.Object, "metadata", field); ok && len(entries) > 0 {
			out[field] = entries
		}
	}
	return out
}

func fieldChanges(field string, was, is any) []string {
	a, aMap := was.(map[string]any)
	b, bMap := is.(map[string]any)
	before, aList := was.([]any)
	after, bList := is.([]any)
	switch {
	case reflect.DeepEqual(was, is):
		return nil
	case aMap && bMap:
		all := maps.Clone(a)
		maps.Copy(all, b)
		var out []string
		for _, key := range slices.Sorted(maps.Keys(all)) {
			out = append(out, fieldChanges(field+"."+key, a[key], b[key])...)
		}
		return out
	case aList && bList:
		return listChanges(field, before, after)
	case was == nil:
		return []string{fmt.Sprintf("%s added (%s)", field, valueText(is))}
	case is == nil:
		return []string{fmt.Sprintf("%s removed (%s)", field, valueText(was))}
	}
	return []string{fmt.Sprintf("%s: %s → %s", field, valueText(was), valueText(is))}
}

func listChanges(field string, before, after []any) (out []string) {
	without := func(all, other []any, what string) {
		for _, item := range all {
			if !slices.ContainsFunc(other, func(o any) bool { return reflect.DeepEqual(o, item) }) {
				out = append(out, fmt.Sprintf("%s: %s %s", field, what, valueText(item)))
			}
		}
	}
	without(before, after, "removed")
	without(after, before, "added")
	if len(out) == 0 {
		out = append(out, field+": other order: "+valueText(after))
	}
	return out
}

// valueText writes a value as YAML on one line.
func valueText(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+": "+valueText(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = valueText(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		if v == "" || strings.ContainsAny(v, "{}[],:#\"' \n") {
			raw, err := json.Marshal(v)
			if err == nil {
				return string(raw)
			}
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

// selectionText says to which pools a policy applies.
func selectionText(pools []string, selector *metav1.LabelSelector) string {
	if len(pools) == 0 && selector == nil {
		return "it counts for every pool"
	}
	return "it counts for the pools that it selects now"
}

// shortDuration writes a duration without zero parts at its end, such as 1h or 1m30s.
func shortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}
