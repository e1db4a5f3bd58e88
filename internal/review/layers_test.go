package review_test

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// TestLayersOfTheClusterJoin: a MachineConfig made through the API is merged where the pool selects it, shown as such,
// and gives way to a fragment of its name.
func TestLayersOfTheClusterJoin(t *testing.T) {
	var r review.Renderings
	res, without, _ := r.Render(large(0, "1"), nil)
	layer := func(name, role, path string) *mcfgv1.MachineConfig {
		return &mcfgv1.MachineConfig{
			ObjectMeta: metav1.ObjectMeta{
				Name:   name,
				Labels: map[string]string{"machineconfiguration.openshift.io/role": role},
			},
			Spec: mcfgv1.MachineConfigSpec{
				Config: runtime.RawExtension{
					Raw: []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"` + path +
						`","contents":{"source":"data:,x"}}]}}`),
				},
			},
		}
	}
	with := review.Render(res, &r.Renderer, render.Defaults{},
		[]*mcfgv1.MachineConfig{
			layer("99-by-hand", "worker", "/etc/by-hand"),
			layer("10-worker-doc", "worker", "/etc/replaced"),
		})
	if without.Err != nil || with.Err != nil {
		t.Fatal(without.Err, with.Err)
	}
	c := review.Compare(without.Side("base"), with.Side("head"))
	for _, p := range c.Pools {
		want := map[string]int{"worker": 1}[p.Pool]
		if len(p.Items) != want {
			t.Errorf("pool %s has %d changes, want %d", p.Pool, len(p.Items), want)
		}
		if want == 1 && (p.Items[0].Path != "/etc/by-hand" || p.Items[0].Origin != "MachineConfig 99-by-hand, made "+
			"through the API") {
			t.Errorf("got %+v", p.Items[0])
		}
	}
}
