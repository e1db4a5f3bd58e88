package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/shelf"
)

// certificate is a fresh one as PEM.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestFilesThatChangeAreTakenUpWhole(t *testing.T) {
	first, second, third := certificate(t), certificate(t), certificate(t)
	cloud, registry := write(t, "cloud.crt", first), write(t, "registry.crt", first+second)
	var got []mcs.Extra
	var log bytes.Buffer
	f := extraFlags{cloudCA: cloud, registryCAs: []string{"z.example.com:5000=" + registry, "a.example.com=" + registry}}
	files, err := f.additions()
	if err != nil {
		t.Fatal(err)
	}
	e := &extras{
		files: files, server: "https://api.example.com:6443", ca: []byte(third), log: slog.New(slog.NewTextHandler(&log, nil)),
		set: func(x mcs.Extra) error { got = append(got, x); return nil },
	}
	for range 2 { // what did not change is not told again
		if err := e.refresh(); err != nil {
			t.Fatal(err)
		}
	}
	e.setKubeletCA([]byte(second))
	if err := os.WriteFile(cloud, []byte(third), 0o600); err != nil {
		t.Fatal(err)
	}
	e.look()
	for _, bad := range []string{"", first[:len(first)/2], first + second[:len(second)/2], "text"} {
		if err := os.WriteFile(cloud, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		e.look()
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
	e := &extras{set: func(mcs.Extra) error { return errors.New("pool worker keeps") }, log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := e.refresh(); err != nil || !strings.Contains(log.String(), "pool worker keeps") {
		t.Errorf("%v; %s", err, &log)
	}
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
		p := &program{shelf: shelf.NewShelf(), log: slog.New(slog.DiscardHandler)}
		p.extra = extraFlags{server: "https://api.example.com:6443", serverCA: c.file}
		e, err := p.extrasOf(&c.config)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.read()
		if err != nil || string(got.Join.CA) != c.want {
			t.Errorf("%s: %s %v", c.because, got.Join.CA, err)
		}
	}
}
