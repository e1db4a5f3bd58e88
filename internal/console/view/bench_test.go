package view_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// BenchmarkOverviewOf50Pools draws the overview of pools with as many rollouts as a record has.
func BenchmarkOverviewOf50Pools(b *testing.B) {
	const pools, rollouts = 50, v1alpha1.MaxRolloutHistory
	c := cluster(100)
	for i := range pools {
		name := fmt.Sprintf("pool-%02d", i)
		p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": name}}
		var past []v1alpha1.RolloutOutcome
		for k := range rollouts {
			config := fmt.Sprintf("rendered-%s-%032d", name, k)
			c.Rendered = append(c.Rendered, fleet.RenderedRow{Name: config, Pool: name, Created: noon})
			began := noon.Add(-time.Duration(rollouts-k) * time.Hour)
			past = append(past, v1alpha1.RolloutOutcome{
				Config: config, Result: v1alpha1.RolloutCompleted, Updated: 100, Nodes: 100,
				Began: metav1.NewTime(began), Ended: metav1.NewTime(began.Add(10 * time.Minute)),
			})
			p.Spec.Configuration.Name = config
		}
		raw, err := json.Marshal(past)
		if err != nil {
			b.Fatal(err)
		}
		p.Annotations[v1alpha1.RolloutHistoryAnnotation] = string(raw)
		c.Pools = append(c.Pools, p)
	}
	b.ReportAllocs()
	for b.Loop() {
		overview(c)
	}
}
