package revisions

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// Kinds that no inventory lists.
const (
	kindSource  = "GitSource"
	kindContent = "RevisionContent"
	kindNode    = "Node"
)

// kinds in the order of the bits of a step.
var kinds = []string{
	kindSource, revision.KindMachineConfig, revision.KindMachineConfigPool, revision.KindRolloutPolicy,
	revision.KindMachineConfiguration, revision.KindDriftPolicy, kindContent, kindNode,
}

// newObject is an empty object of a kind.
func newObject(kind string) client.Object {
	switch kind {
	case kindSource:
		return &v1alpha1.GitSource{}
	case kindContent:
		return &v1alpha1.RevisionContent{}
	case kindNode:
		return &corev1.Node{}
	case revision.KindMachineConfig:
		return &mcfgv1.MachineConfig{}
	case revision.KindMachineConfigPool:
		return &mcfgv1.MachineConfigPool{}
	case revision.KindMachineConfiguration:
		return &operatorv1.MachineConfiguration{}
	case revision.KindDriftPolicy:
		return &v1alpha1.DriftPolicy{}
	case revision.KindRolloutPolicy:
		return &v1alpha1.RolloutPolicy{}
	case revision.KindPinnedImageSet:
		return &mcfgv1.PinnedImageSet{}
	}
	panic("no such kind: " + kind)
}

// groupVersions of the kinds of a repository.
var groupVersions = map[string]schema.GroupVersion{
	revision.KindMachineConfig: mcfgv1.GroupVersion, revision.KindMachineConfigPool: mcfgv1.GroupVersion,
	revision.KindMachineConfiguration: operatorv1.GroupVersion, revision.KindDriftPolicy: v1alpha1.GroupVersion,
	revision.KindRolloutPolicy: v1alpha1.GroupVersion,
}

// kindOf is the kind of an object of any Go type.
func kindOf(o runtime.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(o).Elem().Name()
}

// event is what a watch sends: an object that was written, or a name that is gone.
type event struct {
	name   string
	object client.Object
}

// objects of one kind by name. The objects are never written to.
type objects map[string]client.Object

// server is the API server: its objects by kind, and all events since the beginning.
type server struct {
	version int
	objects map[string]objects
	log     map[string][]event
	// applied is what the source controller applied last to an object: revision.Key → the fields.
	applied map[string]map[string]any
}

func newServer() *server {
	s := &server{objects: map[string]objects{}, log: map[string][]event{}, applied: map[string]map[string]any{}}
	for _, kind := range kinds {
		s.objects[kind] = objects{}
	}
	return s
}

// put stores an object, which becomes the server's, and gives it a version. An object that has not changed keeps its
// version.
func (s *server) put(o client.Object) {
	kind, name := kindOf(o), o.GetName()
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	old, exists := s.objects[kind][name]
	if exists {
		o.SetUID(old.GetUID())
		o.SetResourceVersion(old.GetResourceVersion())
		o.SetGeneration(old.GetGeneration())
		if equality.Semantic.DeepEqual(old, o) {
			return
		}
		if !equality.Semantic.DeepEqual(specOf(old), specOf(o)) {
			o.SetGeneration(old.GetGeneration() + 1)
		}
	}
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	if !exists {
		o.SetUID(types.UID("u" + strconv.Itoa(s.version)))
		o.SetGeneration(1)
	}
	s.objects[kind][name] = o
	s.log[kind] = append(s.log[kind], event{name, o})
}

// removeObject deletes an object.
func (s *server) remove(kind, name string) {
	if _, ok := s.objects[kind][name]; !ok {
		return
	}
	s.version++
	delete(s.objects[kind], name)
	delete(s.applied, revision.Key(kind, name))
	s.log[kind] = append(s.log[kind], event{name: name})
}

func specOf(o client.Object) any {
	spec := reflect.ValueOf(o).Elem().FieldByName("Spec")
	if !spec.IsValid() {
		return nil
	}
	return spec.Interface()
}

// current returns the object that a write is about, or the error that the API server answers.
func (s *server) current(kind, name, version string) (client.Object, error) {
	old, ok := s.objects[kind][name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
	}
	if version != "" && version != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, fmt.Errorf("it has changed"))
	}
	return old, nil
}

// update replaces an object, but for its status.
func (s *server) update(o client.Object) error {
	old, err := s.current(kindOf(o), o.GetName(), o.GetResourceVersion())
	if err != nil {
		return err
	}
	next, err := typed(o)
	if err != nil {
		return err
	}
	copyStatus(next, old)
	s.put(next)
	return s.answer(o)
}

// updateStatus replaces the status of an object.
func (s *server) updateStatus(o client.Object) error {
	old, err := s.current(kindOf(o), o.GetName(), o.GetResourceVersion())
	if err != nil {
		return err
	}
	next := old.DeepCopyObject().(client.Object)
	copyStatus(next, o.DeepCopyObject())
	s.put(next)
	return s.answer(o)
}

// create stores a new object.
func (s *server) create(o client.Object) error {
	kind := kindOf(o)
	if _, exists := s.objects[kind][o.GetName()]; exists {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: kind}, o.GetName())
	}
	s.put(o.DeepCopyObject().(client.Object))
	return s.answer(o)
}

// merge applies a JSON merge patch.
func (s *server) merge(o client.Object, patch map[string]any) error {
	kind := kindOf(o)
	meta, _ := patch["metadata"].(map[string]any)
	version, _ := meta["resourceVersion"].(string)
	old, err := s.current(kind, o.GetName(), version)
	if err != nil {
		return err
	}
	live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
	if err != nil {
		return err
	}
	next, err := fromMap(kind, merged(live, patch, true))
	if err != nil {
		return err
	}
	copyStatus(next, old)
	s.put(next)
	return s.answer(o)
}

// apply is server-side apply for one field manager: it removes what the manager applied before and does not any more,
// and sets the rest.
func (s *server) apply(u map[string]any, kind, name string) (client.Object, error) {
	live := map[string]any{}
	key := revision.Key(kind, name)
	old, exists := s.objects[kind][name]
	if exists {
		var err error
		if live, err = runtime.DefaultUnstructuredConverter.ToUnstructured(old); err != nil {
			return nil, err
		}
	}
	fields := map[string]any{"spec": u["spec"], "metadata": map[string]any{"name": name}}
	if meta, ok := u["metadata"].(map[string]any); ok {
		fields["metadata"] = map[string]any{"name": name, "labels": meta["labels"], "annotations": meta["annotations"]}
	}
	fields = runtime.DeepCopyJSON(fields)
	pruned, _ := without(live, s.applied[key], fields).(map[string]any)
	next, err := fromMap(kind, merged(pruned, fields, false))
	if err != nil {
		return nil, err
	}
	s.put(next)
	s.applied[key] = fields
	return s.objects[kind][name], nil
}

// without removes from a live value what was applied before and is not in the next fields.
func without(live any, before, next any) any {
	l, ok := live.(map[string]any)
	b, wasMap := before.(map[string]any)
	if !ok || !wasMap {
		return live
	}
	n, _ := next.(map[string]any)
	for k, v := range b {
		have, exists := l[k]
		if !exists {
			continue
		}
		if _, kept := n[k]; kept || k == "name" {
			l[k] = without(have, v, n[k])
			continue
		}
		_, inner := v.(map[string]any)
		rest, isMap := without(have, v, nil).(map[string]any)
		if inner && isMap && len(rest) > 0 {
			l[k] = rest
			continue
		}
		delete(l, k)
	}
	return l
}

// merged sets fields in a live value; nil removes a field where drop is set, and says nothing otherwise.
func merged(live map[string]any, fields map[string]any, drop bool) map[string]any {
	if live == nil {
		live = map[string]any{}
	}
	for k, v := range fields {
		switch v := v.(type) {
		case nil:
			if drop {
				delete(live, k)
			}
		case map[string]any:
			have, _ := live[k].(map[string]any)
			live[k] = merged(have, v, drop)
		default:
			live[k] = v
		}
	}
	return live
}

// answer writes into an object what the server has of it.
func (s *server) answer(o client.Object) error {
	return copyInto(o, s.objects[kindOf(o)][o.GetName()])
}

// copyInto copies an object into one of the same kind, typed or not, or its metadata alone.
func copyInto(into, from client.Object) error {
	if meta, ok := into.(*metav1.PartialObjectMetadata); ok {
		of, ok := from.(metav1.ObjectMetaAccessor)
		if !ok {
			return fmt.Errorf("%T has no metadata", from)
		}
		of.GetObjectMeta().(*metav1.ObjectMeta).DeepCopyInto(&meta.ObjectMeta)
		return nil
	}
	if u, ok := into.(runtime.Unstructured); ok {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
		if err != nil {
			return err
		}
		gvk := into.GetObjectKind().GroupVersionKind()
		u.SetUnstructuredContent(content)
		into.GetObjectKind().SetGroupVersionKind(gvk)
		return nil
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
	return nil
}

// copyStatus gives an object the status of another.
func copyStatus(into, from runtime.Object) {
	if to := reflect.ValueOf(into).Elem().FieldByName("Status"); to.IsValid() &&
		kindOf(into) != revision.KindMachineConfiguration {
		to.Set(reflect.ValueOf(from.DeepCopyObject()).Elem().FieldByName("Status"))
	}
}

// typed is a copy of an object in its Go type.
func typed(o client.Object) (client.Object, error) {
	u, ok := o.(runtime.Unstructured)
	if !ok {
		return o.DeepCopyObject().(client.Object), nil
	}
	return fromMap(kindOf(o), u.UnstructuredContent())
}

func fromMap(kind string, content map[string]any) (client.Object, error) {
	out := newObject(kind)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, out); err != nil {
		return nil, fmt.Errorf("reading %s: %w", kind, err)
	}
	return out, nil
}

// cache is what the watches of one controller have received.
type cache struct {
	at      map[string]int
	objects map[string]objects
}

func newCache(s *server) *cache {
	c := &cache{at: map[string]int{}, objects: map[string]objects{}}
	for _, kind := range kinds {
		c.at[kind], c.objects[kind] = len(s.log[kind]), maps.Clone(s.objects[kind])
	}
	return c
}

// sync receives the next events of a kind, at most n of them; 0 is all. It returns how many there were.
func (c *cache) sync(s *server, kind string, n int) int {
	events := s.log[kind][c.at[kind]:]
	if n > 0 && n < len(events) {
		events = events[:n]
	}
	for _, e := range events {
		if e.object == nil {
			delete(c.objects[kind], e.name)
		} else {
			c.objects[kind][e.name] = e.object
		}
	}
	c.at[kind] += len(events)
	return len(events)
}

// sorted are the names of objects, in order.
func (o objects) sorted() []string { return slices.Sorted(maps.Keys(o)) }
