package plane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// child is one supervised process.
type child struct {
	spec  ProcessSpec
	s     *Supervisor
	stop  chan struct{} // stop is closed when the process must end.
	done  chan struct{} // done is closed when the process has ended and the child does not restart it.
	exits atomic.Int64
}

// process is one run of a child.
type process struct {
	cmd    *exec.Cmd
	since  time.Time
	exited chan struct{} // exited is closed after Wait has returned.
}

// keep restarts the process each time after it ends, until it must stop.
func (c *child) keep(p *process) {
	defer close(c.done)
	pause := c.s.cfg.Backoff.First
	for {
		if c.watch(p) {
			return
		}
		lived := time.Since(p.since)
		if lived > c.s.cfg.Backoff.Reset {
			pause = c.s.cfg.Backoff.First
		}
		c.exits.Add(1)
		c.s.cfg.Report(fmt.Sprintf("%s ended after %s (%s); restarting in %s; see its log %s",
			c.spec.Name, lived.Round(time.Millisecond), p.cmd.ProcessState, pause, c.s.Log(c.spec.Name)))
		if p = c.again(&pause); p == nil {
			return
		}
	}
}

// watch waits until the process has ended. watch returns true if the supervisor stopped the process.
func (c *child) watch(p *process) bool {
	defer c.forget(p)
	select {
	case <-p.exited:
		return false
	case <-c.stop:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	grace := time.NewTimer(c.spec.Grace)
	defer grace.Stop()
	select {
	case <-p.exited:
		return true
	case <-grace.C:
	case <-c.s.killed:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
	return true
}

// forget kills the remaining children of an ended process, and removes its record.
func (c *child) forget(p *process) {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = os.Remove(c.record())
}

// again restarts the process after the pause. If the process must stop, again returns nil.
func (c *child) again(pause *time.Duration) *process {
	for {
		wait := time.NewTimer(*pause)
		select {
		case <-wait.C:
		case <-c.stop:
			wait.Stop()
			return nil
		}
		*pause = min(*pause*2, c.s.cfg.Backoff.Max)
		p, err := c.spawn()
		if err == nil {
			return p
		}
		c.s.cfg.Report(fmt.Sprintf("starting %s failed: %v; retrying in %s", c.spec.Name, err, *pause))
	}
}

func (c *child) spawn() (*process, error) {
	log, err := openLog(c.s.Log(c.spec.Name), c.spec.Args)
	if err != nil {
		return nil, err
	}
	// The new process has its own copy of the log's file descriptor, so the supervisor closes its copy.
	defer log.Close()
	cmd := &exec.Cmd{
		Path: c.spec.Path, Args: c.spec.Args, Dir: c.s.cfg.Home,
		Env:    append(os.Environ(), c.spec.Env...),
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	request := start{cmd: cmd, done: make(chan error)}
	c.s.starts <- request
	if err := <-request.done; err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, since: time.Now(), exited: make(chan struct{})}
	err = writeRecord(c.record(), cmd.Process.Pid)
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	if err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
		return nil, err
	}
	return p, nil
}

func (c *child) record() string { return filepath.Join(c.s.cfg.Run, c.spec.Name+recordEnding) }
