package view_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/console/view"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

const (
	older = "rendered-worker-11111111111111111111111111111111"
	newer = "rendered-worker-22222222222222222222222222222222"
)

// cluster returns a pool with nodes in three zones: every fifth has failed, is updated, drains, waits, or reboots.
func cluster(nodes int) fleet.Cluster {
	pool := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
	pool.Spec.Configuration.Name = newer
	c := fleet.Cluster{Pools: []mcfgv1.MachineConfigPool{pool}}
	source := v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}
	source.Status.AppliedRevision = "main@sha1:" + strings.Repeat("b", 40)
	for i, rendered := range []string{newer, older} {
		entry := v1alpha1.HistoryEntry{Pools: map[string]string{"worker": rendered}}
		entry.Revision, entry.Subject = "main@sha1:"+strings.Repeat(string(rune('b'-i)), 40),
			fmt.Sprintf("change %d", i)
		entry.Author, entry.Time = "Ada <ada@example.org>", metav1.NewTime(noon.Add(-time.Hour*time.Duration(1+i)))
		source.Status.History = append(source.Status.History, entry)
	}
	c.Sources = []v1alpha1.GitSource{source}
	for i := range nodes {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("worker-%04d", i), Labels: map[string]string{
				"role":                   "worker",
				corev1.LabelTopologyZone: string(rune('a' + i%3)),
			},
			Annotations: map[string]string{
				v1alpha1.CurrentConfigAnnotation: older,
				v1alpha1.DesiredConfigAnnotation: older, v1alpha1.StateAnnotation: v1alpha1.StateDone,
			},
		}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		switch i % 5 {
		case 0:
			setState(&n, older, newer, v1alpha1.StateDegraded)
			n.Annotations[v1alpha1.ReasonAnnotation] = "writing /etc/motd: no space left on device"
		case 1:
			setState(&n, newer, newer, v1alpha1.StateDone)
		case 2:
			setState(&n, older, newer, v1alpha1.StateWorking)
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

func setState(n *corev1.Node, current, desired, state string) {
	n.Annotations[v1alpha1.CurrentConfigAnnotation], n.Annotations[v1alpha1.DesiredConfigAnnotation] = current, desired
	n.Annotations[v1alpha1.StateAnnotation] = state
}

func poolPage(t testing.TB, c fleet.Cluster, o view.MapOptions) view.PoolPage {
	t.Helper()
	why, err := inspect.WhyPool(c, "worker", noon)
	if err != nil {
		t.Fatal(err)
	}
	past, err := history.New(c, "worker", noon)
	if err != nil {
		t.Fatal(err)
	}
	p := view.PoolPage{
		Why: why, Nodes: inspect.NewStatus(c, noon).Nodes, Zones: map[string]string{}, Map: o,
		History: &past,
	}
	f := fleet.New(c, noon)
	p.Stages, p.Rules, p.Expected = inspect.Stages(f, "worker"), inspect.Rules(f, "worker"), inspect.Expected(f, "worker")
	for i := range c.Nodes {
		p.Zones[c.Nodes[i].Name] = c.Nodes[i].Labels[corev1.LabelTopologyZone]
	}
	return p
}

func html(regions []view.Region) string {
	var b strings.Builder
	for _, r := range regions {
		b.WriteString(r.HTML() + "\n")
	}
	return b.String()
}

// golden compares a page with the file of its name.
func golden(t *testing.T, name, got string) {
	t.Helper()
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
		t.Errorf("another page %s (-want +got):\n%s", name, diff)
	}
}

func TestPool(t *testing.T) {
	for name, o := range map[string]view.MapOptions{
		"pool": {}, "pool-by-state": {By: view.ByState}, "pool-filtered": {By: view.ByNothing, Filter: "FAILED"},
		"pool-far-page": {Page: 9},
	} {
		t.Run(name, func(t *testing.T) {
			got := html(poolPage(t, cluster(10), o).Regions(noon))
			checkHTML(t, got)
			golden(t, name, got)
		})
	}
}

func overview(c fleet.Cluster) []view.Region {
	f := fleet.New(c, noon)
	links := []view.Action{{Text: "Suspend…", Href: "/source/fleet/suspend"}}
	acts := []view.SourceActions{{Name: "fleet", Links: links}}
	return view.Overview(f, inspect.StatusOf(f), acts, []string{"Paused."}, noon)
}

func TestOverview(t *testing.T) {
	c := cluster(10)
	c.Nodes[9].Labels = nil
	got := html(overview(c))
	checkHTML(t, got)
	golden(t, "overview", got)
}

// TestOverviewOfTrouble: a source that is being applied moves, and a notifier that does not run needs a person.
func TestOverviewOfTrouble(t *testing.T) {
	c := cluster(2)
	c.Sources[0].Status.Progress = &v1alpha1.ApplyProgress{
		Revision: "main@sha1:" + strings.Repeat("c", 40), Phase: v1alpha1.ApplyWriting, Objects: 2000, Done: 900,
		Began: metav1.NewTime(noon.Add(-time.Minute)), Reported: metav1.NewTime(noon),
	}
	got := html(overview(c))
	checkHTML(t, got)
	golden(t, "overview-moving-source", got)
	c.Notifications = []v1alpha1.Notification{{ObjectMeta: metav1.ObjectMeta{Name: "chat"}}}
	c.Leases = []coordinationv1.Lease{}
	got = html(overview(c))
	checkHTML(t, got)
	golden(t, "overview-trouble", got)
}

// TestOverviewOfABeginning: without a GitSource and a config, the page says so with the command that begins.
func TestOverviewOfABeginning(t *testing.T) {
	c := cluster(2)
	c.Sources, c.Rendered, c.Leases = nil, nil, []coordinationv1.Lease{controllerLease()}
	for i := range c.Pools {
		c.Pools[i].Annotations, c.Pools[i].Spec.Configuration.Name = nil, ""
	}
	for i := range c.Nodes {
		c.Nodes[i].Annotations = map[string]string{v1alpha1.StateAnnotation: v1alpha1.StateDone}
	}
	got := html(overview(c))
	checkHTML(t, got)
	golden(t, "overview-beginning", got)
}

// controllerLease is that of a controller that leads.
func controllerLease() coordinationv1.Lease {
	holder, seconds, renewed := "a", int32(35), metav1.NewMicroTime(noon)
	l := coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed,
	}}
	l.Name, l.Labels = "machine-config-controller-a", map[string]string{
		v1alpha1.ServerLabel: v1alpha1.ControllerComponent,
	}
	report := v1alpha1.ControllerReport{Leader: true, Version: "v1", Started: metav1.NewTime(noon)}
	l.Annotations = map[string]string{v1alpha1.ControllerAnnotation: report.String()}
	return l
}

// TestOverviewOfMistakes: all mistakes of a refused commit are on the page.
func TestOverviewOfMistakes(t *testing.T) {
	c := cluster(2)
	bad := "main@sha1:" + strings.Repeat("d", 40)
	s := &c.Sources[0].Status
	text := "pools/worker/a.bu:1:1: error: one\npools/worker/b.bu:2:2: error: two\n" +
		"in main@sha1:dddddddd; nothing of it is applied"
	s.ObservedRevision, s.History = bad, append([]v1alpha1.HistoryEntry{{
		CommitInfo: v1alpha1.CommitInfo{Revision: bad, Subject: "two mistakes"},
		Refused:    &v1alpha1.Refusal{Reason: v1alpha1.ReasonTranspileFailed, Message: "one"},
	}}, s.History...)
	s.Conditions = nil
	for kind, status := range map[string]metav1.ConditionStatus{
		v1alpha1.ReadyCondition: metav1.ConditionFalse, v1alpha1.StalledCondition: metav1.ConditionTrue,
	} {
		s.Conditions = append(s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: v1alpha1.ReasonTranspileFailed, Message: text,
		})
	}
	got := html(overview(c))
	checkHTML(t, got)
	if !strings.Contains(got, "a.bu:1:1: error: one (&#43;1 more)") ||
		!strings.Contains(got, "<li>pools/worker/b.bu:2:2: error: two</li>") {
		t.Errorf("a mistake is not on the page:\n%s", got)
	}
}

func TestEmptyPool(t *testing.T) {
	c := cluster(0)
	c.Sources = nil
	golden(t, "pool-empty", html(poolPage(t, c, view.MapOptions{}).Regions(noon)))
}

// TestOneNodeChangesOneCell: of thousands of cells, a browser gets only that of the node which changed.
func TestOneNodeChangesOneCell(t *testing.T) {
	c := cluster(1000)
	before := poolPage(t, c, view.MapOptions{}).Regions(noon)
	setState(&c.Nodes[502], newer, newer, v1alpha1.StateDone)
	var ids []string
	size := 0
	for _, r := range view.ChangedRegions(before, poolPage(t, c, view.MapOptions{}).Regions(noon)) {
		ids = append(ids, r.ID)
		size += len(r.HTML())
	}
	cells := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, "cell-") })
	if !slices.Equal(cells, []string{"cell-worker-0502"}) || slices.Contains(ids, "map") ||
		slices.Contains(ids, "map-controls") || size > 20<<10 {
		t.Errorf("one node changed %v: %d bytes", ids, size)
	}
}

// elements and attributes are all that a page may have.
var (
	elements = strings.Fields("a article b br button code datalist dd details div dl dt figcaption figure form " +
		"h1 h2 h3 h4 i input label li nav ol option p path pre rect section small span strong " +
		"summary svg table tbody td th thead time tr ul use")
	attributes = strings.Fields("action aria-current aria-hidden aria-label aria-labelledby autocomplete class d " +
		"data-copy data-needs datetime focusable for height hidden href id list maxlength method name open " +
		"placeholder preserveaspectratio role scope spellcheck tabindex title type value viewbox width x y")
)

// hostile returns a cluster whose texts are those of an attacker, and its page.
func hostile(t *testing.T, text string) []view.Region {
	c := cluster(5)
	c.Sources[0].Status.History[0].Subject, c.Sources[0].Status.History[0].Author = text, text
	c.Sources[0].Status.AppliedRevision = text
	for i := range c.Nodes {
		c.Nodes[i].Annotations[v1alpha1.ReasonAnnotation] = text
		c.Nodes[i].Labels[corev1.LabelTopologyZone] = text
		c.Nodes[i].Annotations[v1alpha1.CurrentConfigAnnotation] = text
	}
	c.Nodes[0].Name = text
	c.Pools[0].Annotations = map[string]string{v1alpha1.PausedByAnnotation: text}
	c.Pools[0].Spec.Paused = true
	p := poolPage(t, c, view.MapOptions{By: text, Filter: ""})
	commits := view.Commits(fleet.New(c, noon), inspect.NewOverview(c, noon).Status)
	return append(append(p.Regions(noon), overview(c)...), commits...)
}

// evil are texts of an attacker.
var evil = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'><svg onload=alert(1)>`,
	`</a></section><iframe src=//evil.example>`,
	"\u202etxt.exe\u2066", "a\x1b[31mb\r\n\r\ndata: x", `javascript:alert(1)`, `{{.}}`, `<!--parts-->`, `]]><!--`,
	`//evil.example/`,
}

func TestHostileContentIsText(t *testing.T) {
	for i, text := range append(evil, strings.Repeat("y", 1<<20)) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			got := html(hostile(t, text))
			checkHTML(t, got)
			if strings.ContainsAny(got, "\u202e\u2066\x1b\r") {
				t.Error("the page has a hidden character")
			}
			if len(got) > 16<<20 {
				t.Errorf("the page has %d bytes", len(got))
			}
		})
	}
}

func FuzzPagesAreText(f *testing.F) {
	for _, text := range evil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkHTML(t, html(hostile(t, text))) })
}

func BenchmarkPool5000(b *testing.B) {
	p := poolPage(b, cluster(5000), view.MapOptions{})
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(len(html(p.Regions(noon)))), "bytes/page")
	}
}

// TestADriftIsToldAsSuch: a node that somebody changed has no part in a commit, and the day's events have it.
func TestADriftIsToldAsSuch(t *testing.T) {
	c := cluster(2)
	for i := range c.Nodes {
		setState(&c.Nodes[i], newer, newer, v1alpha1.StateDone)
	}
	setState(&c.Nodes[1], newer, newer, v1alpha1.StateDegraded)
	c.Nodes[1].Annotations[v1alpha1.ReasonAnnotation] = `content mismatch for file "/etc/motd"`
	c.Nodes[1].Annotations[v1alpha1.FailureAnnotation] = `{"cause":"Drift","config":"` + newer +
		`","since":"2026-01-02T11:50:00Z"}`
	c.Nodes[1].Annotations[v1alpha1.DriftAnnotation] = `{"config":"` + newer + `","items":[{"name":"/etc/motd",` +
		`"kind":"content","action":"Degrade","since":"2026-01-02T11:50:00Z","modified":"2026-01-02T11:49:00Z"}]}`
	c.Pools[0].Status.Conditions = []mcfgv1.MachineConfigPoolCondition{{
		Type: mcfgv1.MachineConfigPoolDegraded, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(noon.Add(-10 * time.Minute)),
	}}
	got := html(overview(c))
	for _, want := range []string{
		"worker-0001 is degraded: /etc/motd was changed by hand (content, modified 2026-01-02 11:49:00 UTC; by " +
			"whom is not recorded)",
		`<span class="label">Since yesterday</span> <span class="quiet">worker-0001 drifted</span></a>`,
		"<h3>worker-0001 differs from its config</h3>",
		`<a href="/node/worker-0001">worker-0001</a></span><span><b>worker</b>: /etc/motd was changed by hand (content`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the overview lacks %s:\n%s", want, got)
		}
	}
}
