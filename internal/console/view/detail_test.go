package view_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/console/view"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

var update = flag.Bool("update", false, "rewrite the pages in testdata")

// noon is when every page is made.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// The names of the configs of the tests.
const (
	first  = "rendered-worker-11111111111111111111111111111111"
	second = "rendered-worker-22222222222222222222222222222222"
	gone   = "rendered-worker-00000000000000000000000000000000"
)

var (
	commitA = "main@sha1:" + strings.Repeat("a", 40)
	commitB = "main@sha1:" + strings.Repeat("b", 40)
	commit0 = "main@sha1:" + strings.Repeat("0", 40)
)

// world is a cluster whose objects a test changes before its pages are made.
type world struct {
	fleet.Cluster
	configs []*mcfgv1.MachineConfig
	others  []client.Object
	hooks   interceptor.Funcs
	reads   map[string]int
}

func (w *world) Reader() client.Reader {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, mcfgv1.Install, operatorv1.Install} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&corev1.Event{}, "involvedObject.name",
		func(o client.Object) []string {
			return []string{o.(*corev1.Event).InvolvedObject.Name}
		})
	for _, mc := range w.configs {
		b.WithObjects(mc.DeepCopy())
	}
	for i := range w.Nodes {
		b.WithObjects(w.Nodes[i].DeepCopy())
	}
	b.WithIndex(&corev1.Event{}, "involvedObject.kind", func(o client.Object) []string {
		return []string{o.(*corev1.Event).InvolvedObject.Kind}
	})
	b.WithObjects(w.others...)
	return interceptor.NewClient(b.Build(), w.hooks)
}

type viewer struct {
	*world
	reader client.Reader
}

func (v viewer) Cluster(context.Context) (fleet.Cluster, error) { return v.world.Cluster, nil }
func (v viewer) Reader() client.Reader                          { return v.reader }

func (w *world) session() view.DetailSession {
	w.reads = map[string]int{}
	return view.DetailSession{
		Viewer: viewer{w, counting{w.Reader(), &sync.Mutex{}, w.reads}},
		Cache:  &view.DetailCache{},
	}
}

type counting struct {
	client.Reader
	mu    *sync.Mutex
	reads map[string]int
}

func (c counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	c.mu.Lock()
	c.reads[fmt.Sprintf("%T %s", o, key.Name)]++
	c.mu.Unlock()
	return c.Reader.Get(ctx, key, o, options...)
}

// ignition returns a config with files, and further fields as JSON.
func ignition(files map[string]string, more string) []byte {
	var list []string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		content := files[path]
		encoded, _ := json.Marshal("data:;base64," + base64.StdEncoding.EncodeToString([]byte(content)))
		at, _ := json.Marshal(path)
		list = append(list, fmt.Sprintf(`{"path":%s,"mode":420,"contents":{"source":%s}}`, at, encoded))
	}
	return fmt.Appendf(nil, `{"ignition":{"version":"3.5.0"},"storage":{"files":[%s]}%s}`, strings.Join(list, ","),
		more)
}

func config(name string, annotations map[string]string, raw []byte) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	mc.Spec.Config.Raw = raw
	return mc
}

func object[T any](text string) T {
	var o T
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		panic(err)
	}
	return o
}

// usual is a cluster in which a commit changes a file and a unit of pool worker: one node runs it, one reboots, one
// waits and has drift.
func usual() *world {
	w := &world{}
	w.Sources = []v1alpha1.GitSource{object[v1alpha1.GitSource](`
metadata: {name: os, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {url: "https://git.example.com/os"}
status:
  appliedRevision: ` + commitB + `
  history:
  - {revision: "` + commitB + `", subject: "chrony: use the site's servers", author: "Ada <ada@example.com>", time: "2026-01-02T11:00:00Z", pools: {worker: ` + second + `}}
  - {revision: "` + commitA + `", subject: "motd: say hello", author: "Grace <grace@example.com>", time: "2026-01-02T10:00:00Z", pools: {worker: ` + first + `}}
  - {revision: "` + commit0 + `", subject: "begin", author: "Grace <grace@example.com>", time: "2026-01-02T09:00:00Z", pools: {worker: ` + gone + `}}
`)}
	w.Pools = []mcfgv1.MachineConfigPool{object[mcfgv1.MachineConfigPool](`
metadata:
  name: worker
  annotations:
    bunsen.dev/source: os
    bunsen.dev/revision: "` + commitB + `"
    bunsen.dev/rollout: '{"config":"` + second + `","began":"2026-01-02T11:30:00Z","revision":"` + commitB + `","healthy":"` + first + `","before":"` + first + `","cause":"Push"}'
    bunsen.dev/rollout-history: '[{"revision":"` + commitA + `","config":"` + first + `","cause":"Push","before":"` + gone + `","result":"RolledOut","updated":3,"nodes":3,"began":"2026-01-02T10:01:00Z","ended":"2026-01-02T10:21:00Z"}]'
spec:
  maxUnavailable: 1
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: ` + second + `}
status:
  machineCount: 3
  configuration: {name: ` + first + `}
`)}
	for i, n := range []struct{ current, desired, state, more string }{
		{second, second, "Done", ""},
		{first, second, "Working", `, machineconfiguration.openshift.io/post-config-action: Rebooting`},
		{first, first, "Done", `, bunsen.dev/drift: '{"config":"` + first + `","items":[{"name":"/etc/motd","kind":"content","action":"Report","since":"2026-01-02T11:00:00Z","expected":{"type":"file","digest":"aaaa","mode":"0644","owner":"0:0"},"actual":{"type":"file","digest":"bbbb","mode":"0644","owner":"0:0"}},{"name":"/etc/app/secret.conf","kind":"content","action":"Repair","since":"2026-01-02T11:00:00Z","secret":true,"expected":{"type":"file","mode":"0600"},"actual":{"type":"file","mode":"0600"}}]}'`},
	} {
		w.Nodes = append(w.Nodes, object[corev1.Node](fmt.Sprintf(`
metadata:
  name: worker-%02d
  creationTimestamp: "2026-01-01T00:00:00Z"
  labels: {node-role.kubernetes.io/worker: ""}
  annotations: {machineconfiguration.openshift.io/currentConfig: %s, machineconfiguration.openshift.io/desiredConfig: %s, machineconfiguration.openshift.io/state: %s%s}
status:
  conditions: [{type: Ready, status: "True", reason: KubeletReady, lastTransitionTime: "2026-01-02T11:40:00Z"}]
`, i, n.current, n.desired, n.state, n.more)))
	}
	w.Daemons = map[string]v1alpha1.DaemonReport{}
	for i := range w.Nodes {
		name := w.Nodes[i].Name
		w.Daemons[name] = v1alpha1.DaemonReport{
			Version: "v1.2.3", Form: "service",
			Seen: metav1.NewTime(noon.Add(-20 * time.Second)), ConfigsFrom: v1alpha1.ConfigsFromServer,
		}
		rebooted := "2026-01-02T10:15:00Z"
		if i == 0 {
			rebooted = "2026-01-02T11:35:00Z"
		}
		of := object[mcfgv1.MachineConfigNode](`
metadata: {name: ` + name + `, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {node: {name: ` + name + `}, pool: {name: worker}, configVersion: {desired: ` + second + `}}
status: {conditions: [{type: RebootedNode, status: "False", reason: NotYetOccurred, message: "", lastTransitionTime: "` + rebooted + `"}, {type: Drained, status: "False", reason: NotYetOccurred, message: "", lastTransitionTime: "` + rebooted + `"}]}
`)
		w.others = append(w.others, &of)
	}
	event := object[corev1.Event](`
metadata: {name: worker-02.1, namespace: default}
involvedObject: {kind: Node, name: worker-02}
type: Warning
reason: DriftDetected
message: "/etc/motd differs"
count: 3
lastTimestamp: "2026-01-02T11:59:00Z"
`)
	w.others = append(w.others, &event)
	forged := *event.DeepCopy()
	forged.Name, forged.Reason, forged.Source.Host = "worker-02.forged", "ConfigApplied", "worker-01"
	w.others = append(w.others, &forged)
	for i, at := range []string{"11:31:00", "11:33:00", "11:36:00"} {
		step := object[corev1.Event](
			fmt.Sprintf(
				`{metadata: {name: worker-00.%d, namespace: default}, involvedObject: {kind: Node, name: worker-00}, source: {host: worker-00}, type: Normal, reason: %s, message: "a step", lastTimestamp: "2026-01-02T%sZ"}`,
				i, []string{"Drain", "Reboot", "NodeDone"}[i], at))
		w.others = append(w.others, &step)
	}
	w.addConfigs()
	return w
}

// addConfigs adds both rendered configs and the documents that they are made of.
func (w *world) addConfigs() {
	const inputs = `{"00-worker-chrony":"c2","00-worker-motd":"m1","99-by-hand":"h1","98-deleted":"d1"}`
	rendered := func(name, revision, subject, author string, raw []byte) *mcfgv1.MachineConfig {
		mc := config(name, map[string]string{
			v1alpha1.SourceAnnotation: "os", v1alpha1.RepositoryAnnotation: "https://git.example.com/os",
			v1alpha1.RevisionAnnotation:      revision,
			v1alpha1.CommitSubjectAnnotation: subject, v1alpha1.CommitAuthorAnnotation: author,
			v1alpha1.CommitTimeAnnotation: "2026-01-02T11:00:00Z",
			v1alpha1.InputsAnnotation:     inputs, v1alpha1.SecretPathsAnnotation: "/etc/marked.conf,/etc/app/",
		}, raw)
		mc.Spec.KernelArguments = []string{"quiet", "luks.token=shown"}
		mc.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineConfigPool", Name: "worker"}}
		mc.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
		return mc
	}
	unit := func(text string) string {
		contents, _ := json.Marshal(text)
		return `,"systemd":{"units":[{"name":"app.service","enabled":true,"contents":` + string(contents) +
			`}]},"passwd":{"users":[{"name":"core","passwordHash":"CANARY-hash"}]}`
	}
	a := ignition(map[string]string{
		"/etc/motd": "hello\n", "/etc/chrony.conf": "pool ntp.org\n",
		"/etc/app/password": "CANARY-old", "/etc/marked.conf": "CANARY-marked-old\n",
	},
		unit("[Service]\nExecStart=/bin/a\n"))
	b := ignition(map[string]string{
		"/etc/motd": "hello\n", "/etc/chrony.conf": "server ntp1.example.com\n",
		"/etc/app/password": "CANARY-new", "/etc/marked.conf": "CANARY-marked-new\n",
	},
		unit("[Service]\nExecStart=/bin/b\nEnvironment=API_TOKEN=shown\n"))
	files := func(digest, file string) map[string]string {
		return map[string]string{v1alpha1.DigestAnnotation: digest, v1alpha1.FileAnnotation: `[{"file":"` + file +
			`","blob":"x"}]`}
	}
	chrony := config("00-worker-chrony", files("c2", "pools/worker/chrony.bu"),
		ignition(map[string]string{"/etc/chrony.conf": "server ntp1.example.com\n"}, unit("[Service]\n")))
	motd := config("00-worker-motd", files("changed", "pools/worker/motd.bu"),
		ignition(map[string]string{"/etc/motd": "hello\n"}, ""))
	hand := config("99-by-hand", nil,
		ignition(map[string]string{"/etc/app/password": "CANARY-new", "/etc/motd": "hello\n"}, ""))
	hand.Spec.KernelArguments = []string{"quiet", "luks.token=shown"}
	w.configs = []*mcfgv1.MachineConfig{
		rendered(first, commitA, "motd: say hello", "Grace <grace@example.com>", a),
		rendered(second, commitB, "chrony: use the site's servers", "Ada <ada@example.com>", b), chrony, motd, hand,
	}
	w.rows()
}

// rows sets the rendered configs that the watches know.
func (w *world) rows() {
	var all []metav1.PartialObjectMetadata
	for _, mc := range w.configs {
		all = append(all, metav1.PartialObjectMetadata{ObjectMeta: mc.ObjectMeta})
	}
	w.Rendered = fleet.RenderedRows(all)
}

// page joins the HTML of regions, one a line.
func page(regions []view.Region) string {
	var b strings.Builder
	for _, r := range regions {
		b.WriteString(r.HTML() + "\n")
	}
	return b.String()
}

func detailHtml(t *testing.T, s view.DetailSession, path string) string {
	t.Helper()
	kind, rest, _ := strings.Cut(path, " ")
	switch kind {
	case "node":
		p, err := s.Node(t.Context(), rest, noon)
		if err != nil {
			t.Fatal(err)
		}
		return page(p.Regions(noon))
	case "commit":
		p, err := s.Commit(t.Context(), "worker", rest, noon)
		if err != nil {
			t.Fatal(err)
		}
		return page(p.Regions())
	case "timeline":
		p, err := view.Timeline(t.Context(), s, rest, noon)
		if err != nil {
			t.Fatal(err)
		}
		return page(p.Regions(noon))
	case "compare":
		from, to, _ := strings.Cut(rest, " ")
		p, err := s.Compare(t.Context(), from, to, noon)
		if err != nil {
			t.Fatal(err)
		}
		return page(p.Regions())
	}
	p, err := s.Search(t.Context(), rest, noon)
	if err != nil {
		t.Fatal(err)
	}
	return page(p.Regions())
}

// TestPages compares the pages of a cluster with those in testdata, and finds no secret in any.
func TestPages(t *testing.T) {
	for name, path := range map[string]string{
		"node-updated": "node worker-00", "node-rebooting": "node worker-01", "node-drift": "node worker-02",
		"commit": "commit " + commitB, "commit-by-hash": "commit bbbbbbbb", "commit-by-config": "commit " + second,
		"commit-without-earlier": "commit " + commitA,
		"timeline":               "timeline worker", "compare-form": "compare", "compare": "compare " + first + " " +
			second, "compare-node-pool": "compare node/worker-02 pool/worker",
		"compare-nothing": "compare pool/worker pool/gpu",
		"search-path":     "search chrony", "search-argument": "search quiet", "search-author": "search ada",
		"search-secret": "search CANARY", "search-node": "search worker-0",
	} {
		t.Run(name, func(t *testing.T) {
			got := detailHtml(t, usual().session(), path)
			if strings.Contains(strings.ReplaceAll(got, "search?q=CANARY", ""), "CANARY-") {
				t.Errorf("the page shows a secret:\n%s", got)
			}
			checkHTML(t, got)
			file := "testdata/" + name + ".html"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(string(want), got); diff != "" {
				t.Errorf("another page (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLinesOfAClone: with a clone, an item has its line, and the clone is read once. A problem of the clone is a note.
func TestLinesOfAClone(t *testing.T) {
	s := usual().session()
	asked := 0
	s.Lines = func(context.Context, string) view.ContentLines {
		asked++
		return view.ContentLines{
			At:   map[string]string{"file /etc/chrony.conf": "pools/worker/chrony.bu:7:5"},
			Note: "<b>a note</b>",
		}
	}
	for range 2 {
		got := detailHtml(t, s, "node worker-02")
		checkHTML(t, got)
		for _, want := range []string{"pools/worker/chrony.bu:7:5   00-worker-chrony", "&lt;b&gt;a note"} {
			if !strings.Contains(got, want) {
				t.Errorf("the page does not say %q:\n%s", want, got)
			}
		}
	}
	if asked != 1 {
		t.Errorf("the clone was read %d times", asked)
	}
}

// TestPagesAtOnce: several pages of one viewer share the cache.
func TestPagesAtOnce(t *testing.T) {
	s := view.DetailSession{Viewer: usual().session().Viewer, Cache: &view.DetailCache{}}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			path := []string{"commit " + commitB, "node worker-02", "search chrony", "compare " + first + " " +
				second}[i%4]
			if detailHtml(t, s, path) == "" {
				t.Error("an empty page")
			}
		})
	}
	all.Wait()
}

// TestAFailedAttemptIsAnUpdate: no event tells of a failure before the drain, so the page takes it from the node.
func TestAFailedAttemptIsAnUpdate(t *testing.T) {
	w := usual()
	n := &w.Nodes[1]
	n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDegraded
	n.Annotations[v1alpha1.ReasonAnnotation] = "writing /etc/chrony.conf: no space left on device"
	for _, o := range w.others {
		if of, is := o.(*mcfgv1.MachineConfigNode); is && of.Name == n.Name {
			of.Status.Conditions = append(of.Status.Conditions, metav1.Condition{
				Type: string(mcfgv1.MachineConfigNodeNodeDegraded), Status: metav1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(noon.Add(-10 * time.Minute)),
			})
		}
	}
	got := detailHtml(t, w.session(), "node worker-01")
	_, updates, _ := strings.Cut(got, `<section id="node-updates">`)
	updates, _, _ = strings.Cut(updates, "</section>")
	for _, want := range []string{"failed", "no space left on device", "2026-01-02T11:50:00Z"} {
		if !strings.Contains(updates, want) {
			t.Errorf("the updates lack %q:\n%s", want, updates)
		}
	}
	if want := "<h3>It failed &#34;"; !strings.Contains(got, want) {
		t.Errorf("the page lacks %s:\n%s", want, got)
	}
	n.Annotations[v1alpha1.DesiredConfigAnnotation] = "rendered-worker-00000000000000000000000000000000"
	if got = detailHtml(t, w.session(), "node worker-01"); strings.Contains(got, "<h3>It failed &#34;") {
		t.Errorf("the page names the commit of a config that the node has not failed:\n%s", got)
	}
}

// TestADegradedNodeNamesWhatDiffers in the title of its page.
func TestADegradedNodeNamesWhatDiffers(t *testing.T) {
	w := usual()
	n := &w.Nodes[2]
	n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDegraded
	n.Annotations[v1alpha1.ReasonAnnotation] = `content mismatch for file "/etc/motd"`
	got := detailHtml(t, w.session(), "node worker-02")
	if want := "<h3>/etc/motd and 1 more item differ from the config</h3>"; !strings.Contains(got, want) {
		t.Errorf("the page lacks %s:\n%s", want, got)
	}
}

// TestADrainShowsItsPods: the page lists the pods that a drain waits for, and counts those that the report omits.
func TestADrainShowsItsPods(t *testing.T) {
	w := usual()
	a := w.Nodes[1].Annotations
	delete(a, v1alpha1.PostConfigActionAnnotation)
	a[v1alpha1.DesiredDrainAnnotation], a[v1alpha1.LastAppliedDrainAnnotation] = "drain-"+second, "uncordon-"+first
	a[v1alpha1.DrainStartedAnnotation] = "2026-01-02T11:50:00Z"
	a[v1alpha1.DrainReportAnnotation] = `{"for":"` + second +
		`","started":"2026-01-02T11:50:00Z","pods":[{"pod":"shop/<b>db</b>","state":"Blocked","why":"its budget shop/db allows no eviction","budget":"shop/db","never":true,"since":"2026-01-02T11:51:00Z"}],"more":7}`
	got := detailHtml(t, w.session(), "node worker-01")
	checkHTML(t, got)
	for _, want := range []string{
		"<h2>Drain</h2>", "shop/&lt;b&gt;db&lt;/b&gt;",
		"its budget shop/db allows no eviction", "and 7 more pods", "9m",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not say %q:\n%s", want, got)
		}
	}
}

// TestCommitsWithoutReview: a commit that changed nothing, a refused one, and a change through the API say what they
// did.
func TestCommitsWithoutReview(t *testing.T) {
	w := usual()
	same, refused := "main@sha1:"+strings.Repeat("c", 40), "main@sha1:"+strings.Repeat("d", 40)
	h := &w.Sources[0].Status.History
	*h = append([]v1alpha1.HistoryEntry{
		{CommitInfo: v1alpha1.CommitInfo{Revision: refused, Subject: "a typing error"}, Refused: &v1alpha1.Refusal{Reason: "InvalidTree", Message: "pools/worker/a.bu:1:1: no such key"}},
		{CommitInfo: v1alpha1.CommitInfo{Revision: same, Subject: "a comment"}, At: metav1.NewTime(noon), Pools: map[string]string{"worker": second}},
	}, *h...)
	for path, want := range map[string]string{
		"commit " + same: "No rendered change", "commit " + refused: "no such key",
		"commit " + commit0: "not in the pool&#39;s history",
	} {
		if got := detailHtml(t, w.session(), path); !strings.Contains(got, want) {
			t.Errorf("%s does not say %q:\n%s", path, want, got)
		}
	}
}

// BenchmarkNode makes the page of a node in a cluster of 5,000 nodes again, as after each change.
func BenchmarkNode(b *testing.B) {
	w := usual()
	for i := range 5000 {
		n := *w.Nodes[2].DeepCopy()
		n.Name = fmt.Sprintf("more-%04d", i)
		w.Nodes = append(w.Nodes, n)
	}
	s := w.session()
	for b.Loop() {
		p, err := s.Node(b.Context(), "worker-02", noon)
		if err != nil {
			b.Fatal(err)
		}
		p.Regions(noon)
	}
}

// BenchmarkCommit is BenchmarkNode for the page of a commit.
func BenchmarkCommit(b *testing.B) {
	w := usual()
	for i := range 5000 {
		n := *w.Nodes[2].DeepCopy()
		n.Name = fmt.Sprintf("more-%04d", i)
		w.Nodes = append(w.Nodes, n)
	}
	s := w.session()
	for b.Loop() {
		p, err := s.Commit(b.Context(), "worker", commitB, noon)
		if err != nil {
			b.Fatal(err)
		}
		p.Regions()
	}
}
