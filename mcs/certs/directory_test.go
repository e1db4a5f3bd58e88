package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func open(t *testing.T, dir string, names ...string) *Certificates {
	t.Helper()
	c, err := OpenCertificates(dir, names, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// trusts tells why a machine with a CA would refuse what is served at a time, or nil.
func trusts(t *testing.T, ca []byte, c *Certificates, name string, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("no certificate in ca.crt")
	}
	pair, err := c.TLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: name, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

// serve answers over TLS with what is shown, until the test ends, and returns its address.
func serve(t *testing.T, c *Certificates) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", c.TLS())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }),
		ErrorLog: slog.NewLogLogger(quiet.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return listener.Addr().String()
}

func TestAMachineWithTheCAFetchesOverTLS(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	c := open(t, dir, "api-int.example.com", "192.0.2.10")
	address := serve(t, c)
	if got := string(c.CA()); got != string(read(t, dir, CAFile)) {
		t.Errorf("whom to believe is not what ca.crt says:\n%s", got)
	}
	if left := time.Until(c.Until()); left < certLifetime-time.Hour || left > certLifetime {
		t.Errorf("a new certificate is good for another %s", left)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	get := func(config *tls.Config) (string, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		response, err := client.Get("https://" + address + "/")
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	for _, name := range []string{"", "localhost", "api-int.example.com", "192.0.2.10"} {
		if body, err := get(&tls.Config{RootCAs: roots, ServerName: name}); err != nil || body != "hello" {
			t.Errorf("asking for %q: %q, %v", name, body, err)
		}
	}
	for because, config := range map[string]*tls.Config{
		"a machine without the CA":    {RootCAs: x509.NewCertPool()},
		"another name":                {RootCAs: roots, ServerName: "other.example.com"},
		"a client of TLS 1.1 at most": {RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
	} {
		if _, err := get(config); err == nil {
			t.Errorf("%s is served", because)
		}
	}
}

func TestKeysAreForTheirOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	open(t, dir)
	for name, want := range map[string]os.FileMode{
		".": 0o700, CAKeyFile: 0o600, CertKeyFile: 0o600, CAFile: 0o644,
		CertFile: 0o644,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestCertificatesAreKeptAndRenewedInTime(t *testing.T) {
	dir := t.TempDir()
	start := time.Now()
	open(t, dir, "a.example.com")
	ca, cert := read(t, dir, CAFile), read(t, dir, CertFile)

	if open(t, dir, "a.example.com"); string(read(t, dir, CertFile)) != string(cert) {
		t.Error("a restart makes a new certificate")
	}
	c := open(t, dir, "a.example.com", "b.example.com")
	if string(read(t, dir, CAFile)) != string(ca) {
		t.Error("a new host name makes a new CA")
	}
	if err := trusts(t, ca, c, "b.example.com", start); err != nil {
		t.Errorf("a new host name: %v", err)
	}
	// A machine that got the CA on the first day boots at any time of the CA's ten years; renewals come by themselves.
	const day = 24 * time.Hour
	for age := time.Duration(0); age < caLifetime-day; age += 30 * day {
		if err := c.Refresh(t.Context(), start.Add(age)); err != nil {
			t.Fatal(err)
		}
		for because, roots := range map[string][]byte{
			"the first CA certificate": ca,
			"the newest one":           read(t, dir, CAFile),
		} {
			if err := trusts(t, roots, c, "a.example.com", start.Add(age+29*day)); err != nil && age+
				29*day < caLifetime {
				t.Fatalf("after %d days, with %s: %v", age/day, because, err)
			}
		}
	}
	if string(read(t, dir, CAFile)) == string(ca) {
		t.Error("the CA certificate was not renewed before its end")
	}
}

func TestADamagedDirectoryIsRepairedOrExplained(t *testing.T) {
	for _, c := range []struct {
		because string
		damage  func(dir string) error
		want    string // in the error; "" where it is repaired
	}{
		{"the process died between key and certificate", func(dir string) error { return os.Rename(filepath.Join(dir, "k"), filepath.Join(dir, CertKeyFile)) }, ""},
		{"tls.crt is gone", func(dir string) error { return os.Remove(filepath.Join(dir, CertFile)) }, ""},
		{"ca.crt is gone", func(dir string) error { return os.Remove(filepath.Join(dir, CAFile)) }, ""},
		{"ca.key is garbage", func(dir string) error { return os.WriteFile(filepath.Join(dir, CAKeyFile), []byte("x"), 0o600) }, "ca.key has no PEM block"},
		{"ca.crt is garbage", func(dir string) error { return os.WriteFile(filepath.Join(dir, CAFile), []byte("x"), 0o600) }, "ca.crt has no PEM block"},
		{"tls.key alone", func(dir string) error {
			_ = os.Remove(filepath.Join(dir, CAKeyFile))
			return os.Remove(filepath.Join(dir, CertFile))
		}, "contains only tls.key"},
	} {
		dir, other := t.TempDir(), t.TempDir()
		open(t, dir)
		open(t, other)
		if err := os.WriteFile(filepath.Join(dir, "k"), read(t, other, CertKeyFile), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.damage(dir); err != nil {
			t.Fatal(err)
		}
		got, err := OpenCertificates(dir, nil, quiet)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.because, err)
			} else if err := trusts(t, read(t, dir, CAFile), got, "localhost", time.Now()); err != nil {
				t.Errorf("%s: %v", c.because, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.because, err, c.want)
		}
	}
}

func TestCertificatesOfSomebodyElseAreUsedAndFollowed(t *testing.T) {
	dir, theirs, newer := t.TempDir(), t.TempDir(), t.TempDir()
	open(t, theirs, "cluster.example.com")
	open(t, newer, "cluster.example.com")
	supply := func(from string) {
		t.Helper()
		for _, name := range []string{CertFile, CertKeyFile} {
			if err := os.WriteFile(filepath.Join(dir, name), read(t, from, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	supply(theirs)
	c := open(t, dir, "not-in-it.example.com")
	if err := trusts(t, read(t, theirs, CAFile), c, "cluster.example.com", time.Now()); err != nil {
		t.Error(err)
	}
	supply(newer)
	if err := c.Refresh(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := trusts(t, read(t, newer, CAFile), c, "cluster.example.com", time.Now()); err != nil {
		t.Errorf("a replaced certificate is not taken up: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, CertFile), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Refresh(t.Context(), time.Now()); err == nil {
		t.Error("a broken certificate is no error")
	}
	if err := trusts(t, read(t, newer, CAFile), c, "cluster.example.com", time.Now()); err != nil {
		t.Errorf("the last good certificate was dropped: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, CAKeyFile)); err == nil {
		t.Error("it wrote into a directory that is not its own")
	}
}

func TestHostNamesAreNamesOrAddresses(t *testing.T) {
	for _, name := range []string{"https://a", "a:22623", "", "a b"} {
		if _, err := OpenCertificates(t.TempDir(), []string{name}, quiet); err == nil ||
			!strings.Contains(err.Error(), "host name") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	open(t, t.TempDir(), "*.example.com", "2001:db8::1")
}

var quiet = slog.New(slog.DiscardHandler)

func TestRunRenewsAndTakesUpByItself(t *testing.T) {
	dir, theirs := t.TempDir(), t.TempDir()
	open(t, theirs, "cluster.example.com")
	synctest.Test(t, func(t *testing.T) {
		c := open(t, dir, "a.example.com")
		first := c.Until()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		time.Sleep(certLifetime - certRenewBefore - syncInterval)
		go func() { c.Run(ctx); close(done) }()
		time.Sleep(2*syncInterval + syncInterval/2) // between two looks, so that none sees half of what follows
		if got := c.Until().Sub(first); got < certLifetime-certRenewBefore-time.Hour {
			t.Errorf("the renewed certificate lasts %s longer than the first", got)
		}
		for _, name := range []string{CAKeyFile, CAFile} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{CertKeyFile, CertFile} {
			if err := os.WriteFile(filepath.Join(dir, name), read(t, theirs, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(syncInterval + time.Second)
		if err := trusts(t, read(t, theirs, CAFile), c, "cluster.example.com", c.Until().Add(-time.Hour)); err != nil {
			t.Errorf("a minute after it was replaced: %v", err)
		}
		stop()
		<-done
	})
}

func TestACAOfTheFutureIsMadeAgain(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	c := open(t, dir)
	// a clock that is eight years ahead
	if err := c.Refresh(t.Context(), now.Add(caLifetime-caRenewBefore+time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := c.Refresh(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := trusts(t, read(t, dir, CAFile), c, "localhost", now); err != nil {
		t.Errorf("after the clock was put right: %v", err)
	}
}
