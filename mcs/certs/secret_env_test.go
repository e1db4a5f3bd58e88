package certs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestSecrets runs against a real API server: what conflicts, what exists already and what a Secret may be is its to
// say.
func TestSecrets(t *testing.T) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", "bin", "assets")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("there is no kube-apiserver to test against: %v; make assets builds one", err)
	}
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}()
	config.QPS = -1
	for i, test := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"five replicas that start at once make one CA and one certificate", fiveReplicas},
		{"machines that trust a CA are served for twelve years, whatever happens", twelveYears},
		{"another host name makes another certificate, and replicas that were started with other names do not quarrel", hostNames},
		{"a Secret of somebody else is used as it is, followed, and never written", somebodyElse},
		{"an empty Secret that was made for us is filled", emptySecrets},
		{"a CA that somebody else supplied signs, and is never renewed", theirCA},
		{"deleted Secrets are written back by who knows the CA", deleted},
		{"a replica that does not know the deleted CA goes on with its certificate, then waits, then makes another CA", forgotten},
		{"what a person wrote into the ConfigMap stays", aPersonsConfigMap},
		{"each replica publishes its URLs, and leaves those of others", urlsOfReplicas},
		{"without an API server what is in the cache is shown", withoutAPIServer},
		{"the CA of a directory becomes the Secret's", fromDirectory},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newCluster(t, config, fmt.Sprintf("test-%d", i))) })
	}
}

// cluster is one namespace of an API server that can be taken away.
type cluster struct {
	config    *rest.Config
	namespace string
	core      typed.CoreV1Interface
	away      atomic.Bool
}

func newCluster(t *testing.T, config *rest.Config, namespace string) *cluster {
	t.Helper()
	c := &cluster{config: rest.CopyConfig(config), namespace: namespace}
	core, err := typed.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.core = core
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := core.Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return cable{conn, &c.away}, err
	}
	return c
}

// cable is a connection that can be cut.
type cable struct {
	net.Conn
	away *atomic.Bool
}

var errCut = errors.New("the cable is cut")

func (c cable) Write(p []byte) (int, error) {
	if c.away.Load() {
		return 0, errors.Join(errCut, c.Close())
	}
	return c.Conn.Write(p)
}

const (
	theCA   = "machine-config-server-ca"
	theLeaf = "machine-config-server-tls"
)

type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// read returns what was written since it was read last.
func (b *book) read() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.text.String()
	b.text.Reset()
	return out
}

// replica starts one at a time of its own clock.
func (c *cluster) replica(t *testing.T, now time.Time, edit func(*Secret)) (*Certificates, *book) {
	t.Helper()
	b := &book{}
	s := Secret{Namespace: c.namespace, Name: theLeaf, CA: theCA, Hostnames: []string{"mcs.example.com"}}
	if edit != nil {
		edit(&s)
	}
	at, err := newSecretStore(c.config, s, slog.New(slog.NewTextHandler(b, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return at.open(t.Context(), now), b
}

func (c *cluster) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	out, err := c.core.Secrets(c.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// write makes a Secret as somebody else would, with their hand on everything.
func (c *cluster) write(t *testing.T, s *corev1.Secret) {
	t.Helper()
	s.Namespace, s.ResourceVersion, s.UID = c.namespace, "", ""
	c.delete(t, s.Name)
	if _, err := c.core.Secrets(c.namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) delete(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := c.core.Secrets(c.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

// published is whom the ConfigMap tells to believe; "" where there is none.
func (c *cluster) published(t *testing.T) string {
	t.Helper()
	out, err := c.core.ConfigMaps(c.namespace).Get(t.Context(), theCA, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range out.Data {
		if strings.Contains(value, "PRIVATE") {
			t.Fatalf("the ConfigMap has %s:\n%s", key, value)
		}
	}
	return out.Data[CAFile]
}

func refresh(t *testing.T, c *Certificates, now time.Time) {
	t.Helper()
	if err := c.Refresh(t.Context(), now); err != nil {
		t.Fatal(err)
	}
}

func serves(t *testing.T, ca string, c *Certificates, now time.Time) {
	t.Helper()
	if err := trusts(t, []byte(ca), c, "mcs.example.com", now); err != nil {
		t.Errorf("at %s: %v", now.Format(time.DateTime), err)
	}
}
