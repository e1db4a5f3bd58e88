package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// plane is a real API server with config/ applied, and rights as on a real cluster.
type plane struct {
	env    *envtest.Environment
	admin  client.Client
	config *rest.Config // the administrator's
	server *rest.Config // the server's service account
	root   string       // the checkout's
	// of the administrator
	kubeconfig string
}

func newPlane(t *testing.T) *plane {
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
	p := &plane{env: &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: new(false),
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}}
	p.env.ControlPlane.GetAPIServer().Configure().
		Set("authorization-mode", "Node,RBAC").
		Set("enable-bootstrap-token-auth", "true").
		Append("enable-admission-plugins", "NodeRestriction")
	if p.config, err = p.env.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.env.Stop(); err != nil {
			t.Log(err)
		}
	})
	p.config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, mcfgv1.Install,
		v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if p.admin, err = client.New(p.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	p.root, p.kubeconfig = root, filepath.Join(t.TempDir(), "kubeconfig")
	p.as(t, "admin", p.kubeconfig, "system:masters")
	p.kubectl(t, "apply", "--server-side", "-k", "config")
	p.server = p.as(t, "system:serviceaccount:bunsen-system:machine-config-server", "", "system:serviceaccounts",
		"system:serviceaccounts:bunsen-system")
	return p
}

// kubectl runs a command as the administrator, in the checkout's root.
func (p *plane) kubectl(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.env.BinaryAssetsDirectory, "kubectl"),
		append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	cmd.Dir = p.root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", args, err, out)
	}
}

// line is the way to the API server, which can be cut.
type line struct {
	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

// dial is rest.Config's.
func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the line is cut")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		l.open = append(l.open, c)
	}
	return c, err
}

// set cuts the line and what goes over it, or mends it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

// as is a user's identity, written as a kubeconfig where a file is named.
func (p *plane) as(t *testing.T, user, file string, groups ...string) *rest.Config {
	t.Helper()
	who, err := p.env.AddUser(envtest.User{Name: user, Groups: groups}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if file != "" {
		raw, err := who.KubeConfig()
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return who.Config()
}

func (p *plane) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := p.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// token makes a token of pool worker.
func (p *plane) token(t *testing.T, id string, uses int32) {
	t.Helper()
	p.create(t, &v1alpha1.ProvisioningToken{
		ObjectMeta: metav1.ObjectMeta{Name: id},
		Spec: v1alpha1.ProvisioningTokenSpec{
			Pool: "worker", Uses: uses, Expires: metav1.NewTime(time.Now().Add(time.Hour)), Hash: hash,
		},
	})
}

const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// await polls until a condition holds; what says what for.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s", what)
		case <-again.C:
		}
	}
}
