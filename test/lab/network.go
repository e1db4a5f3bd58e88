package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Network is a bridge in a namespace of its own, to which hosts are tied. A host reaches the other hosts, and what the
// test listens on with Listen or Forward or runs with Command: no other address of the machine, and no internet.
type Network struct {
	t     testing.TB
	place *place
	// netns is the namespace's name.
	netns string
	// hosts counts those that were tied.
	hosts int
}

// NewNetwork makes one; it is gone when the test ends.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	Need(t)
	p := newPlace(t)
	n := &Network{t: t, place: p, netns: "bunsen-" + p.id}
	if err := newNetns(p, n.netns); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		// A bridge without an address of its own takes the lowest of its ports' and changes it when a host reboots.
		// Hosts would send to the earlier address until their ARP entries expire.
		{"link", "add", "br0", "address", "02:62:75:6e:00:01", "type", "bridge"},
		{"addr", "add", n.Address() + "/24", "dev", "br0"},
		{"link", "set", "br0", "up"},
	} {
		if err := run(append([]string{"ip", "-n", n.netns}, argv...)...); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// newNetns makes a namespace with a loopback.
func newNetns(p *place, name string) error {
	if err := p.note("netns", name); err != nil {
		return err
	}
	if err := run("ip", "netns", "add", name); err != nil {
		return err
	}
	return run("ip", "-n", name, "link", "set", "lo", "up")
}

// Address is where hosts reach the test. It is the same in every Network.
func (n *Network) Address() string { return "10.77.0.1" }

// tie gives a host's namespace an address on the bridge.
func (n *Network) tie(netns string) (address string, err error) {
	n.hosts++
	address = "10.77.0." + strconv.Itoa(10+n.hosts)
	return address, n.plug(netns, address)
}

// plug connects a host's namespace, with its address, to the bridge.
func (n *Network) plug(netns, address string) error {
	port := "port-" + address[strings.LastIndex(address, ".")+1:]
	// The earlier end of a namespace that was deleted may be there for a moment.
	exec.Command("ip", "-n", n.netns, "link", "del", port).Run() //nolint:errcheck,gosec // mostly there is none
	for _, argv := range [][]string{
		{"-n", n.netns, "link", "add", port, "type", "veth", "peer", "name", "host0", "netns", netns},
		{"-n", n.netns, "link", "set", port, "master", "br0", "up"},
		{"-n", netns, "addr", "add", address + "/24", "dev", "host0"},
		{"-n", netns, "link", "set", "host0", "up"},
	} {
		if err := run(append([]string{"ip"}, argv...)...); err != nil {
			return err
		}
	}
	return nil
}

// Listen listens on a port (0: any) of Address; the listener is closed when the test ends.
func (n *Network) Listen(port int) net.Listener {
	n.t.Helper()
	var l net.Listener
	err := n.inside(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(n.t.Context(), "tcp", net.JoinHostPort(n.Address(), strconv.Itoa(port)))
		return err
	})
	if err != nil {
		n.t.Fatalf("listening in the lab's network: %v", err)
	}
	n.t.Cleanup(func() { l.Close() }) //nolint:errcheck,gosec // it may be closed already
	return l
}

// Forward carries connections to a port (0: any) of Address to an address that the test itself reaches, such as an API
// server on its loopback, and tells the address that hosts use.
func (n *Network) Forward(port int, to string) string {
	n.t.Helper()
	l := n.Listen(port)
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go carry(from, to)
		}
	}()
	return l.Addr().String()
}

// ForwardInside carries connections from one address of the network's namespace to other ones of it: each connection to
// the first target, in turn, that accepts it.
func (n *Network) ForwardInside(from string, to ...string) {
	n.t.Helper()
	var l net.Listener
	err := n.inside(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(n.t.Context(), "tcp4", from)
		return err
	})
	if err != nil {
		n.t.Fatalf("listening at %s in the lab's network: %v", from, err)
	}
	n.t.Cleanup(func() { l.Close() }) //nolint:errcheck,gosec // it may be closed already
	go func() {
		for first := 0; ; first++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				target, err := n.dialFirst(append(slices.Clone(to[first%len(to):]), to[:first%len(to)]...))
				if err != nil {
					conn.Close() //nolint:errcheck,gosec // nothing can be done
					return
				}
				join(conn, target)
			}()
		}
	}()
}

// dialFirst connects to the first address that accepts within a second.
func (n *Network) dialFirst(addresses []string) (conn net.Conn, err error) {
	for _, address := range addresses {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err = n.Dial(ctx, address)
		cancel()
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// brokenAfter is when a connection to a host that does not answer ends, such as one that reboots.
const brokenAfter = 5 * time.Second

// carry connects to an address and copies both ways.
func carry(from net.Conn, to string) {
	target, err := net.Dial("tcp", to)
	if err != nil {
		from.Close() //nolint:errcheck,gosec // nothing can be done
		return
	}
	join(from, target)
}

// join copies between two connections until both ends are closed.
func join(from, target net.Conn) {
	defer from.Close()   //nolint:errcheck // nothing can be done
	defer target.Close() //nolint:errcheck // nothing can be done
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(target, from)              //nolint:errcheck,gosec // an end is an end
		target.(*net.TCPConn).CloseWrite() //nolint:errcheck,gosec,forcetypeassert // it was dialled as tcp
	}()
	io.Copy(from, target) //nolint:errcheck,gosec // an end is an end
	if tcp, ok := from.(*net.TCPConn); ok {
		tcp.CloseWrite() //nolint:errcheck,gosec // an end is an end
	}
	<-done
}

// Dial connects to a host's port, such as 10.77.0.11:22.
func (n *Network) Dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = n.inside(func() error {
		// One address family and no name to look up: the socket is made in this thread.
		dialer := &net.Dialer{FallbackDelay: -1, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: time.Second,
			Interval: time.Second, Count: 4,
		}}
		dialer.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			failed := raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
					int(brokenAfter.Milliseconds()))
			})
			return errors.Join(failed, err)
		}
		conn, err = dialer.DialContext(ctx, "tcp4", address)
		return err
	})
	return conn, err
}

// Command is a program that runs in the network, on the test's side.
func (n *Network) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.netns}, argv...)...)
}

// inside calls a function in a thread that is in the network's namespace. The thread is thrown away after it.
func (n *Network) inside(f func() error) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends with the goroutine
		failed <- func() error {
			ns, err := os.Open("/run/netns/" + n.netns)
			if err != nil {
				return err
			}
			defer ns.Close() //nolint:errcheck // it is only entered
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("entering %s: %w", n.netns, err)
			}
			return f()
		}()
	}()
	return <-failed
}
