package http

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The wiring that the small API server of the other tests cannot show: a real one with the CRDs that we install.
func TestAgainstARealAPIServer(t *testing.T) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "bin", "assets")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("there is no kube-apiserver to test against: %v; make assets builds one", err)
	}
	env := &envtest.Environment{BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd")}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}()
	scheme := runtime.NewScheme()
	if err := mcfgv1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool := &mcfgv1.MachineConfigPool{}
	pool.Name = "worker"
	if err := kube.Create(ctx, pool); err != nil {
		t.Fatal(err)
	}
	log := make(lines, 1000)
	s := NewShelf()
	cluster, err := NewCluster(config, s, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cluster.Run(ctx) }()
	log.await(t, "ready")
	h := Routes(s, quiet)
	if r := ask(h, "GET", "/config/worker"); r.StatusCode != 503 {
		t.Errorf("before anything is rendered: %d", r.StatusCode)
	}
	if err := kube.Create(ctx, rendered("rendered-worker-1", "hello")); err != nil {
		t.Fatal(err)
	}
	pool.Spec.Configuration.Name = "rendered-worker-1"
	if err := kube.Update(ctx, pool); err != nil {
		t.Fatal(err)
	}
	log.await(t, "msg=serving", "rendered-worker-1")
	r := ask(h, "GET", "/config/worker", "Accept", accept+"3.2.0")
	if body := text(t, r); r.StatusCode != 200 || !strings.Contains(body, "data:,hello") || !strings.Contains(body, `"version":"3.2.0"`) {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	if r := ask(h, "GET", "/config/other"); r.StatusCode != 404 {
		t.Errorf("another pool: %d", r.StatusCode)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
