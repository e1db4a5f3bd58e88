package reconcile_test

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// The controller refuses what validation refuses, and takes it once the pool's annotation is on the cluster.
func TestContentsThatNobodyReviewsWaitForThePool(t *testing.T) {
	w := newWorld(t)
	w.repo.Push("begin", controllertest.Files("worker/10-motd.bu=one", "master/10-motd.bu=one"))
	w.follow()
	before := w.renderPool("worker")
	w.push("cron", "worker/10-motd.bu=one", "master/10-motd.bu=one", `-- pools/worker/20-cron.bu --
variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/cron.d/x
      contents:
        source: secret:app/cron
`)
	controllertest.Equal(t, "the name", w.renderPool("worker"), before)
	controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
		mcfgv1.MachineConfigPoolRenderDegraded), "True|", "/etc/cron.d/x: its content comes from a Secret",
		v1alpha1.UnreviewedPathsAnnotation)
	controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[v1alpha1.UnreviewedPathsAnnotation] = "/etc/cron.d/x"
	})
	if w.renderPool("worker") == before {
		t.Error("the allowed content is not rendered: ", controllertest.PoolCondition(w.Pool("worker"),
			mcfgv1.MachineConfigPoolRenderDegraded))
	}
}
