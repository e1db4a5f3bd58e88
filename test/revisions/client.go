package revisions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// controllerID names who reads and writes.
type controllerID int

// The controllers, as steps number them.
const (
	theSource controllerID = iota
	theRender
	theRollout
	controllers
)

var controllerNames = [controllers]string{"source", "render", "rollout"}

// errDead is what a controller gets that has crashed.
var errDead = errors.New("the controller has crashed")

// session is a controller's client. One with a cache reads from it; one without reads from the server. Methods of
// client.Client that no controller of a history calls are not there.
type session struct {
	client.Client
	w     *world
	who   controllerID
	cache *cache
	// process is shared by the sessions of a controller.
	process *process
}

// process is a controller between its start and its crash.
type process struct {
	dead bool
	// gotPool is called after a pool was read, and outcome decides about each write; both may be nil.
	gotPool func()
	outcome func(what string) int
	// last is the digest of the content that was stored last; versions of the pools that Get returned.
	last    string
	fetched map[string]string
	// others are the digests of contents that were kept in the place of others.
	others map[string]string
}

func (s *session) objects(kind string) objects {
	if s.cache != nil {
		return s.cache.objects[kind]
	}
	return s.w.api.objects[kind]
}

// Get reads an object.
func (s *session) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if s.process.dead {
		return errDead
	}
	kind, name := kindOf(into), key.Name
	if kind == kindContent {
		name = s.process.nameOfOther(name)
	}
	o, ok := s.objects(kind)[name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	if err := copyInto(into, o); err != nil {
		return err
	}
	if _, part := into.(*metav1.PartialObjectMetadata); kind == revision.KindMachineConfigPool && !part {
		s.process.fetched[key.Name] = o.GetResourceVersion()
		if then := s.process.gotPool; then != nil {
			s.process.gotPool = nil
			then()
		}
	}
	return nil
}

// List reads all objects of a kind.
func (s *session) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if s.process.dead {
		return errDead
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	fill(list, s.objects, options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy &&
		s.w.core.View == nil, options.LabelSelector)
	if s.w.core.View != nil && s.who != theSource {
		s.w.core.View(s, list)
	}
	return nil
}

// fill puts objects into a list of their kind.
func fill(list client.ObjectList, of func(kind string) objects, shared bool, selector labels.Selector) {
	switch l := list.(type) {
	case *v1alpha1.GitSourceList:
		l.Items = items[v1alpha1.GitSource](of(kindSource), shared)
	case *mcfgv1.MachineConfigList:
		l.Items = items[mcfgv1.MachineConfig](of(revision.KindMachineConfig), shared)
	case *mcfgv1.MachineConfigPoolList:
		l.Items = items[mcfgv1.MachineConfigPool](of(revision.KindMachineConfigPool), shared)
	case *operatorv1.MachineConfigurationList:
		l.Items = items[operatorv1.MachineConfiguration](of(revision.KindMachineConfiguration), shared)
	case *v1alpha1.DriftPolicyList:
		l.Items = items[v1alpha1.DriftPolicy](of(revision.KindDriftPolicy), shared)
	case *v1alpha1.RolloutPolicyList:
		l.Items = items[v1alpha1.RolloutPolicy](of(revision.KindRolloutPolicy), shared)
	case *mcfgv1.PinnedImageSetList: // The trees have none.
	case *corev1.NodeList:
		l.Items = items[corev1.Node](of(kindNode), shared)
	case *metav1.PartialObjectMetadataList:
		for _, name := range of(kindContent).sorted() {
			o := of(kindContent)[name]
			if selector == nil || selector.Matches(labels.Set(o.GetLabels())) {
				item := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: o.GetLabels()}}
				item.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindContent))
				l.Items = append(l.Items, item)
			}
		}
	default:
		panic(fmt.Sprintf("nobody lists %T", list))
	}
}

// items are objects as a list has them.
func items[T any, P interface {
	*T
	client.Object
}](from objects, shared bool) []T {
	out := make([]T, 0, len(from))
	for _, name := range from.sorted() {
		o := from[name].(P)
		if !shared {
			o = o.DeepCopyObject().(P)
		}
		out = append(out, *o)
	}
	return out
}

// write does a write with the outcome that the history has for it.
func (s *session) write(verb, kind, name string, do func() error) error {
	if s.process.dead {
		return errDead
	}
	what := fmt.Sprintf("%s %s %s", verb, kind, name)
	outcome := done
	if s.process.outcome != nil {
		outcome = s.process.outcome(what)
	}
	if s.process.dead { // a step before the write ended the controller
		return errDead
	}
	if outcome != done {
		s.w.tell("the %s controller does: %s; %s", controllerNames[s.who], what, outcomeNames[outcome])
	}
	resource := schema.GroupResource{Resource: kind}
	switch outcome {
	case refused:
		if kind == kindSource || kind == kindContent { // a webhook is about the objects of repositories
			return apierrors.NewServiceUnavailable("try later")
		}
		return apierrors.NewForbidden(resource, name, errors.New("a webhook says no"))
	case unavailable:
		return apierrors.NewServiceUnavailable("try later")
	case conflict:
		return apierrors.NewConflict(resource, name, errors.New("it has changed"))
	case crashBefore:
		s.process.dead = true
		return errDead
	}
	before := s.w.api.version
	err := do()
	if outcome == done && (s.w.api.version != before || err != nil) {
		s.w.tell("the %s controller does: %s%s", controllerNames[s.who], what, ending(err))
	}
	switch outcome {
	case lost:
		return errors.Join(apierrors.NewTimeoutError("no answer", 1), err)
	case crashAfter:
		s.process.dead = true
		return errDead
	}
	return err
}

func ending(err error) string {
	if err == nil {
		return ""
	}
	return "; " + err.Error()
}

// Create stores a new object.
func (s *session) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if c, ok := o.(*v1alpha1.RevisionContent); ok {
		s.process.last = c.Spec.Digest
		if s.w.core.Content != nil && !s.process.dead {
			return s.keepOther(c)
		}
	}
	return s.write("create", kindOf(o), o.GetName(), func() error { return s.w.api.create(o) })
}

// keepOther keeps another content in the place of the one that the source controller wants to keep.
func (s *session) keepOther(c *v1alpha1.RevisionContent) error {
	content, err := revision.Decode([][]byte{c.Spec.Data}, c.Spec.Digest)
	if err != nil {
		return err
	}
	s.w.core.Content(&content)
	parts, digest, err := revision.Encode(content)
	if err != nil {
		return err
	}
	other := c.DeepCopy()
	other.Name = strings.Replace(c.Name, short(c.Spec.Digest), short(digest), 1)
	other.Spec.Data, other.Spec.Digest = parts[0], digest
	s.process.others[c.Spec.Digest] = digest
	return s.write("create", kindContent, other.Name, func() error { return s.w.api.create(other) })
}

// nameOfOther returns the name of the content that is kept in the place of another one.
func (p *process) nameOfOther(name string) string {
	for was, is := range p.others {
		if strings.Contains(name, short(was)) {
			return strings.Replace(name, short(was), short(is), 1)
		}
	}
	return name
}

// short is a digest as the names of RevisionContent objects have it.
func short(digest string) string { return strings.TrimPrefix(digest, "sha256:")[:20] }

// Update replaces an object.
func (s *session) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return s.write("update", kindOf(o), o.GetName(), func() error {
		if isRefused(o.GetName(), false) {
			return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), errors.New("a webhook says no"))
		}
		return s.w.api.update(o)
	})
}

// Patch merges fields into an object.
func (s *session) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	raw, err := p.Data(o)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	return s.write("patch", kindOf(o), o.GetName(), func() error { return s.w.api.merge(o, fields) })
}

// Delete removes an object.
func (s *session) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	kind, name := kindOf(o), o.GetName()
	do := func() error {
		live, err := s.w.api.current(kind, name, "")
		if err != nil {
			return err
		}
		if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != live.GetUID() {
			return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New("it is another one"))
		}
		if len(options.DryRun) == 0 {
			s.w.deletes(kind, name)
			s.w.api.remove(kind, name)
		}
		return nil
	}
	if len(options.DryRun) > 0 {
		return do()
	}
	return s.write("delete", kind, name, do)
}

// Apply is server-side apply.
func (s *session) Apply(_ context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	options := (&client.ApplyOptions{}).ApplyOptions(opts)
	u := o.(interface {
		runtime.Unstructured
		GetName() string
	})
	kind, name := u.GetObjectKind().GroupVersionKind().Kind, u.GetName()
	if options.FieldManager != "bunsen-source" {
		return nil // the standard pools are as the source controller left them
	}
	if len(options.DryRun) > 0 {
		if s.process.dead {
			return errDead
		}
		if isRefused(name, true) && !s.w.core.NoDryRun {
			return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, name, nil)
		}
		return nil
	}
	return s.write("apply", kind, name, func() error {
		if isRefused(name, false) {
			return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, name, nil)
		}
		live, err := s.w.api.apply(u.UnstructuredContent(), kind, name)
		if err != nil {
			return err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		gvk := u.GetObjectKind().GroupVersionKind()
		u.SetUnstructuredContent(content)
		u.GetObjectKind().SetGroupVersionKind(gvk)
		return err
	})
}

// Status writes the status of an object.
func (s *session) Status() client.SubResourceWriter { return statusWriter{s: s} }

// statusWriter is the part of a client that writes statuses.
type statusWriter struct {
	client.SubResourceWriter
	s *session
}

// Update replaces the status of an object.
func (x statusWriter) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	if cached := x.s.objects(kindOf(o))[o.GetName()]; x.s.w.core.OnlyChanges && equality.Semantic.DeepEqual(cached, o) {
		return nil
	}
	return x.s.write("update the status of", kindOf(o), o.GetName(), func() error {
		src, ok := o.(*v1alpha1.GitSource)
		if !ok {
			return x.s.w.api.updateStatus(o)
		}
		return x.s.w.record(x.s, src)
	})
}

// Patch merges a patch into the status of an object.
func (x statusWriter) Patch(_ context.Context, o client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption,
) error {
	return x.s.write("patch the status of", kindOf(o), o.GetName(), func() error {
		data, err := patch.Data(o)
		if err != nil {
			return err
		}
		var changes map[string]any
		if err := json.Unmarshal(data, &changes); err != nil {
			return err
		}
		return x.s.w.api.merge(o, changes)
	})
}
