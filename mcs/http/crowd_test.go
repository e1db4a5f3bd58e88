package http

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is a listener of connections that a test lets in.
type crowd struct{ arriving chan net.Conn }

// Accept returns the next connection; there is no file for one that is nil.
func (c crowd) Accept() (net.Conn, error) {
	switch next, ok := <-c.arriving; {
	case !ok:
		return nil, net.ErrClosed
	case next == nil:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	default:
		return next, nil
	}
}

// Addr implements net.Listener.
func (crowd) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Close implements net.Listener.
func (c crowd) Close() error {
	close(c.arriving)
	return nil
}

// member is a connection of a crowd.
type member struct {
	net.Conn
	from   byte
	closed atomic.Bool
}

// RemoteAddr has an address of its own for each from.
func (m *member) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, m.from), Port: 1} }

// LocalAddr implements net.Conn.
func (m *member) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Close implements net.Conn.
func (m *member) Close() error {
	m.closed.Store(true)
	return nil
}

func TestAFleetWithOneTokenDoesNotBlockItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const machines, places, lasts = 180, 64, 100 * time.Millisecond
		inner := crowd{make(chan net.Conn)}
		l := newListener(inner, Bounds{Connections: places, Wait: time.Hour}.OrDefault(), Server{Log: quiet})
		go func() {
			for i := range machines {
				inner.arriving <- &member{from: byte(i)}
				time.Sleep(time.Millisecond)
			}
		}()
		began := time.Now()
		done := make(chan error, machines)
		go func() {
			for {
				accepted, err := l.Accept()
				if err != nil {
					return
				}
				c := accepted.(*conn)
				l.mu.Lock()
				err = l.table.begin(c)
				l.mu.Unlock()
				go func() {
					if err == nil {
						err = l.assign(context.Background(), c, "token")
					}
					time.Sleep(lasts)
					_ = c.Close()
					done <- err
				}()
			}
		}()
		failed := map[string]int{}
		for range machines {
			if err := <-done; err != nil {
				failed[fmt.Sprint(err)]++
			}
		}
		if took := time.Since(began); len(failed) > 0 || took > 2*machines/places*lasts {
			t.Errorf("after %s, %v", took, failed)
		}
		_ = l.Close()
	})
}
