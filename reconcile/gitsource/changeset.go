package gitsource

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/transpile"
)

// ContentOf returns the objects of a transpiled commit, and the place in the repository of each.
func ContentOf(res transpile.Result) (revision.Content, map[string]string, error) {
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

// changeVerb is the kind of a change.
type changeVerb string

const (
	// applyObject: the change applies an object server-side.
	applyObject changeVerb = "applying"
	// deleteObject: the change deletes an object that the revision no longer contains.
	deleteObject changeVerb = "deleting"
	// releaseObject: the change removes the source's fields from an object that must stay.
	releaseObject changeVerb = "releasing"
	// resetObject: the change restores an object that the source did not own before.
	resetObject changeVerb = "restoring"
)

// change is one write to the cluster.
type change struct {
	verb       changeVerb
	kind, name string
	// object is the object to apply or restore.
	object *unstructured.Unstructured
	// config is the fragment from which object was created; nil for other kinds.
	config *mcfgv1.MachineConfig
	// uid is the UID of the object to delete.
	uid types.UID
	// source is the source that releases the object.
	source string
	// at is the place in the repository as `file:line: `; empty if it is unknown.
	at string
}

// gvk returns the API type of the object.
func (ch change) gvk() schema.GroupVersionKind {
	if ch.kind == revision.KindMachineConfig {
		return mcfgv1.GroupVersion.WithKind(revision.KindMachineConfig)
	}
	return revision.Kinds[ch.kind]
}

// changeSet has all changes that bring the cluster to a revision.
type changeSet struct {
	changes   []change
	inventory []v1alpha1.InventoryEntry
	// content has the objects that a restore of the revision applies. content includes objects that the repository no
	// longer contains and that the source does not prune.
	content revision.Content
	// created are the keys (revision.Key) of the objects that do not exist yet.
	created []string
	// foreign are live objects that the source takes over, in their current state.
	foreign []*unstructured.Unstructured
}

// planner compares a revision with the live objects. It plans one revision.
type planner struct {
	source string
	prune  bool
	// created are the objects that an interrupted apply created. The controller deletes these objects even if the
	// source does not prune.
	created []string
	seen    *revision.Digests
	live    revision.Objects
	// at maps revision.Key to a place in the repository.
	at map[string]string
	// unrecorded is true before the first revision. The controller then stores the current state of the objects that it
	// changes.
	unrecorded bool
	// mayDelete, if set, reports whether the controller deletes an object of cluster/ that the revision does not
	// contain. If mayDelete returns false, the controller releases the object.
	mayDelete func(key string) bool

	out changeSet // the changes that are planned so far
}

// plan lists the changes that bring the cluster to a revision. The error names every object that has another owner.
func (p *planner) plan(c revision.Content) (changeSet, error) {
	p.out = changeSet{content: c}
	if err := p.conflicts(c); err != nil {
		return p.out, err
	}
	inventory, err := c.Inventory()
	if err != nil {
		return p.out, err
	}
	named := map[string]string{}
	for _, e := range inventory {
		named[revision.Key(e.Kind, e.Name)] = e.Digest
	}
	for _, mc := range c.Configs {
		if err := p.config(mc, named[revision.Key(revision.KindMachineConfig, mc.Name)]); err != nil {
			return p.out, err
		}
	}
	for _, o := range c.Objects {
		if err := p.object(o, named[revision.Key(o.GetKind(), o.GetName())]); err != nil {
			return p.out, err
		}
	}
	for _, o := range c.Foreign {
		key := revision.Key(o.GetKind(), o.GetName())
		if live, ok := p.live.Cluster[key]; ok && live.GetLabels()[v1alpha1.SourceLabel] == p.source {
			p.out.changes = append(p.out.changes, change{
				verb: resetObject, kind: o.GetKind(), name: o.GetName(),
				object: o,
			})
		}
		named[key] = ""
	}
	gone, err := p.removals(named)
	if err != nil {
		return p.out, err
	}
	p.out.inventory = append(inventory, gone...)
	revision.SortInventory(p.out.inventory)
	slices.SortStableFunc(p.out.changes, func(a, b change) int { return cmp.Compare(rank(a), rank(b)) })
	return p.out, nil
}

// rank orders the changes. Objects that daemons read directly come last, so that the API server has accepted all other
// changes before.
func rank(c change) int {
	kinds := []string{
		revision.KindMachineConfig, revision.KindMachineConfigPool, revision.KindRolloutPolicy,
		revision.KindPinnedImageSet, revision.KindMachineConfiguration, revision.KindDriftPolicy,
	}
	at := slices.Index(kinds, c.kind)
	if c.verb == deleteObject || c.verb == releaseObject {
		at += len(kinds)
	}
	return at
}

// conflicts reports every object that has another owner.
func (p *planner) conflicts(c revision.Content) error {
	var errs []error
	for _, mc := range c.Configs {
		live := p.live.ByName[mc.Name]
		if live == nil || live.Labels[v1alpha1.SourceLabel] == p.source {
			continue
		}
		owner := "no GitSource: a user created it through the API"
		if other := live.Labels[v1alpha1.SourceLabel]; other != "" {
			owner = fmt.Sprintf("GitSource %q", other)
		}
		errs = append(errs, fmt.Errorf("%sMachineConfig %q exists already and belongs to %s; rename the file or "+
			"delete that object; the label %s=%s on it hands it over",
			p.at[revision.Key(revision.KindMachineConfig, mc.Name)], mc.Name, owner, v1alpha1.SourceLabel, p.source))
	}
	for _, o := range c.Objects {
		key := revision.Key(o.GetKind(), o.GetName())
		live, ok := p.live.Cluster[key]
		if !ok {
			continue
		}
		if other := live.GetLabels()[v1alpha1.SourceLabel]; other != "" && other != p.source {
			errs = append(errs, fmt.Errorf("%s%s %q belongs to GitSource %q already; keep it in one repository",
				p.at[key], o.GetKind(), o.GetName(), other))
		}
	}
	return errors.Join(errs...)
}

// config plans the change of one fragment.
func (p *planner) config(mc *mcfgv1.MachineConfig, digest string) error {
	key := revision.Key(revision.KindMachineConfig, mc.Name)
	live := p.live.ByName[mc.Name]
	if live == nil {
		p.out.created = append(p.out.created, key)
	} else {
		have, err := p.seen.Of(live)
		if err != nil {
			return err
		}
		if have == digest && live.Annotations[v1alpha1.DigestAnnotation] == digest &&
			live.Annotations[v1alpha1.FileAnnotation] == mc.Annotations[v1alpha1.FileAnnotation] &&
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
	p.out.changes = append(p.out.changes, change{
		verb: applyObject, kind: revision.KindMachineConfig, name: mc.Name,
		object: u, config: mc, at: p.at[key],
	})
	return nil
}

// object plans the change of one object of cluster/.
func (p *planner) object(o *unstructured.Unstructured, digest string) error {
	key := revision.Key(o.GetKind(), o.GetName())
	live, exists := p.live.Cluster[key]
	if exists {
		have, err := revision.ObjectDigest(live, o.GetKind(), p.seen)
		if err != nil {
			return err
		}
		ours := live.GetLabels()[v1alpha1.SourceLabel] == p.source
		if ours && have == digest {
			return nil
		}
		if !ours || p.unrecorded {
			u, err := revision.Unstructured(live, o.GetKind())
			if err != nil {
				return err
			}
			p.out.foreign = append(p.out.foreign, u)
		}
	} else {
		p.out.created = append(p.out.created, key)
	}
	text, _, err := revision.Wanted(o)
	if err != nil {
		return fmt.Errorf("writing %s %q: %w", o.GetKind(), o.GetName(), err)
	}
	u := o.DeepCopy()
	p.mark(u, digest)
	annotate(u, v1alpha1.WantedAnnotation, text)
	p.out.changes = append(p.out.changes, change{
		verb: applyObject, kind: o.GetKind(), name: o.GetName(), object: u,
		at: p.at[key],
	})
	return nil
}

// mark sets the source's label and the object's digest.
func (p *planner) mark(u *unstructured.Unstructured, digest string) {
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.SourceLabel] = p.source
	u.SetLabels(labels)
	annotate(u, v1alpha1.DigestAnnotation, digest)
}

// removals plans the changes of objects of the source that the revision does not contain. If the source does not prune,
// an object that a user assigned to the source by its label stays. removals adds such an object to the inventory and
// the content, because pools are rendered from it, and an object outside the inventory blocks every pool. The content
// already has the leftovers of earlier revisions.
func (p *planner) removals(named map[string]string) ([]v1alpha1.InventoryEntry, error) {
	owned, err := p.live.Owned(p.source, p.seen)
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
			if err := p.keepInContent(e); err != nil {
				return nil, err
			}
			continue
		}
		c := change{verb: deleteObject, kind: e.Kind, name: e.Name}
		if mc := p.live.ByName[e.Name]; e.Kind == revision.KindMachineConfig {
			c.uid = mc.UID
		} else if o := p.live.Cluster[key]; p.releases(e, key) {
			c.verb, c.source = releaseObject, p.source
		} else {
			c.uid = o.GetUID()
		}
		p.out.changes = append(p.out.changes, c)
	}
	return left, nil
}

// keepInContent adds to the content a live object that the source does not prune.
func (p *planner) keepInContent(e v1alpha1.InventoryEntry) error {
	if e.Kind == revision.KindMachineConfig {
		p.out.content.Configs = append(slices.Clone(p.out.content.Configs), p.live.ByName[e.Name].DeepCopy())
		return nil
	}
	if e.Digest == "" {
		return nil // A user changed the object, so the state that the source gave it is not known.
	}
	o, err := revision.WantedObject(p.live.Cluster[revision.Key(e.Kind, e.Name)])
	if err != nil {
		return err
	}
	p.out.content.Objects = append(slices.Clone(p.out.content.Objects), o)
	return nil
}

// releases reports whether the controller releases an object that its source no longer contains, instead of deleting
// it. The controller releases the standard pools, the disruption policy, and objects that existed before the source
// applied them.
func (p *planner) releases(e v1alpha1.InventoryEntry, key string) bool {
	return e.Kind == revision.KindMachineConfiguration || e.Kind == revision.KindMachineConfigPool &&
		pools.ContainsStandard(e.Name) ||
		p.mayDelete != nil && !p.mayDelete(key)
}

// ownContent returns the current state of a source's objects on the cluster. Before its first revision, these are the
// objects that users gave its label.
func ownContent(l revision.Objects, source string, seen *revision.Digests) (revision.Content, error) {
	var c revision.Content
	for i := range l.Configs {
		if l.Configs[i].Labels[v1alpha1.SourceLabel] == source {
			c.Configs = append(c.Configs, l.Configs[i].DeepCopy())
		}
	}
	for key, o := range l.Cluster {
		kind, _ := revision.SplitKey(key)
		if o.GetLabels()[v1alpha1.SourceLabel] != source {
			continue
		}
		digest, err := revision.ObjectDigest(o, kind, seen)
		if err != nil {
			return c, err
		}
		if digest == "" {
			continue // If the revision changes this object, changeSet.foreign stores its current state.
		}
		w, err := revision.WantedObject(o)
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

// dropNulls removes null values of unset fields, because server-side apply would make the source their owner.
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
