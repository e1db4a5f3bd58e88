package main

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// realCluster is a real API server with config/ applied. It returns the server's own kubeconfig and the administrator.
func realCluster(t *testing.T) (string, client.Client) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(root, "bin", "assets")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("there is no kube-apiserver to test against: %v; make assets builds one", err)
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: new(false),
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node,RBAC").
		Set("enable-bootstrap-token-auth", "true")
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Log(err)
		}
	})
	kubeconfig := func(user string, groups ...string) string {
		who, err := env.AddUser(envtest.User{Name: user, Groups: groups}, nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := who.KubeConfig()
		if err != nil {
			t.Fatal(err)
		}
		return write(t, "kubeconfig", string(raw))
	}
	apply := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "--kubeconfig",
		kubeconfig("admin", "system:masters"), "apply", "--server-side", "-k", filepath.Join(root, "config"))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, mcfgv1.Install,
		v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig("system:serviceaccount:bunsen-system:machine-config-server", "system:serviceaccounts",
		"system:serviceaccounts:bunsen-system"), admin
}

// TestInAClusterAMachineGetsWhatItJoinsWith runs the whole program with the rights of its service account.
func TestInAClusterAMachineGetsWhatItJoinsWith(t *testing.T) {
	kubeconfig, admin := realCluster(t)
	made, err := join.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rendered := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "rendered-worker-1"}}
	rendered.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"}}`)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	pool.Spec.Configuration.Name = rendered.Name
	provisioning := &v1alpha1.ProvisioningToken{
		ObjectMeta: metav1.ObjectMeta{Name: made.ID},
		Spec: v1alpha1.ProvisioningTokenSpec{
			Pool: "worker", Node: "worker-7", Uses: 1, Expires: metav1.NewTime(time.Now().Add(time.Hour)),
			Hash: made.Hash(),
		},
	}
	for _, object := range []client.Object{rendered, pool, provisioning} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, "--kubeconfig", kubeconfig, "--tls-secret", defaultSecret, "--cache-dir", t.TempDir(),
		"--join-server", config.Host, "--name", "test")
	for r.ask(t, "/readyz", "").StatusCode != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("it never gets ready")
		}
	}
	files := filesOf(t, r.ask(t, "/config/worker", made.String()))
	if !strings.Contains(files["/etc/kubernetes/kubelet-ca.crt"], "BEGIN CERTIFICATE") {
		t.Errorf("the kubelet's CA is %q", files["/etc/kubernetes/kubelet-ca.crt"])
	}
	machine, err := clientcmd.RESTConfigFromKubeConfig([]byte(files["/etc/kubernetes/kubeconfig"]))
	if err != nil {
		t.Fatalf("%v in %q", err, files["/etc/kubernetes/kubeconfig"])
	}
	id, _, _ := strings.Cut(machine.BearerToken, ".")
	minted := &corev1.Secret{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		minted); err != nil || !strings.Contains(string(minted.Data["description"]), "node worker-7") {
		t.Errorf("%q: %v", minted.Data["description"], err)
	}
	if got := r.ask(t, "/config/worker", made.String()); got.StatusCode != http.StatusForbidden {
		t.Errorf("a second time: %d", got.StatusCode)
	}
	r.ends(t)
	lease := &coordinationv1.Lease{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "bunsen-system", Name: "machine-config-server-test"},
		lease); err != nil {
		t.Fatal(err)
	}
	report, err := v1alpha1.ParseServerReport(lease.Annotations[v1alpha1.ServerAnnotation])
	if err != nil || report.Served != 1 || report.Refused != 1 || report.Pools["worker"].Config != rendered.Name ||
		report.Access != v1alpha1.AccessTokens || report.CertificateUntil == nil || len(report.Authorities) != 1 {
		t.Errorf("it told %+v (%v)", report, err)
	}
}

// filesOf are the files of an Ignition config, by path.
func filesOf(t *testing.T, got *http.Response) map[string]string {
	t.Helper()
	body, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", got.StatusCode, body, err)
	}
	var config struct {
		Storage struct {
			Files []struct {
				Path     string
				Contents struct{ Source string }
			}
		}
	}
	if err := json.Unmarshal(body, &config); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range config.Storage.Files {
		text, err := url.PathUnescape(strings.TrimPrefix(f.Contents.Source, "data:,"))
		if err != nil {
			t.Fatal(err)
		}
		files[f.Path] = text
	}
	return files
}
