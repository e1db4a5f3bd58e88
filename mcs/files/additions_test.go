package files

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcs"
)

// certificate is a fresh one as PEM.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func pemFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFilesThatChangeAreTakenUpWhole(t *testing.T) {
	first, second, third := certificate(t), certificate(t), certificate(t)
	cloud, registry := pemFile(t, first), pemFile(t, first+second)
	var got []mcs.Extra
	var log bytes.Buffer
	a := &Additions{
		Files: []Addition{
			{CloudCAPath, cloud},
			{fmt.Sprintf(RegistryCAPath, "a.example.com"), registry},
			{fmt.Sprintf(RegistryCAPath, "z.example.com:5000"), registry},
		},
		JoinServer: "https://api.example.com:6443", JoinCA: []byte(third),
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Set: func(x mcs.Extra) error { got = append(got, x); return nil },
	}
	for range 2 { // what did not change is not told again
		if err := a.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
	a.SetKubeletCA([]byte(second))
	if err := os.WriteFile(cloud, []byte(third), 0o600); err != nil {
		t.Fatal(err)
	}
	a.refreshAndLog()
	for _, bad := range []string{"", first[:len(first)/2], first + second[:len(second)/2], "text"} {
		if err := os.WriteFile(cloud, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		a.refreshAndLog()
		if !strings.Contains(log.String(), cloud) {
			t.Errorf("of %q the log says %s", bad, &log)
		}
	}
	want := func(kubelet, cloud string) mcs.Extra {
		x := mcs.Extra{Join: &mcs.Join{Server: "https://api.example.com:6443", CA: []byte(third)}}
		for _, f := range []struct{ path, contents string }{
			{"/etc/kubernetes/kubelet-ca.crt", kubelet},
			{"/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem", cloud},
			{"/etc/docker/certs.d/a.example.com/ca.crt", first + second},
			{"/etc/docker/certs.d/z.example.com:5000/ca.crt", first + second},
		} {
			if f.contents != "" {
				x.Files = append(x.Files, mcs.File{Path: f.path, Mode: 0o644, Contents: []byte(f.contents)})
			}
		}
		return x
	}
	if diff := cmp.Diff([]mcs.Extra{want("", first), want(second, first), want(second, third)}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAChangeThatSomePoolsCannotTakeIsTold(t *testing.T) {
	var log bytes.Buffer
	a := &Additions{Set: func(mcs.Extra) error {
		return errors.New("pool worker keeps")
	}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := a.Refresh(); err != nil || !strings.Contains(log.String(), "pool worker keeps") {
		t.Errorf("%v; %s", err, &log)
	}
}
