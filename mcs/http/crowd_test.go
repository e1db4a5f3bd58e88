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

// LocalAddr is an address that has no member but thisHost.
func (m *member) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, thisHost), Port: 2}
}

const thisHost = 255

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
						source := SourceAddress(AddressOf(c.RemoteAddr()))
						err = l.assign(context.Background(), c, holder{"token", source})
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

func TestAConnectionDoesNotWaitLongerThanItMay(t *testing.T) {
	const places = 20
	for because, active := range map[string]int{
		"newer ones of its source come":    1,
		"all have requests under way, too": places,
	} {
		synctest.Test(t, func(t *testing.T) {
			inner := crowd{make(chan net.Conn)}
			b := Bounds{Connections: places, PerSource: 1, Wait: 8 * time.Second}.OrDefault()
			l := newListener(inner, b, Server{Log: quiet})
			for i := range active {
				inner.arriving <- &member{from: byte(i)}
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				l.mu.Lock()
				err = l.table.begin(c.(*conn))
				l.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
			}
			var all []*member
			go func() { _, _ = l.Accept() }()
			for range 20 {
				all = append(all, &member{})
				inner.arriving <- all[len(all)-1]
				time.Sleep(time.Second)
			}
			synctest.Wait()
			open := 0
			for _, m := range all {
				if !m.closed.Load() {
					open++
				}
			}
			if open < 7 || open > 9 {
				t.Errorf("%s: %d of 20 still wait, want those of the last 8 s", because, open)
			}
			_ = l.Close()
		})
	}
}

func TestThisHostHasPlacesOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := crowd{make(chan net.Conn)}
		l := newListener(inner, Bounds{Connections: 1}.OrDefault(), Server{Log: quiet})
		accepted := make(chan net.Conn)
		go func() {
			defer close(accepted)
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				accepted <- c
			}
		}()
		inner.arriving <- &member{}
		all := (<-accepted).(*conn)
		l.mu.Lock()
		if err := l.table.begin(all); err != nil {
			t.Error(err)
		}
		l.mu.Unlock()
		inner.arriving <- &member{from: 1}
		for range 2 {
			var local []net.Conn
			for range localPlaces {
				inner.arriving <- &member{from: thisHost}
				local = append(local, <-accepted)
			}
			for _, c := range local {
				_, _ = c.Close(), c.Close()
			}
		}
		for range localPlaces + 1 {
			inner.arriving <- &member{from: thisHost}
		}
		for range localPlaces {
			<-accepted
		}
		synctest.Wait()
		select {
		case c := <-accepted:
			t.Errorf("%s has a place that is not for it", c.RemoteAddr())
		default:
		}
		if l.waiting.count() != 2 {
			t.Errorf("%d wait, want a connection of another host and one of this host", l.waiting.count())
		}
		_ = l.Close()
	})
}

func TestOfManySourcesTheOldestConnectionIsClosedIfTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 16
		inner := crowd{make(chan net.Conn)}
		l := newListener(inner, Bounds{Connections: places}.OrDefault(), Server{Log: quiet})
		var all []*member
		for i := range 2 * waitingPerConnection * places {
			all = append(all, &member{from: byte(i)})
			inner.arriving <- all[i]
		}
		synctest.Wait()
		for i, m := range all {
			if isNew := i >= waitingPerConnection*places; m.closed.Load() == isNew {
				t.Errorf("connection %d of %d is closed: %t", i, len(all), !isNew)
			}
		}
		_ = l.Close()
	})
}

func TestConnectionsThatWaitDoNotUseUpTheFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := crowd{make(chan net.Conn)}
		l := newListener(inner, Bounds{Connections: 8, PerSource: 1}.OrDefault(), Server{Log: quiet})
		var many []*member
		for range 4 {
			many = append(many, &member{from: 1})
			inner.arriving <- many[len(many)-1]
		}
		other := &member{from: 2}
		inner.arriving <- nil
		inner.arriving <- other
		synctest.Wait()
		if !many[0].closed.Load() || other.closed.Load() {
			t.Error("where there is no file left, the oldest one of the source with most is not closed")
		}
		for range 2 {
			if _, err := l.Accept(); err != nil {
				t.Errorf("who waits has no place: %v", err)
			}
		}
		inner.arriving <- nil
		synctest.Wait()
		inner.arriving <- nil
		synctest.Wait()
		inner.arriving <- nil
		if _, err := l.Accept(); err == nil {
			t.Error("where none waits and there is no file left, there is no error")
		}
		_ = l.Close()
	})
}

func TestWhatAClientSendsWhileItWaitsIsBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner, DefaultBounds(), Server{Log: quiet})
	defer l.Close()
	const clients = 50
	sent := 0
	for i := range clients {
		c, err := dialer("127.0.0.9").Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.(*net.TCPConn).SetWriteBuffer(sentEarly); err != nil { // what the client's own side keeps
			t.Fatal(err)
		}
		l.mu.Lock()
		for l.waiting.count() <= i {
			l.room.Wait()
		}
		l.mu.Unlock()
		if err := c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, _ := c.Write(make([]byte, 1<<20))
		sent += n
	}
	if each := sent / clients; each > 8*sentEarly {
		t.Errorf("%d bytes of each client that waits are kept", each)
	}
}
