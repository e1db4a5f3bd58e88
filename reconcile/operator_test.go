package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bunsen-os/bunsen/reconcile"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/test/ports"
)

// TestNothingHappensWhereTheMachineConfigOperatorLeads runs the controller with its own rights beside the operator's
// Deployment: it says why it waits, writes no pool, and starts once the Deployment is gone. A controller
// that runs ends.
func TestNothingHappensWhereTheMachineConfigOperatorLeads(t *testing.T) {
	env, rc := startServer(t, nil)
	admin, err := client.New(rc, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, dir: env.BinaryAssetsDirectory}
	s.kubeconfig(env.KubeConfig)
	s.admin = admin
	for _, file := range []string{"namespace/namespace.yaml", "rbac/controller.yaml"} {
		s.apply(filepath.Join("..", "config", file))
	}
	const namespace, name = "openshift-machine-config-operator", "machine-config-operator"
	labels := map[string]string{"k8s-app": name}
	operator := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: name}}},
			},
		},
	}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, operator} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	as := rest.CopyConfig(rc)
	as.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{"system:authenticated"}}

	t.Run("a controller that runs ends", func(t *testing.T) {
		mgr, err := ctrl.NewManager(as, ctrl.Options{
			Scheme: env.Scheme, Cache: reconcile.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
			LeaderElection: true, LeaderElectionID: "another", LeaderElectionNamespace: "default", // never the leader
			Controller: config.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg := reconcile.Config{Namespace: "bunsen-system", Now: time.Now}
		if err := reconcile.Register(mgr, cfg); err != nil {
			t.Fatal(err)
		}
		if err := mgr.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "leads its pools") {
			t.Errorf("it ends with %v", err)
		}
	})
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", free[0])
	ended := make(chan error, 1)
	go func() {
		ended <- reconcile.WaitForOperator(t.Context(), as, reconcile.OperatorWait{
			Health: address, Replica: health.Replica{Name: "controller-0", PodNamespace: "bunsen-system"},
			Every: 100 * time.Millisecond,
		})
	}()
	answers := func(path string, want int) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
			func(context.Context) (bool, error) {
				answer, err := http.Get("http://" + address + path)
				if err != nil {
					return false, nil
				}
				return answer.StatusCode == want, answer.Body.Close()
			})
		if err != nil {
			t.Fatalf("%s never answers %d: %v", path, want, err)
		}
	}
	answers("/healthz", http.StatusOK)
	answers("/readyz", http.StatusInternalServerError)
	var events eventsv1.EventList
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			err := admin.List(ctx, &events, client.InNamespace("bunsen-system"))
			return len(events.Items) > 0, err
		})
	if err != nil || events.Items[0].Reason != "OperatorLeads" || events.Items[0].Regarding.Name != "controller-0" {
		t.Errorf("the event: %v, %+v", err, events.Items)
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := admin.List(t.Context(), &pools); err != nil || len(pools.Items) > 0 {
		t.Errorf("pools: %v, %d", err, len(pools.Items))
	}
	select {
	case err := <-ended:
		t.Fatalf("it no longer waits: %v", err)
	default:
	}
	if err := admin.Delete(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for an operator that is gone")
	}
}
