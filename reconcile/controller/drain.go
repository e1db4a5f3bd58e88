package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubectldrain "k8s.io/kubectl/pkg/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

// Drain empties and frees nodes when their daemons ask for it.
//
// Reads: Node request annotation, Pod, PodDisruptionBudget
// Writes: cordon, evictions, Node acknowledgement
type Drain struct {
	// Client reads nodes from the manager's cache and writes them.
	Client client.Client
	// Clients reads pods and evicts them: no controller keeps every pod of a cluster in memory.
	Clients kubernetes.Interface
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events

	answers sync.Map // answerKey → drain.Answer; losing it costs one more eviction call a pod
	alarms  sync.Map // node name → drain.Alarm told last
}

// Reconcile serves one node's request.
func (r *Drain) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	n := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, n); err != nil {
		r.forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	node, err := drain.ReadNode(n)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	switch node.Request.Verb {
	case v1alpha1.DrainVerb:
		return r.drain(ctx, n, node)
	case v1alpha1.UncordonVerb:
		return reconcile.Result{}, r.uncordon(ctx, n, node)
	default:
		return reconcile.Result{}, r.write(ctx, n, node.Rest(), func(_ drain.Cordoned, a map[string]string) {
			delete(a, v1alpha1.DrainStartedAnnotation)
			delete(a, v1alpha1.DrainStatusAnnotation)
		})
	}
}

// uncordon lifts our cordon, and acknowledges in the same write.
func (r *Drain) uncordon(ctx context.Context, n *corev1.Node, node drain.Node) error {
	r.forget(n.Name)
	change := drain.Uncordon(node.Cordoned)
	err := r.write(ctx, n, change, func(to drain.Cordoned, a map[string]string) {
		delete(a, v1alpha1.DrainStartedAnnotation)
		delete(a, v1alpha1.DrainStatusAnnotation)
		if done, ok := drain.Acknowledge(node.Request, to, true); ok {
			a[v1alpha1.LastAppliedDrainAnnotation] = done
		}
	})
	if err == nil && change.Needed {
		r.Events.Eventf(n, nil, corev1.EventTypeNormal, "Uncordon", "Drain", "uncordoned in %s", node.Request.Config)
	}
	return err
}

// drain cordons, gathers, decides, evicts, and acknowledges in the same write that records the progress.
func (r *Drain) drain(ctx context.Context, n *corev1.Node, node drain.Node) (reconcile.Result, error) {
	now := r.Now()
	if change := drain.Cordon(node.Cordoned, node.Request.Config); change.Needed || node.Started.IsZero() {
		err := r.write(ctx, n, change, func(_ drain.Cordoned, a map[string]string) {
			if node.Started.IsZero() {
				a[v1alpha1.DrainStartedAnnotation] = now.UTC().Format(time.RFC3339)
			}
		})
		if err != nil {
			return reconcile.Result{}, err
		}
		if change.Needed {
			r.Events.Eventf(n, nil, corev1.EventTypeNormal, "Cordon", "Drain", "cordoned for %s", node.Request.Config)
		}
	}
	pods, err := r.gather(ctx, n.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	progress := drain.Decide(drain.Facts{Started: node.Started, Pods: pods}, now)
	if r.evict(ctx, progress.Verdicts, pods, now) {
		progress = drain.Decide(drain.Facts{Started: node.Started, Pods: r.answered(pods)}, now)
	}
	r.alarm(n, progress)
	live := drain.Cordoned{Unschedulable: n.Spec.Unschedulable, For: n.Annotations[v1alpha1.CordonedAnnotation]}
	err = r.write(ctx, n, drain.Change{To: live}, func(to drain.Cordoned, a map[string]string) {
		a[v1alpha1.DrainStatusAnnotation] = progress.Status
		if done, ok := drain.Acknowledge(node.Request, to, progress.Done); ok {
			a[v1alpha1.LastAppliedDrainAnnotation] = done
			delete(a, v1alpha1.DrainStatusAnnotation)
			delete(a, v1alpha1.DrainStartedAnnotation)
		}
	})
	return reconcile.Result{RequeueAfter: progress.Next}, err
}

// gather reads the pods that have to go, by kubectl's own filters: what a DaemonSet or the node itself runs stays.
func (r *Drain) gather(ctx context.Context, node string) ([]drain.Pod, error) {
	helper := kubectldrain.Helper{Ctx: ctx, Client: r.Clients, Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, GracePeriodSeconds: -1}
	list, errs := helper.GetPodsForDeletion(node)
	if len(errs) > 0 {
		return nil, fmt.Errorf("listing the pods of node %q: %w", node, errors.Join(errs...))
	}
	pods := make([]drain.Pod, len(list.Pods()))
	for i, pod := range list.Pods() {
		pods[i] = drain.Pod{Pod: &pod, Filter: drain.Filter{Delete: true}}
	}
	return r.answered(pods), nil
}

// answerKey is a pod, and the node that it is bound to.
type answerKey struct {
	node string
	pod  types.UID
}

func keyOf(pod *corev1.Pod) answerKey { return answerKey{pod.Spec.NodeName, pod.UID} }

// forget drops what was remembered of a node's drain.
func (r *Drain) forget(node string) {
	r.alarms.Delete(node)
	r.answers.Range(func(k, _ any) bool {
		if k.(answerKey).node == node {
			r.answers.Delete(k)
		}
		return true
	})
}

// answered adds what the server said to the last evictions.
func (r *Drain) answered(pods []drain.Pod) []drain.Pod {
	for i := range pods {
		if a, ok := r.answers.Load(keyOf(pods[i].Pod)); ok {
			pods[i].Answer = a.(drain.Answer)
		}
	}
	return pods
}

// evict asks for each pod that is due, and tells whether any answer is new. The client must not repeat a refusal by
// itself: it would sleep for the server's Retry-After and block the whole worker.
func (r *Drain) evict(ctx context.Context, verdicts []drain.Verdict, pods []drain.Pod, now time.Time) bool {
	byUID := map[string]*corev1.Pod{}
	for _, p := range pods {
		byUID[string(p.Pod.UID)] = p.Pod
	}
	asked := false
	for _, v := range verdicts {
		pod := byUID[v.UID]
		if v.Do != drain.Evict || pod == nil {
			continue
		}
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(v.UID)},
		}
		err := r.Clients.CoreV1().RESTClient().Post().MaxRetries(0).
			Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").Body(eviction).Do(ctx).Error()
		r.answers.Store(keyOf(pod), r.read(ctx, err, pod, now))
		asked = true
	}
	return asked
}

// read sorts an answer, and after a refusal looks for the budget behind it.
func (r *Drain) read(ctx context.Context, err error, pod *corev1.Pod, now time.Time) drain.Answer {
	if err == nil {
		return drain.ReadAnswer(nil, pod, nil, now)
	}
	status := &metav1.Status{Message: err.Error()}
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		s := api.Status()
		status = &s
	}
	var budgets []*policyv1.PodDisruptionBudget
	if list, err := r.Clients.PolicyV1().PodDisruptionBudgets(pod.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for i := range list.Items {
			budgets = append(budgets, &list.Items[i])
		}
	}
	return drain.ReadAnswer(status, pod, budgets, now)
}

// alarm makes one event when a drain begins to take too long, and one when it is stuck.
func (r *Drain) alarm(n *corev1.Node, p drain.Progress) {
	was, _ := r.alarms.Swap(n.Name, p.Alarm)
	if told, _ := was.(drain.Alarm); p.Alarm > told {
		r.Events.Eventf(n, nil, corev1.EventTypeWarning, p.Alarm.Event(), "Drain", "%s", clip(p.Status))
	}
	if p.Done {
		r.forget(n.Name)
	}
}

// write patches cordon and annotations together, where anything differs, and only on the node as it was read.
func (r *Drain) write(ctx context.Context, n *corev1.Node, change drain.Change, annotate func(drain.Cordoned, map[string]string)) error {
	before := n.DeepCopy()
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Spec.Unschedulable = change.To.Unschedulable
	if change.To.For == "" {
		delete(n.Annotations, v1alpha1.CordonedAnnotation)
	} else {
		n.Annotations[v1alpha1.CordonedAnnotation] = change.To.For
	}
	if annotate != nil {
		annotate(change.To, n.Annotations)
	}
	if !changed(before, n) {
		return nil
	}
	if err := r.Client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the cordon of node %q: %w", n.Name, err)
	}
	return nil
}

func changed(a, b *corev1.Node) bool {
	if a.Spec.Unschedulable != b.Spec.Unschedulable || len(a.Annotations) != len(b.Annotations) {
		return true
	}
	for k, v := range b.Annotations {
		if old, ok := a.Annotations[k]; !ok || old != v {
			return true
		}
	}
	return false
}
