package render_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

var garbageDay = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// nth is the name of a pool's nth rendered config.
func nth(pool string, n int) string { return fmt.Sprintf("rendered-%s-%032x", pool, n) }

func garbagePool(name string) mcfgv1.MachineConfigPool {
	return mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name)}}
}

// rendered are a pool's configs first to last; the nth was made n minutes after a day before garbageDay.
func rendered(pool string, first, last int) []mcfgv1.MachineConfig {
	var out []mcfgv1.MachineConfig
	for n := first; n <= last; n++ {
		owner := garbagePool(pool)
		out = append(out, mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name:              nth(pool, n),
			CreationTimestamp: metav1.NewTime(garbageDay.Add(-24 * time.Hour).Add(time.Duration(n) * time.Minute)),
			Annotations:       map[string]string{v1alpha1.GeneratedByAnnotation: "v1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&owner,
				mcfgv1.GroupVersion.WithKind("MachineConfigPool"))},
		}})
	}
	return out
}

// numbers are the hashes of worker's names as numbers, one blank apart.
func numbers(configs []*mcfgv1.MachineConfig) string {
	var out []string
	for _, mc := range configs {
		var n int
		if _, err := fmt.Sscanf(strings.TrimPrefix(mc.Name, "rendered-worker-"), "%x", &n); err != nil {
			out = append(out, mc.Name)
			continue
		}
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, " ")
}

func garbageNode(key, config string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{key: config}}}
}

func history(pools ...string) []v1alpha1.GitSource {
	var s v1alpha1.GitSource
	for _, name := range pools {
		s.Status.History = append(s.Status.History, v1alpha1.HistoryEntry{Pools: map[string]string{"worker": name}})
	}
	return []v1alpha1.GitSource{s}
}

func TestUnused(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(*render.Holders)
		want   string
	}{
		"the last ten of a pool stay": {func(*render.Holders) {}, "1 2 3"},
		"what a node runs stays": {func(h *render.Holders) {
			h.Nodes = append(h.Nodes, garbageNode(v1alpha1.CurrentConfigAnnotation, nth("worker", 1)))
		}, "2 3"},
		"what a node should run stays": {func(h *render.Holders) {
			h.Nodes = append(h.Nodes, garbageNode(v1alpha1.DesiredConfigAnnotation, nth("worker", 2)))
		}, "1 3"},
		"what a node first booted with stays": {func(h *render.Holders) {
			h.Nodes = append(h.Nodes, garbageNode(v1alpha1.FirstPivotConfigAnnotation, nth("worker", 3)))
		}, "1 2"},
		"a pool's target stays":      {func(h *render.Holders) { h.Pools[0].Spec.Configuration.Name = nth("worker", 1) }, "2 3"},
		"what a pool ran last stays": {func(h *render.Holders) { h.Pools[0].Status.Configuration.Name = nth("worker", 2) }, "1 3"},
		"what a pool's config is made of stays": {func(h *render.Holders) {
			h.Pools[0].Spec.Configuration.Source = []corev1.ObjectReference{{Name: nth("worker", 3)}}
		}, "1 2"},
		"what history names stays":                  {func(h *render.Holders) { h.Sources = history(nth("worker", 3), nth("worker", 2)) }, "1"},
		"what a rollout is about, and goes back to": {func(h *render.Holders) { record(h, nth("worker", 1), nth("worker", 3)) }, "2"},
		"the record that cannot be read keeps none": {func(h *render.Holders) { h.Pools[0].Annotations = map[string]string{v1alpha1.RolloutAnnotation: "{"} }, "1 2 3"},
		"the last ten are so by their age, not by their names": {func(h *render.Holders) {
			h.Configs[1].CreationTimestamp = metav1.NewTime(garbageDay.Add(-61 * time.Minute))
			h.Configs[4].CreationTimestamp = metav1.NewTime(garbageDay.Add(-61 * time.Minute))
		}, "1 3 4"},
		"one that is younger than an hour stays, even if ten younger ones are there": {func(h *render.Holders) {
			for i := range h.Configs {
				h.Configs[i].CreationTimestamp = metav1.NewTime(
					garbageDay.Add(-time.Hour + time.Duration(i)*time.Second))
			}
		}, "1"},
		"one of a pool that is gone is not ours to delete":        {func(h *render.Holders) { h.Pools = nil }, ""},
		"nor one of a pool of that name from before":              {func(h *render.Holders) { h.Pools[0].UID = "another" }, ""},
		"nor one that no controller made":                         {func(h *render.Holders) { h.Configs[0].Annotations = nil }, "2 3"},
		"nor one that no pool owns":                               {func(h *render.Holders) { h.Configs[1].OwnerReferences = nil }, "1 3"},
		"nor one that a pool owns and that is no rendered config": {func(h *render.Holders) { h.Configs[2].Name = "99-worker-mine" }, "1 2"},
		"nor one that is being deleted":                           {func(h *render.Holders) { h.Configs[2].DeletionTimestamp = &metav1.Time{Time: garbageDay} }, "1 2"},
	} {
		t.Run(sentence, func(t *testing.T) {
			h := render.Holders{
				Pools:   []mcfgv1.MachineConfigPool{garbagePool("worker")},
				Configs: rendered("worker", 1, 13),
			}
			c.change(&h)
			if got := numbers(render.Unused(h, garbageDay)); got != c.want {
				t.Errorf("unused are %q, want %q", got, c.want)
			}
		})
	}
}

func record(h *render.Holders, config, back string) {
	r := v1alpha1.RolloutRecord{Config: config, RolloutEnd: v1alpha1.RolloutEnd{Back: back}}
	h.Pools[0].Annotations = map[string]string{v1alpha1.RolloutAnnotation: r.String()}
}

func TestEachPoolHasItsOwnLastTen(t *testing.T) {
	h := render.Holders{
		Pools:   []mcfgv1.MachineConfigPool{garbagePool("worker"), garbagePool("worker-gpu")},
		Configs: append(rendered("worker-gpu", 1, 11), rendered("worker", 1, 10)...),
	}
	if got, want := numbers(render.Unused(h, garbageDay)), nth("worker-gpu", 1); got != want {
		t.Errorf("unused are %q, want %q", got, want)
	}
}

func TestMissing(t *testing.T) {
	h := render.Holders{
		Pools:   []mcfgv1.MachineConfigPool{garbagePool("worker"), garbagePool("worker-gpu")},
		Configs: rendered("worker", 1, 3),
		Nodes: []corev1.Node{
			garbageNode(v1alpha1.CurrentConfigAnnotation, nth("worker", 4)),
			garbageNode(v1alpha1.DesiredConfigAnnotation, nth("worker", 3)),
			garbageNode(v1alpha1.DesiredConfigAnnotation, nth("worker-gpu", 9)),
			garbageNode(v1alpha1.CurrentConfigAnnotation, nth("gone", 9)),
			garbageNode(v1alpha1.FirstPivotConfigAnnotation, nth("worker", 7)),
		},
		Sources: history(nth("worker", 8)),
	}
	h.Pools[0].Spec.Configuration.Name = nth("worker", 5)
	h.Pools[0].Spec.Configuration.Source = []corev1.ObjectReference{{Name: "10-worker-chrony"}}
	want := fmt.Sprint([]render.Lost{
		{Name: nth("worker", 4), Pool: "worker", For: "node n1 runs it"},
		{Name: nth("worker", 5), Pool: "worker", For: "pool worker should run it", Target: true},
		{Name: nth("worker-gpu", 9), Pool: "worker-gpu", For: "node n1 should run it"},
	})
	if got := fmt.Sprint(render.Missing(h)); got != want {
		t.Errorf("missing are\n%s, want\n%s", got, want)
	}
}
