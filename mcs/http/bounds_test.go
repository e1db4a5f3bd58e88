package http

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

// tight are bounds that a test reaches soon, and an honest client not even on a busy machine.
var tight = Bounds{Header: time.Second, Read: time.Second, Send: time.Second, Stop: 2 * time.Second}

// ends tells whether a server ends a connection, as it must, long before a client would give up.
func ends(t *testing.T, c net.Conn) (said string, after time.Duration) {
	t.Helper()
	began := time.Now()
	if err := c.SetReadDeadline(began.Add(10 * time.Second)); err != nil {
		t.Error(err)
	}
	all, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server still holds the connection")
	}
	return string(all), time.Since(began)
}

func TestAClientThatTakesItsTimeIsLeft(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(filled(t)), Bounds: tight})
	var clients sync.WaitGroup
	defer clients.Wait()
	const request = "GET /config/worker HTTP/1.1\r\nHost: a\r\n"
	for _, c := range []struct {
		because string
		tls     bool
		sends   string
	}{
		{"it says nothing", false, ""},
		{"it begins a handshake", false, "\x16\x03\x01\x02\x00"},
		{"it shakes hands and says nothing", true, ""},
		{"it begins a line", true, "GET /conf"},
		{"it does not end its headers", true, request + "X-A: b\r\n"},
		{"it asks once and stays", true, request + "\r\n"},
		{"it promises a body and sends none", true, request + "Content-Length: 1000000\r\n\r\n"},
	} {
		clients.Go(func() {
			connect := server.dial
			if c.tls {
				connect = server.shake
			}
			conn, err := connect("127.0.0.9")
			if err != nil {
				t.Errorf("%s: %v", c.because, err)
				return
			}
			if _, err := io.WriteString(conn, c.sends); err != nil {
				t.Errorf("%s: %v", c.because, err)
			}
			if _, after := ends(t, conn); after > 5*time.Second {
				t.Errorf("%s: it is left after %s", c.because, after)
			}
			_ = conn.Close()
		})
	}
}

func TestHeadersAByteAtATimeGainNoTime(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(filled(t)), Bounds: tight})
	conn, err := server.shake("127.0.0.9")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for _, b := range []byte("GET /config/worker HTTP/1.1\r\nX: " + strings.Repeat("a", 10000)) {
		<-tick.C
		if _, err = conn.Write([]byte{b}); err != nil {
			break
		}
	}
	if after := time.Since(began); err == nil || after > 5*time.Second {
		t.Errorf("the server listened for %s: %v", after, err)
	}
}

func TestHugeHeadersAreRefused(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(filled(t)), Bounds: Bounds{HeaderBytes: 1 << 10}})
	for because, header := range map[string]string{
		"one header":   "X: " + strings.Repeat("a", 64<<10),
		"many headers": strings.Repeat("X: a\r\n", 10000),
		"a token":      "Authorization: Bearer " + strings.Repeat("a", 64<<10),
	} {
		conn, err := server.shake("127.0.0.9")
		if err != nil {
			t.Fatal(err)
		}
		// The server answers and closes before it has read everything, so that the end of writing may fail.
		_, _ = io.WriteString(conn, "GET /config/worker HTTP/1.1\r\nHost: a\r\n"+header+"\r\n\r\n")
		if said, _ := ends(t, conn); !strings.HasPrefix(said, "HTTP/1.1 431 ") {
			t.Errorf("%s: answered %.80q", because, said)
		}
		_ = conn.Close()
	}
	if r, err := server.client("127.0.0.9").Get(server.url("/config/worker")); err != nil || r.StatusCode != 200 {
		t.Errorf("an ordinary request is answered %v, %v", r, err)
	}
}

// narrow gives each connection a small buffer, as a slow network would.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return c, err
}

// large is a pool whose body no small buffer takes.
func large(t testing.TB) *mcs.Pools {
	t.Helper()
	s := mcs.NewPools()
	if err := s.Set("worker", rendered("rendered-worker-1", strings.Repeat("x", 1<<20))); err != nil {
		t.Fatal(err)
	}
	s.SetSynced()
	return s
}

// audits hands each line of an audit log on.
type audits chan string

func (a audits) Write(line []byte) (int, error) {
	a <- string(line)
	return len(line), nil
}

func TestWhoReadsTooSlowlyIsLeftAndRecorded(t *testing.T) {
	o := open(large(t))
	written := make(audits, 1)
	o.Audit = written
	h, _ := Routes(o)
	server := start(t, Server{Handler: h, Bounds: tight}, func(l net.Listener) net.Listener { return narrow{l} })
	conn, err := besiegers[3](server, "127.0.0.9")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case line := <-written:
		if !strings.Contains(line, `"complete":false`) || !strings.Contains(line, "i/o timeout") {
			t.Errorf("the audit log has %s", line)
		}
	case <-time.After(10 * time.Second):
		t.Error("the server still sends")
	}
}

func TestABodyUnderWayEndsBeforeTheServerDoes(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(large(t)), Bounds: Bounds{Stop: 20 * time.Second}},
		func(l net.Listener) net.Listener { return narrow{l} })
	r, err := server.client("127.0.0.9").Get(server.url("/config/worker"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	server.stop()
	for deadline := time.Now().Add(10 * time.Second); ; { // until it takes no more
		conn, err := server.dial("127.0.0.9")
		if err != nil {
			break
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server does not stop")
		}
	}
	if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength {
		t.Errorf("the body broke off after %d bytes of %d: %v", n, r.ContentLength, err)
	}
}
