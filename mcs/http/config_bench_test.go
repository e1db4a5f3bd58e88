package http

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// BenchmarkServe compares what a machine waits for with a static file server's answer of the same bytes: over the same
// TLS, with a new connection for each machine, and with one kept open, which leaves the handler alone. Ours asks for a
// token, keeps an audit log and a log, and counts.
func BenchmarkServe(b *testing.B) {
	s := large(b)
	known := &tokens{}
	good := known.make(b, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	limits := DefaultLimits()
	limits.Requests.PerSecond, limits.Requests.Burst = 1e9, 1e9
	ours, _ := Routes(Options{
		Source: s, Tokens: forgetful{known}, Limits: limits, Audit: io.Discard, Log: log,
		Now: atNoon,
	})
	joined, _ := Routes(Options{
		Source: joining(b, large(b)), BootstrapTokens: &minter{}, Access: Access{Open: true},
		Limits: limits, Audit: io.Discard, Log: log, Now: atNoon,
	})
	body := text(b, ask(ours, "GET", "/config/worker", "Authorization", bearer(good)))
	root := b.TempDir()
	if err := os.WriteFile(filepath.Join(root, "worker"), []byte(body), 0o644); err != nil {
		b.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		for _, c := range []struct {
			name    string
			handler http.Handler
		}{
			{"static", http.StripPrefix("/config/", http.FileServer(http.Dir(root)))},
			{"ours", ours},
			{"joined", joined},
		} {
			b.Run(fmt.Sprintf("keep=%t/%s", keep, c.name), func(b *testing.B) {
				serveMany(b, start(b, Server{Handler: c.handler}), keep, bearer(good))
			})
		}
	}
}

// forgetful counts no uses, so that the benchmark does not measure the test's own list.
type forgetful struct{ *tokens }

func (forgetful) Use(context.Context, string, v1alpha1.TokenUse) error { return nil }

// BenchmarkAnswer is the handler alone, without a socket.
func BenchmarkAnswer(b *testing.B) {
	known := &tokens{}
	good := known.make(b, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	h, _ := Routes(Options{
		Source: large(b), Tokens: forgetful{known}, Audit: io.Discard,
		Log: slog.New(slog.NewJSONHandler(io.Discard, nil)), Now: atNoon,
	})
	r := httptest.NewRequest("GET", "/config/worker", nil)
	r.Header.Set("Authorization", bearer(good))
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(discard{http.Header{}}, r)
	}
}

// discard takes an answer and keeps nothing of it.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) Flush()                      {}

// serveMany sends the benchmark's requests from several clients.
func serveMany(b *testing.B, server running, keep bool, authorization string) {
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		client := server.client("127.0.0.9")
		transport := client.Transport.(*http.Transport)
		transport.DisableKeepAlives = !keep
		defer transport.CloseIdleConnections()
		r, err := http.NewRequest("GET", server.url("/config/worker"), nil)
		if err != nil {
			b.Error(err)
			return
		}
		r.Header.Set("Authorization", authorization)
		for pb.Next() {
			response, err := client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			n, err := io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if err != nil || n != response.ContentLength || n < 1<<20 {
				b.Errorf("%d bytes, %v", n, err)
				return
			}
		}
	})
}
