package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
)

var (
	nodes                 = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	machineConfigs        = mcfgv1.GroupVersion.WithResource("machineconfigs")
	machineConfigurations = schema.GroupVersionResource{
		Group: "operator.openshift.io", Version: "v1",
		Resource: "machineconfigurations",
	}
)

// callLimit is how long one call may take. A server that accepts connections and never answers must not block the
// daemon.
const callLimit = 30 * time.Second

// Client is a cluster over the Kubernetes API. Client needs a kubelet's rights, and those of config/rbac/nodes.yaml.
type Client struct {
	node    string
	nodes   metadata.Getter
	objects dynamic.Interface
	// uid is the UID of the Node at its last read; nil before that.
	uid atomic.Pointer[types.UID]
}

// New returns a client for one node.
func New(config *rest.Config, node string) (*Client, error) {
	core, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Client{
		node: node, nodes: core.Resource(nodes), objects: objects,
	}, nil
}

// Node implements agent.Cluster.
func (k *Client) Node(ctx context.Context) (report.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	n, err := k.objects.Resource(nodes).Get(ctx, k.node, metav1.GetOptions{})
	if err != nil {
		return report.Node{}, markUnreachable(err)
	}
	uid := n.GetUID()
	k.uid.Store(&uid)
	assigned := assignmentOf(n)
	// A value of another type counts as false, and the API server refuses it.
	assigned.Unschedulable, _, _ = unstructured.NestedBool(n.Object, "spec", "unschedulable")
	assigned.Recordoned = assigned.Unschedulable && v1alpha1.IsCordonReplaced(n)
	return assigned, nil
}

// nodeUID returns the UID of the Node. A Node that does not exist has its name there, as in the events of a kubelet.
func (k *Client) nodeUID(ctx context.Context) (types.UID, error) {
	if k.uid.Load() == nil {
		if _, err := k.Node(ctx); apierrors.IsNotFound(err) {
			return types.UID(k.node), nil
		} else if err != nil {
			return "", err
		}
	}
	return *k.uid.Load(), nil
}

// assignmentOf reads the annotations of a Node that the protocol uses.
func assignmentOf(n metav1.Object) report.Node {
	a := report.NodeOf(n.GetAnnotations())
	a.UID = string(n.GetUID())
	return a
}

// SetAnnotations implements agent.Cluster.
func (k *Client) SetAnnotations(ctx context.Context, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]map[string]map[string]string{"metadata": {"annotations": annotations}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err = k.nodes.Patch(ctx, k.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return markUnreachable(err)
}

// Config reads a MachineConfig through the API server. Most clusters do not allow nodes to read MachineConfigs, so the
// agent uses Connection.Config.
func (k *Client) Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	var mc mcfgv1.MachineConfig
	return mc, k.get(ctx, machineConfigs, name, &mc)
}

// Rules implements agent.Cluster. Rules uses the status of the MachineConfiguration if the status is up to date.
// Otherwise, Rules computes the rules from the spec as the controller does.
func (k *Client) Rules(ctx context.Context) (plan.Rules, error) {
	var mc operatorv1.MachineConfiguration
	err := k.get(ctx, machineConfigurations, "cluster", &mc)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return plan.Rules{Policy: disruption.Default()}, nil
	}
	if err != nil {
		return plan.Rules{}, err
	}
	rules := plan.Rules{Overrides: disruption.OverridesOf(&mc)}
	if known := mc.Status.NodeDisruptionPolicyStatus; mc.Status.ObservedGeneration == mc.Generation &&
		len(known.ClusterPolicies.Files) > 0 {
		rules.Policy, err = disruption.FromStatus(known)
	} else {
		rules.Policy, err = disruption.FromSpec(mc.Spec.NodeDisruptionPolicy)
	}
	return rules, err
}

// get fetches a cluster-scoped object. get converts the object through JSON, because the Go type may have its own rules
// for decoding.
func (k *Client) get(ctx context.Context, gvr schema.GroupVersionResource, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	u, err := k.objects.Resource(gvr).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return markUnreachable(err)
	}
	text, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

var (
	driftPolicies = v1alpha1.GroupVersion.WithResource("driftpolicies")
	configPools   = mcfgv1.GroupVersion.WithResource("machineconfigpools")
)

// DriftRules implements agent.Cluster. A cluster without the kind DriftPolicy has no policy. DriftRules skips a policy
// that it cannot read and reports it in the error. DriftRules uses the policies that it can read.
func (k *Client) DriftRules(ctx context.Context, pool string) (drift.Policy, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	list, err := k.objects.Resource(driftPolicies).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return drift.Policy{}, nil
	}
	if err != nil {
		return drift.Policy{}, markUnreachable(err)
	}
	var all []v1alpha1.DriftPolicy
	var bad []error
	needsLabels := false
	for i := range list.Items {
		var p v1alpha1.DriftPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &p); err != nil {
			bad = append(bad, fmt.Errorf("reading DriftPolicy %s: %w", list.Items[i].GetName(), err))
			continue
		}
		all = append(all, p)
		needsLabels = needsLabels || p.Spec.MachineConfigPoolSelector != nil
	}
	labels := map[string]string{}
	if needsLabels && pool != "" {
		o, err := k.objects.Resource(configPools).Get(ctx, pool, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return drift.Policy{}, markUnreachable(err)
		}
		if err == nil {
			labels = o.GetLabels()
		}
	}
	p, err := drift.Select(all, pool, labels)
	return p, errors.Join(append(bad, err)...)
}

// stableWatch is how long a watch must have lasted to reset the pauses.
const stableWatch = 10 * time.Second

// watchLimit is how long a watch may last. There is a limit because a broken connection looks like a watch without
// changes.
const watchLimit = 30 * time.Minute

// Watch returns a channel with a signal when another program has changed the Node, and after each reconnection. The
// channel contains at most one signal. While the API server does not answer, Watch retries with pauses that grow to a
// minute.
func (k *Client) Watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	return watch(ctx, log, func(ctx context.Context, changed chan<- struct{}) error {
		return k.watchOnce(ctx, changed)
	})
}

// watch starts a watch again whenever it ends.
func watch(ctx context.Context, log *slog.Logger, once func(context.Context, chan<- struct{}) error) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		for next := newBackoff(); ctx.Err() == nil; {
			began := time.Now()
			err := once(ctx, changed)
			if time.Since(began) >= stableWatch {
				next = newBackoff()
			}
			pause := next.Step()
			if ctx.Err() == nil {
				log.Debug("watching the Node again", "in", pause, "err", err)
			}
			sleep(ctx, pause)
		}
	}()
	return changed
}

func (k *Client) watchOnce(ctx context.Context, changed chan<- struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	w, err := k.nodes.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField,
		k.node).String()})
	if err != nil {
		return err
	}
	defer w.Stop()
	var last *report.Node
	for event := range w.ResultChan() {
		n, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			return errors.New("the watch ended with a status")
		}
		now := assignmentOf(n).Watched()
		if last != nil && *last == now {
			continue // The change is only a heartbeat of the kubelet.
		}
		last = &now
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return nil
}
