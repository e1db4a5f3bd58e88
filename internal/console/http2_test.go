package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestHTTP2: a client that opens thousands of streams, or resets each at once, has no more requests at a time than the
// limit, and others are served meanwhile.
func TestHTTP2(t *testing.T) {
	own, err := selfSigned([]string{"console.example.org"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"h2", "http/1.1"}}
	var running, most atomic.Int64
	// counted is the address of the client whose requests count: those of an earlier connection may still begin while
	// the server ends it.
	var counted atomic.Value
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, tls.NewListener(listener, config),
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					_, _ = io.WriteString(w, "served")
					return
				}
				if r.RemoteAddr != counted.Load() {
					<-r.Context().Done()
					return
				}
				now := running.Add(1)
				defer running.Add(-1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				<-r.Context().Done() // a stream of changes
			}))
	}()
	t.Cleanup(func() { cancel(); <-ended })
	dial := func() *tls.Conn {
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{
			InsecureSkipVerify: true,
			NextProtos:         []string{"h2"}, //nolint:gosec // the certificate is not what this tests
		})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for name, reset := range map[string]bool{"many streams": false, "each stream is reset at once": true} {
		t.Run(name, func(t *testing.T) {
			for running.Load() > 0 { // requests of the connection before
				runtime.Gosched()
			}
			conn := dial()
			defer conn.Close()
			counted.Store(conn.LocalAddr().String())
			most.Store(0)
			if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
				t.Fatal(err)
			}
			f := http2.NewFramer(conn, conn)
			if err := f.WriteSettings(); err != nil {
				t.Fatal(err)
			}
			go func() {
				for {
					if _, err := f.ReadFrame(); err != nil && !errors.As(err, new(http2.StreamError)) {
						return
					}
				}
			}()
			var head bytes.Buffer
			encoder := hpack.NewEncoder(&head)
			for i := range 20_000 {
				head.Reset()
				for _, h := range [][2]string{
					{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/stream"},
				} {
					if err := encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
						t.Fatal(err)
					}
				}
				id := uint32(2*i + 1)
				if f.WriteHeaders(http2.HeadersFrameParam{
					StreamID: id, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true,
				}) != nil {
					break // the server ended the connection
				}
				if reset && f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
					break
				}
			}
			client := &http.Client{Transport: &http.Transport{
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as above
				ForceAttemptHTTP2: true,
			}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			answer, err := client.Get("https://" + listener.Addr().String() + "/")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("another client gets %d", answer.StatusCode)
			}
			if n := most.Load(); n > mostHTTP2Streams {
				t.Errorf("%d requests of one connection ran at a time", n)
			}
		})
	}
}
