package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// hold puts back the revision in force where the newest one cannot be applied and somebody touched a fragment, or a
// crash left half of another revision: else one broken commit would leave every pool without a whole revision to render.
// It returns the failure that led here, and its own beside it.
func (r *Source) hold(ctx context.Context, src *v1alpha1.GitSource, repo Repository, live map[string]*mcfgv1.MachineConfig, failed error) error {
	if src.Status.AppliedRevision == "" || src.Status.AppliedGeneration != src.Generation {
		return failed
	}
	whole, _, err := r.seen.Whole(src.Status.Inventory, mine(live, src.Name))
	if err != nil || whole {
		return errors.Join(failed, err)
	}
	revision, err := source.ParseRevision(src.Status.AppliedRevision)
	if err != nil {
		return errors.Join(failed, err)
	}
	tree, err := fetch(ctx, src, repo, source.Picked{Ref: revision.Ref, Hash: revision.Hash})
	if err == nil {
		a := applier{client: r.Client, source: src, seen: &r.seen, live: live}
		_, err = a.apply(ctx, r.Transpiler.Fragments(tree))
	}
	if err == nil {
		return failed
	}
	f := fault.Of(failed, v1alpha1.ReasonApplyFailed)
	return &fault.Error{Kind: fault.Retry, Reason: f.Reason, Err: errors.Join(failed, fmt.Errorf("putting back revision %s: %w", revision.Short(), err))}
}

// fetch reads a commit's files within the source's timeout.
func fetch(ctx context.Context, src *v1alpha1.GitSource, repo Repository, picked source.Picked) (source.Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	return repo.Tree(ctx, picked)
}

func mine(live map[string]*mcfgv1.MachineConfig, name string) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for _, mc := range live {
		if mc.Labels[v1alpha1.SourceLabel] == name {
			out = append(out, mc)
		}
	}
	return out
}

// held tells whether a live object of cluster/ is as the repository has it.
func (r *Source) held(ctx context.Context, src *v1alpha1.GitSource, want transpile.ClusterObject) (bool, error) {
	typed, err := r.Client.Scheme().New(want.Object.GroupVersionKind())
	if err != nil {
		return false, fmt.Errorf("reading %s %q: %w", want.Object.GetKind(), want.Object.GetName(), err)
	}
	o := typed.(client.Object) // the manager's cache holds these kinds typed
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(want.Object), o); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return false, fmt.Errorf("reading %s %q: %w", want.Object.GetKind(), want.Object.GetName(), err)
	}
	return holds(&unstructured.Unstructured{Object: content}, src.Name, want), nil
}

// holds tells whether a live object bears our marks and has every field that the wanted one names; further fields are
// the API server's defaults, and other people's.
func holds(live *unstructured.Unstructured, owner string, want transpile.ClusterObject) bool {
	return live.GetAnnotations()[v1alpha1.DigestAnnotation] == want.Digest && live.GetLabels()[v1alpha1.SourceLabel] == owner &&
		within(live.Object["spec"], want.Object.Object["spec"])
}

// within tells whether live has all that want has.
func within(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		for k, v := range want {
			ok = ok && within(have[k], v)
		}
		return ok
	case []any:
		have, ok := live.([]any)
		if !ok || len(have) != len(want) {
			return len(have) == 0 && len(want) == 0
		}
		for i := range want {
			ok = ok && within(have[i], want[i])
		}
		return ok
	case nil:
		return true
	default:
		return reflect.DeepEqual(live, want)
	}
}

// owned returns the MachineConfigs that carry the source's label.
func owned(all []mcfgv1.MachineConfig, source string) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for i := range all {
		if all[i].Labels[v1alpha1.SourceLabel] == source {
			out = append(out, &all[i])
		}
	}
	return out
}
