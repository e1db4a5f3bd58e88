package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// roleVariable is set in a child process of this program. Its value is the role of that process in the measurement.
const roleVariable = "BUNSEN_BENCH_SERVE"

// The roles.
const (
	staticRole = "static" // serves a folder until its input ends, as when its parent dies
	loadRole   = "load"   // runs one job from its input, and prints the result
)

// play runs the task of a role.
func play(ctx context.Context, role string, args []string) error {
	switch role {
	case staticRole:
		if len(args) != 3 {
			return fmt.Errorf("%d arguments, want address, folder and folder of the certificate", len(args))
		}
		return serveFolder(args[0], args[1], args[2])
	case loadRole:
		var j job
		if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
			return fmt.Errorf("reading what to do: %w", err)
		}
		o, err := j.do(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(o)
	}
	return fmt.Errorf("there is no role %q", role)
}

// serveFolder is the compared program: net/http's file server as in its documentation.
func serveFolder(address, folder, certificate string) error {
	server := &http.Server{Addr: address, Handler: http.FileServer(http.Dir(folder))}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // only the end of the input matters
		_ = server.Close()
	}()
	err := server.ListenAndServeTLS(filepath.Join(certificate, "tls.crt"), filepath.Join(certificate, "tls.key"))
	if err == http.ErrServerClosed {
		return nil
	}
	return fmt.Errorf("serving %s: %w", folder, err)
}

// processors are the processors to which the server and the client are bound.
type processors struct {
	server, load int
	// on is false if there is only one processor, or if the system allows no binding. Both processes then share all
	// processors.
	on bool
}

// pick takes the first and the last processor that this process may use.
func pick() processors {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed.Count() < 2 {
		return processors{}
	}
	p := processors{server: -1, on: true}
	for cpu := range 64 * len(allowed) {
		if allowed.IsSet(cpu) {
			if p.server < 0 {
				p.server = cpu
			}
			p.load = cpu
		}
	}
	return p
}

// start starts a command on one processor. A process inherits the binding of the thread that starts it.
func (p processors) start(cmd *exec.Cmd, cpu int) error {
	if !p.on {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("binding %s to a processor: %w", cmd.Path, err)
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("binding %s to a processor: %w", cmd.Path, err)
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); back != nil && err == nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("binding this process to its processors again: %w", back)
	}
	return err
}

// server is a process with a server.
type server struct {
	name, address, path string
	// readiness is a path that the server answers once it is ready.
	readiness string
	cmd       *exec.Cmd
	log       string
	input     io.Closer
	ended     chan error
}

// launch starts a server, which gets its address from args, and waits until it is ready.
func launch(ctx context.Context, p processors, s *server, role string, args ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if role == "" {
		program, args = args[0], args[1:]
	}
	s.cmd = exec.CommandContext(ctx, program, args...)
	s.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own copy
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.input, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.start(s.cmd, p.server); err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.cmd.Wait() }()
	return s.await(ctx)
}

// await waits until the server is ready.
func (s *server) await(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(30 * time.Second); ; {
		err := s.ready(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case end := <-s.ended:
			s.ended <- end
			return fmt.Errorf("starting %s: it ended: %v\n%s", s.name, end, s.tail())
		case <-limit:
			return fmt.Errorf("starting %s: %w\n%s", s.name, err, s.tail())
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (s *server) ready(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+s.address+s.readiness, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s, %v", s.readiness, answer.Status, err)
	}
	return nil
}

// stop ends the server and waits for its end.
func (s *server) stop() {
	_ = s.input.Close()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended already
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// usage returns the usage so far.
func (s *server) usage() (measure.Usage, error) { return measure.UsageOf(s.cmd.Process.Pid) }

// tail returns the end of the log, for errors.
func (s *server) tail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// ask runs a job in its own process.
func ask(ctx context.Context, p processors, j job) (o outcome, err error) {
	program, err := os.Executable()
	if err != nil {
		return o, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), roleVariable+"="+loadRole)
	text, err := json.Marshal(j)
	if err != nil {
		return o, err
	}
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &complaint
	if err := p.start(cmd, p.load); err != nil {
		return o, fmt.Errorf("starting those who ask: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return o, fmt.Errorf("asking %s: %w: %s", j.Address, err, complaint.String())
	}
	return o, json.Unmarshal(out.Bytes(), &o)
}

// free returns an address on which no process listens.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
