package kube_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/kube"
	testports "github.com/bunsen-os/bunsen/test/ports"
)

// TestMembersOfARealEtcdAreCounted runs three members with certificates where kubeadm has them, and ends one of them.
func TestMembersOfARealEtcdAreCounted(t *testing.T) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Skip("KUBEBUILDER_ASSETS names no directory with etcd")
	}
	root := t.TempDir()
	pki := certificates(t, filepath.Join(root, "etc/kubernetes/pki/etcd"))
	ports, err := testports.Free(6)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 3 {
		names = append(names, fmt.Sprintf("m%d=https://127.0.0.1:%d", i, ports[2*i]))
	}
	var stop []func()
	for i := range 3 {
		peer, client := fmt.Sprintf("https://127.0.0.1:%d", ports[2*i]), fmt.Sprintf("https://127.0.0.1:%d",
			ports[2*i+1])
		cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "etcd"), "--name", fmt.Sprintf("m%d", i),
			"--data-dir", t.TempDir(), "--unsafe-no-fsync", "--log-level=error",
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--listen-client-urls", client,
			"--advertise-client-urls", client,
			"--initial-cluster", strings.Join(names, ","), "--client-cert-auth", "--trusted-ca-file", pki+"/ca.crt",
			"--cert-file", pki+"/healthcheck-client.crt", "--key-file", pki+"/healthcheck-client.key",
			"--peer-trusted-ca-file", pki+"/ca.crt", "--peer-cert-file", pki+"/healthcheck-client.crt",
			"--peer-key-file", pki+"/healthcheck-client.key")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		t.Cleanup(end)
		stop = append(stop, end)
	}
	manifest := fmt.Sprintf("    - --listen-client-urls=https://127.0.0.1:%d,https://10.0.0.1:2379\n", ports[1])
	write(t, filepath.Join(root, "etc/kubernetes/manifests/etcd.yaml"), []byte(manifest))
	read := func(p string) ([]byte, error) { return os.ReadFile(root + p) }

	await(t, read, v1alpha1.EtcdReport{Members: 3, Healthy: 3})
	stop[2]()
	await(t, read, v1alpha1.EtcdReport{Members: 3, Healthy: 2})
	stop[1]() // without a quorum, no member is healthy
	await(t, read, v1alpha1.EtcdReport{Members: 3, Healthy: 0, Down: true})
	stop[0]()
	if got := kube.AskEtcd(t.Context(), read); got == nil || !got.Down ||
		!strings.Contains(got.Problem, "reading the members of etcd") {
		t.Errorf("without a member: %+v", got)
	}
}

func TestANodeWithoutAMemberReportsNothing(t *testing.T) {
	root := t.TempDir()
	if got := kube.AskEtcd(t.Context(), func(p string) ([]byte, error) { return os.ReadFile(root + p) }); got != nil {
		t.Errorf("it reports %+v", got)
	}
}

// await asks until the report is the wanted one.
func await(t *testing.T, read func(string) ([]byte, error), want v1alpha1.EtcdReport) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		got := kube.AskEtcd(ctx, read)
		if got != nil && *got == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the report is %+v, want %+v", got, want)
		case <-tick.C:
		}
	}
}

// certificates writes a CA and a certificate that serves as client and server.
func certificates(t *testing.T, dir string) string {
	t.Helper()
	sign := func(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate,
		*ecdsa.PrivateKey,
	) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		if parent == nil {
			parent, parentKey = template, key
		}
		raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	ca, caKey := sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	leaf, key := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "client"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))
	write(t, dir+"/healthcheck-client.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}))
	write(t, dir+"/healthcheck-client.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}))
	return dir
}

func write(t *testing.T, at string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
