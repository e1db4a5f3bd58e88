package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bunsen-os/bunsen/test/ports"
)

// process is one of our binaries, running as it does on a real machine.
type process struct {
	name   string
	args   []string
	log    string
	cmd    *exec.Cmd
	ended  chan struct{}
	err    error
	wanted bool // somebody ended it on purpose
}

// start runs a binary in the background. A name that ran before is started again; its log goes on.
func (s *story) start(ts *testscript.TestScript, name, program string, args ...string) error {
	if p, ok := s.running[name]; ok && !p.wanted {
		return fmt.Errorf("%s runs already", name)
	}
	if _, again := s.running[name]; !again {
		s.order = append(s.order, name)
	}
	p := &process{name: name, args: append([]string{program}, args...), log: filepath.Join(s.work, name+".log")}
	s.running[name] = p
	return p.start(ts)
}

func (p *process) start(ts *testscript.TestScript) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = filepath.Dir(p.log)
	// Temporary files are files of the story too.
	tmp := filepath.Join(p.cmd.Dir, ".tmp", "programs")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return err
	}
	p.cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH"), "TMPDIR=" + tmp}
	if proxy := ts.Getenv("HTTPS_PROXY"); proxy != "" {
		p.cmd.Env = append(p.cmd.Env, "HTTPS_PROXY="+proxy)
	}
	// A test binary that is killed takes its children along.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.ended, p.wanted = make(chan struct{}), false
	started := make(chan error)
	go func() {
		// The child dies with the thread that started it, so that thread stays as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	return nil
}

// died returns an error where the process has ended and nobody wanted it to.
func (p *process) died() error {
	if p.wanted {
		return nil
	}
	select {
	case <-p.ended:
		if p.err == nil {
			return errors.New("exit status 0")
		}
		return p.err
	default:
		return nil
	}
}

// stop ends the process at once, as kill -9 and a power cut do.
func (p *process) stop() {
	p.wanted = true
	_ = p.cmd.Process.Kill() // one that has ended already needs no killing
	<-p.ended
}

// controller starts machine-config-controller with its service account's rights. It receives webhook requests at $HOOK.
func (s *story) controller(ts *testscript.TestScript, args []string) error {
	config, err := s.cluster.identity("controller", serviceAccount("machine-config-controller"))
	if err != nil {
		return err
	}
	address, err := ports.Address()
	if err != nil {
		return err
	}
	ts.Setenv("HOOK", "http://"+address)
	args = append([]string{"--kubeconfig", config, "--store", filepath.Join(s.work, "store"), "--webhook", address},
		args...)
	return s.start(ts, "controller", filepath.Join(s.bin, "machine-config-controller"), args...)
}

// server starts machine-config-server on a free port, $MCS, and waits until it answers. Its certificate lies in a
// Secret, as in a cluster; certs has what machines believe. Whoever asks it needs a token.
func (s *story) server(ts *testscript.TestScript, args []string) error {
	config, err := s.serverConfig()
	if err != nil {
		return err
	}
	address, err := ports.Address()
	if err != nil {
		return err
	}
	ts.Setenv("MCS", "https://"+address)
	args = append([]string{
		"--kubeconfig", config, "--listen", address,
		"--tls-secret", "bunsen-system/machine-config-server-tls", "--cert-dir", filepath.Join(s.work, "certs"),
	}, args...)
	if err := s.start(ts, "server", filepath.Join(s.bin, "machine-config-server"), args...); err != nil {
		return err
	}
	return s.answers(address, "healthz")
}

// answers waits until a server says that all is well.
func (s *story) answers(address, path string) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		// Only this look for life does not check who answers: the CA may not be written yet.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	return poll(patience, func() (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		res, err := client.Get("https://" + address + "/" + path)
		if err != nil {
			return false, err
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
}

// host NODE FLAG... starts the daemon on a simulated host whose root is hosts/NODE.
func (s *story) host(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("host NODE FLAG...")
	}
	return s.daemon(ts, args[0], args[1:]...)
}

// daemon starts the daemon of a node on the directory hosts/NODE.
func (s *story) daemon(ts *testscript.TestScript, node string, flags ...string) error {
	config, err := s.cluster.identity(node, kubelet(node))
	if err != nil {
		return err
	}
	root := filepath.Join(s.work, "hosts", node)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	flags = append([]string{"--node-name", node, "--kubeconfig", config, "--root", root}, flags...)
	return s.start(ts, node, filepath.Join(s.bin, "simulated-host"), flags...)
}

// crash NAME ends a process without warning.
func (s *story) crash(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 || s.running[args[0]] == nil {
		return usage("crash controller|server|NODE")
	}
	p := s.running[args[0]]
	if err := p.died(); err != nil {
		return fmt.Errorf("%s was dead already: %w", p.name, err)
	}
	p.stop()
	return nil
}

// restart NAME starts a killed process again, as it was.
func (s *story) restart(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 || s.running[args[0]] == nil {
		return usage("restart controller|server|NODE")
	}
	p := s.running[args[0]]
	if !p.wanted {
		p.stop()
	}
	return p.start(ts)
}

// alive fails fast: nothing that a story waits for comes from a dead process.
func (s *story) alive() error {
	for _, name := range s.order {
		if err := s.running[name].died(); err != nil {
			return fmt.Errorf("%s ended by itself: %w", name, err)
		}
	}
	return nil
}
