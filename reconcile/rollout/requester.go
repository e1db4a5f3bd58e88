package rollout

import (
	"context"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// requester returns who last requested a rendered config, a result of v1alpha1.ConfigAt, of a pool: from the pool's own
// records, else the history of its GitSource, else the commit from which the config was first rendered; zero if all
// these are missing.
func (r *Controller) requester(ctx context.Context, pool *mcfgv1.MachineConfigPool, at string) v1alpha1.Requester {
	name := v1alpha1.ConfigName(at)
	asked := v1alpha1.RequesterOf(pool.Annotations, name)
	if asked.Subject != "" || len(asked.API) > 0 {
		return asked
	}
	src := &v1alpha1.GitSource{}
	key := client.ObjectKey{Name: pool.Annotations[v1alpha1.SourceAnnotation]}
	if key.Name != "" && r.Client.Get(ctx, key, src) == nil { // Naming an older commit is better than naming none.
		if c := v1alpha1.AskedBy(src.Status.History, pool.Name, name); c != nil {
			return v1alpha1.Requester{Revision: c.Revision, Subject: c.Subject, Author: c.Author}
		}
	}
	mc, _ := r.config(ctx, name)
	if mc == nil || asked.Revision != "" && mc.Annotations[v1alpha1.RevisionAnnotation] != asked.Revision {
		return asked
	}
	return v1alpha1.Requester{
		Revision: mc.Annotations[v1alpha1.RevisionAnnotation],
		Subject:  mc.Annotations[v1alpha1.CommitSubjectAnnotation],
		Author:   mc.Annotations[v1alpha1.CommitAuthorAnnotation],
	}
}

func (r *Controller) commit(ctx context.Context, pool *mcfgv1.MachineConfigPool, name string) string {
	return kube.RequesterText(r.requester(ctx, pool, name))
}
