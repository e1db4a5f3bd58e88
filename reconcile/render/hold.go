package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// hold sets the pool's config to the config at which a user holds the pool. hold needs neither the repository nor the
// MachineConfigs of the revision, because the rendered config has the whole content. If the held config cannot be used,
// the pool keeps its present config.
func (r *Controller) hold(ctx context.Context, f facts) error {
	name := f.pool.Annotations[v1alpha1.HoldAnnotation]
	mc, ok := f.byName[name]
	if !ok {
		return heldError(f, "it does not exist")
	}
	rendered, err := heldConfig(f.pool, mc)
	if err != nil {
		return err
	}
	for _, own := range rendered.Nodes.All() {
		if f.byName[own] == nil {
			return heldError(f, "the controller has deleted the configs of its single nodes, such as "+own+
				": revert the commit in git instead")
		}
	}
	if f.current != nil && f.current.Name != name {
		if _, err := r.checkRefusals(f, rendered); err != nil {
			return err
		}
	}
	err = publishContents(ctx, r.Contents, rendered)
	if errors.As(err, new(*missingContentError)) {
		err = fmt.Errorf("%w. The controller writes the files of the held commit again within about ten minutes", err)
	}
	if err != nil {
		return heldBy(f, err)
	}
	before := f.pool.Spec.Configuration.Name
	if err := r.setConfiguration(ctx, f, rendered, heldTarget(f, mc)); err != nil {
		return err
	}
	if before != name {
		r.Events.Send(kube.Event{
			Object: f.pool, Related: mc, Reason: "Held", Action: "Render",
			Note: fmt.Sprintf("a user holds pool %s at %s: %s", f.pool.Name, name,
				f.pool.Annotations[v1alpha1.HeldByAnnotation]),
		})
	}
	return nil
}

// heldTarget returns the record of a held pool. The record keeps the inputs of the last render, so that the render
// after the release finds the changes since then.
func heldTarget(f facts, mc *mcfgv1.MachineConfig) v1alpha1.PoolTarget {
	t, err := v1alpha1.ParsePoolTarget(f.pool.Annotations[v1alpha1.TargetAnnotation])
	if err != nil {
		t = v1alpha1.PoolTarget{}
	}
	t.Held = true
	if t.Config == mc.Name {
		return t
	}
	// The caller has read it before.
	nodes, _ := v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
	t.Config, t.Nodes, t.Before, t.Commit = mc.Name, len(nodes.Nodes), "", v1alpha1.Requester{}
	t.Requester = v1alpha1.Requester{
		Revision: mc.Annotations[v1alpha1.RevisionAnnotation],
		Subject:  mc.Annotations[v1alpha1.CommitSubjectAnnotation],
		Author:   mc.Annotations[v1alpha1.CommitAuthorAnnotation],
	}
	if asked := v1alpha1.RequesterOf(f.pool.Annotations, mc.Name); asked.Revision != "" || len(asked.API) > 0 {
		t.Requester = asked
	}
	if at, ok := f.heldRevision(mc); ok {
		t.Requester = v1alpha1.Requester{Revision: at.Revision, Subject: at.Subject, Author: at.Author}
	}
	t.Cause, t.By = v1alpha1.RolloutCauseHold, poolstate.HeldBy(f.pool)
	return t
}

// heldConfig reads a rendered config of the pool. The controller must have rendered the config for this pool, and its
// name must be the hash of its content. So a user with the right to hold a pool cannot also write configs.
func heldConfig(pool *mcfgv1.MachineConfigPool, mc *mcfgv1.MachineConfig) (Rendered, error) {
	f := facts{pool: pool}
	owner := metav1.GetControllerOfNoCopy(mc)
	if owner == nil || owner.UID != pool.UID || mc.Annotations[v1alpha1.GeneratedByAnnotation] == "" ||
		v1alpha1.RenderedPool(mc.Name) != pool.Name {
		return Rendered{}, heldError(f, "it is not a rendered config of this pool")
	}
	spec, err := machineconfig.KeysOnce(mc.Spec)
	if err != nil {
		return Rendered{}, heldError(f, err.Error())
	}
	if err := machineconfig.CheckName(pool.Name, mc, spec); err != nil {
		return Rendered{}, heldError(f, "a user edited its content")
	}
	if mc.Annotations[v1alpha1.VariantOfAnnotation] != "" {
		return Rendered{}, heldError(f, "it is the config of single nodes, and not of the pool")
	}
	nodes, err := v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return Rendered{}, heldError(f, err.Error())
	}
	config, err := machineconfig.Parse(spec)
	if err != nil {
		return Rendered{}, heldError(f, err.Error())
	}
	inputs := map[string]string{}
	if text := mc.Annotations[v1alpha1.InputsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &inputs); err != nil {
			return Rendered{}, heldError(f, "reading annotation "+v1alpha1.InputsAnnotation+": "+err.Error())
		}
	}
	return Rendered{
		Pool: pool.Name, Name: mc.Name, Nodes: nodes, Spec: spec, Config: config,
		Inputs: slices.Sorted(maps.Keys(inputs)),
	}, nil
}

// heldImages returns which images of the held config have no digest.
func heldImages(f facts) []string {
	mc, ok := f.byName[f.pool.Annotations[v1alpha1.HoldAnnotation]]
	if !ok {
		return nil
	}
	return Rendered{Name: mc.Name, Config: machineconfig.Config{
		OSImageURL: mc.Spec.OSImageURL, ExtensionsImage: mc.Spec.BaseOSExtensionsContainerImage,
	}}.ImagesWithoutDigest()
}

// heldError is the error for a config at which the pool cannot be held.
func heldError(f facts, why string) error { return heldBy(f, errors.New(why)) }

// heldBy is heldError with an error.
func heldBy(f facts, err error) error {
	return fault.NewStalled(v1alpha1.ReasonInvalidHold,
		fmt.Errorf("it cannot use its hold at %s: %w; hold it at another commit with bunsen hold pool/%s, or let it "+
			"get the newest one with bunsen release pool/%[3]s", f.pool.Annotations[v1alpha1.HoldAnnotation], err,
			f.pool.Name))
}

// heldRevision returns the commit at which the pool is held, if the history of the config's source has this commit with
// this config.
func (f facts) heldRevision(mc *mcfgv1.MachineConfig) (v1alpha1.CommitInfo, bool) {
	src := f.sources[mc.Annotations[v1alpha1.SourceAnnotation]]
	if src == nil {
		return v1alpha1.CommitInfo{}, false
	}
	for _, e := range src.Status.History {
		if e.Revision == f.pool.Annotations[v1alpha1.HeldRevisionAnnotation] && e.Pools[f.pool.Name] == mc.Name {
			return e.CommitInfo, true
		}
	}
	return v1alpha1.CommitInfo{}, false
}
