package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// child is the controller in its own process.
type child struct {
	cmd     *exec.Cmd
	metrics string
	log     string
}

// startController builds the controller if no binary is named, and starts it.
func startController(ctx context.Context, o options, p *plane) (*child, error) {
	binary := o.controller
	if binary == "" {
		binary = filepath.Join(p.dir, "machine-config-controller")
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/machine-config-controller")
		build.Dir = o.root
		if text, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the controller: %w\n%s", err, text)
		}
	}
	kubeconfig, err := p.kubeconfig()
	if err != nil {
		return nil, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &child{metrics: free.Addr().String(), log: filepath.Join(p.dir, "controller.log")}
	if err := free.Close(); err != nil {
		return nil, err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own copy
	c.cmd = exec.Command(binary, "--kubeconfig", kubeconfig, "--store", filepath.Join(p.dir, "store"), "--metrics", c.metrics)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	return c, c.cmd.Start()
}

func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended already
	_ = c.cmd.Wait()
}

// tail returns the end of the controller's log, for errors.
func (c *child) tail() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// usage returns the CPU time so far, and the peak of memory since the last call.
func (c *child) usage() (cpu time.Duration, peak uint64, err error) {
	u, err := measure.UsageOf(c.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	return u.CPU, u.Peak, measure.Forget(c.cmd.Process.Pid)
}

// syncs returns how often the rollout controller reconciled a pool, and the total time of that.
func (c *child) syncs(ctx context.Context) (count int, took time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.metrics+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the controller's metrics: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	return readSyncs(answer.Body)
}

func readSyncs(text io.Reader) (count int, took time.Duration, err error) {
	const name = "controller_runtime_reconcile_time_seconds_"
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, part := range []string{"sum", "count"} {
			value, ok := strings.CutPrefix(lines.Text(), name+part+`{controller="rollout"} `)
			if !ok {
				continue
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("reading the controller's metrics: %w", err)
			}
			if part == "sum" {
				took = time.Duration(n * float64(time.Second))
			} else {
				count = int(n)
			}
		}
	}
	return count, took, lines.Err()
}
