package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcs"
)

// BenchmarkServe compares what a machine waits for with a static file server's answer of the same bytes: over the same
// TLS, with a new connection for each machine, and with one kept open, which leaves the handler alone.
func BenchmarkServe(b *testing.B) {
	// A body of 1 MiB: it is made once, so that only its size matters here.
	s := NewShelf()
	s.Put("worker", NewOffer(mcs.Input{Pool: "worker", Rendered: rendered("rendered-worker-1", strings.Repeat("x", 1<<20))}))
	s.SetReady()
	routes := Routes(s, quiet)
	body := text(b, ask(routes, "GET", "/config/worker"))
	root := b.TempDir()
	if err := os.WriteFile(filepath.Join(root, "worker"), []byte(body), 0o644); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	certificates, err := OpenCertificates(dir, nil, quiet)
	if err != nil {
		b.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, keep := range []bool{false, true} {
		for name, handler := range map[string]http.Handler{
			"ours":   routes,
			"static": http.StripPrefix("/config/", http.FileServer(http.Dir(root))),
		} {
			b.Run(fmt.Sprintf("keep=%t/%s", keep, name), func(b *testing.B) {
				serveMany(b, Server{Handler: handler, TLS: certificates.TLS(), Log: quiet}, roots, keep, len(body))
			})
		}
	}
}

// serveMany sends the benchmark's requests from several clients.
func serveMany(b *testing.B, server Server, roots *x509.CertPool, keep bool, size int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	b.SetBytes(int64(size))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: !keep}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		for pb.Next() {
			response, err := client.Get("https://" + listener.Addr().String() + "/config/worker")
			if err != nil {
				b.Error(err)
				return
			}
			n, err := io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if err != nil || int(n) != size {
				b.Errorf("%d bytes, %v", n, err)
				return
			}
		}
	})
	b.StopTimer()
	stop()
	if err := <-done; err != nil {
		b.Error(err)
	}
}
