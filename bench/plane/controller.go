package plane

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// Controller is the controller in its own process.
type Controller struct {
	// Webhook is the address for webhook requests.
	Webhook string

	cmd     *exec.Cmd
	metrics string
	log     string
}

// StartController builds the controller if no binary is named, and starts it.
func (p *Plane) StartController(ctx context.Context) (*Controller, error) {
	binary := p.files.Controller
	if binary == "" {
		var err error
		if binary, err = filepath.Abs(filepath.Join(p.dir, "machine-config-controller")); err != nil {
			return nil, err
		}
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/machine-config-controller")
		build.Dir = p.files.Root
		if text, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the controller: %w\n%s", err, text)
		}
	}
	kubeconfig, err := p.kubeconfig()
	if err != nil {
		return nil, err
	}
	c := &Controller{log: filepath.Join(p.dir, "controller.log")}
	if c.metrics, err = freeAddress(); err != nil {
		return nil, err
	}
	if c.Webhook, err = freeAddress(); err != nil {
		return nil, err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own copy
	c.cmd = exec.Command(binary, "--kubeconfig", kubeconfig, "--store", filepath.Join(p.dir, "store"), "--metrics",
		c.metrics, "--webhook", c.Webhook)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	return c, c.cmd.Start()
}

func freeAddress() (string, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return free.Addr().String(), free.Close()
}

// Stop ends the process and waits for its end.
func (c *Controller) Stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended already
	_ = c.cmd.Wait()
}

// Tail returns the end of the controller's log, for errors.
func (c *Controller) Tail() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// Usage returns the CPU time so far, the current memory, and the peak of memory since the last call.
func (c *Controller) Usage() (measure.Usage, error) {
	u, err := measure.UsageOf(c.cmd.Process.Pid)
	if err != nil {
		return u, err
	}
	return u, measure.Forget(c.cmd.Process.Pid)
}

// OpenFiles returns how many files and connections the process has open.
func (c *Controller) OpenFiles() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("counting open files: %w", err)
	}
	return len(entries), nil
}

// Metrics reads the metrics of the process. The caller closes them.
func (c *Controller) Metrics(ctx context.Context) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the controller's metrics: %w", err)
	}
	return answer.Body, nil
}

// CopyLog copies the controller's log to a file.
func (c *Controller) CopyLog(to string) error {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return fmt.Errorf("reading the controller's log: %w", err)
	}
	return os.WriteFile(to, text, 0o600)
}
