package up

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhoEachComponentIs(t *testing.T) {
	s := sessionOf(t, "--nodes", "2")
	if _, err := createIdentities(s.o, s.dir, now); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]struct {
		user   string
		groups []string
	}{
		"admin":                     {"admin", []string{"system:masters"}},
		"kube-controller-manager":   {"system:kube-controller-manager", nil},
		"kube-scheduler":            {"system:kube-scheduler", nil},
		"machine-config-controller": {"system:serviceaccount:bunsen-system:machine-config-controller", []string{"system:serviceaccounts", "system:serviceaccounts:bunsen-system"}},
		"machine-config-server":     {"system:serviceaccount:bunsen-system:machine-config-server", []string{"system:serviceaccounts", "system:serviceaccounts:bunsen-system"}},
		"node-1":                    {"system:node:node-1", []string{"system:nodes"}},
		"node-2":                    {"system:node:node-2", []string{"system:nodes"}},
	} {
		c := certificate(t, filepath.Join(s.dir.PKI(), file+".crt"))
		if c.Subject.CommonName != want.user || !slices.Equal(c.Subject.Organization, want.groups) {
			t.Errorf("%s is %v, want %v", file, c.Subject, want)
		}
		config := s.dir.Identity(file)
		if file == "admin" {
			config = s.dir.Kubeconfig()
		}
		if _, err := os.Stat(config); err != nil {
			t.Error(err)
		}
	}
}

func TestNoCertificateOfTheClusterOpensTheDatabase(t *testing.T) {
	s := sessionOf(t)
	ids, err := createIdentities(s.o, s.dir, now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, ids.etcd.ca))
	certs, err := filepath.Glob(filepath.Join(s.dir.PKI(), "*.crt"))
	if err != nil {
		t.Fatal(err)
	}
	var opens []string
	for _, path := range certs {
		_, err := certificate(t, path).Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err == nil {
			opens = append(opens, filepath.Base(path))
		}
	}
	if want := []string{"apiserver-etcd-client.crt", "etcd-ca.crt", "etcd.crt"}; !slices.Equal(opens, want) {
		t.Errorf("%v open it, want %v", opens, want)
	}
}

func TestASecondStartChangesNothing(t *testing.T) {
	s := sessionOf(t)
	read := func(at time.Time) map[string]string {
		if _, err := createIdentities(s.o, s.dir, at); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, dir := range []string{s.dir.PKI(), s.dir.Identities()} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				files[e.Name()] = string(raw)
			}
		}
		return files
	}
	first, second := read(now), read(now.Add(time.Hour))
	for name, content := range first {
		if second[name] != content {
			t.Errorf("%s has changed", name)
		}
	}
}

func TestADamagedAuthorityStopsTheStart(t *testing.T) {
	s := sessionOf(t)
	ids, err := createIdentities(s.o, s.dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(ids.caKey, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := createIdentities(s.o, s.dir, now); err == nil {
		t.Error("it went on")
	}
}
