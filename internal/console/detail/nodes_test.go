package detail_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// withNodeConfigs gives a pool nodes with configs of their own. The commit of second changes the file of the last node
// only. Every node runs its config of second.
func withNodeConfigs(count int) *world {
	w := usual()
	before, after := v1alpha1.NodeConfigs{Base: gone}, v1alpha1.NodeConfigs{Base: gone}
	base := config(gone, nil, ignition(map[string]string{"/etc/motd": "hello\n"}, ""))
	w.configs = append(w.configs, base)
	own := func(name, address string) {
		mc := config(name, map[string]string{v1alpha1.VariantOfAnnotation: gone},
			ignition(map[string]string{"/etc/motd": "hello\n", "/etc/address": address}, ""))
		w.configs = append(w.configs, mc)
	}
	node := w.Nodes[0]
	w.Nodes = nil
	for i := range count {
		name, is := fmt.Sprintf("worker-%03d", i), fmt.Sprintf("rendered-worker-%032x", 0xa000+i)
		own(is, fmt.Sprintf("10.0.0.%d\n", i))
		before.Set(name, is)
		if i == count-1 {
			is = fmt.Sprintf("rendered-worker-%032x", 0xb000)
			own(is, "10.9.9.9\n")
		}
		after.Set(name, is)
		n := *node.DeepCopy()
		n.Name = name
		n.Annotations[v1alpha1.CurrentConfigAnnotation], n.Annotations[v1alpha1.DesiredConfigAnnotation] = is, is
		w.Nodes = append(w.Nodes, n)
	}
	for _, mc := range w.configs {
		switch mc.Name {
		case first:
			mc.Annotations[v1alpha1.NodeConfigsAnnotation], mc.Spec = before.String(), base.Spec
		case second:
			mc.Annotations[v1alpha1.NodeConfigsAnnotation], mc.Spec = after.String(), base.Spec
		}
	}
	w.rows()
	return w
}

// TestAPoolWithNodeConfigsIsOneTarget: the page of a commit that changes one node of a pool is about this node,
// whatever the number of nodes with configs of their own.
func TestAPoolWithNodeConfigsIsOneTarget(t *testing.T) {
	for _, count := range []int{1, 3, 400} {
		w := withNodeConfigs(count)
		last := fmt.Sprintf("worker-%03d", count-1)
		got := html(t, w.session(), "commit "+commitB)
		checkHTML(t, got)
		for _, want := range []string{
			"worker (node " + last + ")", "/etc/address", "10.9.9.9", "Config before", first,
			"<h2>Nodes that run it now</h2>",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%d nodes: the page does not say %q:\n%s", count, want, got)
			}
		}
		running := fmt.Sprintf("<p>%d node", count)
		for _, wrong := range []string{">0 nodes", "There is nothing to compare"} {
			if strings.Contains(got, wrong) || !strings.Contains(got, running) {
				t.Errorf("%d nodes: the page says %q, or not %q:\n%s", count, wrong, running, got)
			}
		}
		times := html(t, w.session(), "timeline worker")
		if strings.Contains(times, "not begun") && !strings.Contains(times, "0 not begun") {
			t.Errorf("%d nodes: the timeline does not know that all nodes are done:\n%s", count, times)
		}
	}
}
