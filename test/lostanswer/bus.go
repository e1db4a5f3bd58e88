package lostanswer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	godbus "github.com/godbus/dbus/v5"
)

// Bus is a proxy in front of a D-Bus socket.
type Bus struct {
	target   string
	listener net.Listener
	lose     func(n int, member string) bool

	mu sync.Mutex
	// calls are the members of all method calls so far, in order.
	calls []string
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// NewBus is ListenBus for a test, which ends the proxy.
func NewBus(t testing.TB, path, target string, lose func(n int, member string) bool) *Bus {
	t.Helper()
	b, err := ListenBus(path, target, lose)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// ListenBus listens at a path, which must not exist, and forwards each connection to the socket at the path target. It
// calls lose for each method call, with the number of the call from 1 and its member. If lose returns true, the proxy
// delivers the call, waits until the other side has answered it, and closes the connection instead of the answer.
func ListenBus(path, target string, lose func(n int, member string) bool) (*Bus, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Any user may connect to a system bus; the bus itself decides what it lets them do.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, err
	}
	b := &Bus{target: target, listener: l, lose: lose, conns: map[net.Conn]bool{}}
	b.done.Go(b.accept)
	return b, nil
}

// Calls returns the members of all method calls so far, in order.
func (b *Bus) Calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.calls...)
}

func (b *Bus) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return // The test has ended.
		}
		b.done.Go(func() { b.serve(c) })
	}
}

// Close ends the proxy and its connections.
func (b *Bus) Close() {
	_ = b.listener.Close()
	b.mu.Lock()
	for c := range b.conns {
		_ = c.Close()
	}
	b.conns = nil
	b.mu.Unlock()
	b.done.Wait()
}

// hold records a connection, so that the end of the test closes it. It returns false if the test has ended.
func (b *Bus) hold(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil {
		return false
	}
	b.conns[c] = true
	return true
}

// count returns whether the answer of a call gets lost.
func (b *Bus) count(m *godbus.Message) bool {
	if m.Type != godbus.TypeMethodCall {
		return false
	}
	member, _ := m.Headers[godbus.FieldMember].Value().(string)
	b.mu.Lock()
	b.calls = append(b.calls, member)
	n := len(b.calls)
	b.mu.Unlock()
	return b.lose(n, member)
}

// serve forwards one connection until either side closes it, or an answer is lost.
func (b *Bus) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // both sides are closed anyway
	server, err := net.Dial("unix", b.target)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // both sides are closed anyway
	if !b.hold(client) || !b.hold(server) {
		return
	}
	var mu sync.Mutex
	lost := map[uint32]bool{}
	b.done.Go(func() {
		defer server.Close() //nolint:errcheck // both sides are closed anyway
		in := bufio.NewReader(client)
		if forwardHandshake(in, server) != nil {
			return
		}
		for {
			raw, m, err := readMessage(in)
			if err != nil {
				return
			}
			if b.count(m) {
				mu.Lock()
				lost[m.Serial()] = true
				mu.Unlock()
			}
			if _, err := server.Write(raw); err != nil {
				return
			}
		}
	})
	in := bufio.NewReader(server)
	for {
		// Before the first message, the server sends lines of the handshake. No such line begins like a message.
		first, err := in.Peek(1)
		if err != nil {
			return
		}
		if first[0] != 'l' && first[0] != 'B' {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			if _, err := client.Write(line); err != nil {
				return
			}
			continue
		}
		raw, m, err := readMessage(in)
		if err != nil {
			return
		}
		if serial, is := m.Headers[godbus.FieldReplySerial].Value().(uint32); is {
			mu.Lock()
			isLost := lost[serial]
			mu.Unlock()
			if isLost {
				return
			}
		}
		if _, err := client.Write(raw); err != nil {
			return
		}
	}
}

// forwardHandshake forwards the client's part of the handshake, which ends with the line BEGIN.
func forwardHandshake(in *bufio.Reader, server io.Writer) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if _, err := io.WriteString(server, line); err != nil {
			return err
		}
		if strings.TrimSpace(line) == "BEGIN" {
			return nil
		}
	}
}

// readMessage reads one message of D-Bus, as bytes and decoded.
func readMessage(in io.Reader) ([]byte, *godbus.Message, error) {
	const fixed = 16 // The fixed part of the header ends with the length of the array of fields.
	head := make([]byte, fixed)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, nil, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[0] == 'B' {
		order = binary.BigEndian
	}
	body, fields := order.Uint32(head[4:]), order.Uint32(head[12:])
	rest := make([]byte, (fields+7)/8*8+body)
	if _, err := io.ReadFull(in, rest); err != nil {
		return nil, nil, err
	}
	raw := append(head, rest...)
	m, err := godbus.DecodeMessage(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, fmt.Errorf("decoding a message: %w", err)
	}
	return raw, m, nil
}
