package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// settled is how long a node has been Ready before what the API server has of its pods is believed without a further
	// sign that it is of now, and not of before the node went away.
	settled = 2 * time.Minute
	// ahead is how much earlier than its node a pod may have become ready: what makes the network of a node has to be ready
	// first. No machine is back in less.
	ahead = 10 * time.Second
)

// seenDaemonSet is a DaemonSet and its pods as they were read last.
type seenDaemonSet struct {
	mu             sync.Mutex // one reads, the others wait for what it reads
	set            *appsv1.DaemonSet
	why            string // why there is none
	pods           map[string][]seenPod
	podsWhy        string // why there are none
	setNext, pNext time.Time
}

// seenPod is a pod of a DaemonSet.
type seenPod struct {
	name, trouble string
	// since is the last time at which its node's kubelet is known to have said something about it.
	since time.Time
}

// daemonSetRound asks about many nodes. What it read once it does not read again, however long it takes.
type daemonSetRound struct {
	gates *Gates
	now   time.Time
	seen  map[types.NamespacedName]*daemonSetView
}

// daemonSetView is what a round read of a DaemonSet; nobody changes what it points to.
type daemonSetView struct {
	set          *appsv1.DaemonSet
	why, podsWhy string
	pods         map[string][]seenPod // by node; nil: not read
}

// why says why a DaemonSet's pod is not ready on the node; empty: it is, or the DaemonSet wants none there.
func (r *daemonSetRound) why(ctx context.Context, n *corev1.Node, key types.NamespacedName) string {
	v := r.seen[key]
	if v == nil {
		v = &daemonSetView{}
		v.set, v.why = r.gates.seeDaemonSet(ctx, key)
		r.seen[key] = v
	}
	if v.set == nil {
		return v.why
	}
	if whole(v.set) && readyFor(n, r.now) >= settled || !wants(v.set, n) {
		return ""
	}
	if v.pods == nil && v.podsWhy == "" {
		v.pods, v.podsWhy = r.gates.seePods(ctx, v.set)
	}
	if v.podsWhy != "" {
		return v.podsWhy
	}
	why := fmt.Sprintf("DaemonSet %s has no pod on the node yet", key)
	for _, p := range v.pods[n.Name] {
		switch {
		case p.trouble != "":
			why = fmt.Sprintf("pod %s is not ready: %s", p.name, p.trouble)
		case readyFor(n, r.now) < settled && p.since.Before(readySince(n).Add(-ahead)):
			why = fmt.Sprintf("pod %s was ready before the node went away, and has not said so since", p.name)
		default:
			return ""
		}
	}
	return why
}

// seeDaemonSet reads a DaemonSet, or has what was read a moment ago; nil: it is not there, and why.
func (g *Gates) seeDaemonSet(ctx context.Context, key types.NamespacedName) (*appsv1.DaemonSet, string) {
	seen := g.daemonSet(key)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if g.Now().Before(seen.setNext) {
		return seen.set, seen.why
	}
	ds := &appsv1.DaemonSet{}
	seen.set, seen.why = nil, ""
	switch err := g.Live.Get(ctx, key, ds); {
	case err == nil:
		seen.set = ds
	case client.IgnoreNotFound(err) == nil:
		seen.why = fmt.Sprintf("there is no DaemonSet %s: correct the gate in the RolloutPolicy, or make it", key)
	default:
		seen.why = fmt.Sprintf("DaemonSet %s cannot be read: %v", key, err)
	}
	seen.setNext = g.Now().Add(keepDaemonSet)
	return seen.set, seen.why
}

// seePods reads all pods of a DaemonSet, or has what was read a moment ago; by node, never nil where there is no trouble.
func (g *Gates) seePods(ctx context.Context, ds *appsv1.DaemonSet) (map[string][]seenPod, string) {
	seen := g.daemonSet(client.ObjectKeyFromObject(ds))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if g.Now().Before(seen.pNext) {
		return seen.pods, seen.podsWhy
	}
	seen.pods, seen.podsWhy = g.podsOf(ctx, ds)
	seen.pNext = g.Now().Add(keepDaemonSet)
	return seen.pods, seen.podsWhy
}

// podsOf reads the pods of a DaemonSet in one request, which the API server answers from its memory.
func (g *Gates) podsOf(ctx context.Context, ds *appsv1.DaemonSet) (map[string][]seenPod, string) {
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
	out := make(map[string][]seenPod, len(pods.Items))
	for i := range pods.Items {
		p := &pods.Items[i]
		if owner := metav1.GetControllerOfNoCopy(p); owner == nil || owner.UID != ds.UID || p.DeletionTimestamp != nil {
			continue
		}
		out[p.Spec.NodeName] = append(out[p.Spec.NodeName], seenPod{p.Namespace + "/" + p.Name, notReady(p), heardOf(p)})
	}
	return out, ""
}

// daemonSet is what is remembered of one.
func (g *Gates) daemonSet(key types.NamespacedName) *seenDaemonSet {
	seen, _ := g.daemonSets.LoadOrStore(key, &seenDaemonSet{})
	return seen.(*seenDaemonSet)
}

// heardOf is when a kubelet last took a pod in, or found it ready.
func heardOf(p *corev1.Pod) time.Time {
	var last time.Time
	if p.Status.StartTime != nil {
		last = p.Status.StartTime.Time
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	return last
}

// whole tells that a DaemonSet counts all the pods that it wants as ready.
func whole(ds *appsv1.DaemonSet) bool {
	return ds.Status.ObservedGeneration == ds.Generation && ds.Status.NumberReady == ds.Status.DesiredNumberScheduled
}

// readyFor is for how long a node is Ready; 0 where it is not.
func readyFor(n *corev1.Node, now time.Time) time.Duration {
	if since := readySince(n); !since.IsZero() {
		return now.Sub(since)
	}
	return 0
}

// readySince is since when a node is Ready; zero where it is not, or does not say.
func readySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// wants tells whether a DaemonSet wants a pod on a node, by the rules of the DaemonSet controller.
func wants(ds *appsv1.DaemonSet, n *corev1.Node) bool {
	spec := &ds.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != n.Name {
		return false
	}
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		if !affine(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, n) {
			return false
		}
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(spec, t) {
			return false
		}
	}
	return true
}

// affine tells whether a node fits one of the terms; one without requirements fits nothing.
func affine(terms []corev1.NodeSelectorTerm, n *corev1.Node) bool {
	for _, t := range terms {
		if len(t.MatchExpressions)+len(t.MatchFields) > 0 &&
			meets(t.MatchExpressions, labels.Set(n.Labels)) && meets(t.MatchFields, labels.Set{"metadata.name": n.Name}) {
			return true
		}
	}
	return false
}

// meets tells whether every requirement is met; one that cannot be read is not.
func meets(requirements []corev1.NodeSelectorRequirement, of labels.Set) bool {
	for _, r := range requirements {
		op, ok := operators[r.Operator]
		if !ok {
			return false
		}
		req, err := labels.NewRequirement(r.Key, op, r.Values)
		if err != nil || !req.Matches(of) {
			return false
		}
	}
	return true
}

// operators of a node selector as those of a label selector.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

// everywhere are the taints that the pods of every DaemonSet tolerate.
var everywhere = map[string]corev1.TaintEffect{
	corev1.TaintNodeNotReady: corev1.TaintEffectNoExecute, corev1.TaintNodeUnreachable: corev1.TaintEffectNoExecute,
	corev1.TaintNodeDiskPressure: corev1.TaintEffectNoSchedule, corev1.TaintNodeMemoryPressure: corev1.TaintEffectNoSchedule,
	corev1.TaintNodePIDPressure: corev1.TaintEffectNoSchedule, corev1.TaintNodeUnschedulable: corev1.TaintEffectNoSchedule,
}

func tolerates(spec *corev1.PodSpec, t *corev1.Taint) bool {
	if everywhere[t.Key] == t.Effect || spec.HostNetwork && t.Key == corev1.TaintNodeNetworkUnavailable {
		return true
	}
	for i := range spec.Tolerations {
		if spec.Tolerations[i].ToleratesTaint(logr.Discard(), t, false) {
			return true
		}
	}
	return false
}

// notReady says why a pod is not ready, the most telling reason first; empty: it is.
func notReady(p *corev1.Pod) string {
	conditions := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, c := range p.Status.Conditions {
		conditions[c.Type] = c
	}
	if conditions[corev1.PodReady].Status == corev1.ConditionTrue {
		return ""
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			switch {
			case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
				return clipLine("container " + c.Name + ": " + c.State.Waiting.Reason + after(": ", c.State.Waiting.Message))
			case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
				return fmt.Sprintf("container %s ended with code %d", c.Name, c.State.Terminated.ExitCode)
			}
		}
	}
	if c := conditions[corev1.PodScheduled]; c.Status == corev1.ConditionFalse {
		return clipLine(c.Reason + after(": ", c.Message))
	}
	for _, c := range p.Status.ContainerStatuses {
		if !c.Ready {
			return "container " + c.Name + " is not ready yet"
		}
	}
	return clipLine(string(p.Status.Phase) + after(": ", p.Status.Message))
}
