package cluster_test

import (
	"encoding/json"
	"errors"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/cluster"
)

// TestAConfigOfSingleNodesIsForTheseNodesAlone asks as each node of a pool, which has stolen the names of all configs.
func TestAConfigOfSingleNodesIsForTheseNodesAlone(t *testing.T) {
	target := v1alpha1.NodeConfigs{Base: "rendered-worker-base"}
	target.Set("worker-1", "rendered-worker-one")
	target.Set("worker-2", "rendered-worker-shared")
	target.Set("worker-3", "rendered-worker-shared")
	target.Set("worker-4", "rendered-worker-unlabelled")
	of := map[string]map[string]string{
		"rendered-worker-target":     {v1alpha1.NodeConfigsAnnotation: target.String()},
		"rendered-worker-base":       {},
		"rendered-worker-one":        {v1alpha1.VariantOfAnnotation: "rendered-worker-base", v1alpha1.VariantNodesAnnotation: "worker-1"},
		"rendered-worker-shared":     {v1alpha1.VariantOfAnnotation: "rendered-worker-base", v1alpha1.VariantNodesAnnotation: "worker-2,worker-3"},
		"rendered-worker-unlabelled": {v1alpha1.VariantOfAnnotation: "rendered-worker-base"},
		"rendered-worker-old":        {v1alpha1.VariantOfAnnotation: "rendered-worker-before", v1alpha1.VariantNodesAnnotation: "worker-1,worker-11"},
		"rendered-worker-older":      {v1alpha1.VariantOfAnnotation: "rendered-worker-before"},
		"rendered-worker-before":     {},
		"rendered-worker-broken":     {v1alpha1.VariantOfAnnotation: "rendered-worker-before", v1alpha1.VariantNodesAnnotation: ",worker-1 ,worker-2x"},
	}
	read := func(name string) ([]byte, error) {
		if of[name] == nil {
			return nil, mcs.ErrNoSuchConfig
		}
		return json.Marshal(mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: of[name]}})
	}
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	pool.Spec.Configuration.Name = "rendered-worker-target"
	allowed := map[string][]string{
		"rendered-worker-target": {"*"}, "rendered-worker-base": {"*"}, "rendered-worker-before": {"*"},
		"rendered-worker-one": {"worker-1"}, "rendered-worker-shared": {"worker-2", "worker-3"},
		"rendered-worker-unlabelled": {"worker-4"},
		"rendered-worker-old":        {"worker-1", "worker-11"},
	}
	for config := range of {
		for _, node := range []string{"worker-1", "worker-11", "worker-2", "worker-3", "worker-4", "worker-5", ""} {
			want := false
			for _, who := range allowed[config] {
				want = want || who == "*" || who == node
			}
			err := cluster.CheckVariants(node, config, []*mcfgv1.MachineConfigPool{pool}, read)
			if refused := errors.As(err, new(*mcs.NotForNodeError)); refused == want || err != nil && !refused {
				t.Errorf("node %q asks for %s: %v", node, config, err)
			}
		}
	}
	// After its document became one of the whole pool, the content has the same name.
	pool.Spec.Configuration.Name = "rendered-worker-one"
	if err := cluster.CheckVariants("worker-5", "rendered-worker-one", []*mcfgv1.MachineConfigPool{pool},
		read); err != nil {
		t.Errorf("the config of the pool: %v", err)
	}
}
