package ports_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/bunsen-os/bunsen/test/ports"
)

const childVar = "BUNSEN_TEST_PORTS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) == "" {
		os.Exit(m.Run())
	}
	found, err := ports.Free(300)
	fmt.Println(strings.Trim(fmt.Sprint(found), "[]"), err)
}

// TestNoPortIsGivenTwice: neither in one process, nor to another one that runs at the same time. A program can listen
// on each, also a second time.
func TestNoPortIsGivenTwice(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		address, err := ports.Address()
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil || seen[port] {
			t.Fatalf("%s is given a second time (%v)", address, err)
		}
		seen[port] = true
	}
	for port := range seen {
		for range 2 {
			l, err := net.Listen("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), childVar+"=1")
	out, err := other.Output()
	if err != nil {
		t.Fatal(err)
	}
	given := strings.Fields(string(out))
	if len(given) != 301 || given[300] != "<nil>" {
		t.Fatalf("the other process has %d ports: %.300s", len(given), out)
	}
	for _, port := range given {
		if seen[port] {
			t.Errorf("port %s is given to two processes", port)
		}
	}
}

// TestTooManyPorts: who asks for more than there are gets an error, and no port twice.
func TestTooManyPorts(t *testing.T) {
	if found, err := ports.Free(70000); err == nil {
		t.Errorf("got %d ports", len(found))
	}
}

// TestAPortIsFreeWhileProgramsStart: a program that starts keeps no socket of Free.
func TestAPortIsFreeWhileProgramsStart(t *testing.T) {
	end := make(chan struct{})
	var started sync.WaitGroup
	for range 4 {
		started.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	defer started.Wait()
	defer close(end)
	for range 300 {
		address, err := ports.Address()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
