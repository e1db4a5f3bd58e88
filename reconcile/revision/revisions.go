package revision

import (
	"context"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Revisions has the sources and their objects on the cluster. Whether a pool may be rendered or rolled out depends on
// these objects.
type Revisions struct {
	Objects
	Sources []v1alpha1.GitSource
	States  []State
}

// Settled reads Revisions for a pool, and why the pool must not be rendered or rolled out; empty if it may be. While
// one of its sources is being applied, Settled reads no objects. A commit of thousands of objects sends as many events,
// and each of them asks about every pool: reading all objects for each would cost more than writing them.
func Settled(ctx context.Context, c client.Reader, pool *mcfgv1.MachineConfigPool,
	seen *Digests,
) (Revisions, string, error) {
	sources, err := readSources(ctx, c)
	if err != nil {
		return Revisions{}, "", err
	}
	if why, err := Applying(pool, sources); err != nil || why != "" {
		return Revisions{}, why, err
	}
	all, err := readRevisions(ctx, c, seen)
	if err != nil {
		return all, "", err
	}
	why, err := Unsettled(pool, all.States)
	return all, why, err
}

// readRevisions reads Revisions from the manager's cache, whose parts may be of different ages. A pool waits until the
// objects of each of its sources belong to one whole revision, which may be an old revision.
func readRevisions(ctx context.Context, c client.Reader, seen *Digests) (Revisions, error) {
	live, err := ReadState(ctx, c)
	if err != nil {
		return Revisions{}, err
	}
	out := Revisions{Objects: live}
	if out.Sources, err = readSources(ctx, c); err != nil {
		return out, err
	}
	for i := range out.Sources {
		owned, err := live.Owned(out.Sources[i].Name, seen)
		if err != nil {
			return out, err
		}
		out.States = append(out.States, State{Source: &out.Sources[i], Live: owned})
	}
	return out, nil
}

// readSources reads the GitSources, which callers must not change.
func readSources(ctx context.Context, c client.Reader) ([]v1alpha1.GitSource, error) {
	var sources v1alpha1.GitSourceList
	if err := c.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing GitSources: %w", err)
	}
	return sources.Items, nil
}
