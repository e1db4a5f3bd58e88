package console

import (
	"context"
	"fmt"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console/view"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// largeCluster has 20 pools with 250 nodes and 40 rendered configs each, all of them from one GitSource. One node of
// each pool failed.
func largeCluster() fleet.Cluster {
	const pools, nodes, configs = 20, 250, 40
	var c fleet.Cluster
	name := func(pool string, config int) string { return fmt.Sprintf("rendered-%s-%032x", pool, config) }
	src := v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "os"}}
	for i := configs; i > 0; i-- {
		e := v1alpha1.HistoryEntry{Pools: map[string]string{}}
		e.Revision, e.Subject = fmt.Sprintf("main@sha1:%040x", i), "motd: another text"
		for p := range pools {
			e.Pools[fmt.Sprintf("p%02d", p)] = name(fmt.Sprintf("p%02d", p), i)
		}
		src.Status.History = append(src.Status.History, e)
	}
	src.Status.AppliedRevision = src.Status.History[0].Revision
	c.Sources = []v1alpha1.GitSource{src}
	for p := range pools {
		pool := fmt.Sprintf("p%02d", p)
		object := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: pool}}
		object.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{pool: ""}}
		object.Spec.Configuration.Name = name(pool, configs)
		c.Pools = append(c.Pools, object)
		for i := 1; i <= configs; i++ {
			c.Rendered = append(c.Rendered,
				fleet.RenderedRow{Name: name(pool, i), Pool: pool, Created: time.Unix(1, 0)})
		}
		for n := range nodes {
			state := "Done"
			if n == 0 {
				state = "Degraded"
			}
			c.Nodes = append(c.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-%03d", pool, n), Labels: map[string]string{pool: ""},
				Annotations: map[string]string{
					v1alpha1.CurrentConfigAnnotation: name(pool, configs-1),
					v1alpha1.DesiredConfigAnnotation: name(pool, configs), v1alpha1.StateAnnotation: state,
				},
			}})
		}
	}
	return c
}

// linksIn draws the links of a pool's page in a cluster, for a user who may change everything or nothing.
func linksIn(t testing.TB, c fleet.Cluster, may bool) func() []view.Action {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			o.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed = may
			return nil
		},
	}).Build()
	f, v := fleet.New(c, time.Unix(2, 0)), pinned{visitor: &visitor{name: "alice", api: api}}
	return func() []view.Action { return linksOf(t.Context(), v, f, kube.KindPool, "p07") }
}

// TestLinksDecideNothingAgain: each redraw of a page asks for its links, so they follow from the fleet of the page. To
// decide all pools again would take more than 90,000 allocations.
func TestLinksDecideNothingAgain(t *testing.T) {
	c := largeCluster()
	for may, most := range map[bool]float64{true: 200, false: 80} {
		links := linksIn(t, c, may)
		if found := len(links()); found != 3 && may || found > 0 && !may {
			t.Errorf("%d links for a user who may change: %v", found, may)
		}
		if got := testing.AllocsPerRun(3, func() { links() }); got > most {
			t.Errorf("%v allocations, at most %v, for a user who may change: %v", got, most, may)
		}
	}
}

// BenchmarkLinks measures the links of a pool's page, in a cluster with 5,000 nodes.
func BenchmarkLinks(b *testing.B) {
	c := largeCluster()
	for name, may := range map[string]bool{"operator": true, "viewer": false} {
		b.Run(name, func(b *testing.B) {
			links := linksIn(b, c, may)
			b.ReportAllocs()
			for b.Loop() {
				links()
			}
		})
	}
}

// TestAFormReadsItsFieldsOnce, because the commits of a hold take time in a large cluster.
func TestAFormReadsItsFieldsOnce(t *testing.T) {
	x := newRequest(fleet.New(largeCluster(), time.Unix(2, 0)), "p07", "alice", nil)
	for _, a := range actions() {
		if a.fields == nil || a.kind != kube.KindPool {
			continue
		}
		fields, calls := a.fields, 0
		a.fields = func(x *request) []view.ActionField {
			calls++
			return fields(x)
		}
		if f := a.form(x, "token", ""); calls != 1 || a.verb == "hold" &&
			f.Command != "bunsen hold pool/p07 --at REVISION --because TEXT" {
			t.Errorf("%s reads its fields %d times: %s", a.verb, calls, f.Command)
		}
	}
}
