package reconcile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// lagging is a controller's client: what it reads is as old as the last refresh of that kind, as from an informer's
// cache, and its writes may fail. Each kind is refreshed by itself, so that what is read together need never have been
// there together.
type lagging struct {
	live   client.WithWatch
	caches map[reflect.Type][]client.Object
	// mu guards what writes change: a controller writes several objects at a time.
	mu sync.Mutex
	// written has the types whose cache is older than their last write.
	written map[reflect.Type]bool
	// left is how many writes the controller lives for; negative: for ever.
	left   int
	writes int
	// refused are names of objects that the API server does not take: when it is asked, or only when it is told.
	refusedAsked, refusedTold string
	// lost is the chance that a write is done and its answer lost.
	lost   float64
	random *rand.Rand
	// assigned is called with each config that a node is given.
	assigned func(node, config string)
}

// cachedKinds are the kinds that controllers read from their cache.
var cachedKinds = []client.ObjectList{
	&v1alpha1.GitSourceList{}, &mcfgv1.MachineConfigList{}, &mcfgv1.MachineConfigPoolList{},
	&operatorv1.MachineConfigurationList{},
	&v1alpha1.DriftPolicyList{}, &v1alpha1.RolloutPolicyList{}, &mcfgv1.PinnedImageSetList{}, &corev1.NodeList{},
}

// newLagging has a client of an API server to which nobody else writes.
func newLagging(live client.WithWatch, random *rand.Rand, assigned func(node, config string)) *lagging {
	l := &lagging{caches: map[reflect.Type][]client.Object{}, left: -1, random: random, assigned: assigned}
	l.allWritten()
	l.live = interceptor.NewClient(live, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			l.wrote(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			l.wrote(o)
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			l.wrote(o)
			return c.Delete(ctx, o, opts...)
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object,
			opts ...client.DeleteAllOfOption,
		) error {
			l.wrote(o)
			return c.DeleteAllOf(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			l.wrote(o)
			return c.Patch(ctx, o, p, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption,
		) error {
			if !controllertest.IsDryRun(opts) {
				l.allWritten()
			}
			return c.Apply(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			opts ...client.SubResourceUpdateOption,
		) error {
			l.wrote(o)
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			l.wrote(o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	return l
}

// wrote records that objects of a type may differ from its cache.
func (l *lagging) wrote(o client.Object) {
	if _, partial := o.(*metav1.PartialObjectMetadata); partial {
		l.allWritten()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[reflect.TypeOf(o).Elem()] = true
}

// allWritten records a write to an object whose type is not known.
func (l *lagging) allWritten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = map[reflect.Type]bool{}
	for _, kind := range cachedKinds {
		l.written[itemType(kind)] = true
	}
}

// refresh brings the cache of one kind up to date. It reads nothing where nothing was written since the last refresh.
func (l *lagging) refresh(ctx context.Context, kind client.ObjectList) error {
	if !l.written[itemType(kind)] {
		return nil
	}
	list := kind.DeepCopyObject().(client.ObjectList)
	if err := l.live.List(ctx, list); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	objects := make([]client.Object, len(items))
	for i := range items {
		objects[i] = items[i].(client.Object)
	}
	l.caches[itemType(kind)], l.written[itemType(kind)] = objects, false
	return nil
}

// itemType is the type of a list's items.
func itemType(list client.ObjectList) reflect.Type {
	field, _ := reflect.TypeOf(list).Elem().FieldByName("Items")
	return field.Type.Elem()
}

// crashed reports whether the controller has made all the writes that it lives for.
func (l *lagging) crashed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left == 0
}

// begin counts a write, and reports whether the controller lives to make it.
func (l *lagging) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return false
	}
	l.left--
	l.writes++
	return true
}

// loses draws whether the answer of a write is lost.
func (l *lagging) loses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.Float64() < l.lost
}

func (l *lagging) client() client.WithWatch {
	write := func(o interface{ GetName() string }, do func() error) error {
		if !l.begin() {
			return controllertest.ErrCrash
		}
		if o != nil && l.refusedTold != "" && o.GetName() == l.refusedTold {
			return invalid(o.GetName())
		}
		err := do()
		if err == nil && l.loses() {
			return apierrors.NewTimeoutError("the answer was lost", 1)
		}
		return err
	}
	return interceptor.NewClient(l.live, interceptor.Funcs{
		Get:  l.get,
		List: l.list,
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write(o, func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if len((&client.DeleteOptions{}).ApplyOptions(opts).DryRun) > 0 {
				return c.Delete(ctx, o, opts...)
			}
			return write(o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return write(o, func() error {
				err := c.Patch(ctx, o, p, opts...)
				if o.GetObjectKind().GroupVersionKind().Kind == "Node" && err == nil {
					l.assigned(o.GetName(), o.GetAnnotations()[v1alpha1.DesiredConfigAnnotation])
				}
				return err
			})
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption,
		) error {
			named, _ := o.(interface{ GetName() string })
			if controllertest.IsDryRun(opts) {
				if l.crashed() {
					return controllertest.ErrCrash
				}
				if named != nil && l.refusedAsked != "" && named.GetName() == l.refusedAsked {
					return invalid(named.GetName())
				}
				return c.Apply(ctx, o, opts...)
			}
			return write(named, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			opts ...client.SubResourceUpdateOption,
		) error {
			return write(nil, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return write(nil, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

func invalid(name string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Object"}, name, nil)
}

func (l *lagging) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
	opts ...client.GetOption,
) error {
	if l.crashed() {
		return controllertest.ErrCrash
	}
	objects, cached := l.caches[reflect.TypeOf(into).Elem()]
	if !cached {
		return c.Get(ctx, key, into, opts...)
	}
	for _, o := range objects {
		if o.GetName() == key.Name {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: strings.ToLower(reflect.TypeOf(into).Elem().Name())},
		key.Name)
}

func (l *lagging) list(ctx context.Context, c client.WithWatch, into client.ObjectList,
	opts ...client.ListOption,
) error {
	if l.crashed() {
		return controllertest.ErrCrash
	}
	field, typed := reflect.TypeOf(into).Elem().FieldByName("Items")
	if !typed {
		return c.List(ctx, into, opts...)
	}
	objects, cached := l.caches[field.Type.Elem()]
	if !cached {
		return c.List(ctx, into, opts...)
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	var items []runtime.Object
	for _, o := range objects {
		if options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set(o.GetLabels())) {
			items = append(items, o.DeepCopyObject())
		}
	}
	if err := meta.SetList(into, items); err != nil {
		return fmt.Errorf("filling %T: %w", into, err)
	}
	return nil
}

func shuffled(random *rand.Rand, names []string) []string {
	out := slices.Clone(names)
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
