package pools_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bunsen-os/bunsen/reconcile/pools"
)

// cluster is a real API server with config/ applied.
type cluster struct {
	t             *testing.T
	env           *envtest.Environment
	admin, worker client.Client
	controller    *rest.Config
	kubeconfig    string
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "bin", "assets")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("there is no kube-apiserver to test against: %v; make assets builds one", err)
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: new(false),
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node,RBAC").
		Append("enable-admission-plugins", "NodeRestriction").
		Set("request-timeout", "3s") // how long it waits for watches when it stops
	env.ControlPlane.GetAPIServer().CertDir = t.TempDir() // the restarted server has the same certificates
	if _, err := env.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	c := &cluster{t: t, env: env, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	var config *rest.Config
	config, c.admin = c.connect(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, c.kubeconfig)
	_, c.worker = c.connect(envtest.User{Name: "system:node:worker-0", Groups: []string{"system:nodes"}},
		filepath.Join(t.TempDir(), "kubelet"))
	c.controller = rest.CopyConfig(config)
	c.controller.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:bunsen-system:machine-config-controller",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	return c
}

func (c *cluster) connect(who envtest.User, kubeconfig string) (*rest.Config, client.Client) {
	c.t.Helper()
	user, err := c.env.AddUser(who, nil)
	c.must(err)
	raw, err := user.KubeConfig()
	c.must(err)
	c.must(os.WriteFile(kubeconfig, raw, 0o600))
	out, err := client.New(user.Config(), client.Options{Scheme: scheme(c.t)})
	c.must(err)
	return user.Config(), out
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, mcfgv1.Install} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// run is a subtest with the same API server.
func (c *cluster) run(name string, test func(*cluster)) {
	c.t.Run(name, func(t *testing.T) {
		sub := *c
		sub.t = t
		test(&sub)
	})
}

func (c *cluster) kubectl(args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), filepath.Join(c.env.BinaryAssetsDirectory, "kubectl"),
		append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
}

// startReconciler runs the reconciler with the rights of the controller, and returns a function that stops it.
func (c *cluster) startReconciler() func() {
	c.t.Helper()
	mgr, err := ctrl.NewManager(c.controller, ctrl.Options{
		Scheme: scheme(c.t), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: testr.New(c.t),
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	c.must(err)
	c.must(pools.RegisterLabelKeys(mgr, "bunsen-system"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("the manager ended: %v", err)
		}
		done <- nil
	}
	c.t.Cleanup(stop)
	return stop
}

// restart stops the API server and starts it again on the same etcd.
func (c *cluster) restart() {
	c.t.Helper()
	c.must(c.env.ControlPlane.APIServer.Stop())
	c.must(c.env.ControlPlane.APIServer.Start())
}

// heartbeat writes the Node as its kubelet does. Every heartbeat of the test must succeed at the first attempt.
func (c *cluster) heartbeat() {
	c.t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}
	c.must(c.worker.Status().Patch(c.t.Context(), node, client.RawPatch(types.StrategicMergePatchType, patch)))
}

// label lets the kubelet add a label to its Node. It is a dry run.
func (c *cluster) label(key string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}
	return c.worker.Patch(c.t.Context(), node, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:"x"}}}`, key)), client.DryRunAll)
}

// await repeats a check until it is true, with a heartbeat before each attempt.
func (c *cluster) await(what string, check func() (bool, error)) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		c.heartbeat()
		ok, err := check()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

func (c *cluster) awaitRefused(key string) {
	c.t.Helper()
	c.await("a refusal of the label "+key, func() (bool, error) {
		err := c.label(key)
		return apierrors.IsForbidden(err), err
	})
}

func (c *cluster) awaitData(want map[string]string) {
	c.t.Helper()
	c.await(fmt.Sprintf("the data %q", want), func() (bool, error) {
		configMap := &corev1.ConfigMap{}
		err := c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: "bunsen-system", Name: pools.LabelKeysConfigMap},
			configMap)
		return err == nil && maps.Equal(configMap.Data, want), fmt.Errorf("the ConfigMap has %q: %w", configMap.Data,
			err)
	})
}

func (c *cluster) configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bunsen-system", Name: pools.LabelKeysConfigMap},
		Data:       data,
	}
}

// TestNodesStayWritable: whatever happens to the API server and to the CRD of pools, no write to a Node fails.
// Meanwhile the reconciler follows the pools, and restores the ConfigMap.
func TestNodesStayWritable(t *testing.T) {
	c := startCluster(t)
	c.kubectl("apply", "-k", filepath.Join("..", "..", "config"))
	c.must(c.admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}))
	c.heartbeat()
	c.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")

	gpu, racked := pool("gpu", exists("example.com/gpu")),
		pool("racked", &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/rack": "a"}})
	stop := c.startReconciler()
	c.must(c.admin.Create(t.Context(), gpu.DeepCopy()))
	c.must(c.admin.Create(t.Context(), racked.DeepCopy()))
	both := map[string]string{"gpu": "example.com/gpu", "racked": "example.com/rack"}
	c.awaitData(both)
	c.awaitRefused("example.com/gpu")
	c.awaitRefused("example.com/rack")
	c.must(c.label("example.com/disk"))

	c.run("the reconciler restores the ConfigMap", func(c *cluster) {
		c.must(c.admin.Delete(c.t.Context(), c.configMap(nil)))
		c.awaitData(both)
		c.must(c.admin.Update(c.t.Context(),
			c.configMap(map[string]string{"gpu": "example.com/x", "other": "example.com/disk"})))
		c.awaitData(both)
		c.must(c.admin.Delete(c.t.Context(), racked.DeepCopy()))
		c.awaitData(map[string]string{"gpu": "example.com/gpu"})
	})
	c.run("after a restart of the API server", func(c *cluster) {
		c.restart()
		c.heartbeat()
		c.awaitRefused("example.com/gpu")
	})
	c.run("without the CRD of pools", func(c *cluster) {
		stop()
		c.kubectl("delete", "crd", "machineconfigpools.machineconfiguration.openshift.io")
		c.heartbeat()
		c.awaitRefused("example.com/gpu")
		c.restart()
		c.heartbeat()
		c.awaitRefused("example.com/gpu")
		c.must(c.label("example.com/disk"))
	})
}
