package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"

	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// apiServer is a real etcd and kube-apiserver with the project's kinds and rights.
type apiServer struct {
	t     *testing.T
	env   *envtest.Environment
	admin dynamic.Interface
	node  *rest.Config
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = "../../bin/assets"
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("no kube-apiserver to test with: run make assets, or set KUBEBUILDER_ASSETS: %v", err)
	}
	no := false
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: &no,
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node,RBAC").
		Append("enable-admission-plugins", "NodeRestriction").
		Set("request-timeout", "3s") // as long it waits for watches to end when it is told to
	env.ControlPlane.GetAPIServer().CertDir = t.TempDir() // which it finds again when it is started again
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	s := &apiServer{t: t, env: env}
	t.Cleanup(func() { _ = env.Stop() }) // what does not stop in time is killed
	user, err := env.AddUser(envtest.User{Name: "system:node:worker-0", Groups: []string{"system:nodes"}}, nil)
	s.must(err)
	s.node = user.Config()
	config.QPS, config.Burst = 100, 100
	s.admin, err = dynamic.NewForConfig(config)
	s.must(err)
	admin, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	s.must(err)
	kubeconfig, err := admin.KubeConfig()
	s.must(err)
	at := filepath.Join(t.TempDir(), "kubeconfig")
	s.must(os.WriteFile(at, kubeconfig, 0o600))
	for _, args := range [][]string{
		{"apply", "-k", "../../config"},
		{"apply", "-k", "../../config/components/nodes-read-configs"}, // no machine-config-server runs
		{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
	} {
		cmd := exec.Command(filepath.Join(assets, "kubectl"), append([]string{"--kubeconfig", at}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	s.create(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, map[string]any{
		"apiVersion": "v1",
		"kind":       "Node", "metadata": map[string]any{"name": "worker-0"},
	})
	return s
}

func (s *apiServer) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *apiServer) create(gvr schema.GroupVersionResource, object map[string]any) {
	s.t.Helper()
	_, err := s.admin.Resource(gvr).Create(s.t.Context(), &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{})
	s.must(err)
}

func (s *apiServer) config(name, path, text string) {
	s.t.Helper()
	s.create(schema.GroupVersionResource{
		Group: "machineconfiguration.openshift.io", Version: "v1",
		Resource: "machineconfigs",
	}, map[string]any{
		"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{"config": map[string]any{
			"ignition": map[string]any{"version": "3.5.0"},
			"storage":  map[string]any{"files": []any{map[string]any{"path": path, "overwrite": true, "contents": map[string]any{"source": "data:," + text}}}},
		}},
	})
}

var nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// annotate writes what a controller would.
func (s *apiServer) annotate(key, value string) {
	s.t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"` + key + `":"` + value + `"}}}`)
	if key == v1alpha1.LastAppliedDrainAnnotation {
		patch = fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"spec":{"unschedulable":%t}}`, key, value,
			strings.HasPrefix(value, v1alpha1.DrainVerb+"-"))
	}
	_, err := s.admin.Resource(nodes).Patch(s.t.Context(), "worker-0", types.MergePatchType, patch,
		metav1.PatchOptions{})
	s.must(err)
}

// await looks until the Node is as wanted. It acknowledges drains, as the controller would.
func (s *apiServer) await(what string, is func(report.Node) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var last report.Node
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		n, err := s.admin.Resource(nodes).Get(ctx, "worker-0", metav1.GetOptions{})
		if err == nil {
			last = report.NodeOf(n.GetAnnotations())
			if is(last) {
				return
			}
			if last.DesiredDrain != last.LastAppliedDrain {
				s.annotate(v1alpha1.LastAppliedDrainAnnotation, last.DesiredDrain)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("waiting for %s: the Node says %+v, %v", what, last, err)
		}
	}
}

// witness hears what a daemon logs.
type witness struct {
	mu   sync.Mutex
	text strings.Builder
	// heard is closed when a line has the words.
	words string
	heard chan struct{}
}

// Write implements io.Writer.
func (w *witness) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.words != "" && strings.Contains(string(line), w.words) {
		w.words = ""
		close(w.heard)
	}
	return w.text.Write(line)
}

func (w *witness) said(words string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.text.String(), words)
}

// cutPower stops the API server when the machine reboots.
type cutPower struct {
	host.Power
	cut func()
}

func (p cutPower) Reboot(ctx context.Context, why string) error {
	p.cut()
	return p.Power.Reboot(ctx, why)
}

// elsewhere takes this machine's API server for another machine's.
func elsewhere(cluster *kube.Connection) func(error) health.API {
	return func(err error) health.API {
		if is := cluster.APIHealth(err); is != health.RefusedHere {
			return is
		}
		return health.RefusedElsewhere
	}
}

func TestANodeRebootsWithoutAnAPIServerAndTellsLater(t *testing.T) {
	s := startAPIServer(t)
	s.config("rendered-a", policyFile, "a")
	s.config("rendered-r", "/etc/motd", "hi")
	s.annotate(v1alpha1.DesiredConfigAnnotation, "rendered-a")
	m := hosttest.NewMachine()
	h := m.Host()
	stopped := make(chan struct{})
	var once sync.Once
	h.Power = cutPower{h.Power, func() {
		once.Do(func() {
			if err := s.env.ControlPlane.APIServer.Stop(); err != nil {
				t.Error(err)
			}
			close(stopped)
		})
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := &witness{words: "the new config is in force", heard: make(chan struct{})}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), heard), nil))
	cluster := kube.NewConnection("worker-0", func() (*rest.Config, error) { return s.node, nil })
	changed := cluster.Watch(ctx, log)
	ended := make(chan error, 1)
	go func() { // boot after boot
		for {
			a := agent.New(agent.Config{
				Node: "worker-0", Cluster: cluster, Host: h, Log: log, Events: cluster.NewRecorder(ctx, log),
				Health: &agent.HealthOptions{
					API: elsewhere(cluster), AfterReboot: 2 * time.Second,
					Settle: time.Millisecond,
				},
			})
			if err := a.Run(ctx, changed); !errors.Is(err, agent.ErrRebooting) {
				ended <- err
				return
			}
		}
	}()
	s.await("rendered-a", func(n report.Node) bool { return n.State == "Done" && n.Current == "rendered-a" })
	s.annotate(v1alpha1.DesiredConfigAnnotation, "rendered-r")
	s.await("the drain", func(n report.Node) bool { return n.DesiredDrain == "drain-rendered-r" })
	s.annotate(v1alpha1.LastAppliedDrainAnnotation, "drain-rendered-r")
	<-stopped
	<-heard.heard
	s.must(s.env.ControlPlane.APIServer.Start())
	s.await("rendered-r", func(n report.Node) bool {
		return n.State == "Done" && n.Current == "rendered-r" && n.LastAppliedDrain == "uncordon-rendered-r"
	})
	events, err := s.admin.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace("default").
		List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=worker-0"})
	s.must(err)
	var reasons []string
	for _, e := range events.Items {
		reason, _, _ := unstructured.NestedString(e.Object, "reason")
		reasons = append(reasons, reason)
	}
	for _, want := range []string{"NodeDone", "Drain"} {
		if !slices.Contains(reasons, want) {
			t.Errorf("there is no event %s: %q", want, reasons)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := m.Log; !slices.Equal(got, []string{"reload crio.service", "reboot: machine config rendered-r"}) {
		t.Errorf("it did %q", got)
	}
	if heard.said("level=ERROR") {
		t.Error("it logged an error")
	}
}
