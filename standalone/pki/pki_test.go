package pki_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/standalone/pki"
)

const day = 24 * time.Hour

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var node = pki.Request{Name: "node-1", CommonName: "system:node:node-1", Groups: []string{"system:nodes"}}

var server = pki.Request{Name: "apiserver", CommonName: "kube-apiserver", Hosts: []string{"localhost", "127.0.0.1"}}

func authority(t *testing.T, dir string, now time.Time) *pki.Authority {
	t.Helper()
	a, err := pki.OpenAuthority(dir, "ca", now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ensure(t *testing.T, a *pki.Authority, r pki.Request) *x509.Certificate {
	t.Helper()
	p, err := a.Ensure(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(p.Cert, p.Key); err != nil {
		t.Fatalf("the pair does not belong together: %v", err)
	}
	return cert(t, p.Cert)
}

func cert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := pem.Decode(raw)
	c, err := x509.ParseCertificate(b.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func verify(t *testing.T, a *pki.Authority, c *x509.Certificate, opts x509.VerifyOptions) error {
	t.Helper()
	opts.Roots = x509.NewCertPool()
	opts.Roots.AddCert(cert(t, a.CertPath()))
	_, err := c.Verify(opts)
	return err
}

func TestAClientCertificateNamesItsBearerAndCannotServe(t *testing.T) {
	a := authority(t, t.TempDir(), start)
	c := ensure(t, a, node)
	if c.Subject.CommonName != "system:node:node-1" || !slices.Equal(c.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject is %v", c.Subject)
	}
	if err := verify(t, a, c, x509.VerifyOptions{
		CurrentTime: start,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		t.Errorf("as a client: %v", err)
	}
	if err := verify(t, a, c, x509.VerifyOptions{
		CurrentTime: start,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err == nil {
		t.Error("a certificate without hosts must not serve")
	}
	if c.IsCA {
		t.Error("a leaf must not sign")
	}
}

func TestAServerCertificateIsGoodForItsNamesOnly(t *testing.T) {
	a := authority(t, t.TempDir(), start)
	c := ensure(t, a, server)
	for host, good := range map[string]bool{"localhost": true, "127.0.0.1": true, "example.com": false} {
		err := verify(t, a, c, x509.VerifyOptions{
			CurrentTime: start, DNSName: host,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if (err == nil) != good {
			t.Errorf("serving as %s: %v", host, err)
		}
	}
	if !c.IPAddresses[0].Equal(net.IPv4(127, 0, 0, 1)) {
		t.Errorf("addresses are %v", c.IPAddresses)
	}
}

func TestWhatIsRenewedOnALaterStart(t *testing.T) {
	other := node
	other.Groups = []string{"system:masters"}
	moved := node
	moved.Hosts = []string{"localhost"}
	for name, tc := range map[string]struct {
		after   time.Duration
		ask     pki.Request
		damage  func(t *testing.T, dir string)
		renewed bool
	}{
		"the next minute: nothing":              {after: time.Minute, ask: node},
		"half a year later: nothing":            {after: 182 * day, ask: node},
		"in the last third of its life":         {after: 250 * day, ask: node, renewed: true},
		"after its end":                         {after: 400 * day, ask: node, renewed: true},
		"when the groups change":                {after: day, ask: other, renewed: true},
		"when the hosts change":                 {after: day, ask: moved, renewed: true},
		"when its key is lost":                  {after: day, ask: node, renewed: true, damage: remove("node-1.key")},
		"when its certificate is cut off":       {after: day, ask: node, renewed: true, damage: truncate("node-1.crt")},
		"when the clock was set back years":     {after: -900 * day, ask: node, renewed: true},
		"when it is signed by another's key":    {after: day, ask: node, renewed: true, damage: foreign},
		"when the key of another lies in place": {after: day, ask: node, renewed: true, damage: swapped},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before := ensure(t, authority(t, dir, start), node)
			if tc.damage != nil {
				tc.damage(t, dir)
			}
			now := start.Add(tc.after)
			a := authority(t, dir, now)
			after := ensure(t, a, tc.ask)
			if renewed := !bytes.Equal(before.Raw, after.Raw); renewed != tc.renewed {
				t.Errorf("renewed is %v, want %v", renewed, tc.renewed)
			}
			if err := verify(t, a, after, x509.VerifyOptions{
				CurrentTime: now,
				KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func truncate(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, name), 40); err != nil {
			t.Fatal(err)
		}
	}
}

func foreign(t *testing.T, dir string) {
	other := t.TempDir()
	ensure(t, authority(t, other, start), node)
	for _, f := range []string{"node-1.crt", "node-1.key"} {
		replace(t, filepath.Join(other, f), filepath.Join(dir, f))
	}
}

func swapped(t *testing.T, dir string) {
	ensure(t, authority(t, dir, start), server)
	replace(t, filepath.Join(dir, "apiserver.key"), filepath.Join(dir, "node-1.key"))
}

func replace(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestARenewedAuthorityKeepsItsKeySoThatWhatItSignedStaysValid(t *testing.T) {
	dir := t.TempDir()
	authority(t, dir, start)
	// Six years and seven months: days before the last third of ten years begins.
	before := start.Add(2430 * day)
	old := authority(t, dir, before)
	oldCert, leaf := cert(t, old.CertPath()), ensure(t, old, node)

	after := before.Add(30 * day)
	renewed := authority(t, dir, after)
	if newCert := cert(t, renewed.CertPath()); !newCert.NotAfter.After(oldCert.NotAfter) {
		t.Fatalf("end is %v, was %v: not renewed", newCert.NotAfter, oldCert.NotAfter)
	}
	if kept := ensure(t, renewed, node); !bytes.Equal(kept.Raw, leaf.Raw) {
		t.Error("the leaf was signed again")
	}
	if err := verify(t, renewed, leaf, x509.VerifyOptions{
		CurrentTime: after,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		t.Error(err)
	}
}

func TestADamagedAuthorityIsAnErrorThatSaysHowToStartOver(t *testing.T) {
	for name, damage := range map[string]func(*testing.T, string){
		"its key is gone":            remove("ca.key"),
		"its key is cut off":         truncate("ca.key"),
		"its certificate is cut off": truncate("ca.crt"),
		"its key is another's": func(t *testing.T, dir string) {
			ensure(t, authority(t, dir, start), node)
			replace(t, filepath.Join(dir, "node-1.key"), filepath.Join(dir, "ca.key"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			authority(t, dir, start)
			damage(t, dir)
			_, err := pki.OpenAuthority(dir, "ca", start)
			if err == nil || !strings.Contains(err.Error(), "remove "+dir) {
				t.Errorf("got %v, want an error with the way out", err)
			}
		})
	}
}

func TestAFirstStartThatWasCutOffIsTakenUpAgain(t *testing.T) {
	dir := t.TempDir()
	authority(t, dir, start)
	remove("ca.crt")(t, dir)
	ensure(t, authority(t, dir, start), node)
}

func TestTheTokenKeyIsKeptAndInTheFormThatTheAPIServerReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sa.key")
	var last []byte
	for range 2 {
		if err := pki.EnsureSigningKey(path); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(raw, []byte("-----BEGIN EC PRIVATE KEY-----")) {
			t.Errorf("not SEC1: %.40s", raw)
		}
		if last != nil && !bytes.Equal(last, raw) {
			t.Error("a second start made a new key")
		}
		last = raw
	}
}

func TestNoFileIsReadableByOthersAndNoneIsLeftOver(t *testing.T) {
	dir := t.TempDir()
	ensure(t, authority(t, dir, start), node)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
		names = append(names, e.Name())
	}
	if want := []string{"ca.crt", "ca.key", "node-1.crt", "node-1.key"}; !slices.Equal(names, want) {
		t.Errorf("files are %v, want %v", names, want)
	}
}
