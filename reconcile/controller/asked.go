package controller

import (
	"context"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// commit is the short revision and the subject of the commit that asked last for a rendered config of a pool, as the histories of
// the GitSources have it; else of the commit that it was first made for. Empty where neither is known.
func (r *Rollout) commit(ctx context.Context, pool *mcfgv1.MachineConfigPool, name string) string {
	src := &v1alpha1.GitSource{}
	key := client.ObjectKey{Name: pool.Annotations[v1alpha1.SourceAnnotation]}
	if key.Name != "" && r.Client.Get(ctx, key, src) == nil { // an event that names an older commit is better than none
		if c := v1alpha1.AskedBy(src.Status.History, pool.Name, name); c != nil {
			return fmt.Sprintf("%s %s", short(c.Revision), source.Quote(c.Subject))
		}
	}
	mc, _ := r.config(ctx, name)
	if mc == nil || mc.Annotations[v1alpha1.RevisionAnnotation] == "" {
		return ""
	}
	return fmt.Sprintf("%s %s", short(mc.Annotations[v1alpha1.RevisionAnnotation]), source.Quote(mc.Annotations[v1alpha1.CommitSubjectAnnotation]))
}
