package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

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

// runPods simulates a kubelet without containers: it reports pods of the node as running, and removes deleted pods.
func (k *Kubelet) runPods(ctx context.Context) {
	for ctx.Err() == nil {
		if err := k.watchPods(ctx); err != nil && ctx.Err() == nil {
			k.Log.Debug("watching pods", "node", k.Node, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// watchPods handles each existing and new pod until the watch ends.
func (k *Kubelet) watchPods(ctx context.Context) error {
	mine := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", k.Node).String()}
	w, err := k.pods(metav1.NamespaceAll).Watch(ctx, mine)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return errors.New("the watch ended with a status")
		}
		pod, err := typed[corev1.Pod](u)
		if err != nil {
			return err
		}
		if err := k.act(ctx, pod, metav1.Now()); err != nil {
			k.Log.Warn("simulating a pod, trying again", "node", k.Node, "err", err)
			// The watch ends, so that the next watch shows this pod again: a drain waits for the pod, and no other
			// event may come.
			return nil
		}
	}
	return nil
}

// act takes the next step for one pod.
func (k *Kubelet) act(ctx context.Context, pod *corev1.Pod, now metav1.Time) error {
	pods := k.pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		zero := int64(0)
		err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &zero,
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("finishing pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	case pod.Status.Phase == corev1.PodPending:
		running := pod.DeepCopy()
		running.Status = runningStatus(pod, now)
		if err := pods.updateStatus(ctx, running); err != nil && !apierrors.IsNotFound(err) &&
			!apierrors.IsConflict(err) {
			return fmt.Errorf("running pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// runningStatus returns the status of a pod whose containers all run.
func runningStatus(pod *corev1.Pod, now metav1.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase, status.StartTime = corev1.PodRunning, &now
	status.HostIP, status.PodIP = "127.0.0.1", "127.0.0.1"
	status.HostIPs, status.PodIPs = []corev1.HostIP{{IP: status.HostIP}}, []corev1.PodIP{{IP: status.PodIP}}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now}
		replaced := false
		for i := range status.Conditions {
			if status.Conditions[i].Type == kind {
				status.Conditions[i], replaced = c, true
			}
		}
		if !replaced {
			status.Conditions = append(status.Conditions, c)
		}
	}
	started := true
	status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, Started: &started,
			ContainerID: "simulated://" + string(types.UID(pod.UID)) + "/" + c.Name,
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}
