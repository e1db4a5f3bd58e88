package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/test/kstatus"
)

// account is whom the controllers run as in a real cluster; what config/rbac does not grant it fails here.
const account = "system:serviceaccount:bunsen-system:machine-config-controller"

// notes collects what the controllers log.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write collects.
func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

// logging is the log of the stage that runs. A process sets the loggers of its libraries once: controller-runtime takes
// no second one, and klog has no lock.
type logging struct{ to atomic.Pointer[notes] }

var current logging

func TestMain(m *testing.M) {
	log := slog.New(slog.NewTextHandler(&current, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
	os.Exit(m.Run())
}

// Write collects in the log of the stage that runs, if there is one.
func (l *logging) Write(p []byte) (int, error) {
	if n := l.to.Load(); n != nil {
		return n.Write(p)
	}
	return len(p), nil
}

// forbidden returns the lines that tell of a missing right.
func (n *notes) forbidden() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for line := range strings.Lines(n.text.String()) {
		if strings.Contains(line, "forbidden") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// shared is a repository that several goroutines use.
type shared struct {
	mu     sync.Mutex
	inner  *controllertest.Repository
	secret map[string][]byte
}

// List is repository's.
func (s *shared) List(ctx context.Context, poll source.Poll) (source.Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner.List(ctx, poll)
}

// Tree is repository's.
func (s *shared) Tree(ctx context.Context, p source.Picked) (source.Tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner.Tree(ctx, p)
}

// Evidence is repository's.
func (s *shared) Evidence(ctx context.Context, p source.Picked) (source.Evidence, error) {
	return s.inner.Evidence(ctx, p)
}

// stage is a real API server with the controllers running against it.
type stage struct {
	t        *testing.T
	admin    client.Client
	repo     *shared
	log      *notes
	registry *largeFiles
	dir      string // of kubectl
	// config is the path of the administrator's kubeconfig.
	config string
}

// startServer starts a real API server with more flags that has the kinds of config/crd, and stops it with the test.
func startServer(t *testing.T, flags map[string]string) (*envtest.Environment, *rest.Config) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "bin", "assets")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("there is no kube-apiserver to test against: %v; `make test` builds one, or set KUBEBUILDER_ASSETS",
			err)
	}
	scheme, err := reconcile.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{"../config/crd"},
		ErrorIfCRDPathMissing: true, Scheme: scheme,
	}
	for name, value := range flags {
		env.ControlPlane.GetAPIServer().Configure().Set(name, value)
	}
	rc, err := env.Start()
	if err != nil {
		t.Fatalf("starting kube-apiserver: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stopping kube-apiserver: %v", err)
		}
	})
	rc.QPS = -1
	checkStatuses(t, rc)
	return env, rc
}

// checkStatuses fails the test if the conditions of a source or a pool break a rule of kstatus at any time.
func checkStatuses(t *testing.T, rc *rest.Config) {
	t.Helper()
	c, err := dynamic.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	w, err := kstatus.Watch(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, broken := range w.Stop() {
			t.Error(broken)
		}
		t.Logf("kstatus: %d versions of objects checked", w.Versions)
	})
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageBehind(t, func(rc *rest.Config) *rest.Config { return rc })
}

// newStageBehind is newStage with something between the controllers and the API server.
func newStageBehind(t *testing.T, between func(*rest.Config) *rest.Config) *stage {
	t.Helper()
	env, rc := startServer(t, nil)
	s := &stage{
		t: t, repo: &shared{inner: &controllertest.Repository{T: t, Trees: map[string]source.Tree{}}},
		log: &notes{}, dir: env.BinaryAssetsDirectory, registry: newLargeFiles(t),
	}
	var err error
	if s.admin, err = client.New(rc, client.Options{Scheme: env.Scheme}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"namespace/namespace.yaml", "rbac/controller.yaml",
		"rbac/controller-admission.yaml",
	} {
		s.apply(filepath.Join("..", "config", file))
	}
	s.kubeconfig(env.KubeConfig)
	s.run(between(rc))
	return s
}

func (s *stage) kubeconfig(content []byte) {
	s.t.Helper()
	s.config = filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(s.config, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run starts the manager as machine-config-controller does, under the account's name.
func (s *stage) run(rc *rest.Config) {
	s.t.Helper()
	current.to.Store(s.log)
	as := rest.CopyConfig(rc)
	as.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{
		"system:serviceaccounts",
		"system:serviceaccounts:bunsen-system", "system:authenticated",
	}}
	mgr, err := ctrl.NewManager(as, ctrl.Options{
		Scheme: s.admin.Scheme(), Cache: reconcile.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
		// another stage of this process may have had the same names
		Controller:     config.Controller{SkipNameValidation: new(true)},
		LeaderElection: true, LeaderElectionID: "machine-config-controller", LeaderElectionNamespace: "bunsen-system",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	err = reconcile.Register(mgr, reconcile.Config{
		Namespace: "bunsen-system", SecretsNamespace: "bunsen-sources", ContentRegistry: s.registry,
		Version: "test", Now: time.Now, Open: func(_ v1alpha1.GitSourceSpec, secrets source.Secrets) (
			gitsource.Repository, error,
		) {
			s.repo.mu.Lock()
			defer s.repo.mu.Unlock()
			s.repo.secret = secrets.Credentials
			return s.repo, nil
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.t.Errorf("the manager ended: %v", err)
		}
		if s.t.Failed() {
			s.t.Logf("the controllers' log:\n%s", s.log.text.String())
		}
	})
}

// apply does what `kubectl apply --server-side -f` does.
func (s *stage) apply(file string) {
	s.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := docs.Decode(u); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			s.t.Fatalf("%s: %v", file, err)
		}
		if err := s.admin.Apply(s.t.Context(), client.ApplyConfigurationFromUnstructured(u),
			client.FieldOwner("kubectl")); err != nil {
			s.t.Fatalf("%s: %v", file, err)
		}
	}
}

// eventually waits until the check has nothing to complain about.
func (s *stage) eventually(what string, check func() error) {
	s.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) {
			last = check()
			return last == nil, nil
		})
	if err != nil {
		s.t.Fatalf("%s: %v; the controllers may not: %s", what, last, s.log.forbidden())
	}
}

func (s *stage) get(name string, o client.Object) error {
	return s.admin.Get(s.t.Context(), client.ObjectKey{Name: name, Namespace: o.GetNamespace()}, o)
}

// edit writes an object as a person does, whatever the controllers write meanwhile.
func edit[T client.Object](s *stage, name string, o T, change func(T)) {
	s.t.Helper()
	s.eventually("editing "+name, func() error {
		if err := s.get(name, o); err != nil {
			return err
		}
		change(o)
		return s.admin.Update(s.t.Context(), o)
	})
}

// push makes a commit and asks the source to look.
func (s *stage) push(subject string, parts ...string) string {
	s.t.Helper()
	s.repo.mu.Lock()
	revision := s.repo.inner.Push(subject, controllertest.Files(parts...))
	s.repo.mu.Unlock()
	edit(s, "os", &v1alpha1.GitSource{}, func(g *v1alpha1.GitSource) {
		metav1.SetMetaDataAnnotation(&g.ObjectMeta, v1alpha1.ReconcileAnnotation, revision)
	})
	s.eventually("applying "+subject, func() error {
		g := &v1alpha1.GitSource{}
		if err := s.get("os", g); err != nil || g.Status.AppliedRevision != revision {
			return fmt.Errorf("applied %q, %v, %v", g.Status.AppliedRevision, g.Status.Conditions, err)
		}
		return nil
	})
	return revision
}

// kubectl prints what a person sees, a row a line with its cells apart by one blank.
func (s *stage) kubectl(args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), filepath.Join(s.dir, "kubectl"),
		append([]string{"--kubeconfig", s.config}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	var rows []string
	for line := range strings.Lines(string(out)) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(rows, "\n")
}

// shows waits until kubectl prints a text: a status is written a moment after what it speaks of.
func (s *stage) shows(want string, args ...string) {
	s.t.Helper()
	s.eventually("kubectl "+strings.Join(args, " "), func() error {
		if got := s.kubectl(args...); !strings.Contains(got, want) {
			return fmt.Errorf("%q is not in\n%s", want, got)
		}
		return nil
	})
}

// told is how many of the nodes want a config that they do not run.
func (s *stage) told(names ...string) (busy []string) {
	for _, name := range names {
		n := &corev1.Node{}
		if err := s.get(name, n); err == nil &&
			n.Annotations[v1alpha1.DesiredConfigAnnotation] != n.Annotations[v1alpha1.CurrentConfigAnnotation] {
			busy = append(busy, name)
		}
	}
	return busy
}

// TestOnARealAPIServer has what only a real API server shows: the kinds' own rules, server-side apply with several
// owners, the rights of the controllers' account, print columns, events, evictions.
func TestOnARealAPIServer(t *testing.T) {
	t.Parallel() // it waits for retries
	s := newStage(t)
	s.create(
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "deploy-key", Namespace: "bunsen-sources"},
			Data:       map[string][]byte{"password": []byte("x")},
		},
		&v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "os"}, Spec: v1alpha1.GitSourceSpec{
			URL: "https://git.example.com/os", Interval: metav1.Duration{Duration: time.Hour},
			SecretRef: &v1alpha1.SecretReference{Name: "deploy-key"},
		}},
	)
	for _, name := range []string{"n0", "n1"} {
		s.newNode(name)
	}
	s.commitReachesNodes()
	s.summary()
	s.peopleWriteToo()
	s.carefulRollouts()
	s.drains()
	s.clusterObjectsGo()
	s.apiChanges()
	s.missingContent()
	if lines := s.log.forbidden(); lines != "" {
		t.Errorf("config/rbac lacks rights:\n%s", lines)
	}
}

func (s *stage) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		if err := s.admin.Create(s.t.Context(), o); err != nil {
			s.t.Fatal(err)
		}
	}
}

// newNode is a node whose daemon has just arrived.
func (s *stage) newNode(name string) {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Annotations: map[string]string{v1alpha1.StateAnnotation: v1alpha1.StateDone},
	}}
	s.create(n)
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	}}
	if err := s.admin.Status().Update(s.t.Context(), n); err != nil {
		s.t.Fatal(err)
	}
}

const workerPool = `-- cluster/worker.yaml --
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: worker
spec:
  machineConfigSelector:
    matchLabels: {machineconfiguration.openshift.io/role: worker}
  nodeSelector:
    matchExpressions:
      - {key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}
      - {key: node-role.kubernetes.io/master, operator: DoesNotExist}
  maxUnavailable: 1
`

// commitReachesNodes: fragments, rendered config, one node after the other, and what kubectl shows of it.
func (s *stage) commitReachesNodes() {
	s.t.Helper()
	t := s.t
	s.push("say hello", "worker/10-motd.bu=hello", "master/10-motd.bu=hello", clusterFiles, workerPool)
	controllertest.Equal(t, "the Secret's content", string(s.repo.secret["password"]), "x")
	target := ""
	s.eventually("rendering pool worker", func() error {
		p := &mcfgv1.MachineConfigPool{}
		err := s.get("worker", p)
		if target = p.Spec.Configuration.Name; target == "" {
			return fmt.Errorf("no config, %v", err)
		}
		return nil
	})
	first := s.oneTold()
	s.finish(first)
	s.eventually("telling the other", func() error {
		if next := s.told("n0", "n1"); len(next) != 1 || next[0] == first {
			return fmt.Errorf("told: %v", next)
		}
		return nil
	})
	s.finish("n0")
	s.finish("n1")
	s.eventually("the columns of a pool", func() error {
		got := s.kubectl("get", "mcp", "worker")
		want := "NAME CONFIG UPDATED UPDATING DEGRADED MACHINECOUNT READYMACHINECOUNT UPDATEDMACHINECOUNT " +
			"DEGRADEDMACHINECOUNT AGE\nworker " + target + " True False False 2 2 2 0 "
		if !strings.HasPrefix(got, want) {
			return fmt.Errorf("\n%s, want\n%s", got, want)
		}
		return nil
	})
	s.shows(" True False False 0 0 0 0 ", "get", "mcp", "infra")
	s.shows("NAME URL REVISION READY MESSAGE AGE\nos https://git.example.com/os main@sha1:", "get", "gs")
	s.shows(" True applied revision main@sha1:", "get", "gs")
	s.shows(target+" test 3.5.0 ", "get", "mc", target)
	s.eventually("events", func() error {
		var list eventsv1.EventList
		if err := s.admin.List(t.Context(), &list); err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, e := range list.Items {
			seen[e.Reason] = true
		}
		for _, want := range []string{"NewRevision", "RenderedConfigGenerated", "SetDesiredConfig", "Completed"} {
			if !seen[want] {
				return fmt.Errorf("no event %s, only %v", want, seen)
			}
		}
		return nil
	})
	s.eventually("the policy in force", func() error {
		mc := &operatorv1.MachineConfiguration{}
		if err := s.get("cluster", mc); err != nil || mc.Status.ObservedGeneration != mc.Generation {
			return fmt.Errorf("generation %d, observed %d, %v", mc.Generation, mc.Status.ObservedGeneration, err)
		}
		return nil
	})
}

// finish lets a node's daemon end its update.
func (s *stage) finish(name string) {
	s.t.Helper()
	edit(s, name, &corev1.Node{}, func(n *corev1.Node) {
		n.Annotations[v1alpha1.CurrentConfigAnnotation] = n.Annotations[v1alpha1.DesiredConfigAnnotation]
		n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDone
	})
}

// peopleWriteToo: what belongs to others stays through a commit, what belongs to the repository comes back.
func (s *stage) peopleWriteToo() {
	s.t.Helper()
	infra := &mcfgv1.MachineConfigPool{}
	edit(s, "infra", infra, func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = true })
	name := infra.Spec.Configuration.Name
	s.push("three at a time", "worker/10-motd.bu=hello", "master/10-motd.bu=hello",
		strings.Replace(clusterFiles, "maxUnavailable: 2", "maxUnavailable: 3", 1), workerPool)
	s.eventually("the pool after it", func() error {
		p := &mcfgv1.MachineConfigPool{}
		if err := s.get("infra", p); err != nil || !p.Spec.Paused || p.Spec.MaxUnavailable.IntValue() != 3 ||
			p.Spec.Configuration.Name != name {
			return fmt.Errorf("%+v, %v", p.Spec, err)
		}
		return nil
	})
	edit(s, "infra", infra, func(p *mcfgv1.MachineConfigPool) { p.Spec.MaxUnavailable.IntVal = 50 })
	edit(s, "10-worker-motd", &mcfgv1.MachineConfig{}, func(mc *mcfgv1.MachineConfig) {
		mc.Spec.KernelArguments = []string{"quiet"}
	})
	edit(s, name, &mcfgv1.MachineConfig{}, func(mc *mcfgv1.MachineConfig) {
		mc.Spec.KernelArguments = []string{"quiet"}
	})
	s.eventually("putting back what was edited", func() error {
		fragment, rendered := &mcfgv1.MachineConfig{}, &mcfgv1.MachineConfig{}
		err := errors.Join(s.get("10-worker-motd", fragment), s.get(name, rendered), s.get("infra", infra))
		if err != nil || len(fragment.Spec.KernelArguments) > 0 || len(rendered.Spec.KernelArguments) > 0 ||
			infra.Spec.MaxUnavailable.IntValue() != 3 {
			return fmt.Errorf("%v, %v, %v, %v", fragment.Spec.KernelArguments, rendered.Spec.KernelArguments,
				infra.Spec.MaxUnavailable, err)
		}
		return nil
	})
	before := map[string]string{}
	for _, n := range []string{"10-worker-motd", "10-master-motd", name} {
		before[n] = s.version(n)
	}
	s.push("explain", "worker/10-motd.bu=hello", "master/10-motd.bu=hello",
		strings.Replace(clusterFiles, "maxUnavailable: 2", "maxUnavailable: 3", 1), workerPool,
		"-- README.md --\nHi.\n")
	for n, version := range before {
		controllertest.Equal(s.t, "the version of "+n+" after a commit of a README", s.version(n), version)
	}
}

func (s *stage) version(name string) string {
	s.t.Helper()
	mc := &mcfgv1.MachineConfig{}
	if err := s.get(name, mc); err != nil {
		s.t.Fatal(err)
	}
	return mc.ResourceVersion
}

// drains: a budget holds a drain up, by name, and lets it end; a DaemonSet's pod is no obstacle.
func (s *stage) drains() {
	s.t.Helper()
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: "default"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "proxy"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	s.create(ds, budget)
	s.allow(budget, 0)
	s.newPod("web", nil)
	s.newPod("proxy", []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "DaemonSet", Name: "proxy", UID: ds.UID,
		Controller: new(true),
	}})
	edit(s, "n0", &corev1.Node{}, func(n *corev1.Node) { n.Annotations[v1alpha1.DesiredDrainAnnotation] = "drain-x" })
	s.eventually("naming the budget", func() error {
		n := &corev1.Node{}
		err := s.get("n0", n)
		if got := n.Annotations[v1alpha1.DrainStatusAnnotation]; !n.Spec.Unschedulable ||
			!strings.Contains(got, "default/web: PodDisruptionBudget default/web allows no evictions") ||
			strings.Contains(got, "proxy") {
			return fmt.Errorf("cordoned %t, status %q, %v", n.Spec.Unschedulable, got, err)
		}
		return nil
	})
	s.allow(budget, 1)
	s.eventually("evicting", func() error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
		if err := s.get("web", p); err != nil || p.DeletionTimestamp == nil {
			return fmt.Errorf("the pod stays: %v", err)
		}
		// the kubelet's part
		return client.IgnoreNotFound(s.admin.Delete(s.t.Context(), p, client.GracePeriodSeconds(0)))
	})
	s.eventually("acknowledging", func() error {
		n := &corev1.Node{}
		if err := s.get("n0", n); err != nil || n.Annotations[v1alpha1.LastAppliedDrainAnnotation] != "drain-x" {
			return fmt.Errorf("%v, %v", n.Annotations, err)
		}
		return nil
	})
}

// allow writes what the disruption controller would.
func (s *stage) allow(b *policyv1.PodDisruptionBudget, n int32) {
	s.t.Helper()
	edit := b.DeepCopy()
	if err := s.get(b.Name, edit); err != nil {
		s.t.Fatal(err)
	}
	edit.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: edit.Generation, DisruptionsAllowed: n,
		DesiredHealthy: 1, CurrentHealthy: 1 + n, ExpectedPods: 1 + n,
	}
	if err := s.admin.Status().Update(s.t.Context(), edit); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) newPod(name string, owners []metav1.OwnerReference) {
	s.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", Labels: map[string]string{"app": name},
			OwnerReferences: owners,
		},
		Spec: corev1.PodSpec{NodeName: "n0", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	s.create(p)
	p.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if err := s.admin.Status().Update(s.t.Context(), p); err != nil {
		s.t.Fatal(err)
	}
}

// clusterObjectsGo: a custom pool goes with its file; of what the cluster needs, only the repository's fields go.
func (s *stage) clusterObjectsGo() {
	s.t.Helper()
	s.push("no cluster", "worker/10-motd.bu=hello", "master/10-motd.bu=hello")
	if err := client.IgnoreNotFound(s.get("infra", &mcfgv1.MachineConfigPool{})); err != nil {
		s.t.Fatal(err)
	}
	worker, policy := &mcfgv1.MachineConfigPool{}, &operatorv1.MachineConfiguration{}
	if err := errors.Join(s.get("worker", worker), s.get("cluster", policy)); err != nil {
		s.t.Fatal(err)
	}
	spec, err := json.Marshal(worker.Spec)
	if err != nil {
		s.t.Fatal(err)
	}
	controllertest.Contains(s.t, "pool worker", string(spec), `"machineConfigSelector":{"matchLabels"`,
		`"nodeSelector":{"matchExpressions"`, `"name":"rendered-worker-`)
	controllertest.Equal(s.t, "the owner of pool worker", worker.Labels[v1alpha1.SourceLabel], "")
	controllertest.Equal(s.t, "rules of the policy", len(policy.Spec.NodeDisruptionPolicy.Files), 0)
}
