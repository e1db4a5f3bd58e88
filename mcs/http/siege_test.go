package http

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/mcs/join"
)

// besieger opens one connection of a kind and leaves it as it is.
type besieger func(server running, from string) (net.Conn, error)

// The besiegers: one says nothing, one begins a handshake, one begins a request, one reads one byte of the answer.
var besiegers = []besieger{
	func(s running, from string) (net.Conn, error) { return s.dial(from) },
	func(s running, from string) (net.Conn, error) {
		c, err := s.dial(from)
		if err == nil {
			_, err = io.WriteString(c, "\x16\x03\x01")
		}
		return c, err
	},
	func(s running, from string) (net.Conn, error) {
		c, err := s.shake(from)
		if err == nil {
			_, err = io.WriteString(c, "GET /config/worker HTTP/1.1\r\nX-A: b")
		}
		return c, err
	},
	func(s running, from string) (net.Conn, error) { return s.readSlowly(from, "") },
}

// readSlowly asks with a token and reads one byte of the answer, or waits for it.
func (r running) readSlowly(from, authorization string) (net.Conn, error) {
	c, err := r.shake(from)
	if err == nil {
		_, err = io.WriteString(c, "GET /config/worker HTTP/1.1\r\nHost: a\r\nAuthorization: "+authorization+"\r\n\r\n")
	}
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	}
	if err == nil {
		if _, err = bufio.NewReaderSize(c, 16).ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
	}
	return c, err
}

// siege is an attack that goes on until its test ends.
type siege struct {
	t       *testing.T
	server  running
	sources int // how many addresses it has
	// connections is how many the server may have.
	connections int
	workers     sync.WaitGroup
	ctx         context.Context
}

func (s *siege) from(i int) string {
	i %= s.sources
	return fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250)
}

// hold opens n connections and keeps them. From then on it opens those again that the server has closed: as many as
// there may be at once every few seconds, as the honest machine shares the processor with the siege.
func (s *siege) hold(n int, open besieger) {
	const workers, every = 8, 4 * time.Second
	var opened sync.WaitGroup
	for w := range workers {
		opened.Add(1)
		s.workers.Go(func() {
			held := make([]net.Conn, n/workers)
			defer func() {
				for _, c := range held {
					if c != nil {
						_ = c.Close()
					}
				}
			}()
			reopen := func(i int) {
				if held[i] != nil {
					_ = held[i].Close()
				}
				c, err := open(s.server, s.from(i*workers+w))
				if err != nil && c != nil {
					_ = c.Close()
					c = nil
				}
				held[i] = c
			}
			for i := range held {
				reopen(i)
			}
			opened.Done()
			tick := time.NewTicker(every * workers / time.Duration(s.connections))
			defer tick.Stop()
			for i := 0; ; i++ {
				if c := held[i%len(held)]; c != nil && !isClosed(c) {
					if i%len(held) != 0 { // not without end at once
						continue
					}
				} else {
					reopen(i % len(held))
				}
				select {
				case <-s.ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	opened.Wait()
}

// isClosed reports whether the other end has closed a connection, and reads nothing from it.
func isClosed(c net.Conn) bool {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err != nil && err != syscall.EAGAIN || err == nil && n == 0
		return true
	})
	return closed || err != nil
}

// flood sends requests with a token, as fast as a few workers can.
func (s *siege) flood(authorization func(i int) string) {
	const workers = 4
	for w := range workers {
		s.workers.Go(func() {
			for i := w; s.ctx.Err() == nil; i += workers {
				request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.server.url("/config/worker"), nil)
				if err != nil {
					s.t.Error(err)
					return
				}
				request.Header.Set("Authorization", authorization(i))
				if r, err := s.server.client(s.from(i)).Do(request); err == nil {
					_ = r.Body.Close()
				}
			}
		})
	}
}

// servedWithin is how long a machine may have to wait for its config, from the first packet to the last byte.
const servedWithin = 2 * slower * time.Second

// honest is the address of an honest machine.
const honest = "127.0.0.9"

// boot gets a config as an honest machine does.
func boot(server running, authorization string) error {
	ctx, cancel := context.WithTimeout(context.Background(), servedWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.url("/config/worker"), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", authorization)
	r, err := server.client(honest).Do(request)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if n, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK || n != r.ContentLength {
		return fmt.Errorf("answered %d with %d bytes of %d: %w", r.StatusCode, n, r.ContentLength, err)
	}
	return nil
}

// needFiles skips a test where the process may not open that many files: both ends of each connection are in it.
func needFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < n {
		t.Fatalf("needs %d open files, and %d are allowed: ulimit -n", n, limit.Cur)
	}
}

func TestAnHonestMachineIsServedDuringASiege(t *testing.T) {
	needFiles(t, 2*uint64(DefaultBounds().Connections)+2000)
	few := DefaultBounds() // of which each costs a TLS handshake of ours, too
	few.Connections, few.PerSource = 512, 64
	for because, c := range map[string]struct {
		bounds  Bounds
		sources int
		attack  func(s *siege, b Bounds, good, wrong string)
	}{
		"more silent connections than there may be, of few addresses": {
			DefaultBounds(), 8,
			func(s *siege, b Bounds, _, _ string) {
				s.hold(b.Connections+500, besiegers[0])
			},
		},
		"more silent connections than there may be, of many addresses": {
			DefaultBounds(), 4000,
			func(s *siege, b Bounds, _, _ string) {
				s.hold(b.Connections+500, besiegers[0])
			},
		},
		"handshakes that do not end": {DefaultBounds(), 64, func(s *siege, b Bounds, _, _ string) {
			s.hold(b.Connections+500, besiegers[1])
		}},
		"headers that do not end": {few, 64, func(s *siege, b Bounds, _, _ string) {
			s.hold(b.Connections+100, besiegers[2])
		}},
		"answers that are read slowly": {few, 16, func(s *siege, b Bounds, good, _ string) {
			s.hold(b.Connections+100, func(server running, from string) (net.Conn, error) {
				return server.readSlowly(from, good)
			})
		}},
		"wrong tokens": {DefaultBounds(), 64, func(s *siege, _ Bounds, _, wrong string) {
			s.flood(func(int) string { return wrong })
		}},
		"requests with a good token": {DefaultBounds(), 64, func(s *siege, _ Bounds, good, _ string) {
			s.flood(func(int) string { return good })
		}},
		"all of it": {few, 64, func(s *siege, b Bounds, good, wrong string) {
			s.hold(b.Connections, besiegers[0])
			s.hold(b.Connections/2, func(server running, from string) (net.Conn, error) {
				return server.readSlowly(from, good)
			})
			s.flood(func(i int) string { return []string{good, wrong}[i%2] })
		}},
	} {
		t.Run(because, func(t *testing.T) {
			o, known, _ := closed(t)
			o.Source, o.Limits = large(t), DefaultLimits()
			good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
			honest := bearer(known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"}))
			wrong := bearer(join.Token{ID: good.ID, Secret: strings.Repeat("A", 43)})
			h, counts := Routes(o)
			c.bounds.Stop = time.Second
			server := start(t, Server{Handler: h, Bounds: c.bounds, Limits: DefaultLimits(), Metrics: counts},
				func(l net.Listener) net.Listener { return narrow{l} })
			ctx, stop := context.WithCancel(t.Context())
			s := &siege{t: t, server: server, sources: c.sources, connections: c.bounds.Connections, ctx: ctx}
			defer s.workers.Wait()
			defer stop()
			c.attack(s, c.bounds, bearer(good), wrong)
			slowest := time.Duration(0)
			for i := range 20 {
				began := time.Now()
				if err := boot(server, honest); err != nil {
					t.Errorf("fetch %d: %v", i, err)
				}
				slowest = max(slowest, time.Since(began))
			}
			// those that were closed end soon
			if n := connectionsServed(); n > c.bounds.Connections+c.bounds.Connections/8 {
				t.Errorf("the server has %d connections, %d allowed", n, c.bounds.Connections)
			}
			var m runtime.MemStats
			if runtime.ReadMemStats(&m); m.HeapInuse > 1<<30 { // both ends' of each connection
				t.Errorf("the heap is %d MiB", m.HeapInuse>>20)
			}
			t.Logf("slowest %s, heap %d MiB; %v", slowest.Round(time.Millisecond), m.HeapInuse>>20,
				closedCounts(t, counts))
		})
	}
}

// connectionsServed is how many connections net/http serves in this process.
func connectionsServed() int {
	stacks := make([]byte, 64<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("net/http.(*conn).serve("))
}
