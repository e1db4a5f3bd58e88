package view_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/reconcile/render"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
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
	for _, count := range []int{1, 3, 1000} {
		w := withNodeConfigs(count)
		last := fmt.Sprintf("worker-%03d", count-1)
		got := detailHtml(t, w.session(), "commit "+commitB)
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
		times := detailHtml(t, w.session(), "timeline worker")
		if strings.Contains(times, "not begun") && !strings.Contains(times, "0 not begun") {
			t.Errorf("%d nodes: the timeline does not know that all nodes are done:\n%s", count, times)
		}
	}
}

func fileDocument(path, text string) *fstest.MapFile {
	return &fstest.MapFile{Data: fmt.Appendf(nil, "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n"+
		"    - {path: %s, contents: {inline: %q}}\n", path, text)}
}

// siteRepository has a document of the whole pool, one with the facts of each node, and one of the last node alone.
func siteRepository(count int, motd string) fstest.MapFS {
	tree := fstest.MapFS{
		"pools/worker/10-motd.bu":    fileDocument("/etc/motd", motd),
		"pools/worker/15-name.bu":    fileDocument("/etc/hostname", "to be named"),
		"pools/worker/20-name.bu":    fileDocument("/etc/hostname", "${node.name}"),
		"pools/worker/30-address.bu": fileDocument("/etc/address", "${node.address}"),
	}
	rows := ""
	for i := range count {
		rows += fmt.Sprintf("worker-%03d: {address: 10.0.%d.%d}\n", i, i/250, i%250)
	}
	tree["pools/worker/nodes.yaml"] = &fstest.MapFile{Data: []byte(rows)}
	tree[fmt.Sprintf("pools/worker/nodes/worker-%03d/40-own.bu", count-1)] = fileDocument("/etc/own", "mine")
	return tree
}

// rendered adds the configs of a repository to the cluster, as the controllers do, and returns the pool's config. With
// applied, the cluster has the MachineConfigs of the repository as well.
func (w *world) rendered(t *testing.T, tree fstest.MapFS, revision string, applied bool) render.Rendered {
	t.Helper()
	res := transpile.Fragments(source.Tree{FS: tree})
	if res.Report.Fatal() {
		t.Fatal(res.Report)
	}
	all := review.Render(res, &render.Renderer{}, render.Defaults{}, nil)
	if all.Err != nil {
		t.Fatal(all.Err)
	}
	r := all.Pools[0].Rendered
	inputs := map[string]string{}
	for _, f := range res.Fragments {
		inputs[f.Name] = f.Digest
		files, err := json.Marshal(f.Origin.Files)
		if err != nil {
			t.Fatal(err)
		}
		if applied {
			mc := f.MachineConfig.DeepCopy()
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.FileAnnotation, string(files))
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.DigestAnnotation, f.Digest)
			w.configs = append(w.configs, mc)
		}
	}
	list, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	add := func(r render.Rendered, nodes string) {
		if slices.ContainsFunc(w.configs, func(mc *mcfgv1.MachineConfig) bool { return mc.Name == r.Name }) {
			return
		}
		mc := &mcfgv1.MachineConfig{Spec: r.Spec}
		mc.Name, mc.Annotations = r.Name, map[string]string{
			v1alpha1.InputsAnnotation: string(list), v1alpha1.NodeConfigsAnnotation: r.Nodes.String(),
			v1alpha1.VariantOfAnnotation: r.VariantOf, v1alpha1.VariantNodesAnnotation: nodes,
			v1alpha1.RevisionAnnotation: revision, v1alpha1.SourceAnnotation: "os",
		}
		mc.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineConfigPool", Name: "worker"}}
		w.configs = append(w.configs, mc)
	}
	add(r, "")
	for _, node := range append([]string{""}, slices.Sorted(maps.Keys(r.Nodes.Nodes))...) {
		own, err := r.Node(node)
		if err != nil {
			t.Fatal(err)
		}
		add(own, node)
	}
	return r
}

// site is a cluster whose pool has gone from one commit of a repository to the next. The last of its nodes still runs
// its config of the first one. One more node has no row.
func site(t *testing.T, count int) *world {
	t.Helper()
	return siteAfter(t, count, siteRepository(count, "welcome"))
}

// siteAfter is site with another second commit.
func siteAfter(t *testing.T, count int, after fstest.MapFS) *world {
	t.Helper()
	w := usual()
	w.configs, w.others = nil, nil
	was := w.rendered(t, siteRepository(count, "hello"), commitA, false)
	is := w.rendered(t, after, commitB, true)
	node := w.Nodes[0]
	w.Nodes = nil
	for i := range count + 1 {
		n := *node.DeepCopy()
		n.Name = fmt.Sprintf("worker-%03d", i)
		own := is.Nodes.Of(n.Name)
		n.Annotations[v1alpha1.DesiredConfigAnnotation] = own
		if i == count-1 {
			own = was.Nodes.Of(n.Name)
		}
		n.Annotations[v1alpha1.CurrentConfigAnnotation] = own
		w.Nodes = append(w.Nodes, n)
	}
	for name, text := range w.Pools[0].Annotations {
		w.Pools[0].Annotations[name] = strings.NewReplacer(first, was.Name, second, is.Name).Replace(text)
	}
	w.Pools[0].Spec.Configuration.Name, w.Pools[0].Status.Configuration.Name = is.Name, was.Name
	for i := range w.Sources[0].Status.History {
		pools := w.Sources[0].Status.History[i].Pools
		pools["worker"] = strings.NewReplacer(first, was.Name, second, is.Name).Replace(pools["worker"])
	}
	w.rows()
	return w
}

// TestASearchNamesTheDocumentsOfNodes: an item of a document with facts, or of a document of one node, is found in the
// configs of these nodes with its document, whatever the number of nodes.
func TestASearchNamesTheDocumentsOfNodes(t *testing.T) {
	for _, count := range []int{1, 3, 1000} {
		w := site(t, count)
		last := fmt.Sprintf("worker-%03d", count-1)
		for query, wants := range map[string][]string{
			"hostname": {
				"set by 20-worker-name   pools/worker/20-name.bu, in place of 15-worker-name   pools/worker/15-name.bu",
				"set by 15-worker-name   pools/worker/15-name.bu<",
			},
			"/etc/address": {"set by 30-worker-address   pools/worker/30-address.bu, pools/worker/nodes.yaml<"},
			"/etc/own": {
				"set by 40-worker-own   pools/worker/nodes/" + last + "/40-own.bu<", "for node " + last +
					", not on it now",
			},
			"/etc/motd": {"set by 10-worker-motd   pools/worker/10-motd.bu<"},
		} {
			got := detailHtml(t, w.session(), "search "+query)
			checkHTML(t, got)
			for _, want := range wants {
				if !strings.Contains(got, want) {
					t.Errorf("%d nodes, %s: the page does not say %q:\n%.3000s", count, query, want, got)
				}
			}
			if strings.Contains(got, "controller&#39;s defaults") || len(got) > 8<<10 {
				t.Errorf("%d nodes, %s: %d bytes, or an unknown origin:\n%.3000s", count, query, len(got), got)
			}
		}
		node := detailHtml(t, w.session(), "node worker-000")
		if want := "20-worker-name   pools/worker/20-name.bu"; !strings.Contains(node, want) {
			t.Errorf("%d nodes: the page of a node does not say %q:\n%s", count, want, node)
		}
		own := w.Nodes[0].Annotations[v1alpha1.DesiredConfigAnnotation]
		if p := detailHtml(t, w.session(), "commit "+own); !strings.Contains(p, w.Pools[0].Spec.Configuration.Name) {
			t.Errorf("%d nodes: the config of a node has no page:\n%.2000s", count, p)
		}
	}
}

// changes are second commits of a site, by what they change.
var changes = map[string]func(count int) fstest.MapFS{
	"pool": func(count int) fstest.MapFS { return siteRepository(count, "welcome") },
	"row": func(count int) fstest.MapFS {
		tree := siteRepository(count, "hello")
		rows := strings.Replace(string(tree["pools/worker/nodes.yaml"].Data), "10.0.0.0}", "10.9.9.9}", 1)
		tree["pools/worker/nodes.yaml"] = &fstest.MapFile{Data: []byte(rows)}
		return tree
	},
	"facts": func(count int) fstest.MapFS {
		tree := siteRepository(count, "hello")
		tree["pools/worker/30-address.bu"] = fileDocument("/etc/address", "at ${node.address}")
		return tree
	},
}

// TestOneTargetInEveryView: a pool of 1, 3 or 1,000 nodes with configs of their own is one target, one rollout and one
// row in every view, and no view grows with the nodes.
func TestOneTargetInEveryView(t *testing.T) {
	for _, count := range []int{1, 3, 1000} {
		for what, after := range changes {
			t.Run(fmt.Sprintf("%s/%d", what, count), func(t *testing.T) {
				w := siteAfter(t, count, after(count))
				target := w.Pools[0].Spec.Configuration.Name
				updated := count
				if what == "row" && count > 1 {
					updated++ // The change is not about the last node.
				}
				s := w.session()
				view := func(name string, most int, of func() string) string {
					began := time.Now()
					got := of()
					t.Logf("%-20s %7d bytes in %v, %d reads", name, len(got), time.Since(began).Round(time.Millisecond),
						len(w.reads))
					if len(got) > most {
						t.Errorf("%s has %d bytes, and at most %d are sane", name, len(got), most)
					}
					return got
				}
				commit := view("commit page", 100<<10, func() string { return detailHtml(t, s, "commit "+commitB) })
				checkHTML(t, commit)
				for _, wrong := range []string{"There is nothing to compare", "cannot be compared", ">0 nodes<"} {
					if strings.Contains(commit, wrong) {
						t.Errorf("the page of the commit says %q", wrong)
					}
				}
				if !strings.Contains(commit, fmt.Sprintf(">%d of %d updated<", updated, count+1)) {
					t.Error("the page of the commit does not know how many nodes are updated")
				}
				nodes := map[string]int{"pool": count + 1, "row": 1, "facts": count}[what]
				if what == "facts" && count == 1000 {
					nodes = 100
					if !strings.Contains(commit, "900 more nodes with configs of their own change too") {
						t.Error("the page of the commit does not say which nodes it leaves out")
					}
				}
				forecast := fmt.Sprintf("<th scope=\"row\">Reboots</th><td>%d</td>", nodes)
				if !strings.Contains(commit, forecast) {
					t.Errorf("the page of the commit does not forecast %d reboots:\n%s", nodes,
						commit[strings.Index(commit, "commit-forecast"):])
				}
				checkHTML(t, view("timeline page", 400<<10,
					func() string { return detailHtml(t, s, "timeline worker") }))
				checkHTML(t, view("search", 8<<10, func() string { return detailHtml(t, s, "search chrony") }))

				h, err := history.New(w.Cluster, "worker", noon)
				if err != nil {
					t.Fatal(err)
				}
				text := view("history", 4<<10, func() string { return h.Text(noon) })
				if strings.Count(text, "rendered-worker-") != 3 || strings.Contains(text, "not in the history") {
					t.Errorf("the history of three commits is:\n%s", text)
				}
				view("history as JSON", 8<<10, func() string { return jsonOf(t, h) })
				if rows := view("get rendered", 4<<10, func() string {
					return fleet.RenderedText(w.Rendered, noon)
				}); strings.Count(rows, "\n") > 6 {
					t.Errorf("the table of configs is:\n%s", rows)
				}
				status := inspect.NewStatus(w.Cluster, noon)
				if p := status.Pools[0]; p.Nodes != count+1 || p.Updated != updated || p.Target != target {
					t.Errorf("status: %d of %d nodes run %s", p.Updated, p.Nodes, p.Target)
				}
				why, err := inspect.WhyPool(w.Cluster, "worker", noon)
				if err != nil {
					t.Fatal(err)
				}
				view("why", 4<<10, func() string { return why.Text(noon) })
				for i, commit := range map[int]string{0: commitB, count - 1: commitA, count: commitB} {
					if i == count-1 && updated > count || i == 0 && count == 1 {
						continue
					}
					node := w.Nodes[i]
					of, err := inspect.WhyNode(w.Cluster, node.Name, noon)
					if err != nil {
						t.Fatal(err)
					}
					if of.Target.Name != node.Annotations[v1alpha1.DesiredConfigAnnotation] ||
						of.Target.Revision != commitB || of.Runs.Revision != commit ||
						(of.Runs.Name == of.Target.Name) != (commit == commitB) {
						t.Errorf("node %s runs %s of %s, and its target is %s of %s", node.Name, of.Runs.Name,
							of.Runs.Revision, of.Target.Name, of.Target.Revision)
					}
				}
				back, err := inspect.NewRollback(w.Cluster, inspect.RollbackRequest{Pool: "worker", Now: noon})
				if err != nil || back.To.Revision != commitA {
					t.Errorf("the rollback leads to %+v, %v", back.To, err)
				}
			})
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
