package clusterstate

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// Revisions has the sources and their objects on the cluster. Whether a pool may be rendered or rolled out depends on
// these objects.
type Revisions struct {
	Objects
	Sources []v1alpha1.GitSource
	States  []revision.State
}

// ReadRevisions reads Revisions from the manager's cache, whose parts may be of different ages. A pool waits until the
// objects of each of its sources belong to one whole revision, which may be an old revision.
func ReadRevisions(ctx context.Context, c client.Reader, seen *revision.Digests) (Revisions, error) {
	live, err := Read(ctx, c)
	if err != nil {
		return Revisions{}, err
	}
	out := Revisions{Objects: live}
	var sources v1alpha1.GitSourceList
	if err := c.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing GitSources: %w", err)
	}
	out.Sources = sources.Items
	for i := range out.Sources {
		owned, err := live.Owned(out.Sources[i].Name, seen)
		if err != nil {
			return out, err
		}
		out.States = append(out.States, revision.State{Source: &out.Sources[i], Live: owned})
	}
	return out, nil
}
