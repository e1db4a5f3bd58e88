package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/files"
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

func TestNewMachinesBelieveTheAPIServerAsThisOneDoes(t *testing.T) {
	ours, theirs := certificate(t), certificate(t)
	for _, c := range []struct {
		because string
		config  rest.Config
		file    string
		want    string
	}{
		{"the kubeconfig's", rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ours)}}, "", ours},
		{"the service account's file", rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: write(t, "ca.crt", ours)}}, "", ours},
		{"data before a file, as the client has it", rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ours), CAFile: write(t, "ca.crt", theirs)}}, "", ours},
		{"the flag's before all", rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ours)}}, write(t, "ca.crt", theirs), theirs},
	} {
		p := &program{pools: mcs.NewPools(), log: slog.New(slog.DiscardHandler)}
		p.extra = extraFlags{server: "https://api.example.com:6443", serverCA: c.file}
		e, err := p.clusterAdditions(&c.config)
		if err != nil {
			t.Fatal(err)
		}
		var got mcs.Extra
		e.Set = func(x mcs.Extra) error { got = x; return nil }
		if err := e.Refresh(); err != nil || string(got.Join.CA) != c.want {
			t.Errorf("%s: %+v %v", c.because, got.Join, err)
		}
	}
}

func TestTheFlagsNameWhatIsAdded(t *testing.T) {
	f := extraFlags{kubeletCA: "k", cloudCA: "c", registryCAs: []string{"z.example.com:5000=r", "a.example.com=r"}}
	got, err := f.additions()
	want := []files.Addition{
		{Path: "/etc/kubernetes/kubelet-ca.crt", From: "k"},
		{Path: "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem", From: "c"},
		{Path: "/etc/docker/certs.d/a.example.com/ca.crt", From: "r"},
		{Path: "/etc/docker/certs.d/z.example.com:5000/ca.crt", From: "r"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
}
