package controller

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/transpile"
)

// changeVerb is what a change does.
type changeVerb string

const (
	// applyObject applies an object server-side.
	applyObject changeVerb = "applying"
	// deleteObject deletes an object that no revision has any more.
	deleteObject changeVerb = "deleting"
	// releaseObject gives up the source's fields of an object that the cluster cannot do without.
	releaseObject changeVerb = "releasing"
	// resetObject puts an object back that was not the source's before.
	resetObject changeVerb = "restoring"
)

// change is one write on the way to a revision.
type change struct {
	verb       changeVerb
	kind, name string
	// object to apply or to put back.
	object *unstructured.Unstructured
	// config is the fragment that object is made from; nil for other kinds.
	config *mcfgv1.MachineConfig
	// uid of the object to delete.
	uid types.UID
	// at is the place in the repository, `file:line: `; empty where it is not known.
	at string
}

// plan is all that has to be written to bring the cluster to a revision.
type plan struct {
	changes   []change
	inventory []v1alpha1.InventoryEntry
	// content restores the revision. It includes what is gone from the repository and is not pruned.
	content revision.Content
	// created are the objects that are not there yet, by revision.Key.
	created []string
	// foreign are live objects that become the source's, as they are now.
	foreign []*unstructured.Unstructured
}

// planner compares a revision with the live objects.
type planner struct {
	source string
	prune  bool
	// created are objects that an interrupted apply created. They go where nothing is pruned, too.
	created []string
	seen    *revision.Digests
	live    liveObjects
	// at maps revision.Key to a place in the repository.
	at map[string]string
	// unrecorded: no content of the applied revision is kept yet, so that objects to write to are kept as they are.
	unrecorded bool
	// mayDelete, where set, says which objects of cluster/ are deleted instead of released.
	mayDelete func(key string) bool
}

// contentOf is what a transpiled commit puts on the cluster, and where in the repository each object comes from.
func contentOf(res transpile.Result) (revision.Content, map[string]string, error) {
	var c revision.Content
	at := map[string]string{}
	for _, f := range res.Fragments {
		files, err := json.Marshal(f.Origin.Files)
		if err != nil {
			return c, nil, fmt.Errorf("writing the origin of %q: %w", f.Name, err)
		}
		mc := f.MachineConfig.DeepCopy()
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.FileAnnotation, string(files))
		c.Configs = append(c.Configs, mc)
		if len(f.Origin.Files) > 0 {
			at[revision.Key(revision.KindMachineConfig, f.Name)] = f.Origin.Files[0].Path + ": "
		}
	}
	for _, o := range res.Cluster {
		c.Objects = append(c.Objects, o.Object)
		at[revision.Key(o.Object.GetKind(), o.Object.GetName())] = fmt.Sprintf("%s:%d: ", o.File, o.Line)
	}
	return c, at, nil
}

// plan lists the writes. An error names every object that belongs to somebody else.
func (p planner) plan(c revision.Content) (plan, error) {
	out := plan{content: c}
	if err := p.conflicts(c); err != nil {
		return out, err
	}
	inventory, err := c.Inventory()
	if err != nil {
		return out, err
	}
	named := map[string]string{}
	for _, e := range inventory {
		named[revision.Key(e.Kind, e.Name)] = e.Digest
	}
	for _, mc := range c.Configs {
		if err := p.config(&out, mc, named[revision.Key(revision.KindMachineConfig, mc.Name)]); err != nil {
			return out, err
		}
	}
	for _, o := range c.Objects {
		if err := p.object(&out, o, named[revision.Key(o.GetKind(), o.GetName())]); err != nil {
			return out, err
		}
	}
	for _, o := range c.Foreign {
		key := revision.Key(o.GetKind(), o.GetName())
		if live, ok := p.live.cluster[key]; ok && live.GetLabels()[v1alpha1.SourceLabel] == p.source {
			out.changes = append(out.changes, change{verb: resetObject, kind: o.GetKind(), name: o.GetName(), object: o})
		}
		named[key] = ""
	}
	gone, err := p.gone(&out, named)
	if err != nil {
		return out, err
	}
	out.inventory = append(inventory, gone...)
	revision.SortInventory(out.inventory)
	slices.SortStableFunc(out.changes, func(a, b change) int { return cmp.Compare(rank(a), rank(b)) })
	return out, nil
}

// rank orders the writes: what daemons read directly comes last, after all that the API server could still refuse.
func rank(c change) int {
	kinds := []string{revision.KindMachineConfig, revision.KindMachineConfigPool, revision.KindRolloutPolicy, revision.KindMachineConfiguration, revision.KindDriftPolicy}
	at := slices.Index(kinds, c.kind)
	if c.verb == deleteObject || c.verb == releaseObject {
		at += len(kinds)
	}
	return at
}

// conflicts refuses to take over what belongs to somebody else, and names every case.
func (p planner) conflicts(c revision.Content) error {
	var errs []error
	for _, mc := range c.Configs {
		live := p.live.byName[mc.Name]
		if live == nil || live.Labels[v1alpha1.SourceLabel] == p.source {
			continue
		}
		owner := "nobody (it was made through the API)"
		if other := live.Labels[v1alpha1.SourceLabel]; other != "" {
			owner = fmt.Sprintf("GitSource %q", other)
		}
		errs = append(errs, fmt.Errorf("%sMachineConfig %q exists already and belongs to %s; rename the file or delete that object; the label %s=%s on it hands it over",
			p.at[revision.Key(revision.KindMachineConfig, mc.Name)], mc.Name, owner, v1alpha1.SourceLabel, p.source))
	}
	for _, o := range c.Objects {
		key := revision.Key(o.GetKind(), o.GetName())
		live, ok := p.live.cluster[key]
		if !ok {
			continue
		}
		if other := live.GetLabels()[v1alpha1.SourceLabel]; other != "" && other != p.source {
			errs = append(errs, fmt.Errorf("%s%s %q belongs to GitSource %q already; keep it in one repository", p.at[key], o.GetKind(), o.GetName(), other))
		}
	}
	return errors.Join(errs...)
}

// config plans one fragment.
func (p planner) config(out *plan, mc *mcfgv1.MachineConfig, digest string) error {
	key := revision.Key(revision.KindMachineConfig, mc.Name)
	live := p.live.byName[mc.Name]
	if live == nil {
		out.created = append(out.created, key)
	} else {
		have, err := p.seen.Of(live)
		if err != nil {
			return err
		}
		if have == digest && live.Annotations[v1alpha1.DigestAnnotation] == digest && live.Annotations[v1alpha1.FileAnnotation] == mc.Annotations[v1alpha1.FileAnnotation] &&
			live.Annotations[v1alpha1.SecretPathsAnnotation] == mc.Annotations[v1alpha1.SecretPathsAnnotation] {
			return nil
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(mc)
	if err != nil {
		return fmt.Errorf("writing MachineConfig %q: %w", mc.Name, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind(revision.KindMachineConfig))
	p.mark(u, digest)
	dropNulls(u.Object)
	out.changes = append(out.changes, change{verb: applyObject, kind: revision.KindMachineConfig, name: mc.Name, object: u, config: mc, at: p.at[key]})
	return nil
}

// object plans one object of cluster/.
func (p planner) object(out *plan, o *unstructured.Unstructured, digest string) error {
	key := revision.Key(o.GetKind(), o.GetName())
	live, exists := p.live.cluster[key]
	if exists {
		have, err := inForce(live, o.GetKind(), p.seen)
		if err != nil {
			return err
		}
		ours := live.GetLabels()[v1alpha1.SourceLabel] == p.source
		if ours && have == digest {
			return nil
		}
		if !ours || p.unrecorded {
			u, err := asUnstructured(live, o.GetKind())
			if err != nil {
				return err
			}
			out.foreign = append(out.foreign, u)
		}
	} else {
		out.created = append(out.created, key)
	}
	text, _, err := revision.Wanted(o)
	if err != nil {
		return fmt.Errorf("writing %s %q: %w", o.GetKind(), o.GetName(), err)
	}
	u := o.DeepCopy()
	p.mark(u, digest)
	annotate(u, v1alpha1.WantedAnnotation, text)
	out.changes = append(out.changes, change{verb: applyObject, kind: o.GetKind(), name: o.GetName(), object: u, at: p.at[key]})
	return nil
}

// mark names the owner of an object.
func (p planner) mark(u *unstructured.Unstructured, digest string) {
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.SourceLabel] = p.source
	u.SetLabels(labels)
	annotate(u, v1alpha1.DigestAnnotation, digest)
}

// gone plans what the source owns and the revision does not name. Where nothing is pruned, what was handed over by its label
// stays, and joins the inventory and the content as it is: it is rendered, and an object that no inventory names would block
// every pool. What an earlier revision left is among the content already.
func (p planner) gone(out *plan, named map[string]string) ([]v1alpha1.InventoryEntry, error) {
	owned, err := p.live.owned(p.source, p.seen)
	if err != nil {
		return nil, err
	}
	var left []v1alpha1.InventoryEntry
	for _, e := range owned {
		key := revision.Key(e.Kind, e.Name)
		if _, wanted := named[key]; wanted {
			continue
		}
		if !p.prune && !slices.Contains(p.created, key) {
			left = append(left, e)
			if err := p.keep(out, e); err != nil {
				return nil, err
			}
			continue
		}
		c := change{verb: deleteObject, kind: e.Kind, name: e.Name}
		if mc := p.live.byName[e.Name]; e.Kind == revision.KindMachineConfig {
			c.uid = mc.UID
		} else if o := p.live.cluster[key]; p.releases(e, key) {
			c.verb = releaseObject
		} else {
			c.uid = o.GetUID()
		}
		out.changes = append(out.changes, c)
	}
	return left, nil
}

// keep adds a live object that is not pruned to the content.
func (p planner) keep(out *plan, e v1alpha1.InventoryEntry) error {
	if e.Kind == revision.KindMachineConfig {
		out.content.Configs = append(slices.Clone(out.content.Configs), p.live.byName[e.Name].DeepCopy())
		return nil
	}
	if e.Digest == "" {
		return nil // somebody changed it, so nothing says what the source wanted of it
	}
	o, err := wanted(p.live.cluster[revision.Key(e.Kind, e.Name)])
	if err != nil {
		return err
	}
	out.content.Objects = append(slices.Clone(out.content.Objects), o)
	return nil
}

// releases reports whether an object stays when the source gives it up: the standard pools and the disruption policy, and
// whatever was not the source's before.
func (p planner) releases(e v1alpha1.InventoryEntry, key string) bool {
	_, standard := standardPools[e.Name]
	return e.Kind == revision.KindMachineConfiguration || e.Kind == revision.KindMachineConfigPool && standard ||
		p.mayDelete != nil && !p.mayDelete(key)
}

// ownContent is the content of a source as it is on the cluster now, for a first revision or for objects that an earlier
// version of Bunsen applied.
func (l liveObjects) ownContent(source string, seen *revision.Digests) (revision.Content, error) {
	var c revision.Content
	for i := range l.configs {
		if l.configs[i].Labels[v1alpha1.SourceLabel] == source {
			c.Configs = append(c.Configs, l.configs[i].DeepCopy())
		}
	}
	for key, o := range l.cluster {
		kind, _ := revision.SplitKey(key)
		if o.GetLabels()[v1alpha1.SourceLabel] != source {
			continue
		}
		digest, err := inForce(o, kind, seen)
		if err != nil {
			return c, err
		}
		if digest == "" {
			continue // the plan lists it as foreign where it is written to
		}
		w, err := wanted(o)
		if err != nil {
			return c, err
		}
		c.Objects = append(c.Objects, w)
	}
	slices.SortFunc(c.Objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(revision.Key(a.GetKind(), a.GetName()), revision.Key(b.GetKind(), b.GetName()))
	})
	return c, nil
}

func annotate(u *unstructured.Unstructured, key, value string) {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	u.SetAnnotations(annotations)
}

// dropNulls removes what the typed object writes for unset fields: server-side apply would claim them.
func dropNulls(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			dropNulls(v)
		}
	}
}
