package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/reconcile/drain"
)

const (
	// atOnce is how many evictions of one node are asked for at the same time.
	atOnce = 10
	// oneRequest is how long the API server may take for one: an eviction tries for 10 s to write a busy budget.
	oneRequest = 30 * time.Second
	// setsLast is how long it is remembered that a DaemonSet exists, for the drains of all nodes.
	setsLast = time.Minute
)

// daemonSet is what was last heard of one.
type daemonSet struct {
	gone bool
	at   time.Time
}

// gather reads the node's pods, in one request, and what else decides on them.
func (r *Drain) gather(ctx context.Context, n *corev1.Node, node drain.Node) (drain.Facts, error) {
	f := drain.Facts{Config: node.Request.Config, Started: node.Started, Last: node.Last, NotReadySince: node.NotReadySince}
	var err error
	if f.Pace, err = r.pace(ctx, n); err != nil {
		return f, err
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.Limit(2)); err != nil {
		return f, fmt.Errorf("listing Nodes: %w", err)
	}
	f.Alone = len(nodes.Items) < 2
	ctx, cancel := context.WithTimeout(ctx, oneRequest)
	defer cancel()
	list, err := r.Clients.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.Name).String(),
	})
	if err != nil {
		return f, fmt.Errorf("listing the pods of node %q: %w", n.Name, err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		f.Pods = append(f.Pods, drain.Pod{Pod: pod, Orphan: r.orphan(ctx, pod)})
	}
	r.of(n.Name).answered(f.Pods)
	return f, nil
}

// orphan tells that the DaemonSet of a pod does not exist any more. While the server does not say, it does.
func (r *Drain) orphan(ctx context.Context, pod *corev1.Pod) bool {
	name := drain.DaemonSetOf(pod)
	if name == "" {
		return false
	}
	key, now := pod.Namespace+"/"+name, r.Now()
	if known, ok := r.sets.Load(key); ok && now.Sub(known.(daemonSet).at).Abs() < setsLast {
		return known.(daemonSet).gone
	}
	_, err := r.Clients.AppsV1().DaemonSets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err == nil || gone {
		r.sets.Store(key, daemonSet{gone, now})
	}
	return gone
}

// answered adds to the pods what the server said to the last evictions, and forgets those of pods that are no more.
func (d *drained) answered(pods []drain.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.answers
	d.answers = make(map[types.UID]drain.Answer, len(pods))
	for i := range pods {
		if a, ok := was[pods[i].Pod.UID]; ok {
			pods[i].Answer, d.answers[pods[i].Pod.UID] = a, a
		}
	}
}

// remember keeps an answer.
func (d *drained) remember(p drain.Pod, a drain.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[p.Pod.UID] = a
}

// act evicts and deletes what is due, a bounded number at a time, and tells whether any answer is new.
func (r *Drain) act(ctx context.Context, n *corev1.Node, f drain.Facts, verdicts []drain.Verdict, now time.Time) bool {
	deleting := map[string]drain.Verdict{}
	for _, v := range verdicts {
		if v.Do == drain.Delete {
			deleting[v.UID] = v
		}
	}
	asks := asking{clients: r.Clients, memory: r.of(n.Name), deleting: deleting, now: now, budgets: map[string][]*policyv1.PodDisruptionBudget{}}
	queues := drain.Queues(verdicts, f.Pods)
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, queue := range queues {
		group.Go(func() error { asks.queue(ctx, queue); return nil })
	}
	_ = group.Wait() // nothing in it fails: an answer may be an error
	if len(asks.deleted) > 0 {
		r.Events.Eventf(n, nil, corev1.EventTypeWarning, "DrainDeleted", "Drain", "deleted past their budgets, as the pool's RolloutPolicy says after %s: %s",
			f.Pace.After, clip(strings.Join(asks.deleted, "; ")))
	}
	return len(queues) > 0
}

// asking is one round of evictions and deletions.
type asking struct {
	clients  kubernetes.Interface
	memory   *drained
	deleting map[string]drain.Verdict
	now      time.Time
	// down: the server has trouble of its own.
	down atomic.Bool

	mu sync.Mutex
	// budgets of namespaces, each listed once a round, and only where one of them refused.
	budgets map[string][]*policyv1.PodDisruptionBudget
	// deleted pods, and what was in the way.
	deleted []string
}

// queue asks for pods one after the other, until one is refused.
func (a *asking) queue(ctx context.Context, queue []drain.Pod) {
	for i, p := range queue {
		if a.down.Load() {
			return // the next round is soon enough
		}
		if v, del := a.deleting[string(p.Pod.UID)]; del {
			a.drop(ctx, p, v)
			continue
		}
		answer := a.evict(ctx, p.Pod).Following(p.Answer)
		a.memory.remember(p, answer)
		a.down.CompareAndSwap(false, answer.Down)
		if answer.Kind == drain.Refused {
			for _, other := range queue[i+1:] {
				a.memory.remember(other, answer.Shared(other.Answer))
			}
			return
		}
	}
}

// drop deletes a pod, and notes it where that was accepted.
func (a *asking) drop(ctx context.Context, p drain.Pod, v drain.Verdict) {
	answer := a.delete(ctx, p.Pod).Following(p.Answer)
	a.memory.remember(p, answer)
	a.down.CompareAndSwap(false, answer.Down)
	if answer.Kind != drain.Accepted {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted = append(a.deleted, v.Pod+": "+v.Why)
}

// evict asks for one pod. The client must not repeat a refusal by itself: it would sleep for the server's Retry-After and
// block the whole worker.
func (a *asking) evict(ctx context.Context, pod *corev1.Pod) drain.Answer {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
	ctx, cancel := context.WithTimeout(ctx, oneRequest)
	defer cancel()
	status := statusOf(a.clients.CoreV1().RESTClient().Post().MaxRetries(0).
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").Body(eviction).Do(ctx).Error())
	answer := drain.ReadAnswer(status, pod, nil, a.now)
	if answer.Kind == drain.Refused {
		answer = drain.ReadAnswer(status, pod, a.budgetsIn(ctx, pod.Namespace), a.now)
	}
	return answer
}

// delete deletes one pod, with its own grace period.
func (a *asking) delete(ctx context.Context, pod *corev1.Pod) drain.Answer {
	ctx, cancel := context.WithTimeout(ctx, oneRequest)
	defer cancel()
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	return drain.ReadDeletion(statusOf(a.clients.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)), pod, a.now)
}

// statusOf is what the server says in an error; nil for none.
func statusOf(err error) *metav1.Status {
	if err == nil {
		return nil
	}
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		s := api.Status()
		return &s
	}
	return &metav1.Status{Message: err.Error()}
}

// budgetsIn reads a namespace's disruption budgets; none where they cannot be read, as the server's own words will do.
func (a *asking) budgetsIn(ctx context.Context, namespace string) []*policyv1.PodDisruptionBudget {
	a.mu.Lock()
	defer a.mu.Unlock()
	if budgets, read := a.budgets[namespace]; read {
		return budgets
	}
	list, err := a.clients.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		list = &policyv1.PodDisruptionBudgetList{}
	}
	budgets := make([]*policyv1.PodDisruptionBudget, len(list.Items))
	for i := range list.Items {
		budgets[i] = &list.Items[i]
	}
	a.budgets[namespace] = budgets
	return budgets
}
