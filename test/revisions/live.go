package revisions

import (
	"context"
	"errors"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// live are the objects of the kinds of a repository, as one client reads them.
type live struct {
	configs  mcfgv1.MachineConfigList
	pools    mcfgv1.MachineConfigPoolList
	rules    operatorv1.MachineConfigurationList
	drifts   v1alpha1.DriftPolicyList
	rollouts v1alpha1.RolloutPolicyList
}

func readLive(s client.Reader) (*live, error) {
	ctx, l := context.Background(), &live{}
	return l, errors.Join(
		s.List(ctx, &l.configs, client.UnsafeDisableDeepCopy), s.List(ctx, &l.pools, client.UnsafeDisableDeepCopy),
		s.List(ctx, &l.rules, client.UnsafeDisableDeepCopy),
		s.List(ctx, &l.drifts, client.UnsafeDisableDeepCopy), s.List(ctx, &l.rollouts, client.UnsafeDisableDeepCopy))
}

// cluster are all objects but the MachineConfigs, by revision.Key.
func (l *live) cluster() map[string]client.Object {
	out := map[string]client.Object{}
	for i := range l.pools.Items {
		out[revision.Key(revision.KindMachineConfigPool, l.pools.Items[i].Name)] = &l.pools.Items[i]
	}
	for i := range l.rules.Items {
		out[revision.Key(revision.KindMachineConfiguration, l.rules.Items[i].Name)] = &l.rules.Items[i]
	}
	for i := range l.drifts.Items {
		out[revision.Key(revision.KindDriftPolicy, l.drifts.Items[i].Name)] = &l.drifts.Items[i]
	}
	for i := range l.rollouts.Items {
		out[revision.Key(revision.KindRolloutPolicy, l.rollouts.Items[i].Name)] = &l.rollouts.Items[i]
	}
	return out
}

// owned lists the objects of one source as an inventory does.
func (l *live) owned(source string, seen *revision.Digests) []v1alpha1.InventoryEntry {
	var out []v1alpha1.InventoryEntry
	for i := range l.configs.Items {
		if mc := &l.configs.Items[i]; mc.Labels[v1alpha1.SourceLabel] == source {
			if e, err := seen.Entry(mc); err == nil {
				out = append(out, e)
			}
		}
	}
	for key, o := range l.cluster() {
		if o.GetLabels()[v1alpha1.SourceLabel] != source {
			continue
		}
		kind, name := revision.SplitKey(key)
		digest, known := seen.Known(o.GetUID(), o.GetResourceVersion())
		if !known {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				continue
			}
			u := &unstructured.Unstructured{Object: content}
			u.SetGroupVersionKind(groupVersions[kind].WithKind(kind))
			digest = seen.OfObject(u)
		}
		out = append(out, v1alpha1.InventoryEntry{Kind: kind, Name: name, Digest: digest})
	}
	revision.SortInventory(out)
	return out
}

// keys are the objects as `Kind/name`, but for rendered configs.
func (l *live) keys() []string {
	var out []string
	for i := range l.configs.Items {
		out = append(out, revision.Key(revision.KindMachineConfig, l.configs.Items[i].Name))
	}
	for key := range l.cluster() {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}
