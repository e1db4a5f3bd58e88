package kube

import (
	"context"
	"errors"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/drift"
)

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
