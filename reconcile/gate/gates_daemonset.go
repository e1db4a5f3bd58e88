package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// daemonSetReads has the last read of a DaemonSet and of its pods.
type daemonSetReads struct {
	mu sync.Mutex // One goroutine reads, and the other goroutines wait for the result.
	// set is the DaemonSet. If it could not be read, set is nil, and why is the reason.
	set   *appsv1.DaemonSet
	why   string
	until time.Time
	// pods are the pods by node. If the pods could not be read, pods is nil, and podsWhy is the reason.
	pods      map[string][]Pod
	podsWhy   string
	podsUntil time.Time
}

// daemonSet returns for each node why the DaemonSet's pod on the node is not ready. The reason is empty if the pod is
// ready, or if the DaemonSet requires no pod on the node.
func (g *Evaluator) daemonSet(ctx context.Context, key types.NamespacedName, nodes []*corev1.Node,
	now time.Time,
) []string {
	ds, why := g.readDaemonSet(ctx, key)
	if why != "" {
		return slices.Repeat([]string{why}, len(nodes))
	}
	var pods map[string][]Pod
	out := make([]string, len(nodes))
	for i, n := range nodes {
		if !NeedsPods(ds, n, now) {
			continue
		}
		if pods == nil && why == "" {
			pods, why = g.readPods(ctx, ds)
		}
		if out[i] = why; why == "" {
			out[i] = DaemonSet(ds, pods[n.Name], n, now)
		}
	}
	return out
}

// readDaemonSet reads a DaemonSet, unless the last read is only seconds old. If the read fails, why is the reason.
func (g *Evaluator) readDaemonSet(ctx context.Context, key types.NamespacedName) (_ *appsv1.DaemonSet, why string) {
	reads := g.reads(key)
	reads.mu.Lock()
	defer reads.mu.Unlock()
	if g.Now().Before(reads.until) {
		return reads.set, reads.why
	}
	ds := &appsv1.DaemonSet{}
	reads.set, reads.why = nil, ""
	switch err := g.Live.Get(ctx, key, ds); {
	case err == nil:
		reads.set = ds
	case client.IgnoreNotFound(err) == nil:
		reads.why = fmt.Sprintf("there is no DaemonSet %s: correct the gate in the RolloutPolicy, or create it", key)
	default:
		reads.why = fmt.Sprintf("DaemonSet %s cannot be read: %v", key, err)
	}
	reads.until = g.Now().Add(daemonSetValid)
	return reads.set, reads.why
}

// readPods reads all pods of a DaemonSet, unless the last read is only seconds old. If the read fails, why is the
// reason.
func (g *Evaluator) readPods(ctx context.Context, ds *appsv1.DaemonSet) (_ map[string][]Pod, why string) {
	reads := g.reads(client.ObjectKeyFromObject(ds))
	reads.mu.Lock()
	defer reads.mu.Unlock()
	if g.Now().Before(reads.podsUntil) {
		return reads.pods, reads.podsWhy
	}
	reads.pods, reads.podsWhy = g.listPods(ctx, ds)
	reads.podsUntil = g.Now().Add(daemonSetValid)
	return reads.pods, reads.podsWhy
}

// listPods reads the pods of a DaemonSet in one request, which the API server answers from its cache.
func (g *Evaluator) listPods(ctx context.Context, ds *appsv1.DaemonSet) (_ map[string][]Pod, why string) {
	selector, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	if err != nil {
		return nil, fmt.Sprintf("the selector of DaemonSet %s/%s cannot be read: %v", ds.Namespace, ds.Name, err)
	}
	var pods corev1.PodList
	err = g.Live.List(ctx, &pods, client.InNamespace(ds.Namespace), client.MatchingLabelsSelector{Selector: selector},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	if err != nil {
		return nil, fmt.Sprintf("the pods of namespace %s cannot be read: %v", ds.Namespace, err)
	}
	return PodsByNode(ds, pods.Items), ""
}

func (g *Evaluator) reads(key types.NamespacedName) *daemonSetReads {
	reads, _ := g.daemonSets.LoadOrStore(key, &daemonSetReads{})
	return reads.(*daemonSetReads)
}
