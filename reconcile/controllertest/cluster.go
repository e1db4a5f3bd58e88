package controllertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/test/kstatus"
)

// Noon is the time at which every test begins.
var Noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// ErrCrash is the error of every write after a crash.
var ErrCrash = errors.New("the controller is dead")

// Cluster is a cluster in memory with a clock and a record of the controllers' actions.
type Cluster struct {
	T *testing.T
	// as a user with kubectl
	Admin client.WithWatch
	// of the controllers
	Client client.WithWatch
	Now    time.Time
	// of the controllers
	Events *Events
	Writes *Writes
	// objects that the API server rejects
	Refuse string
	// A dry run accepts an object of Refuse, and only the real write is rejected.
	Lenient bool

	// as a controller last wrote them, by object
	statuses map[string]*unstructured.Unstructured
}

// NewCluster returns a cluster with a GitSource `os`, the default pools, and the objects of a test.
func NewCluster(t *testing.T, objects ...client.Object) *Cluster {
	t.Helper()
	scheme, err := smallScheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &Cluster{
		T: t, statuses: map[string]*unstructured.Unstructured{}, Now: Noon, Events: &Events{},
		Writes: &Writes{Left: -1},
	}
	objects = append([]client.Object{
		&v1alpha1.GitSource{
			ObjectMeta: metav1.ObjectMeta{Name: "os", Generation: 1},
			Spec: v1alpha1.GitSourceSpec{
				URL:      "https://git.example.com/os",
				Interval: metav1.Duration{Duration: time.Minute},
			},
		},
		Pool("master"), Pool("worker"),
	}, objects...)
	w.Admin = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.BunsenStatus{}, &v1alpha1.GitSource{}, &mcfgv1.MachineConfigPool{},
			&operatorv1.MachineConfiguration{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).Build()
	w.Client = interceptor.NewClient(w.Admin, w.interceptWrites())
	return w
}

// smallScheme has only the kinds that the controllers use. The fake client goes through all kinds of its scheme at each
// write, which would take a third of the time of some tests.
func smallScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(appsv1.AddToScheme, batchv1.AddToScheme, certificatesv1.AddToScheme,
		coordinationv1.AddToScheme, corev1.AddToScheme,
		policyv1.AddToScheme, mcfgv1.Install, operatorv1.Install, v1alpha1.AddToScheme)
	return s, builder.AddToScheme(s)
}

// interceptWrites counts the controllers' writes, and fails them after the simulated crash.
func (w *Cluster) interceptWrites() interceptor.Funcs {
	name := func(verb string, o client.Object) string { return fmt.Sprintf("%s %T %s", verb, o, o.GetName()) }
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.Writes.write(name("create", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.Writes.write(name("update", o), func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			return w.Writes.write(name("patch", o), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption,
		) error {
			dry := IsDryRun(opts)
			if named, ok := o.(interface{ GetName() string }); ok && slices.Contains(strings.Fields(w.Refuse),
				named.GetName()) && !(dry && w.Lenient) {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "MachineConfig"}, named.GetName(), nil)
			}
			if dry {
				return nil // The function returns here because the fake client would write even in a dry run.
			}
			return w.Writes.write("apply", func() error { return c.Apply(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.Writes.write(name("delete", o), func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			opts ...client.SubResourceUpdateOption,
		) error {
			return w.Writes.write(name("update "+sub, o), func() error {
				if err := c.SubResource(sub).Update(ctx, o, opts...); err != nil {
					return err
				}
				return w.checkStatus(o)
			})
		},
	}
}

// checkStatus fails if the status breaks a rule of kstatus.
func (w *Cluster) checkStatus(o client.Object) error {
	kind, err := w.Admin.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	now := &unstructured.Unstructured{Object: content}
	now.SetGroupVersionKind(kind)
	key := kind.Kind + "/" + o.GetName() + "/" + string(o.GetUID())
	broken, err := kstatus.Check(w.statuses[key], now)
	w.statuses[key] = now
	for _, text := range broken {
		w.T.Error(text)
	}
	return err
}

// IsDryRun reports whether an apply is a dry run.
func IsDryRun(opts []client.ApplyOption) bool {
	o := client.ApplyOptions{}
	return len(o.ApplyOptions(opts).DryRun) > 0
}

// Request is a reconcile request for an object without a namespace.
func Request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}

// Get reads an object. The test fails if the object does not exist.
func Get[T client.Object](w *Cluster, name string, into T) T {
	w.T.Helper()
	if err := w.Admin.Get(w.T.Context(), client.ObjectKey{Name: name}, into); err != nil {
		w.T.Fatal(err)
	}
	return into
}

// Modify changes an object as a user does. It increments the generation as the API server would.
func Modify[T client.Object](w *Cluster, o T, edit func(T)) {
	w.T.Helper()
	edit(o)
	o.SetGeneration(o.GetGeneration() + 1)
	if err := w.Admin.Update(w.T.Context(), o); err != nil {
		w.T.Fatal(err)
	}
}

// Create creates an object as a user does.
func (w *Cluster) Create(o client.Object) {
	w.T.Helper()
	if err := w.Admin.Create(w.T.Context(), o); err != nil {
		w.T.Fatal(err)
	}
}

// Remove deletes an object as a user does.
func (w *Cluster) Remove(o client.Object) {
	w.T.Helper()
	if err := w.Admin.Delete(w.T.Context(), o); err != nil {
		w.T.Fatal(err)
	}
}
