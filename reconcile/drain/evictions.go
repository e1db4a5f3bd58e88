package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	"github.com/bunsen-os/bunsen/reconcile/kube"
)

const (
	// of one node's pods
	maxConcurrentEvictions = 10
	// for one request: for an eviction, the server may try for 10 s to update a PodDisruptionBudget that other requests
	// update too
	requestTimeout = 30 * time.Second
	// for a read of a DaemonSet, for the drains of all nodes
	daemonSetValid = time.Minute
)

// daemonSet is whether one existed when it was last read.
type daemonSet struct {
	gone bool
	at   time.Time
}

// gather reads the node's pods in one request.
func (r *Controller) gather(ctx context.Context, n *corev1.Node, node Node) (Facts, error) {
	f := Facts{
		Config: node.Request.Config, Started: node.Started, Last: node.Last,
		NotReadySince: node.NotReadySince,
	}
	var err error
	if f.Pace, err = r.drainPace(ctx, n); err != nil {
		return f, err
	}
	if f.Alone, err = r.isAlone(ctx, n.Name); err != nil {
		return f, err
	}
	if f.Alone {
		var budgets policyv1.PodDisruptionBudgetList
		if err := r.Client.List(ctx, &budgets, client.UnsafeDisableDeepCopy); err != nil {
			return f, fmt.Errorf("listing PodDisruptionBudgets: %w", err)
		}
		for i := range budgets.Items {
			f.Budgets = append(f.Budgets, &budgets.Items[i])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := r.Clients.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.Name).String(),
	})
	if err != nil {
		return f, fmt.Errorf("listing the pods of node %q: %w", n.Name, err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		f.Pods = append(f.Pods, Pod{Pod: pod, Orphan: r.isOrphan(ctx, pod)})
	}
	r.memoryOf(n.Name).fillAnswers(f.Pods)
	return f, nil
}

// isAlone reports whether pods cannot move from a node to another one now. Usually it reads only the node to which they
// could move at the last search: a list of all nodes for each drain would let a rollout cost the square of its nodes.
func (r *Controller) isAlone(ctx context.Context, name string) (bool, error) {
	if last := r.other.Load(); last != nil {
		var n corev1.Node
		err := r.Client.Get(ctx, client.ObjectKey{Name: *last}, &n, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading Node %q: %w", *last, err)
		}
		if err == nil && isOther(&n, name) {
			return false, nil
		}
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing Nodes: %w", err)
	}
	other := findOther(nodes.Items, name)
	if other == nil {
		return true, nil
	}
	last := other.Name // not a part of the list, which is large
	r.other.Store(&last)
	return false, nil
}

// isOrphan reports whether the DaemonSet of a pod is gone. It counts as existing if the API server does not answer.
func (r *Controller) isOrphan(ctx context.Context, pod *corev1.Pod) bool {
	name := DaemonSetOf(pod)
	if name == "" {
		return false
	}
	key, now := pod.Namespace+"/"+name, r.Now()
	if known, ok := r.daemonSets.Load(key); ok && now.Sub(known.(daemonSet).at).Abs() < daemonSetValid {
		return known.(daemonSet).gone
	}
	_, err := r.Clients.AppsV1().DaemonSets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err == nil || gone {
		r.daemonSets.Store(key, daemonSet{gone, now})
	}
	return gone
}

// fillAnswers adds the server's answers to the last evictions to the pods, and forgets those about pods that no longer
// exist.
func (d *nodeMemory) fillAnswers(pods []Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.answers
	d.answers = make(map[types.UID]Answer, len(pods))
	for i := range pods {
		if a, ok := was[pods[i].Pod.UID]; ok {
			pods[i].Answer, d.answers[pods[i].Pod.UID] = a, a
		}
	}
}

func (d *nodeMemory) storeAnswer(p Pod, a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[p.Pod.UID] = a
}

// evict evicts and deletes the pods that are due, a few at a time, and reports whether the server has answered any
// request.
func (r *Controller) evict(ctx context.Context, n *corev1.Node, f Facts, verdicts []Verdict,
	now time.Time,
) bool {
	deleting := map[string]Verdict{}
	for _, v := range verdicts {
		if v.Do == Delete {
			deleting[v.UID] = v
		}
	}
	asks := evictionRound{
		clients: r.Clients, memory: r.memoryOf(n.Name), deleting: deleting, now: now,
		budgets: map[string][]*policyv1.PodDisruptionBudget{}, pods: map[string][]corev1.Pod{},
	}
	queues := Queues(verdicts, f.Pods)
	var group errgroup.Group
	group.SetLimit(maxConcurrentEvictions)
	for _, queue := range queues {
		group.Go(func() error { asks.evictQueue(ctx, queue); return nil })
	}
	_ = group.Wait() // The functions of the group return no errors, because an answer may contain the error.
	if len(asks.deleted) > 0 {
		r.Events.Send(kube.Event{
			Object: n, Warning: true, Reason: "DrainDeleted", Action: "Drain",
			Note: fmt.Sprintf("deleted past their budgets, as the pool's RolloutPolicy says after %s: %s", f.Pace.After,
				strings.Join(asks.deleted, "; ")),
		})
	}
	return len(queues) > 0
}

type evictionRound struct {
	clients  kubernetes.Interface
	memory   *nodeMemory
	deleting map[string]Verdict
	now      time.Time
	// The server is overloaded or failing.
	serverDown atomic.Bool

	mu sync.Mutex
	// by namespace; listed at most once a round, after one of them has refused an eviction
	budgets map[string][]*policyv1.PodDisruptionBudget
	// those that a budget selects, by its namespace/name; listed at most once a round, after it has refused an eviction
	pods map[string][]corev1.Pod
	// each deleted pod, with what had prevented its eviction
	deleted []string
}

// evictQueue evicts the pods one after the other, until the server refuses one.
func (a *evictionRound) evictQueue(ctx context.Context, queue []Pod) {
	for i, p := range queue {
		if a.serverDown.Load() {
			return // The other pods of the queue wait for the next round.
		}
		if v, del := a.deleting[string(p.Pod.UID)]; del {
			a.deleteAndRecord(ctx, p, v)
			continue
		}
		answer := a.evict(ctx, p.Pod).Following(p.Answer)
		a.memory.storeAnswer(p, answer)
		a.serverDown.CompareAndSwap(false, answer.Down)
		if answer.Kind == Refused {
			for _, other := range queue[i+1:] {
				a.memory.storeAnswer(other, answer.Shared(other.Answer))
			}
			return
		}
	}
}

// deleteAndRecord records a deletion that the server accepted.
func (a *evictionRound) deleteAndRecord(ctx context.Context, p Pod, v Verdict) {
	answer := a.delete(ctx, p.Pod).Following(p.Answer)
	a.memory.storeAnswer(p, answer)
	a.serverDown.CompareAndSwap(false, answer.Down)
	if answer.Kind != Accepted {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted = append(a.deleted, v.Pod+": "+v.Why)
}

// evict needs a client that does not retry a refused eviction: it would wait for the server's Retry-After and block the
// worker.
func (a *evictionRound) evict(ctx context.Context, pod *corev1.Pod) Answer {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
	err := a.ask(ctx, pod, func(ctx context.Context) error {
		return a.clients.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(pod.Namespace).Resource("pods").
			Name(pod.Name).SubResource("eviction").Body(eviction).Do(ctx).Error()
	})
	status := statusOf(err)
	answer := ReadAnswer(status, pod, Protection{}, a.now)
	if answer.Kind == Refused {
		by := Protection{Budgets: a.budgetsIn(ctx, pod.Namespace)}
		if b := Refusing(status, pod, by.Budgets); b != nil {
			by.Pods = a.podsOf(ctx, b)
		}
		answer = ReadAnswer(status, pod, by, a.now)
	}
	return answer
}

// delete keeps the pod's own grace period.
func (a *evictionRound) delete(ctx context.Context, pod *corev1.Pod) Answer {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	err := a.ask(ctx, pod, func(ctx context.Context) error {
		return a.clients.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	})
	return ReadDeletion(statusOf(err), pod, a.now)
}

// ask requests the end of a pod. Without an answer, it reads the pod: one that terminates, or is gone, was evicted. So
// the report is right, and a deletion past the budgets is never without its event.
func (a *evictionRound) ask(ctx context.Context, pod *corev1.Pod, request func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return kube.AfterWrite(request(within), func() (bool, error) {
		within, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		// The controller may not get one.
		live, err := a.clients.CoreV1().Pods(pod.Namespace).List(within, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String(),
		})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(live.Items, func(p corev1.Pod) bool {
			return p.UID == pod.UID && p.DeletionTimestamp == nil
		}), nil
	})
}

// statusOf is nil if the server sent none.
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

// budgetsIn reads a namespace's disruption budgets; none on failure, and the report shows the server's message.
func (a *evictionRound) budgetsIn(ctx context.Context, namespace string) []*policyv1.PodDisruptionBudget {
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

// podsOf reads the pods that a disruption budget selects; none on failure, and the report does not name the one that it
// waits for.
func (a *evictionRound) podsOf(ctx context.Context, b *policyv1.PodDisruptionBudget) []corev1.Pod {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := b.Namespace + "/" + b.Name
	if pods, read := a.pods[key]; read {
		return pods
	}
	within, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := a.clients.CoreV1().Pods(b.Namespace).List(within, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		list = &corev1.PodList{}
	}
	a.pods[key] = list.Items
	return list.Items
}
