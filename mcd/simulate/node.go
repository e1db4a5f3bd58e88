package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// How often a kubelet speaks.
const (
	leaseEvery   = 10 * time.Second
	statusEvery  = 30 * time.Second
	leaseSeconds = 40
	// postTries of a status while others write the Node too: a host that booted shall not look down until the next beat.
	postTries = 5
)

// Config describes a simulated host.
type Config struct {
	// Node is its name.
	Node string
	// Labels of a Node that has to be made; those that a kubelet may not set on itself must be left to others.
	Labels map[string]string
	// BootID tells the boot, as host.Power does.
	BootID func() (string, error)
	// Log gets one line for each thing that people want to see.
	Log *slog.Logger
}

// Kubelet keeps one Node alive.
type Kubelet struct {
	Config
	cluster dynamic.Interface
	ready   chan bool
}

// New connects; nothing happens before Run.
func New(client *rest.Config, c Config) (*Kubelet, error) {
	cluster, err := dynamic.NewForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return newKubelet(cluster, c), nil
}

func newKubelet(cluster dynamic.Interface, c Config) *Kubelet {
	return &Kubelet{Config: c, cluster: cluster, ready: make(chan bool, 1)}
}

func (k *Kubelet) nodes() objects[corev1.Node] {
	return objects[corev1.Node]{nodes, k.cluster.Resource(nodes.GroupVersion().WithResource("nodes"))}
}

func (k *Kubelet) leases() objects[coordinationv1.Lease] {
	return objects[coordinationv1.Lease]{leases, k.cluster.Resource(leases.GroupVersion().WithResource("leases")).Namespace(corev1.NamespaceNodeLease)}
}

// pods of a namespace, or of all.
func (k *Kubelet) pods(namespace string) objects[corev1.Pod] {
	return objects[corev1.Pod]{pods, k.cluster.Resource(pods.GroupVersion().WithResource("pods")).Namespace(namespace)}
}

// Run keeps the Node alive until the context ends. What fails is tried again at the next beat, as a kubelet does.
func (k *Kubelet) Run(ctx context.Context) {
	go k.runPods(ctx)
	lease, status := time.NewTicker(leaseEvery), time.NewTicker(statusEvery)
	defer lease.Stop()
	defer status.Stop()
	ready := true
	k.beat(ctx, k.register, k.renew)
	healthy := k.beat(ctx, func(ctx context.Context) error { return k.post(ctx, ready) })
	for {
		select {
		case <-ctx.Done():
			return
		case ready = <-k.ready:
			healthy = k.beat(ctx, func(ctx context.Context) error { return k.post(ctx, ready) })
		case <-lease.C:
			k.beat(ctx, k.renew)
			if !healthy {
				healthy = k.beat(ctx, k.register, func(ctx context.Context) error { return k.post(ctx, ready) })
			}
		case <-status.C:
			healthy = k.beat(ctx, func(ctx context.Context) error { return k.post(ctx, ready) })
		}
	}
}

// beat does things and tells of what fails.
func (k *Kubelet) beat(ctx context.Context, things ...func(context.Context) error) bool {
	for _, do := range things {
		if err := do(ctx); err != nil {
			if ctx.Err() == nil {
				k.Log.Warn("keeping the Node alive", "node", k.Node, "err", err)
			}
			return false
		}
	}
	return true
}

// SetReady says whether the machine is up; a reboot is a moment when it is not. It returns when that is noted or the
// context has ended, after which nobody reads notes.
func (k *Kubelet) SetReady(ctx context.Context, ready bool) {
	select {
	case k.ready <- ready:
	case <-ctx.Done():
	}
}

// register makes the Node where there is none.
func (k *Kubelet) register(ctx context.Context) error {
	labels := map[string]string{corev1.LabelHostname: k.Node, corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH}
	for key, value := range k.Labels {
		labels[key] = value
	}
	err := k.nodes().create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.Node, Labels: labels}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the Node: %w", err)
	}
	if err == nil {
		k.Log.Info("made the Node", "node", k.Node)
	}
	return nil
}

// renew renews the lease by which the cluster knows that the node lives.
func (k *Kubelet) renew(ctx context.Context) error {
	now, seconds := metav1.NewMicroTime(time.Now()), int32(leaseSeconds)
	lease, err := k.leases().get(ctx, k.Node)
	if apierrors.IsNotFound(err) {
		err = k.leases().create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: k.Node},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &k.Node, LeaseDurationSeconds: &seconds, RenewTime: &now},
		})
	} else if err == nil {
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &k.Node, &seconds, &now
		err = k.leases().update(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("renewing the lease: %w", err)
	}
	return nil
}

// post writes the Node's status.
func (k *Kubelet) post(ctx context.Context, ready bool) error {
	boot, err := k.BootID()
	if err != nil {
		return fmt.Errorf("asking for the boot's id: %w", err)
	}
	for try := 1; ; try++ {
		node, err := k.nodes().get(ctx, k.Node)
		if err != nil {
			return fmt.Errorf("reading the Node: %w", err)
		}
		status := statusOf(node.Status, k.Node, boot, ready, metav1.Now())
		err = k.nodes().patchStatus(ctx, k.Node, node.ResourceVersion, status)
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err) || try == postTries:
			return fmt.Errorf("posting the Node's status: %w", err)
		}
	}
}

// statusOf is what a small machine would say of itself.
func statusOf(is corev1.NodeStatus, name, boot string, ready bool, now metav1.Time) corev1.NodeStatus {
	is.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
	is.Allocatable = is.Capacity
	is.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	is.NodeInfo = corev1.NodeSystemInfo{
		MachineID: name, SystemUUID: name, BootID: boot, KernelVersion: "simulated", OSImage: "Bunsen simulated host",
		ContainerRuntimeVersion: "simulated://0", KubeletVersion: "v0.0.0-simulated", OperatingSystem: "linux", Architecture: runtime.GOARCH,
	}
	conditions := []struct {
		kind            corev1.NodeConditionType
		on              bool
		reason, message string
	}{
		{corev1.NodeMemoryPressure, false, "KubeletHasSufficientMemory", "simulated"},
		{corev1.NodeDiskPressure, false, "KubeletHasNoDiskPressure", "simulated"},
		{corev1.NodePIDPressure, false, "KubeletHasSufficientPID", "simulated"},
		{corev1.NodeReady, ready, "KubeletReady", "simulated host is up"},
	}
	if !ready {
		conditions[3].reason, conditions[3].message = "KubeletNotReady", "simulated host is rebooting"
	}
	for _, c := range conditions {
		status := corev1.ConditionFalse
		if c.on {
			status = corev1.ConditionTrue
		}
		is.Conditions = setCondition(is.Conditions, corev1.NodeCondition{
			Type: c.kind, Status: status, Reason: c.reason, Message: c.message, LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	return is
}

// setCondition replaces or adds a condition; its time of transition stays while the status does.
func setCondition(all []corev1.NodeCondition, c corev1.NodeCondition) []corev1.NodeCondition {
	for i, is := range all {
		if is.Type != c.Type {
			continue
		}
		if is.Status == c.Status {
			c.LastTransitionTime = is.LastTransitionTime
		}
		all[i] = c
		return all
	}
	return append(all, c)
}
