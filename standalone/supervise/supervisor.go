package supervise

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// Spec is a process to keep running.
type Spec struct {
	// Name is its name in reports and the name of its log file and record.
	Name string
	// Path is the executable.
	Path string
	// Args is the whole argument list; Args[0] is the name that the process sees as its own.
	Args []string
	// Env is added to the supervisor's environment.
	Env []string
	// Stage orders the stop: higher stages end before lower ones begin to stop.
	Stage int
	// Grace is how long it may take to stop after SIGTERM before SIGKILL.
	Grace time.Duration
}

// Backoff is the pause before a dead process is started again. It doubles from
// First to Max, and begins anew after the process has lived for Reset.
type Backoff struct{ First, Max, Reset time.Duration }

// DefaultBackoff begins with half a second and ends with half a minute.
func DefaultBackoff() Backoff {
	return Backoff{First: 500 * time.Millisecond, Max: 30 * time.Second, Reset: time.Minute}
}

// Config is what a Supervisor needs. All fields are required.
type Config struct {
	// Logs is the folder of the log files, Run that of the process records,
	// Home the working directory of the processes.
	Logs, Run, Home string
	Backoff         Backoff
	// Report takes one line about a process that died. It is called from many goroutines.
	Report func(line string)
}

// Supervisor runs processes. Use New.
type Supervisor struct {
	cfg    Config
	starts chan start
	killed chan struct{}
	kill   sync.Once

	mu       sync.Mutex
	children []*child
	stopped  bool
}

// start asks the starting thread for a process.
type start struct {
	cmd  *exec.Cmd
	done chan error
}

// New returns a supervisor of no processes.
func New(cfg Config) *Supervisor {
	s := &Supervisor{cfg: cfg, starts: make(chan start), killed: make(chan struct{})}
	go s.starter()
	return s
}

// starter starts every process from one thread that lives as long as they do:
// the kernel ties Pdeathsig to the thread, not to the process, that forked.
func (s *Supervisor) starter() {
	runtime.LockOSThread()
	for r := range s.starts {
		r.done <- r.cmd.Start()
	}
}

// Start begins to keep a process running. It returns an error only where the
// first start is impossible, e.g. no such executable; what happens later is reported.
func (s *Supervisor) Start(spec Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return fmt.Errorf("starting %s: already stopping", spec.Name)
	}
	c := &child{spec: spec, s: s, stop: make(chan struct{}), done: make(chan struct{})}
	p, err := c.spawn()
	if err != nil {
		return fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	s.children = append(s.children, c)
	go c.keep(p)
	return nil
}

// Stop ends all processes, the highest stage first, and returns when none is
// left. It is to be called once.
func (s *Supervisor) Stop() {
	s.mu.Lock()
	s.stopped = true
	children := s.children
	s.mu.Unlock()
	for len(children) > 0 {
		var last, rest []*child
		top := children[0].spec.Stage
		for _, c := range children {
			top = max(top, c.spec.Stage)
		}
		for _, c := range children {
			if c.spec.Stage == top {
				last = append(last, c)
				close(c.stop)
			} else {
				rest = append(rest, c)
			}
		}
		for _, c := range last {
			<-c.done
		}
		children = rest
	}
	close(s.starts)
}

// Kill makes a Stop, running or to come, end every process by SIGKILL at once.
func (s *Supervisor) Kill() { s.kill.Do(func() { close(s.killed) }) }

// Deaths counts how often the process of that name has died.
func (s *Supervisor) Deaths(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		if c.spec.Name == name {
			return int(c.deaths.Load())
		}
	}
	return 0
}

// Log is the path of the log file of that name.
func (s *Supervisor) Log(name string) string { return filepath.Join(s.cfg.Logs, name+".log") }
