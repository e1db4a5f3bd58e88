package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/rollout"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

const timed = `-- pools/worker/10-chrony.bu --
variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/chrony.conf
      contents: {inline: "server ntp.example.org"}
`

const addressed = `-- pools/worker/20-network.bu --
variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/address
      contents: {inline: "${node.address}"}
`

func rows(addresses ...string) string {
	var b strings.Builder
	b.WriteString("-- pools/worker/nodes.yaml --\n")
	for i, a := range addresses {
		fmt.Fprintf(&b, "worker-%d: {address: %s}\n", i+1, a)
	}
	return b.String()
}

// nodeFacts are the facts of pool worker with nodes that run the given configs.
func nodeFacts(t *testing.T, w *world, runs map[string]string) poolstate.Facts {
	t.Helper()
	var store rollout.NodeConfigStore
	for _, mc := range w.Configs() {
		store.Put(mc)
	}
	f := poolstate.Read(w.Pool(membership.Worker), nil, poolstate.Published{}, len(runs))
	f.SetNodeConfigs(store.Of)
	var nodes []poolstate.Node
	for _, name := range []string{"worker-1", "worker-2", "worker-3", "worker-4"} {
		nodes = append(nodes, poolstate.Node{
			Name: name, State: v1alpha1.StateDone,
			Config: poolstate.Configs{Current: version(runs[name]), Desired: version(runs[name])},
			Health: poolstate.Health{ReadySince: w.Now.Add(-time.Hour)},
		})
	}
	f.MaxUnavailable = 4
	f.SetNodes(nodes)
	return f
}

// rollOut carries out decisions until the pool is updated. It returns the assignments.
func rollOut(t *testing.T, w *world, runs map[string]string) map[string]string {
	t.Helper()
	assigned := map[string]string{}
	for range 5 {
		f := nodeFacts(t, w, runs)
		d := rollout.Next(f, w.Now)
		for _, a := range d.Assign {
			assigned[a.Node], runs[a.Node] = a.Config.String(), a.Config.String()
		}
		if len(d.Assign) == 0 {
			if d.Counts.Updated != len(runs) {
				t.Fatalf("%d nodes of %d are updated: %+v", d.Counts.Updated, len(runs), d.Blocks)
			}
			return assigned
		}
	}
	t.Fatal("the rollout does not end")
	return nil
}

func TestThreeNodesFromOneDocumentThenRowByRow(t *testing.T) {
	w := newWorld(t)
	w.push("chrony", timed)
	plain := w.renderPool("worker")
	w.push("rows", timed, addressed, rows("192.0.2.1", "192.0.2.2", "192.0.2.3"))
	first := w.renderPool("worker")
	of, err := v1alpha1.ParseNodeConfigs(w.Config(first).Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil || of.Base != plain || len(of.Nodes) != 3 {
		t.Fatalf("the target %s has %+v, %v; the other nodes keep %s", first, of, err, plain)
	}
	for node, address := range map[string]string{
		"worker-1": "192.0.2.1", "worker-2": "192.0.2.2",
		"worker-3": "192.0.2.3",
	} {
		mc := w.Config(of.Of(node))
		if !strings.Contains(string(mc.Spec.Config.Raw), "data:,"+address) ||
			mc.Annotations[v1alpha1.VariantOfAnnotation] != plain {
			t.Errorf("the config of %s is %s", node, mc.Spec.Config.Raw)
		}
		if err := machineconfig.CheckName("worker", mc, mc.Spec); err != nil {
			t.Error(err)
		}
	}
	runs := map[string]string{"worker-1": plain, "worker-2": plain, "worker-3": plain, "worker-4": plain}
	assigned := rollOut(t, w, runs)
	if len(assigned) != 3 || assigned["worker-2"] != of.Of("worker-2") || runs["worker-4"] != plain {
		t.Errorf("assigned %v", assigned)
	}
	objects := len(w.Configs())
	w.push("one row", timed, addressed, rows("192.0.2.1", "198.51.100.2", "192.0.2.3"))
	second := w.renderPool("worker")
	if n := len(w.Configs()) - objects; n != 2 || second == first {
		t.Errorf("%d new objects for one row, want its config and the target %s", n, second)
	}
	if assigned = rollOut(t, w, runs); len(assigned) != 1 ||
		!strings.Contains(string(w.Config(assigned["worker-2"]).Spec.Config.Raw), "198.51.100.2") {
		t.Errorf("assigned %v for the row of worker-2", assigned)
	}
	w.push("revert", timed, addressed, rows("192.0.2.1", "192.0.2.2", "192.0.2.3"))
	if back := w.renderPool("worker"); back != first {
		t.Errorf("a revert renders %s, want %s", back, first)
	}
	if assigned = rollOut(t, w, runs); len(assigned) != 1 || assigned["worker-2"] != of.Of("worker-2") {
		t.Errorf("assigned %v after the revert", assigned)
	}
	w.push("no rows", timed)
	if last := w.renderPool("worker"); last != plain {
		t.Errorf("without rows the config is %s, want %s", last, plain)
	}
	if assigned = rollOut(t, w, runs); len(assigned) != 3 {
		t.Errorf("assigned %v without rows", assigned)
	}
}

func TestARevertedPoolReturnsEachNodeToItsOwnConfig(t *testing.T) {
	w := newWorld(t)
	w.push("rows", timed, addressed, rows("192.0.2.1", "192.0.2.2"))
	first := w.renderPool("worker")
	w.push("one row", timed, addressed, rows("192.0.2.1", "198.51.100.2"))
	second := w.renderPool("worker")
	before, _ := v1alpha1.ParseNodeConfigs(w.Config(first).Annotations[v1alpha1.NodeConfigsAnnotation])
	after, _ := v1alpha1.ParseNodeConfigs(w.Config(second).Annotations[v1alpha1.NodeConfigsAnnotation])
	record := v1alpha1.RolloutRecord{RolloutEnd: v1alpha1.RolloutEnd{
		Verdict: v1alpha1.RolloutReverted,
		Why:     "worker-2 failed",
	}}
	record.SetTarget(version(second))
	record.SetLastHealthy(version(first))
	record.SetReturnsTo(version(first))
	pool := w.Pool("worker")
	pool.Annotations[v1alpha1.RolloutAnnotation] = record.String()
	if err := w.Client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	d := rollout.Next(nodeFacts(t, w, map[string]string{
		"worker-1": before.Of("worker-1"),
		"worker-2": after.Of("worker-2"), "worker-3": before.Base, "worker-4": before.Base,
	}), w.Now)
	if len(d.Assign) != 1 || d.Assign[0].Node != "worker-2" || d.Assign[0].Config != version(before.Of("worker-2")) {
		t.Errorf("assigned %+v, want only worker-2 to return to %s", d.Assign, before.Of("worker-2"))
	}
}

func TestAConfigOfSingleNodesNamesItsNodes(t *testing.T) {
	w := newWorld(t)
	owners := func(config string) string { return w.Config(config).Annotations[v1alpha1.VariantNodesAnnotation] }
	target := func(addresses ...string) v1alpha1.NodeConfigs {
		w.push("rows", timed, addressed, rows(addresses...))
		of, err := v1alpha1.ParseNodeConfigs(w.Config(w.renderPool("worker")).
			Annotations[v1alpha1.NodeConfigsAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	first := target("192.0.2.1", "192.0.2.2", "192.0.2.2")
	if owners(first.Base) != "" || owners(first.Of("worker-1")) != "worker-1" ||
		owners(first.Of("worker-2")) != "worker-2,worker-3" {
		t.Errorf("the nodes of the configs are %q, %q, %q", owners(first.Base), owners(first.Of("worker-1")),
			owners(first.Of("worker-2")))
	}
	// The first two nodes swap their rows, and keep the right to the earlier config.
	second := target("192.0.2.2", "192.0.2.1", "192.0.2.2")
	if second.Of("worker-1") != first.Of("worker-2") || owners(second.Of("worker-1")) != "worker-1,worker-2,worker-3" ||
		owners(second.Of("worker-2")) != "worker-1,worker-2" {
		t.Errorf("the nodes of the configs are %q and %q", owners(second.Of("worker-1")), owners(second.Of("worker-2")))
	}
	// A user removes the names. The next render writes those of now.
	edited := w.Config(second.Of("worker-1"))
	edited.Annotations = map[string]string{v1alpha1.VariantOfAnnotation: second.Base}
	if err := w.Client.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	if w.renderPool("worker"); owners(second.Of("worker-1")) != "worker-1,worker-3" {
		t.Errorf("the nodes of the edited config are %q", owners(second.Of("worker-1")))
	}
}

// TestSecretPathsReachTheConfigsOfSingleNodes: those that exist already, and those that a user deleted.
func TestSecretPathsReachTheConfigsOfSingleNodes(t *testing.T) {
	w := newWorld(t)
	w.push("rows", timed, addressed, rows("192.0.2.1", "192.0.2.2", "192.0.2.2"))
	target := w.renderPool("worker")
	w.follow()
	of, err := v1alpha1.ParseNodeConfigs(w.Config(target).Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
		p.Annotations[v1alpha1.SecretPathsAnnotation] = "/etc/address"
	})
	w.renderPool("worker")
	all := []string{target, of.Base, of.Of("worker-1"), of.Of("worker-2")}
	marked := func(because string) {
		t.Helper()
		for _, name := range all {
			controllertest.Equal(t, because+" on "+name, w.Config(name).Annotations[v1alpha1.SecretPathsAnnotation],
				"/etc/address")
		}
	}
	marked("the secret paths")
	controllertest.Equal(t, "those of the pool", w.Pool("worker").Annotations[v1alpha1.PoolSecretPathsAnnotation],
		"/etc/address")
	owners := w.Config(of.Of("worker-2")).Annotations[v1alpha1.VariantNodesAnnotation]

	w.push("other rows", timed, addressed, rows("198.51.100.1", "198.51.100.2", "198.51.100.2"))
	w.renderPool("worker")
	w.follow()
	w.Create(controllertest.Node("worker-1", of.Of("worker-1"), of.Of("worker-1")))
	w.Create(controllertest.Node("worker-2", of.Of("worker-2"), of.Of("worker-2")))
	w.Create(controllertest.Node("worker-4", of.Base, of.Base))
	w.Create(controllertest.Node("worker-5", target, target))
	for _, name := range all {
		w.Remove(w.Config(name))
	}
	w.restart()
	g := w.garbage()
	for range 6 { // it makes one after the other
		w.sweep(g)
		w.Now = w.Now.Add(time.Minute)
	}
	marked("the secret paths of configs made again")
	controllertest.Equal(t, "the nodes of a config made again",
		w.Config(of.Of("worker-2")).Annotations[v1alpha1.VariantNodesAnnotation], owners)
}

func TestAPoolIsNotHeldAtATargetWithoutTheConfigsOfItsNodes(t *testing.T) {
	w := newWorld(t)
	w.push("rows", timed, addressed, rows("192.0.2.1", "192.0.2.2"))
	first := w.renderPool("worker")
	of, _ := v1alpha1.ParseNodeConfigs(w.Config(first).Annotations[v1alpha1.NodeConfigsAnnotation])
	w.push("one row", timed, addressed, rows("192.0.2.1", "198.51.100.2"))
	second := w.renderPool("worker")
	w.hold(of.Of("worker-2"), "")
	if at := w.renderPool("worker"); at != second {
		t.Errorf("a hold at the config of one node leads to %s, want %s", at, second)
	}
	w.hold(first, "")
	if at := w.renderPool("worker"); at != first {
		t.Errorf("the hold leads to %s, want %s", at, first)
	}
	w.hold("", "")
	if at := w.renderPool("worker"); at != second {
		t.Errorf("the release leads to %s, want %s", at, second)
	}
	w.Remove(w.Config(of.Of("worker-2")))
	w.hold(first, "")
	if at := w.renderPool("worker"); at != second {
		t.Errorf("a hold without the configs of the nodes leads to %s, want %s", at, second)
	}
	controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
		mcfgv1.MachineConfigPoolRenderDegraded), "True|", "has deleted the configs of its single nodes, such as "+
		of.Of("worker-2"))
}

func TestADeletedConfigOfANodeIsMissingAndAnUnusedOneIsGarbage(t *testing.T) {
	w := newWorld(t)
	w.push("rows", timed, addressed, rows("192.0.2.1", "192.0.2.2"))
	first := w.renderPool("worker")
	of, _ := v1alpha1.ParseNodeConfigs(w.Config(first).Annotations[v1alpha1.NodeConfigsAnnotation])
	h := func() render.Holders {
		out := render.Holders{Pools: []mcfgv1.MachineConfigPool{*w.Pool("worker")}}
		for _, mc := range w.Configs() {
			out.Configs = append(out.Configs, *mc)
		}
		return out
	}
	if missing := render.Missing(h()); len(missing) != 0 {
		t.Errorf("missing %+v", missing)
	}
	w.Remove(w.Config(of.Of("worker-2")))
	if missing := render.Missing(h()); len(missing) != 1 || missing[0].Name != of.Of("worker-2") || !missing[0].Target {
		t.Errorf("missing %+v", missing)
	}
	if w.renderPool("worker"); len(render.Missing(h())) != 0 {
		t.Error("the render controller does not create the config again")
	}
}

// version reads a config in the form of v1alpha1.ConfigVersion.String.
func version(text string) v1alpha1.ConfigVersion { return v1alpha1.ParseConfigVersion(text) }
