package systemd

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	godbus "github.com/godbus/dbus/v5"
)

// peer is a socket on which a test answers as systemd or logind would, or does not answer: no systemd runs, and no bus.
type peer struct {
	address string
	// conns are the connections that were made, in order, once they are authenticated.
	conns chan *godbus.Conn
}

// deaf makes a peer that accepts connections and never says a word.
func deaf(t *testing.T) string {
	t.Helper()
	address, accepted := listen(t)
	go func() {
		for c := range accepted {
			t.Cleanup(func() { c.Close() })
		}
	}()
	return address
}

// newPeer makes a peer that lets everybody in; serve sets up each connection before its first call is read.
func newPeer(t *testing.T, serve func(*godbus.Conn)) peer {
	t.Helper()
	address, accepted := listen(t)
	p := peer{address, make(chan *godbus.Conn, 16)}
	go func() {
		for c := range accepted {
			in := bufio.NewReader(c)
			if letIn(in, c) != nil {
				c.Close()
				continue
			}
			// The library has clients only: this end has to believe that it asked to be let in as well.
			conn, err := godbus.NewConn(&believer{
				Conn: c, in: in,
				answers: strings.NewReader("REJECTED EXTERNAL\r\nOK 0\r\n"),
			})
			if err == nil {
				serve(conn)
				err = conn.Auth([]godbus.Auth{godbus.AuthExternal("0")})
			}
			if err != nil {
				c.Close()
				continue
			}
			t.Cleanup(func() { conn.Close() })
			p.conns <- conn
		}
	}()
	return p
}

func listen(t *testing.T) (address string, accepted <-chan net.Conn) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(conns)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return socket(at), conns
}

// letIn plays the server's part of the handshake.
func letIn(in *bufio.Reader, out io.Writer) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		answer := "ERROR\r\n"
		switch line = strings.Trim(line, "\x00\r\n"); {
		case line == "BEGIN":
			return nil
		case line == "AUTH":
			answer = "REJECTED EXTERNAL\r\n"
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			answer = "OK 0123456789abcdef0123456789abcdef\r\n"
		case line == "NEGOTIATE_UNIX_FD":
			answer = "AGREE_UNIX_FD\r\n"
		}
		if _, err := io.WriteString(out, answer); err != nil {
			return err
		}
	}
}

// believer answers the library's own handshake, and is the connection after that.
type believer struct {
	net.Conn
	in      *bufio.Reader
	answers *strings.Reader
	begun   bool
}

func (b *believer) Read(p []byte) (int, error) {
	if b.answers.Len() > 0 {
		return b.answers.Read(p[:1]) // no more, or the library's buffer would swallow what comes after
	}
	return b.in.Read(p)
}

func (b *believer) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = bytes.HasPrefix(p, []byte("BEGIN"))
		return len(p), nil
	}
	return b.Conn.Write(p)
}
