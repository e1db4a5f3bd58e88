package forecast_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/reconcile/render"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// table is what a repository says about the nodes of pool worker. Numbers stand for contents.
type table struct {
	Common, Shared int
	// Rows are the addresses of nodes, and Own the documents of single nodes.
	Rows, Own map[string]int
}

const document = `variant: fcos
version: 1.6.0
storage:
  files:
    - path: %s
      mode: 0644
      contents: {inline: "%s"}
`

// template is a file with a reference to a secret beside a fact, and reference is a file that is one reference.
const (
	template = `    - path: /etc/restart/secret
      mode: 0600
      template: true
      contents: {inline: "${node.address} by %d ${secret:shared/key}"}
`
	reference = `    - path: /etc/reload/secret
      mode: 0600
      contents: {source: "secret:own-%d/key"}
`
)

func (r table) tree() fstest.MapFS {
	fs := fstest.MapFS{}
	add := func(name, text string) { fs["pools/worker/"+name] = &fstest.MapFile{Data: []byte(text)} }
	add("10-common.bu", fmt.Sprintf(document, "/etc/none/common", fmt.Sprint("common ", r.Common)))
	if len(r.Rows) > 0 {
		add("20-shared.bu", fmt.Sprintf(document, "/etc/reload/address",
			fmt.Sprintf("${node.address} of ${node.name} by %d", r.Shared))+fmt.Sprintf(template, r.Shared/2))
		rows := ""
		for _, node := range slices.Sorted(maps.Keys(r.Rows)) {
			rows += fmt.Sprintf("%s: {address: 192.0.2.%d}\n", node, r.Rows[node])
		}
		add("nodes.yaml", rows)
	}
	for node, own := range r.Own {
		add("nodes/"+node+"/30-own.bu", fmt.Sprintf(document, []string{"/etc/drain/own", "/etc/own"}[own%2],
			fmt.Sprint("own ", own))+fmt.Sprintf(reference, own/2))
	}
	return fs
}

// randomTable changes a table at random.
func randomTable(r *rand.Rand, before table) table {
	out := table{before.Common, before.Shared, maps.Clone(before.Rows), maps.Clone(before.Own)}
	for range 1 + r.IntN(3) {
		node := fmt.Sprint("worker-", r.IntN(5))
		switch r.IntN(7) {
		case 0:
			out.Common++
		case 1:
			out.Shared++
		case 2:
			delete(out.Rows, node)
		case 3:
			delete(out.Own, node)
		case 4:
			out.Own[node] = r.IntN(4)
		default:
			out.Rows[node] = 1 + r.IntN(3)
		}
	}
	return out
}

// renderedTable renders the repository.
func renderedTable(t *testing.T, r table) (review.Side, render.Rendered, []transpile.Fragment) {
	t.Helper()
	res := transpile.Fragments(source.Tree{FS: r.tree()})
	if res.Report.Fatal() {
		t.Fatalf("%+v:\n%s", r, res.Report)
	}
	out := review.Render(res, &render.Renderer{}, render.Defaults{}, nil)
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	side := out.Side("side")
	side.Policy = house
	return side, out.Pools[0].Rendered, res.Fragments
}

// liveConfigs is the same as a cluster has it, with or without the table of the nodes.
func liveConfigs(t *testing.T, r render.Rendered, fragments []transpile.Fragment) (*mcfgv1.MachineConfig,
	map[string]*mcfgv1.MachineConfig,
) {
	t.Helper()
	live, inputs := map[string]*mcfgv1.MachineConfig{}, map[string]string{}
	for _, f := range fragments {
		mc := f.MachineConfig.DeepCopy()
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.DigestAnnotation, f.Digest)
		live[f.Name], inputs[f.Name] = mc, f.Digest
	}
	list, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	add := func(r render.Rendered) *mcfgv1.MachineConfig {
		mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name: r.Name,
			Annotations: map[string]string{
				v1alpha1.NodeConfigsAnnotation: r.Nodes.String(), v1alpha1.InputsAnnotation: string(list),
			},
		}, Spec: r.Spec}
		live[r.Name] = mc
		return mc
	}
	target := add(r)
	for node := range r.Nodes.Nodes {
		own, err := r.Node(node)
		if err != nil {
			t.Fatal(err)
		}
		add(own)
	}
	return target, live
}

// liveSide is a side of a review with these configs.
func liveSide(t *testing.T, r render.Rendered, fragments []transpile.Fragment) review.Side {
	t.Helper()
	target, live := liveConfigs(t, r, fragments)
	p, err := review.LivePool("worker", target)
	if err == nil {
		p, err = review.WithLiveNodes(p, target, live)
	}
	if err != nil {
		t.Fatal(err)
	}
	return review.Side{Name: "side", Policy: house, Pools: map[string]review.Pool{"worker": p}}
}

// liveSides are both sides of a review of two configs of a cluster, as the console compares them. The cluster has the
// table of the second one.
func liveSides(t *testing.T, was, is render.Rendered, fragments [2][]transpile.Fragment) (base, head review.Side,
	byTable bool,
) {
	t.Helper()
	from, olds := liveConfigs(t, was, fragments[0])
	to, live := liveConfigs(t, is, fragments[1])
	for name, mc := range olds {
		if live[name] == nil {
			live[name] = mc
		}
	}
	change, err := review.NewLiveChange([2]string{"worker", "worker"}, [2]*mcfgv1.MachineConfig{from, to})
	if err != nil {
		t.Fatal(err)
	}
	base, head = review.Side{Name: "side", Policy: house, Pools: map[string]review.Pool{}},
		review.Side{Name: "side", Policy: house, Pools: map[string]review.Pool{}}
	if table := live[machineconfig.FactName("worker")]; table != nil {
		base.Pools["worker"], head.Pools["worker"], byTable = change.WithTable(table)
	}
	if byTable {
		return base, head, true
	}
	read := map[string]*mcfgv1.MachineConfig{}
	for _, name := range change.ConfigsOf(change.ChangedNodes()) {
		read[name] = live[name]
	}
	base.Pools["worker"], head.Pools["worker"], err = change.With(change.ChangedNodes(), read)
	if err != nil {
		t.Fatal(err)
	}
	return base, head, false
}

// resolved is a config with the value of each secret, which is its reference in brackets.
func resolved(t *testing.T, c machineconfig.Config) machineconfig.Config {
	t.Helper()
	files, err := machineconfig.SecretFiles(c)
	contents := map[string][]byte{}
	for _, f := range files {
		var wrong error
		contents[f.Path], wrong = f.Content.Expand(func(r machineconfig.SecretReference) ([]byte, error) {
			return []byte("<" + r.String() + ">"), nil
		})
		err = errors.Join(err, wrong)
	}
	out, wrong := machineconfig.ResolveSecrets(c, contents)
	if err := errors.Join(err, wrong); err != nil {
		t.Fatal(err)
	}
	return out
}

// ofNodes is the forecast of each node in a review, and of the nodes without own configs under the empty name.
func ofNodes(t *testing.T, base, head review.Side) map[string]forecast {
	t.Helper()
	text, err := json.Marshal(review.Compare(base, head))
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Pools []struct {
			forecast
			From, To string
			Nodes    []string
		}
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	out := map[string]forecast{}
	for _, p := range read.Pools {
		if p.From == p.To {
			continue
		}
		if p.Nodes == nil {
			p.Nodes = []string{""}
		}
		for _, node := range p.Nodes {
			if _, twice := out[node]; twice {
				t.Errorf("node %q has two entries", node)
			}
			out[node] = p.forecast
		}
	}
	return out
}

// TestEachNodeDoesWhatItsForecastSays changes rows and documents of single nodes at random. A node whose config does
// not change has no forecast. Each other node has one, which is that of its own two configs, and a machine does just
// that. A review against the cluster says the same, whether the cluster still has the table or not.
func TestEachNodeDoesWhatItsForecastSays(t *testing.T) {
	var n counts
	moved, stayed, tables := 0, 0, 0
	before := table{Rows: map[string]int{"worker-0": 1, "worker-1": 2}, Own: map[string]int{}}
	for i := range uint64(min(*pairs, 150)) { //nolint:gosec // a count
		after := randomTable(rand.New(rand.NewPCG(*seed, i)), before)
		base, was, fragments := renderedTable(t, before)
		head, is, next := renderedTable(t, after)
		said := ofNodes(t, base, head)
		for _, node := range []string{"", "worker-0", "worker-1", "worker-2", "worker-3", "worker-4"} {
			from, err := was.Node(node)
			if err != nil {
				t.Fatal(err)
			}
			to, err := is.Node(node)
			if err != nil {
				t.Fatal(err)
			}
			own := was.Nodes.Nodes[node]+is.Nodes.Nodes[node] != ""
			if node != "" && !own {
				continue
			}
			got, has := said[node]
			if from.Name == to.Name {
				stayed++
				if has {
					t.Errorf("%+v → %+v: node %q keeps %s, and the review says %+v", before, after, node, from.Name,
						got)
				}
				continue
			}
			moved++
			c := change{says: node, from: from.Config, to: to.Config, policy: house}
			if diff := cmp.Diff(reviewOf(t, c), got); diff != "" || !has {
				t.Errorf("%+v → %+v: node %q: its configs (-) and the review (+):\n%s", before, after, node, diff)
			}
			machine := change{says: node, from: resolved(t, from.Config), to: resolved(t, to.Config), policy: house}
			if diff := cmp.Diff(got, reviewOf(t, machine)); diff != "" {
				t.Errorf("%+v → %+v: node %q: the review (-) and that of the resolved configs (+):\n%s", before, after,
					node, diff)
			}
			if i%5 == 0 {
				holds(t, machine, &n)
			}
		}
		for _, known := range [][]transpile.Fragment{fragments, nil} {
			if diff := cmp.Diff(said, ofNodes(t, liveSide(t, was, known), head)); diff != "" {
				t.Errorf("%+v → %+v: the review of the repository (-) and of the cluster (+), which has %d "+
					"fragments:\n%s", before, after, len(known), diff)
			}
		}
		from, to, byTable := liveSides(t, was, is, [2][]transpile.Fragment{fragments, next})
		if byTable {
			tables++
		}
		if diff := cmp.Diff(said, ofNodes(t, from, to)); diff != "" {
			t.Errorf("%+v → %+v: the review of the repository (-) and of two configs of the cluster (+):\n%s", before,
				after, diff)
		}
		if t.Failed() {
			return
		}
		before = after
	}
	t.Logf("%d configs changed, %d did not; %+v", moved, stayed, n)
	if *pairs >= 150 && (moved < 100 || stayed < 100 || tables < 5 || n.Applied < 20) {
		t.Error("the test has lost its subject")
	}
}

// TestASharedChangeIsOneEntry: 40 nodes with documents of their own have one entry for a change of a document of the
// pool, and a changed row is an entry of one node.
func TestASharedChangeIsOneEntry(t *testing.T) {
	before := table{Rows: map[string]int{}, Own: map[string]int{}}
	for i := range 40 {
		node := fmt.Sprintf("worker-%02d", i)
		before.Own[node] = 2 * i
		if i%2 == 0 {
			before.Rows[node] = i + 1
		}
	}
	for says, c := range map[string]struct {
		change func(*table)
		want   string
	}{
		"a document of the whole pool": {func(r *table) { r.Common++ }, "worker (40 nodes): 40; "},
		"the document with facts":      {func(r *table) { r.Shared++ }, "worker (20 nodes): 20; "},
		"one row":                      {func(r *table) { r.Rows["worker-02"] = 77 }, "worker (node worker-02): 1; "},
		"equal documents of two nodes": {func(r *table) { r.Own["worker-01"], r.Own["worker-02"] = 300, 300 }, "worker (node worker-01): 1; worker (node worker-02): 1; "},
	} {
		t.Run(says, func(t *testing.T) {
			after := table{before.Common, before.Shared, maps.Clone(before.Rows), maps.Clone(before.Own)}
			c.change(&after)
			base, was, fragments := renderedTable(t, before)
			head, _, _ := renderedTable(t, after)
			for _, from := range []review.Side{base, liveSide(t, was, fragments)} {
				got := ""
				for _, p := range review.Compare(from, head).Pools {
					if len(p.Nodes) > 0 {
						got += fmt.Sprintf("%s: %d; ", p.Pool, len(p.Nodes))
					}
				}
				if got != c.want {
					t.Errorf("the entries are %q, want %q", got, c.want)
				}
			}
		})
	}
}
