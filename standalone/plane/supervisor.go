package plane

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// ProcessSpec describes a process that the supervisor runs.
type ProcessSpec struct {
	// Name is the name of the process in reports, and the name of its log file and its record.
	Name string
	// Path is the path of the executable.
	Path string
	// Args is the whole argument list, Args[0] included.
	Args []string
	// Env is added to the supervisor's environment.
	Env []string
	// Stage orders the stop: processes of a higher stage end before processes of a lower stage begin to stop.
	Stage int
	// Grace is the time between SIGTERM and SIGKILL in which the process may stop.
	Grace time.Duration
}

// Backoff is the pause before an ended process is restarted. Backoff doubles from First to Max, and starts over after
// the process ran for Reset.
type Backoff struct{ First, Max, Reset time.Duration }

// DefaultBackoff returns a backoff from half a second to half a minute.
func DefaultBackoff() Backoff {
	return Backoff{First: 500 * time.Millisecond, Max: 30 * time.Second, Reset: time.Minute}
}

// SupervisorConfig has the parameters of a Supervisor. All fields are required.
type SupervisorConfig struct {
	// Logs is the folder of the log files, Run that of the process records,
	// Home the working directory of the processes.
	Logs, Run, Home string
	Backoff         Backoff
	// Report receives one line for each process that ended. Several goroutines may call Report at the same time.
	Report func(line string)
}

// Supervisor runs processes. Create it with NewSupervisor.
type Supervisor struct {
	cfg    SupervisorConfig
	starts chan start
	killed chan struct{}
	kill   sync.Once

	mu       sync.Mutex
	children []*child
	stopped  bool
}

// start is a request to the starter to start a process.
type start struct {
	cmd  *exec.Cmd
	done chan error
}

// NewSupervisor returns a supervisor without processes.
func NewSupervisor(cfg SupervisorConfig) *Supervisor {
	s := &Supervisor{cfg: cfg, starts: make(chan start), killed: make(chan struct{})}
	go s.starter()
	return s
}

// starter starts every process from one thread that lives until all of them have ended. The kernel ties Pdeathsig to
// the thread that forked, and not to its process.
func (s *Supervisor) starter() {
	runtime.LockOSThread()
	for r := range s.starts {
		r.done <- r.cmd.Start()
	}
}

// Start starts a process and restarts it when it ends. Start returns an error if the first start fails, for example
// without the executable; Start reports later failures.
func (s *Supervisor) Start(spec ProcessSpec) error {
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

// Stop ends all processes, the highest stage first, and returns when all have ended. The caller must call Stop only
// once.
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

// Kill makes a running or later Stop end every process with SIGKILL at once.
func (s *Supervisor) Kill() { s.kill.Do(func() { close(s.killed) }) }

// Exits returns how often the process with a name has ended.
func (s *Supervisor) Exits(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		if c.spec.Name == name {
			return int(c.exits.Load())
		}
	}
	return 0
}

// Log returns the path of the log file of the process with a name.
func (s *Supervisor) Log(name string) string { return filepath.Join(s.cfg.Logs, name+".log") }
