package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

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
