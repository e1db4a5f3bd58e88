package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
)

// lowest is the lowest port that Free returns. Common services have lower ones.
const lowest = 20000

// Free returns n ports of 127.0.0.1 that no program listens on. Until this process ends, no other call of Free on this
// machine returns them. It fails if it finds none.
func Free(n int) ([]int, error) {
	size := firstEphemeral() - lowest
	if size <= n {
		return nil, fmt.Errorf("finding a free port: the kernel gives all ports above %d to connections: see "+
			"net.ipv4.ip_local_port_range", lowest+size)
	}
	var found []int
	for at, left := rand.IntN(size), size; len(found) < n; at, left = at+1, left-1 {
		if left == 0 {
			return nil, fmt.Errorf("finding a free port: none of the ports %d to %d is free", lowest, lowest+size-1)
		}
		if port := lowest + at%size; claim(port) && isFree(port) {
			found = append(found, port)
		}
	}
	return found, nil
}

// Address is Free for one port, as an address of 127.0.0.1.
func Address() (string, error) {
	found, err := Free(1)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", found[0]), nil
}

// claim reserves a port among the callers of Free, by a socket that the kernel closes when this process ends. It
// returns false if the port is reserved.
func claim(port int) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: fmt.Sprintf("@bunsen-test-port-%d", port)}); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	return true // the socket stays open on purpose
}

// isFree reports whether nothing listens on a port. No program starts meanwhile: until it runs, it would have the
// socket too, and the port would seem to be in use.
func isFree(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return err == nil && l.Close() == nil
}

// firstEphemeral returns the first port that the kernel gives to connections.
func firstEphemeral() int {
	const usual = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	first := usual
	if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &first); err != nil {
		return usual
	}
	return first
}
