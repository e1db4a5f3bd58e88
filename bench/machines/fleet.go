package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// hands is how many requests of the machines run at the same time.
const hands = 24

// Fleet has the machines and their daemons: one watch for all, and the next step of each daemon.
type Fleet struct {
	nodes typedcorev1.NodeInterface
	work  chan string

	mu       sync.Mutex
	machines map[string]*machine
}

// machine is the state of one machine.
type machine struct {
	now *corev1.Node
	// acted is the resource version after the daemon's last report. Older objects are ignored.
	acted int
	// queued: a worker already handles the machine.
	queued bool
	// booted is the config for which the machine rebooted.
	booted string
}

// New returns a fleet without machines.
func New(config *rest.Config) (*Fleet, error) {
	own := rest.CopyConfig(config)
	own.ContentType, own.AcceptContentTypes = "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf,application/json"
	clients, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	return &Fleet{nodes: clients.CoreV1().Nodes(), machines: map[string]*machine{}}, nil
}

// Zones is the number of topology zones.
const Zones = 5

// Name returns the name of a machine's node.
func Name(i int) string { return fmt.Sprintf("worker-%05d", i) }

// Join creates the nodes of machines. The function config returns the config that each node runs.
func (f *Fleet) Join(ctx context.Context, count int, config func(node string) string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hands)
	f.work = make(chan string, count)
	for i := range count {
		name := Name(i)
		f.machines[name] = &machine{}
		group.Go(func() error {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name,
				Labels: map[string]string{"node-role.kubernetes.io/worker": "", corev1.LabelTopologyZone: "zone-" +
					strconv.Itoa(i%Zones), corev1.LabelHostname: name},
				Annotations: map[string]string{
					v1alpha1.CurrentConfigAnnotation: config(name), v1alpha1.DesiredConfigAnnotation: config(name),
					v1alpha1.StateAnnotation: v1alpha1.StateDone,
				},
			}}
			made, err := f.nodes.Create(ctx, n, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("making node %s: %w", name, err)
			}
			made.Status.Conditions = conditions(corev1.ConditionTrue)
			if _, err := f.nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
				return fmt.Errorf("making node %s Ready: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func conditions(ready corev1.ConditionStatus) []corev1.NodeCondition {
	now := metav1.Now()
	return []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", LastHeartbeatTime: now},
		{Type: corev1.NodeReady, Status: ready, Reason: "Kubelet", LastHeartbeatTime: now, LastTransitionTime: now},
	}
}

// Run simulates the machines until the context ends, or an error occurs.
func (f *Fleet) Run(ctx context.Context) error {
	list, err := f.nodes.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.watch(ctx, list.ResourceVersion) })
	for range hands {
		group.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case name := <-f.work:
					if err := f.act(ctx, name); err != nil && ctx.Err() == nil {
						return fmt.Errorf("letting %s live: %w", name, err)
					}
				}
			}
		})
	}
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (f *Fleet) watch(ctx context.Context, version string) error {
	for ctx.Err() == nil {
		w, err := f.nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			return err
		}
		for e := range w.ResultChan() {
			n, ok := e.Object.(*corev1.Node)
			if !ok {
				return fmt.Errorf("watching nodes: %v", e.Object)
			}
			version = n.ResourceVersion
			f.see(n)
		}
	}
	return nil
}

// see stores a node, and queues its machine for a worker.
func (f *Fleet) see(n *corev1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.machines[n.Name]
	if m == nil {
		return
	}
	m.now = n
	if !m.queued {
		m.queued = true
		f.work <- n.Name // the channel has room for every machine
	}
}

// act does the next step of a machine.
func (f *Fleet) act(ctx context.Context, name string) error {
	f.mu.Lock()
	m := f.machines[name]
	m.queued = false
	n := m.now
	version, err := strconv.Atoi(n.ResourceVersion)
	if err != nil || version < m.acted {
		f.mu.Unlock()
		return err
	}
	annotations, ready := m.next()
	f.mu.Unlock()
	var after *corev1.Node
	switch {
	case annotations != nil:
		after, err = f.patch(ctx, name, map[string]any{"metadata": map[string]any{"annotations": annotations}},
			types.MergePatchType)
	case ready != "":
		after, err = f.patch(ctx, name, map[string]any{"status": map[string]any{"conditions": conditions(ready)}},
			types.StrategicMergePatchType, "status")
	default:
		return nil
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.acted, err = strconv.Atoi(after.ResourceVersion)
	return err
}

func (f *Fleet) patch(ctx context.Context, name string, body map[string]any, kind types.PatchType,
	subresources ...string,
) (*corev1.Node, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return f.nodes.Patch(ctx, name, kind, text, metav1.PatchOptions{}, subresources...)
}

// next returns the daemon's next report, or the node's next Ready condition. Both are empty if the controller has to
// act first.
func (m *machine) next() (annotations map[string]string, ready corev1.ConditionStatus) {
	a := m.now.Annotations
	desired, request := a[v1alpha1.DesiredConfigAnnotation], a[v1alpha1.DesiredDrainAnnotation]
	acknowledged := request == a[v1alpha1.LastAppliedDrainAnnotation]
	drain, open := v1alpha1.DrainVerb+"-"+desired, v1alpha1.UncordonVerb+"-"+desired
	switch {
	case a[v1alpha1.CurrentConfigAnnotation] == desired:
		return nil, ""
	case m.booted == desired && !isReady(m.now):
		return nil, corev1.ConditionTrue
	case m.booted == desired && request != open:
		return map[string]string{v1alpha1.DesiredDrainAnnotation: open}, ""
	case m.booted == desired && acknowledged:
		return map[string]string{
			v1alpha1.CurrentConfigAnnotation: desired, v1alpha1.StateAnnotation: v1alpha1.StateDone,
			v1alpha1.ReasonAnnotation: "", v1alpha1.PostConfigActionAnnotation: "",
		}, ""
	case m.booted == desired:
		return nil, ""
	case a[v1alpha1.StateAnnotation] != v1alpha1.StateWorking:
		return map[string]string{
			v1alpha1.StateAnnotation: v1alpha1.StateWorking, v1alpha1.ReasonAnnotation: "",
			v1alpha1.PostConfigActionAnnotation: "",
		}, ""
	case request != drain:
		return map[string]string{v1alpha1.DesiredDrainAnnotation: drain}, ""
	case acknowledged && a[v1alpha1.PostConfigActionAnnotation] == "":
		return map[string]string{v1alpha1.PostConfigActionAnnotation: "Rebooting"}, ""
	case acknowledged:
		m.booted = desired
		return nil, corev1.ConditionFalse
	}
	return nil, ""
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
