package cluster

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Record is what the API server recorded of nodes and controllers, in its order.
type Record struct {
	mu     sync.Mutex
	events []event
}

// event is one version of an object. Only one of its parts is set.
type event struct {
	version uint64
	node    *NodeState
	// leader is the pod of the controller that leads.
	leader string
	// pod and on are a pod of the controller and its node.
	pod, on string
}

// NodeState is a node at one moment.
type NodeState struct {
	// Name, and the zone that its label has.
	Name, Zone string
	// Plane is true for a control-plane node.
	Plane bool
	// Number is its place in the order of creation.
	Number int
	// Desired and Current are the rendered configs of its annotations.
	Desired, Current string
	// Cordoned is true if no pod may be scheduled on it.
	Cordoned bool
}

// Out reports whether the controller has taken the node out of service, or is about to.
func (n NodeState) Out() bool { return n.Cordoned || n.Desired != n.Current }

// RecordNodes begins to record the nodes and the controllers, until the test ends. It outlasts the restarts of API
// servers.
func (c *Cluster) RecordNodes() *Record {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	c.must(err)
	config.Dial = func(ctx context.Context, _, address string) (net.Conn, error) { return c.Network.Dial(ctx, address) }
	client, err := kubernetes.NewForConfig(config)
	c.must(err)
	r := &Record{}
	ctx, numbers := c.t.Context(), map[string]int{}
	for i, h := range c.Nodes {
		numbers[h.Name] = i
	}
	ofControllers := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=machine-config-controller"}
	follow(c, r, kind{
		list:  func(o metav1.ListOptions) (runtime.Object, error) { return client.CoreV1().Nodes().List(ctx, o) },
		watch: func(o metav1.ListOptions) (watch.Interface, error) { return client.CoreV1().Nodes().Watch(ctx, o) },
	}, metav1.ListOptions{}, func(o runtime.Object) event {
		return event{node: nodeState(o.(*corev1.Node), numbers)}
	})
	const namespace = "bunsen-system"
	follow(c, r, kind{
		list: func(o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(namespace).List(ctx, o)
		},
		watch: func(o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	}, ofControllers, func(o runtime.Object) event {
		return event{pod: o.(*corev1.Pod).Name, on: o.(*corev1.Pod).Spec.NodeName}
	})
	follow(c, r, kind{
		list: func(o metav1.ListOptions) (runtime.Object, error) {
			return client.CoordinationV1().Leases(namespace).List(ctx, o)
		},
		watch: func(o metav1.ListOptions) (watch.Interface, error) {
			return client.CoordinationV1().Leases(namespace).Watch(ctx, o)
		},
	}, metav1.ListOptions{FieldSelector: "metadata.name=machine-config-controller"}, func(o runtime.Object) event {
		holder := o.(*coordinationv1.Lease).Spec.HolderIdentity
		if holder == nil {
			return event{}
		}
		pod, _, _ := strings.Cut(*holder, "_")
		return event{leader: pod}
	})
	return r
}

// kind lists and watches the objects of one kind.
type kind struct {
	list  func(metav1.ListOptions) (runtime.Object, error)
	watch func(metav1.ListOptions) (watch.Interface, error)
}

// selected watches the objects of a kind that the options select.
type selected struct {
	kind
	options metav1.ListOptions
}

// WatchWithContext starts a watch. The functions of the kind have their context already.
func (s selected) WatchWithContext(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector, o.FieldSelector = s.options.LabelSelector, s.options.FieldSelector
	return s.watch(o)
}

// follow adds the objects that a list has, and then those of a watch that continues after each interruption.
func follow(c *Cluster, r *Record, of kind, options metav1.ListOptions, read func(runtime.Object) event) {
	c.t.Helper()
	list, err := of.list(options)
	c.must(err)
	c.must(meta.EachListItem(list, func(o runtime.Object) error {
		r.add(o, read)
		return nil
	}))
	at, err := meta.ListAccessor(list)
	c.must(err)
	w, err := watchtools.NewRetryWatcherWithContext(c.t.Context(), at.GetResourceVersion(), selected{of, options})
	c.must(err)
	go func() {
		for e := range w.ResultChan() {
			if e.Type == watch.Added || e.Type == watch.Modified {
				r.add(e.Object, read)
			}
		}
	}()
}

// add records one version of an object.
func (r *Record) add(o runtime.Object, read func(runtime.Object) event) {
	m, isObject := o.(metav1.Object)
	if !isObject {
		return
	}
	e := read(o)
	e.version, _ = strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// nodeState reads a node.
func nodeState(n *corev1.Node, numbers map[string]int) *NodeState {
	_, plane := n.Labels["node-role.kubernetes.io/control-plane"]
	return &NodeState{
		Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone], Plane: plane, Number: numbers[n.Name],
		Cordoned: n.Spec.Unschedulable,
		Desired:  n.Annotations[v1alpha1.DesiredConfigAnnotation],
		Current:  n.Annotations[v1alpha1.CurrentConfigAnnotation],
	}
}

// Step is one assignment: the node that got a new config, the nodes of its pool at that moment, and the node on which
// the leading controller ran.
type Step struct {
	Node   NodeState
	Pool   []NodeState
	Leader string
}

// Assignments returns the assignments of new configs, and the largest number of nodes of each pool that were out of
// service at one moment: of the control plane, and of the others.
func (r *Record) Assignments() (steps []Step, planes, others int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.version, b.version) })
	nodes, pods, leader := map[string]NodeState{}, map[string]string{}, ""
	for _, e := range events {
		switch {
		case e.pod != "" && e.on != "":
			pods[e.pod] = e.on
		case e.leader != "":
			leader = e.leader
		case e.node != nil:
			before, known := nodes[e.node.Name]
			nodes[e.node.Name] = *e.node
			var pool []NodeState
			out := 0
			for _, n := range nodes {
				if n.Plane != e.node.Plane {
					continue
				}
				if pool = append(pool, n); n.Out() {
					out++
				}
			}
			if e.node.Plane {
				planes = max(planes, out)
			} else {
				others = max(others, out)
			}
			if known && before.Desired != e.node.Desired {
				steps = append(steps, Step{*e.node, pool, pods[leader]})
			}
		}
	}
	return steps, planes, others
}
