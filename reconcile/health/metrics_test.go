package health_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/health"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// exposed is what Prometheus would read.
func exposed(t *testing.T, r *prom.Registry) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// doing is a node of pool worker, told to run `to`, with more annotations as key and value.
func doing(name, from, to, state string, more ...string) *corev1.Node {
	n := controllertest.Node(name, from, to)
	n.Annotations[v1alpha1.StateAnnotation] = state
	for i := 0; i+1 < len(more); i += 2 {
		n.Annotations[more[i]] = more[i+1]
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// measured is a cluster in which everything is going on, and its metrics.
func measured(t *testing.T) (*controllertest.Cluster, *health.Metrics, *prom.Registry) {
	t.Helper()
	const a, b = "rendered-worker-a", "rendered-worker-b"
	gpu := controllertest.Pool("gpu")
	gpu.Spec.Paused = true
	gpu.Annotations = map[string]string{v1alpha1.HoldAnnotation: "rendered-gpu-a"}
	w := controllertest.NewCluster(t, gpu,
		doing("n1", b, b, v1alpha1.StateDone),
		doing("n2", a, a, v1alpha1.StateDone),
		doing("n3", a, b, v1alpha1.StateDegraded, v1alpha1.ReasonAnnotation, "unit crio.service\nfailed: \"exit 1\""),
		doing("n4", a, b, v1alpha1.StateWorking, v1alpha1.DesiredDrainAnnotation, "drain-"+b,
			v1alpha1.DrainStartedAnnotation, controllertest.Noon.Add(-90*time.Minute).Format(time.RFC3339),
			v1alpha1.DrainReportAnnotation,
			`{"for":"`+b+
				`","started":"2026-01-02T10:30:00Z","pods":[{"pod":"shop/db-0","state":"Waiting"},{"pod":"shop/web-1","state":"Evicted"},{"pod":"shop/db-1","state":"Waiting"}]}`),
		doing("n5", a, b, v1alpha1.StateWorking, v1alpha1.PostConfigActionAnnotation, "Rebooting"),
		doing("n6", a, b, v1alpha1.StateWorking),
		doing("n7", b, b, v1alpha1.StateDone, v1alpha1.DriftAnnotation, `{"config":"`+b+
			`","items":[{"name":"/etc/motd","kind":"content","action":"Report","since":"2026-01-02T10:30:00Z"}],"more":2}`,
			v1alpha1.TrustReportAnnotation,
			`{"expiring":[{"path":"/etc/pki/ca-trust/source/anchors/site.crt"}],"conflicts":[{"path":"/etc/docker/certs.d/r/ca.crt","from":"configmap/registry-cas"}]}`),
	)
	cordoned := doing("n8", b, b, v1alpha1.StateDone)
	cordoned.Spec.Unschedulable = true
	w.Create(cordoned)
	both := doing("m1", "", "", "")
	both.Labels = map[string]string{"node-role.kubernetes.io/master": "", "node-role.kubernetes.io/gpu": ""}
	w.Create(both)
	config := controllertest.ManualConfig(b, "worker", "{}")
	config.Spec.OSImageURL = "registry.example.com/os@sha256:1"
	w.Create(config)
	controllertest.Modify(w, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
		p.Spec.Configuration.Name = b
		r := v1alpha1.RolloutRecord{
			Config: b, Steps: 2,
			RolloutEnd: v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted},
		}
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.RolloutAnnotation, r.String())
	})
	src := w.GitSource()
	src.Spec.URL = "https://user:hunter2@git.example.com/os"
	src.Spec.Suspend, src.Spec.Interval.Duration = true, 30*time.Second
	if err := w.Admin.Update(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	src.Status = v1alpha1.GitSourceStatus{
		ObservedRevision: "main@sha1:2222222222222222222222222222222222222222",
		AppliedRevision:  "main@sha1:1111111111111111111111111111111111111111",
		AppliedCommit: &v1alpha1.CommitInfo{
			Revision: "main@sha1:1111111111111111111111111111111111111111",
			Time:     metav1.NewTime(controllertest.Noon.Add(-time.Hour)), VerifiedBy: "SHA256:x",
		},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTranspileFailed},
			{Type: v1alpha1.StalledCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTranspileFailed},
		},
	}
	if err := w.Admin.Status().Update(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	silent := &mcfgv1.MachineConfigNode{}
	silent.Name = "n2"
	silent.Annotations = map[string]string{v1alpha1.DaemonAnnotation: v1alpha1.DaemonReport{
		Seen: metav1.NewTime(controllertest.Noon.Add(-12 * time.Minute)),
	}.String()}
	w.Create(silent)
	m := health.NewMetrics(health.MetricsConfig{
		Reader: w.Admin, Live: w.Admin, Heartbeats: &health.Heartbeats{}, Now: func() time.Time { return w.Now },
		OSImage: "registry.example.com/os@sha256:0",
		Listings: func() map[string]v1alpha1.SourceLook {
			return map[string]v1alpha1.SourceLook{src.Name: {At: metav1.NewTime(controllertest.Noon.Add(-time.Minute))}}
		},
	})
	r := prom.NewRegistry()
	if err := m.Register(r); err != nil {
		t.Fatal(err)
	}
	return w, m, r
}

// work tells everything that can be told.
func work(t *testing.T, m *health.Metrics) {
	t.Helper()
	m.Pool("worker", poolstate.Counts{Machines: 8, Updated: 3, Ready: 2, Unavailable: 4, Degraded: 1},
		[]poolstate.Block{
			{Cause: poolstate.CauseHalted, Reason: "n3 failed"},
			{Cause: poolstate.CauseWindow, Reason: "closed"},
			{Cause: poolstate.CauseWindow, Reason: "closed"},
		}, schedule.WindowState{Until: controllertest.Noon.Add(6 * time.Hour)})
	m.Pool("gpu", poolstate.Counts{}, nil, schedule.WindowState{Open: true})
	m.Rendered("worker", 42*time.Second)
	m.RolledOut("worker", 3*time.Hour)
	m.DrainError("n4", true)
	m.Verdicts([]v1alpha1.Verdict{
		{Kind: "GitSource", Name: "config", Outcome: v1alpha1.OutcomeFine},
		{Kind: "MachineConfigPool", Name: "worker", Outcome: v1alpha1.OutcomeBlocked},
	})
	m.JoinDecided(true, v1alpha1.ReasonJoinApproved)
	m.JoinDecided(false, v1alpha1.ReasonJoinTokenUsed)
	ok := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	bad := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, errors.New("no")
	})
	if _, err := m.Watch("rollout", ok).Reconcile(t.Context(), controllertest.Request("worker")); err != nil {
		t.Error(err)
	}
	if _, err := m.Watch("render", bad).Reconcile(t.Context(), controllertest.Request("gpu")); err == nil {
		t.Error("the error is lost")
	}
}

func TestMetricsGolden(t *testing.T) {
	_, m, r := measured(t)
	work(t, m)
	got := exposed(t, r)
	file := filepath.Join("testdata", "metrics.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test ./reconcile/health -update rewrites it; read the diff:\n%s", diff)
	}
	if strings.Contains(got, "hunter2") {
		t.Error("the password of a repository is shown")
	}
}

func series(text, needle string) (out []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && strings.Contains(line, needle) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestSeriesOfWhatIsGoneAreGone(t *testing.T) {
	w, m, r := measured(t)
	work(t, m)
	w.Remove(controllertest.Node("n4", "", ""))
	w.Remove(w.Pool("gpu"))
	w.Remove(w.GitSource())
	got := exposed(t, r)
	for _, needle := range []string{`node="n4"`, `pool="gpu"`, `source="os"`} {
		if left := series(got, needle); len(left) > 0 {
			t.Errorf("%s still has %q", needle, left)
		}
	}
	w.Remove(w.Pool("worker"))
	m.Forget("worker")
	if left := series(exposed(t, r), `pool="worker"`); len(left) > 0 {
		t.Errorf("a forgotten pool still has %q", left)
	}
}

func TestADrainThatWorksAgainIsNoError(t *testing.T) {
	_, m, r := measured(t)
	m.DrainError("n4", true)
	controllertest.Equal(t, "the series", strings.Join(series(exposed(t, r), "mcc_drain_err"), "\n"),
		`mcc_drain_err{node="n4"} 1`)
	m.DrainError("n4", false)
	controllertest.Equal(t, "the series", strings.Join(series(exposed(t, r), "mcc_drain_err"), "\n"), "")
}

func TestOneThatDoesNotLeadTellsNothing(t *testing.T) {
	w := controllertest.NewCluster(t)
	elected := make(chan struct{})
	m := health.NewMetrics(health.MetricsConfig{Reader: w.Admin, Elected: elected, Now: func() time.Time {
		return controllertest.Noon
	}})
	r := prom.NewRegistry()
	if err := errors.Join(m.Register(r), m.Register(r)); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "the metrics", exposed(t, r), "")
	close(elected)
	controllertest.Contains(t, "the metrics of the leader", exposed(t, r),
		`bunsen_pool_nodes{pool="worker",state="updated"} 0`)
}

func TestARestartTakesTheFormerPlace(t *testing.T) {
	w, _, r := measured(t)
	again := health.NewMetrics(health.MetricsConfig{
		Reader: w.Admin,
		Now:    func() time.Time { return controllertest.Noon },
	})
	if err := again.Register(r); err != nil {
		t.Fatal(err)
	}
	controllertest.Contains(t, "the metrics", exposed(t, r), `os_image_url_override{pool="worker"} 1`)
}

func TestNoMetricsAreWanted(t *testing.T) {
	var m *health.Metrics
	work(t, m)
	m.Forget("worker")
}

// cached answers a list as the manager's cache does, without copies.
type cached struct {
	client.Reader
	nodes []corev1.Node
	pools []mcfgv1.MachineConfigPool
}

// List gives what there is.
func (c cached) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *corev1.NodeList:
		list.Items = c.nodes
	case *mcfgv1.MachineConfigPoolList:
		list.Items = c.pools
	}
	return nil
}

// BenchmarkScrape is what one scrape costs on a cluster of 5,000 nodes.
func BenchmarkScrape(b *testing.B) {
	c := cached{pools: []mcfgv1.MachineConfigPool{*controllertest.Pool("master"), *controllertest.Pool("worker")}}
	for i := range 5000 {
		c.nodes = append(c.nodes, *doing(fmt.Sprintf("n%d", i), "rendered-worker-a", "rendered-worker-b",
			v1alpha1.StateWorking))
	}
	r := prom.NewRegistry()
	if err := health.NewMetrics(health.MetricsConfig{Reader: c, Now: time.Now}).Register(r); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
