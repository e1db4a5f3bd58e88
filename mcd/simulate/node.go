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

// The intervals of a kubelet's reports.
const (
	leaseEvery   = 10 * time.Second
	statusEvery  = 30 * time.Second
	leaseSeconds = 40
	// postTries is how often a status is written if other programs write the Node at the same time. A booted host must
	// not appear down until the next report.
	postTries = 5
)

// Config describes a simulated host.
type Config struct {
	// Node is the name of the node.
	Node string
	// Labels are the labels of a new Node. Labels must not include labels that a kubelet may not set on its own Node.
	Labels map[string]string
	// BootID returns the ID of the boot, as host.Power does.
	BootID func() (string, error)
	// Log gets one line for each event that concerns users.
	Log *slog.Logger
}

// Kubelet reports one Node as alive.
type Kubelet struct {
	Config
	cluster dynamic.Interface
	ready   chan bool
}

// New returns a Kubelet, which does nothing before Run is called.
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
	return objects[coordinationv1.Lease]{leases, k.cluster.Resource(leases.GroupVersion().WithResource("leases")).
		Namespace(corev1.NamespaceNodeLease)}
}

// pods accesses the pods of a namespace, or of all namespaces.
func (k *Kubelet) pods(namespace string) objects[corev1.Pod] {
	return objects[corev1.Pod]{pods, k.cluster.Resource(pods.GroupVersion().WithResource("pods")).Namespace(namespace)}
}

// Run reports the Node as alive until the context ends. Run repeats failed requests at the next report, as a kubelet
// does.
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

// beat calls functions and logs their errors.
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

// SetReady sets whether the machine is up; during a reboot it is not. SetReady returns when the change is accepted, or
// when the context has ended.
func (k *Kubelet) SetReady(ctx context.Context, ready bool) {
	select {
	case k.ready <- ready:
	case <-ctx.Done():
	}
}

// register creates the Node if it does not exist.
func (k *Kubelet) register(ctx context.Context) error {
	labels := map[string]string{
		corev1.LabelHostname: k.Node, corev1.LabelOSStable: "linux",
		corev1.LabelArchStable: runtime.GOARCH,
	}
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

// renew renews the lease that shows the cluster that the node is alive.
func (k *Kubelet) renew(ctx context.Context) error {
	now, seconds := metav1.NewMicroTime(time.Now()), int32(leaseSeconds)
	lease, err := k.leases().get(ctx, k.Node)
	if apierrors.IsNotFound(err) {
		err = k.leases().create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: k.Node},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &k.Node, LeaseDurationSeconds: &seconds,
				RenewTime: &now,
			},
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
		return fmt.Errorf("reading the boot id: %w", err)
	}
	for try := 1; ; try++ {
		node, err := k.nodes().get(ctx, k.Node)
		if err != nil {
			return fmt.Errorf("reading the Node: %w", err)
		}
		status := k.status(node.Status, boot, ready, metav1.Now())
		err = k.nodes().patchStatus(ctx, k.Node, node.ResourceVersion, status)
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err) || try == postTries:
			return fmt.Errorf("posting the Node's status: %w", err)
		}
	}
}

// status returns the status that the kubelet of a small machine reports.
func (k *Kubelet) status(is corev1.NodeStatus, boot string, ready bool, now metav1.Time) corev1.NodeStatus {
	is.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
	is.Allocatable = is.Capacity
	is.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: k.Node},
		{Type: corev1.NodeInternalIP, Address: "127.0.0.1"},
	}
	is.NodeInfo = corev1.NodeSystemInfo{
		MachineID: k.Node, SystemUUID: k.Node, BootID: boot, KernelVersion: "simulated",
		OSImage:                 "Bunsen simulated host",
		ContainerRuntimeVersion: "simulated://0", KubeletVersion: "v0.0.0-simulated", OperatingSystem: "linux",
		Architecture: runtime.GOARCH,
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
			Type: c.kind, Status: status, Reason: c.reason, Message: c.message, LastHeartbeatTime: now,
			LastTransitionTime: now,
		})
	}
	return is
}

// setCondition replaces or adds a condition. setCondition changes the transition time only if the status changes.
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
