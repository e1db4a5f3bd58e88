package plane

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The children of these tests are this test binary, run again as an actor: it
// calls the stage (a listener in the test), says who it is, and does what it is
// told over that connection. When an actor dies, the kernel closes the connection.

const (
	roleVar  = "SUPERVISE_TEST_ROLE"
	stageVar = "SUPERVISE_TEST_STAGE"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVar); role {
	case "":
		os.Exit(m.Run())
	case "hold":
		hold()
	case "supervisor":
		superviseAnActor()
	case headless:
		actWithoutTheFirstThread()
	default:
		act(role)
	}
}

// headless is an actor whose first thread has ended, so that it is a zombie which still acts, as a process is for a
// moment while the kernel kills it.
const headless = "headless"

// actWithoutTheFirstThread tries goroutines that keep their threads, until one has the first thread and ends it.
func actWithoutTheFirstThread() {
	go func() {
		for now, err := stat(os.Getpid()); err == nil && now.state != "Z"; now, err = stat(os.Getpid()) {
			runtime.Gosched()
		}
		act(headless)
	}()
	for {
		other := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			if syscall.Gettid() == os.Getpid() {
				_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
			}
			close(other)
			select {}
		}()
		<-other
	}
}

func act(role string) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	conn, err := net.Dial("tcp4", os.Getenv(stageVar))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(conn, "%s up %d\n", role, os.Getpid())
	go func() {
		for range term {
			fmt.Fprintf(conn, "%s term\n", role)
			if !strings.HasPrefix(role, "stubborn") {
				os.Exit(0)
			}
		}
	}()
	for in := bufio.NewScanner(conn); in.Scan(); {
		switch in.Text() {
		case "die":
			os.Exit(3)
		case "fork":
			// Not os.Args[0]: an actor's first argument is its part.
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), roleVar+"=grandchild")
			if err := cmd.Start(); err != nil {
				fmt.Fprintf(conn, "%s cannot fork: %v\n", role, err)
			}
		}
	}
	// The test is over, or was killed.
	os.Exit(0)
}

// superviseAnActor is a supervisor of its own, to be killed by the test.
func superviseAnActor() {
	dir := os.Getenv("SUPERVISE_TEST_DIR")
	s := NewSupervisor(SupervisorConfig{
		Logs: dir, Run: dir, Home: dir, Backoff: DefaultBackoff(),
		Report: func(string) {},
	})
	if err := s.Start(ProcessSpec{
		Name: "orphan", Path: os.Args[0], Args: []string{"orphan"},
		Env: []string{roleVar + "=orphan"},
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// actor is the test's end of one running actor.
type actor struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
	name string
	pid  int
}

// stage receives actors in the order in which they come up.
type stage struct {
	t      *testing.T
	addr   string
	actors chan *actor
}

// patience is the time after which a test gives up; nothing waits for it to pass.
const patience = 2 * time.Minute

func newStage(t *testing.T) *stage {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &stage{t: t, addr: l.Addr().String(), actors: make(chan *actor, 16)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			a := &actor{t: t, conn: conn, in: bufio.NewScanner(conn)}
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			if a.in.Scan() {
				_, _ = fmt.Sscanf(a.in.Text(), "%s up %d", &a.name, &a.pid)
				s.actors <- a
			}
		}
	}()
	return s
}

func (s *stage) next() *actor {
	s.t.Helper()
	select {
	case a := <-s.actors:
		s.t.Cleanup(func() { a.conn.Close() })
		return a
	case <-time.After(patience):
		s.t.Fatal("no actor came up")
		return nil
	}
}

func (s *stage) spec(name string, order int, grace time.Duration) ProcessSpec {
	return ProcessSpec{
		Name: name, Path: os.Args[0], Args: []string{name},
		Env:   []string{roleVar + "=" + name, stageVar + "=" + s.addr},
		Stage: order, Grace: grace,
	}
}

func (a *actor) tell(order string) {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.conn, order); err != nil {
		a.t.Fatal(err)
	}
}

// lastWords returns what the actor says until it is dead.
func (a *actor) lastWords() string {
	a.t.Helper()
	var words []string
	for a.in.Scan() {
		words = append(words, a.in.Text())
	}
	if err := a.in.Err(); err != nil && os.IsTimeout(err) {
		a.t.Fatalf("%s is still alive", a.name)
	}
	return strings.Join(words, "; ")
}
