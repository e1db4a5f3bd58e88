package e2e

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bunsen-os/bunsen/test/ports"
)

// way is a port that leads to another, until it is cut.
type way struct {
	address, to string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	under    sync.WaitGroup
}

// mend listens, at the same address every time.
func (w *way) mend() error {
	if w.address == "" {
		address, err := ports.Address()
		if err != nil {
			return err
		}
		w.address = address
	}
	l, err := net.Listen("tcp", w.address)
	if err != nil {
		return fmt.Errorf("opening the way to the API server: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener, w.conns = l, map[net.Conn]bool{}
	w.under.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // it was cut
			}
			w.under.Go(func() { w.carry(in) })
		}
	})
	return nil
}

// cut closes the port and every connection, and returns when nothing is carried any more.
func (w *way) cut() {
	if w == nil {
		return
	}
	w.mu.Lock()
	if w.listener != nil {
		_ = w.listener.Close()
	}
	for c := range w.conns {
		_ = c.Close()
	}
	w.listener, w.conns = nil, nil
	w.mu.Unlock()
	w.under.Wait()
}

// hold remembers a connection for the cut; it is false where that was already.
func (w *way) hold(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		_ = c.Close()
		return false
	}
	w.conns[c] = true
	return true
}

func (w *way) carry(in net.Conn) {
	defer in.Close()
	if !w.hold(in) {
		return
	}
	out, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer out.Close()
	if !w.hold(out) {
		return
	}
	back := make(chan struct{})
	go func() {
		_, _ = io.Copy(in, out) // ends when either side does
		_ = in.Close()
		close(back)
	}()
	_, _ = io.Copy(out, in)
	_ = out.Close()
	<-back
}

// serverConfig is the kubeconfig of machine-config-server, with its service account's rights, over a way that can be
// cut.
func (s *story) serverConfig() (string, error) {
	path, err := s.cluster.identity("server", serviceAccount("machine-config-server"))
	if err != nil || s.way != nil {
		return path, err
	}
	to, err := url.Parse(s.cluster.env.Config.Host)
	if err != nil {
		return "", fmt.Errorf("reading the API server's address: %w", err)
	}
	s.way = &way{to: to.Host}
	if err := s.way.mend(); err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the server's kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server = "https://" + s.way.address
	}
	return path, clientcmd.WriteToFile(*config, path)
}

// apiserver away|back cuts machine-config-server off the API server, and mends that. $APISERVER is its URL for
// everybody.
func (s *story) apiserver(_ *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "away" && s.way != nil:
		s.way.cut()
		return nil
	case len(args) == 1 && args[0] == "back" && s.way != nil:
		return s.way.mend()
	}
	return usage("apiserver away|back, after server")
}
