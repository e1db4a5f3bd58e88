package simulate

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// The kinds that a kubelet writes.
var (
	nodes  = schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	pods   = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	leases = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
)

// objects reads and writes one kind with its own type over the dynamic client. The typed clients would link every API
// group, and this binary runs as root on every node.
type objects[T any] struct {
	kind schema.GroupVersionKind
	dynamic.ResourceInterface
}

func (o objects[T]) get(ctx context.Context, name string) (*T, error) {
	u, err := o.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed[T](u)
}

func (o objects[T]) create(ctx context.Context, object *T) error {
	u, err := o.untyped(object)
	if err == nil {
		_, err = o.Create(ctx, u, metav1.CreateOptions{})
	}
	return err
}

func (o objects[T]) update(ctx context.Context, object *T) error {
	u, err := o.untyped(object)
	if err == nil {
		_, err = o.Update(ctx, u, metav1.UpdateOptions{})
	}
	return err
}

func (o objects[T]) updateStatus(ctx context.Context, object *T) error {
	u, err := o.untyped(object)
	if err == nil {
		_, err = o.UpdateStatus(ctx, u, metav1.UpdateOptions{})
	}
	return err
}

// patchStatus replaces only fields of the status. patchStatus fails with a conflict if the object no longer has this
// version. patchStatus does not update the whole object, because the update would include an old spec, and
// NodeRestriction refuses a kubelet's update that changes taints, such as taints that a controller has just written.
func (o objects[T]) patchStatus(ctx context.Context, name, version string, status any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "status": status})
	if err != nil {
		return fmt.Errorf("writing the status of a %s: %w", o.kind.Kind, err)
	}
	_, err = o.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (o objects[T]) untyped(object *T) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("writing a %s: %w", o.kind.Kind, err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(o.kind)
	return u, nil
}

// typed converts an object of the cluster to its Go type.
func typed[T any](u *unstructured.Unstructured) (*T, error) {
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", u.GetKind(), err)
	}
	return object, nil
}
