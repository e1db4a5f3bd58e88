package chart

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// cluster is a real API server, and Helm with a kubeconfig for it. No kubelet runs: the pods stay Pending.
type cluster struct {
	t      *testing.T
	client client.Client
	helm   *action.Configuration
}

// startCluster starts the API server of the directory in KUBEBUILDER_ASSETS.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "bin", "assets")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("there is no kube-apiserver to install on: %v; make assets builds one", err)
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: new(false),
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	c := &cluster{t: t}
	if c.client, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, dir := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		t.Setenv(dir, t.TempDir())
	}
	settings := cli.New()
	settings.SetNamespace("default")
	c.helm = action.NewConfiguration()
	if err := c.helm.Init(settings.RESTClientGetter(), "default", ""); err != nil {
		t.Fatal(err)
	}
	return c
}

// in returns the same cluster for a subtest.
func (c *cluster) in(t *testing.T) *cluster { return &cluster{t: t, client: c.client, helm: c.helm} }

// install runs `helm install bunsen DIR/chart --namespace default`.
func (c *cluster) install(dir string, values object) {
	c.t.Helper()
	chart, err := loader.Load(filepath.Join(dir, "chart"))
	if err != nil {
		c.t.Fatal(err)
	}
	install := action.NewInstall(c.helm)
	install.ReleaseName, install.Namespace = "bunsen", "default"
	install.ServerSideApply, install.WaitStrategy = true, kube.HookOnlyStrategy
	if _, err := install.Run(chart, values); err != nil {
		c.t.Fatalf("helm install: %v", err)
	}
}

// upgrade runs `helm upgrade bunsen DIR/chart --namespace default`.
func (c *cluster) upgrade(dir string, values object) {
	c.t.Helper()
	chart, err := loader.Load(filepath.Join(dir, "chart"))
	if err != nil {
		c.t.Fatal(err)
	}
	upgrade := action.NewUpgrade(c.helm)
	upgrade.Namespace, upgrade.ServerSideApply, upgrade.WaitStrategy = "default", "auto", kube.HookOnlyStrategy
	if _, err := upgrade.Run("bunsen", chart, values); err != nil {
		c.t.Fatalf("helm upgrade: %v", err)
	}
}

// get reads the object with the kind and the name of another one, and reports whether it exists and is not about to be
// deleted.
func (c *cluster) get(o object) (unstructured.Unstructured, bool) {
	c.t.Helper()
	of := unstructured.Unstructured{Object: o}
	var live unstructured.Unstructured
	live.SetGroupVersionKind(of.GroupVersionKind())
	err := c.client.Get(c.t.Context(), types.NamespacedName{Namespace: of.GetNamespace(), Name: of.GetName()}, &live)
	if client.IgnoreNotFound(err) != nil {
		c.t.Fatal(err)
	}
	return live, err == nil && live.GetDeletionTimestamp() == nil
}

// wait waits until a request succeeds.
func (c *cluster) wait(what string, try func(context.Context) error) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), time.Minute)
	defer stop()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("%s: %v", what, err)
		case <-pause.C:
		}
	}
}

// gitSource is an object that a user creates after the installation.
func gitSource() *unstructured.Unstructured {
	source := &unstructured.Unstructured{Object: object{
		"spec": object{"url": "https://git.example.org/config", "ref": object{"branch": "main"}},
	}}
	source.SetGroupVersionKind(schema.GroupVersionKind{Group: "bunsen.dev", Version: "v1alpha1", Kind: "GitSource"})
	source.SetName("config")
	return source
}

// TestHelmInstallsUpgradesAndUninstalls runs Helm against a real API server: it accepts every object of the chart,
// an upgrade changes what its values say, and uninstalling leaves what users made.
func TestHelmInstallsUpgradesAndUninstalls(t *testing.T) {
	dir := build(t)
	c := startCluster(t)
	want := installed(t, dir, "")
	c.install(dir, object{})
	for name, o := range want {
		if _, ok := c.get(o); !ok {
			t.Errorf("after helm install, the cluster has no %s", name)
		}
	}
	c.wait("creating a GitSource", func(ctx context.Context) error { return c.client.Create(ctx, gitSource()) })
	invalid := gitSource()
	invalid.SetName("invalid")
	invalid.Object["spec"] = object{"url": 7}
	if err := c.client.Create(t.Context(), invalid); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		t.Errorf("a GitSource whose URL is a number: %v", err)
	}
	t.Run("upgrade", func(t *testing.T) { c.in(t).checkUpgrade(dir, want) })
	t.Run("uninstall", func(t *testing.T) { c.in(t).checkUninstall(want) })
	t.Run("install again", func(t *testing.T) {
		again := c.in(t)
		again.install(dir, object{})
		if _, ok := again.get(gitSource().Object); !ok {
			t.Error("the GitSource is gone")
		}
	})
}

// installed returns the objects that Helm installs with these values, by name.
func installed(t *testing.T, dir, values string) map[string]object {
	t.Helper()
	text, err := template(t, dir, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

func (c *cluster) checkUpgrade(dir string, before map[string]object) {
	t := c.t
	const values = "controller: {replicas: 1}\nnotifier: {enabled: false}\nnodesReadConfigs: true\n"
	after := installed(t, dir, values)
	set := object{}
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		t.Fatal(err)
	}
	c.upgrade(dir, set)
	controller, ok := c.get(before["Deployment bunsen-system machine-config-controller"])
	if replicas, _, err := unstructured.NestedInt64(controller.Object, "spec", "replicas"); !ok || err != nil ||
		replicas != 1 {
		t.Errorf("the controller has %d replicas after the upgrade, want 1: %v", replicas, err)
	}
	for _, name := range missing(before, after) {
		if _, ok := c.get(before[name]); ok {
			t.Errorf("%s is still there, although the upgrade switched it off", name)
		}
	}
	for _, name := range missing(after, before) {
		if _, ok := c.get(after[name]); !ok {
			t.Errorf("%s is missing, although the upgrade switched it on", name)
		}
	}
	if len(missing(before, after)) == 0 || len(missing(after, before)) == 0 {
		t.Error("the values add or remove nothing, so the upgrade shows nothing")
	}
	if _, ok := c.get(gitSource().Object); !ok {
		t.Error("the upgrade deleted a GitSource")
	}
}

// missing returns the names of the objects of one set that another one does not have.
func missing(from, in map[string]object) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if in[name] == nil {
			out = append(out, name)
		}
	}
	return out
}

func (c *cluster) checkUninstall(before map[string]object) {
	t := c.t
	uninstall := action.NewUninstall(c.helm)
	uninstall.WaitStrategy, uninstall.Timeout = kube.HookOnlyStrategy, time.Minute
	if _, err := uninstall.Run("bunsen"); err != nil {
		t.Fatalf("helm uninstall: %v", err)
	}
	for name, o := range before {
		keep := strings.HasPrefix(name, "CustomResourceDefinition ") || strings.HasPrefix(name, "Namespace ")
		c.wait(name, func(context.Context) error {
			if _, ok := c.get(o); ok != keep {
				return fmt.Errorf("it exists after helm uninstall: %t, want %t", ok, keep)
			}
			return nil
		})
	}
	if _, ok := c.get(gitSource().Object); !ok {
		t.Error("helm uninstall deleted a GitSource")
	}
}
