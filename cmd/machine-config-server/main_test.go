package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfig of an API server that is away.
func kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],` +
		`"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestHelpShowsWhatToType(t *testing.T) {
	var out bytes.Buffer
	cmd := command()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--kubeconfig", "--listen", "0.0.0.0:22623", "--cert-dir", "--hostnames", "curl --cacert"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestBadFlagsAreExplained(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--kubeconfig", "/does/not/exist"}, "--kubeconfig"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--listen", "nowhere"}, "opening --listen nowhere"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--hostnames", "https://a"}, `"https://a"`},
		{[]string{"start"}, "unknown command"},
	} {
		cmd := command()
		cmd.SetArgs(c.args)
		if err := cmd.ExecuteContext(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q in it", c.args, err, c.want)
		}
	}
}

func TestItAsksForPatienceWhileTheAPIServerIsAwayAndStopsWhenTold(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	certs := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, flags{kubeconfig: kubeconfig(t), listen: address, certDir: certs}) }()

	var got *http.Response
	for got == nil {
		select {
		case err := <-done:
			t.Fatalf("stopped: %v", err)
		default:
		}
		roots := x509.NewCertPool()
		if ca, err := os.ReadFile(filepath.Join(certs, "ca.crt")); err == nil {
			roots.AppendCertsFromPEM(ca)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
		got, _ = client.Get("https://" + address + "/config/worker") // refused until it listens
	}
	_ = got.Body.Close()
	if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q", got.StatusCode, got.Header.Get("Retry-After"))
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("stopping: %v", err)
	}
}
