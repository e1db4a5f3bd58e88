package browser

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// process is a program in the background, with its log.
type process struct {
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{}
}

// startProcess starts a program, and ends it with the test. A failed test prints the end of its log.
func startProcess(t *testing.T, dir, name string, env []string, command ...string) *process {
	t.Helper()
	p := &process{
		name: name, log: filepath.Join(dir, name+".log"), cmd: exec.Command(command[0], command[1:]...),
		ended: make(chan struct{}),
	}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir, p.cmd.Env = log, log, dir, env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // a killed test ends its programs
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal is sent when this thread ends
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.stop(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("--- log of %s ---\n%s", name, p.tail())
		}
	})
	return p
}

// stop sends a signal, and waits until the program has ended. It kills the program after 30 seconds.
func (p *process) stop(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// printed waits until the program has printed a text, and returns its parts.
func (p *process) printed(t *testing.T, pattern string) []string {
	t.Helper()
	want, found := regexp.MustCompile(pattern), []string(nil)
	until(t, 10*time.Minute, p.name+" prints "+pattern, func() (bool, error) {
		raw, err := os.ReadFile(p.log)
		if found = want.FindStringSubmatch(string(raw)); found != nil {
			return true, nil
		}
		select {
		case <-p.ended:
			t.Fatalf("%s ended", p.name)
		default:
		}
		return false, err
	})
	return found
}

// tail returns the end of the log.
func (p *process) tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-4000):])
}

// until asks again and again, until the answer is yes.
func until(t *testing.T, limit time.Duration, what string, ask func() (bool, error)) {
	t.Helper()
	if err := poll(limit, ask); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func poll(limit time.Duration, ask func() (bool, error)) error {
	deadline := time.After(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := ask()
		if done {
			return nil
		}
		select {
		case <-deadline:
			return errors.Join(fmt.Errorf("not after %s", limit), err)
		case <-tick.C:
		}
	}
}
