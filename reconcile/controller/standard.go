package controller

import (
	"context"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// standardOwner is the field manager of the pools that every cluster has.
const standardOwner = client.FieldOwner("bunsen-standard-pools")

// standardPools maps the two pools to the labels that make a node theirs. kubeadm, k3s and OpenShift all label the
// control plane; kubeadm and k3s give workers no role label at all, so a worker is every other node.
var standardPools = map[string][]any{
	"master": {
		map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
	},
	"worker": {
		map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"},
		map[string]any{"key": "node-role.kubernetes.io/master", "operator": "DoesNotExist"},
	},
}

// ensureStandardPools makes the pools that are not there. One that is there stays as somebody made it.
func ensureStandardPools(ctx context.Context, c client.Client) error {
	for name := range standardPools {
		err := c.Get(ctx, client.ObjectKey{Name: name}, &mcfgv1.MachineConfigPool{})
		if err == nil {
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading pool %q: %w", name, err)
		}
		if err := applyStandardPool(ctx, c, name); err != nil {
			return err
		}
	}
	return nil
}

// applyStandardPool fills in what nobody else decides about the pool.
func applyStandardPool(ctx context.Context, c client.Client, name string) error {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"machineConfigSelector": map[string]any{"matchLabels": map[string]any{v1alpha1.RoleLabel: name}},
		"nodeSelector":          map[string]any{"matchExpressions": standardPools[name]},
	}}}
	u.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigPool"))
	u.SetName(name)
	u.SetLabels(map[string]string{
		"pools.operator.machineconfiguration.openshift.io/" + name: "",
		"machineconfiguration.openshift.io/mco-built-in":           "",
	})
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), standardOwner)
	if err != nil && !apierrors.IsConflict(err) { // a conflict: somebody decides otherwise, and may
		return fmt.Errorf("making pool %q: %w", name, err)
	}
	return nil
}
