package reconcile_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"

	"github.com/bunsen-os/bunsen/reconcile/render"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// world is a cluster with one repository, and the controllers of sources and pools as they are between two restarts.
type world struct {
	*controllertest.Cluster
	repo *controllertest.Repository
	// transpiler may be shared by worlds that see the same trees: its memory is keyed by content alone.
	transpiler *transpile.Transpiler
	source     *gitsource.Controller
	render     *render.Controller
}

// newWorld returns a cluster as newCluster does, with an empty repository.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{Cluster: controllertest.NewCluster(t, objects...), repo: &controllertest.Repository{
		T:     t,
		Trees: map[string]source.Tree{},
	}, transpiler: &transpile.Transpiler{}}
	w.restart()
	return w
}

// restart forgets everything that the controllers held in memory, and brings a dead one back.
func (w *world) restart() {
	w.Writes.Left = -1 // a dead controller lives again
	clock := func() time.Time { return w.Now }
	w.source = &gitsource.Controller{
		Client: w.Client, Live: w.Client, Applier: &gitsource.Applier{
			Client: w.Client, Live: w.Client, Now: clock,
			Events: w.Events,
		}, Transpiler: w.transpiler, Namespace: "bunsen-system", Now: clock, Events: w.Events,
		Open: func(v1alpha1.GitSourceSpec, source.Secrets) (gitsource.Repository, error) { return w.repo, nil },
	}
	w.render = &render.Controller{
		Client: w.Client, Live: w.Admin, Renderer: &render.Renderer{}, Version: "v1",
		Now: clock, Events: w.Events,
	}
}

// follow lets the source controller look once.
func (w *world) follow() reconcile.Result {
	w.T.Helper()
	result, err := w.source.Reconcile(w.T.Context(), controllertest.Request("os"))
	if err != nil {
		w.T.Fatalf("following the repository: %v", err)
	}
	return result
}

// renderPool lets the render controller look at one pool, and returns the name of its config.
func (w *world) renderPool(name string) string {
	w.T.Helper()
	if _, err := w.render.Reconcile(w.T.Context(), controllertest.Request(name)); err != nil {
		w.T.Fatalf("rendering pool %s: %v", name, err)
	}
	return w.Pool(name).Spec.Configuration.Name
}
