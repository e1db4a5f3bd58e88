package vm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
)

// The machine sees the test under one address; each of its ports is one of the test's on loopback.
const (
	seenAddress = "10.0.2.100"
	// apiName is what machines call the API server: a name of its certificate.
	apiName    = "kubernetes"
	seenAPI    = 6443
	seenServer = 22623
	seenStore  = 80
)

// forward is between the machine and one port of the test, for one connection: QEMU starts it and speaks by its
// standard input and output.
func forward(to string) error {
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, os.Stdin)
		sent <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err // the other direction ends with the process
}

// freePorts finds ports on loopback that nobody listens on.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // closed when all are found, so that no port is found twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// serveStore serves an OSTree repository, as a web server does.
func serveStore(t *testing.T, dir string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir))}
	done := make(chan struct{})
	go func() {
		_ = server.Serve(l) // it ends when the server is closed
		close(done)
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port
}

// netdev is QEMU's own network: the machine reaches these ports and nothing else, and its SSH is on a port of loopback.
func netdev(self string, ssh int, ports map[int]int) string {
	text := fmt.Sprintf("user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:%d-:22", ssh)
	for seen, to := range ports {
		text += fmt.Sprintf(",guestfwd=tcp:%s:%d-cmd:%s forward 127.0.0.1:%d", seenAddress, seen, self, to)
	}
	return text
}
