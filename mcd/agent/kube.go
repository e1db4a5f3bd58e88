package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/policy"
)

var (
	machineConfigs        = mcfgv1.GroupVersion.WithResource("machineconfigs")
	machineConfigurations = schema.GroupVersionResource{Group: "operator.openshift.io", Version: "v1", Resource: "machineconfigurations"}
)

// Kube is a Cluster over the Kubernetes API. It needs no more rights than a kubelet, plus to read machineconfigs and
// machineconfigurations.
type Kube struct {
	node    string
	nodes   typedcorev1.NodeInterface
	objects dynamic.Interface
}

// NewKube connects for one node.
func NewKube(config *rest.Config, node string) (*Kube, error) {
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Kube{node: node, nodes: core.Nodes(), objects: objects}, nil
}

// Assignment implements Cluster.
func (k *Kube) Assignment(ctx context.Context) (Assignment, error) {
	n, err := k.nodes.Get(ctx, k.node, metav1.GetOptions{})
	if err != nil {
		return Assignment{}, err
	}
	return AssignmentOf(n.Annotations), nil
}

// Report implements Cluster.
func (k *Kube) Report(ctx context.Context, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]map[string]map[string]string{"metadata": {"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = k.nodes.Patch(ctx, k.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Config implements Cluster.
func (k *Kube) Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	var mc mcfgv1.MachineConfig
	return mc, k.get(ctx, machineConfigs, name, &mc)
}

// Rules implements Cluster. The status of the MachineConfiguration counts where it is up to date; else its spec is read
// in the same way as the controller does.
func (k *Kube) Rules(ctx context.Context) (plan.Rules, error) {
	var mc operatorv1.MachineConfiguration
	err := k.get(ctx, machineConfigurations, "cluster", &mc)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return plan.Rules{Policy: policy.Default()}, nil
	}
	if err != nil {
		return plan.Rules{}, err
	}
	rules := plan.Rules{Overrides: policy.OverridesOf(&mc)}
	if known := mc.Status.NodeDisruptionPolicyStatus; mc.Status.ObservedGeneration == mc.Generation && len(known.ClusterPolicies.Files) > 0 {
		rules.Policy, err = policy.FromStatus(known)
	} else {
		rules.Policy, err = policy.FromSpec(mc.Spec.NodeDisruptionPolicy)
	}
	return rules, err
}

// get fetches a cluster-scoped object. It goes through JSON, so that the object's own decoding is used.
func (k *Kube) get(ctx context.Context, gvr schema.GroupVersionResource, name string, into any) error {
	u, err := k.objects.Resource(gvr).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	text, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Watch signals when the Node changes, and after each reconnection. The channel holds one signal: more say no more.
func (k *Kube) Watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		for ctx.Err() == nil {
			if err := k.watchOnce(ctx, changed); err != nil && ctx.Err() == nil {
				log.Debug("watching the Node", "node", k.node, "err", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return changed
}

func (k *Kube) watchOnce(ctx context.Context, changed chan<- struct{}) error {
	w, err := k.nodes.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, k.node).String()})
	if err != nil {
		return err
	}
	defer w.Stop()
	var last map[string]string
	for event := range w.ResultChan() {
		n, ok := event.Object.(*corev1.Node)
		if !ok {
			return errors.New("the watch ended with a status")
		}
		if last != nil && AssignmentOf(last) == AssignmentOf(n.Annotations) {
			continue // a heartbeat
		}
		last = n.Annotations
		if last == nil {
			last = map[string]string{}
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return nil
}
