package up_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// standalone is the built binary: $BUNSEN_STANDALONE, or bin/ of the repository.
// Where it must be there (CI=true) a missing one fails.
func standalone(t *testing.T) string {
	t.Helper()
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	path := os.Getenv("BUNSEN_STANDALONE")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "bunsen-standalone")
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if err != nil {
		t.Fatalf("the control plane is not built (standalone/build.sh bin/bunsen-standalone): %v", err)
	}
	return abs
}

// plane is a bare control plane on free ports.
type plane struct {
	t       *testing.T
	bin     string
	data    string
	ports   []string
	cmd     *exec.Cmd
	out     *bufio.Reader
	stderr  bytes.Buffer
	started time.Time
}

// unconnected listens on a port below those that the kernel gives to connections, which could take it between two
// starts.
func unconnected(t *testing.T) net.Listener {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			return l
		}
	}
	t.Fatal("of 100 ports none is free")
	return nil
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{t: t, bin: standalone(t), data: filepath.Join(t.TempDir(), "data")}
	for _, flag := range []string{"--api-port", "--etcd-port", "--etcd-peer-port"} {
		l := unconnected(t)
		// Closed at the end of this function: no port is given out twice.
		defer l.Close()
		p.ports = append(p.ports, flag, fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	}
	t.Cleanup(func() {
		if p.cmd != nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

func (p *plane) command(data string) *exec.Cmd {
	args := append([]string{"up", "--bare", "--data", data, "--bin", filepath.Join(filepath.Dir(p.data), "bin")},
		p.ports...)
	return exec.Command(p.bin, args...)
}

// start returns when the control plane says that it is up.
func (p *plane) start() {
	p.t.Helper()
	p.cmd, p.started = p.command(p.data), time.Now()
	p.stderr.Reset()
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	var said strings.Builder
	for {
		line, err := p.out.ReadString('\n')
		said.WriteString(line)
		if strings.HasPrefix(line, "Up after") {
			p.t.Logf("up after %v", time.Since(p.started).Round(time.Millisecond))
			return
		}
		if err != nil {
			p.t.Fatalf("it ended before it was up:\n%s%s", said.String(), p.stderr.String())
		}
	}
}

// end sends a signal and returns the rest of the output and the exit code.
func (p *plane) end(sig syscall.Signal) (string, int) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	rest, _ := io.ReadAll(p.out)
	_ = p.cmd.Wait()
	return string(rest), p.cmd.ProcessState.ExitCode()
}

func (p *plane) kubectl(args ...string) string {
	p.t.Helper()
	out, err := exec.Command(p.bin, append([]string{"kubectl", "--kubeconfig", filepath.Join(p.data, "kubeconfig")},
		args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *plane) status() string {
	p.t.Helper()
	out, err := exec.Command(p.bin, "status", "--data", p.data).CombinedOutput()
	if err != nil {
		p.t.Fatalf("status: %v\n%s", err, out)
	}
	return string(out)
}

func TestTheControlPlaneComesUpAndKeepsItsStateHoweverItEnds(t *testing.T) {
	p := newPlane(t)
	p.start()
	if got := p.kubectl("get", "--raw", "/readyz"); got != "ok" {
		t.Errorf("/readyz says %q", got)
	}
	p.kubectl("create", "configmap", "kept", "--from-literal=by=etcd")
	running := p.status()
	for _, name := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"the supervisor",
	} {
		if !strings.Contains(running, name) {
			t.Errorf("%s does not run:\n%s", name, running)
		}
	}

	// Nobody has time to clean up; the next start has to.
	p.end(syscall.SIGKILL)
	p.start()
	if got := p.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.by}"); got != "etcd" {
		t.Errorf("after a kill -9 the object says %q", got)
	}

	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		rest, code := p.end(sig)
		if code != 0 || !strings.Contains(rest, "✓ stopping") {
			t.Errorf("%v: exit code %d:\n%s%s", sig, code, rest, p.stderr.String())
		}
		if got := p.status(); !strings.Contains(got, "nothing runs") {
			t.Errorf("%v: still running:\n%s", sig, got)
		}
		if sig == syscall.SIGINT {
			p.start()
			p.kubectl("get", "configmap", "kept")
		}
	}
}

func TestASecondStartIsToldWhatIsInTheWay(t *testing.T) {
	p := newPlane(t)
	p.start()
	out, err := p.command(p.data).CombinedOutput()
	if code := err.(*exec.ExitError).ExitCode(); code != 1 ||
		!strings.Contains(string(out), fmt.Sprintf("in use by process %d", p.cmd.Process.Pid)) {
		t.Errorf("on the same data: exit code %d:\n%s", code, out)
	}
	out, err = p.command(p.data + "-2").CombinedOutput()
	if code := err.(*exec.ExitError).ExitCode(); code != 3 {
		t.Errorf("on the same ports: exit code %d", code)
	}
	for _, want := range []string{
		"port " + p.ports[1] + " for the Kubernetes API is in use by kube-apiserver (pid ", "with --api-port",
		"port " + p.ports[3] + " for the database (etcd) is in use by etcd (pid ", "with --etcd-port",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	p.end(syscall.SIGTERM)
}

func TestADeadPartIsStartedAgain(t *testing.T) {
	p := newPlane(t)
	p.start()
	record, err := os.ReadFile(filepath.Join(p.data, "run", "kube-scheduler.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(record), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatalf("it ended: %s", p.stderr.String())
		}
		if strings.HasPrefix(line, "kube-scheduler ended after") {
			break
		}
	}
	if rest, code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d:\n%s", code, rest)
	}
}

func TestTheOneExecutableIsWhatEnvtestAsksFor(t *testing.T) {
	bin := standalone(t)
	dir := filepath.Join(t.TempDir(), "assets")
	if out, err := exec.Command(bin, "assets", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, args := range map[string][]string{
		"etcd": {"--version"}, "kube-apiserver": {"--version"}, "kubectl": {"version", "--client"},
	} {
		out, err := exec.Command(filepath.Join(dir, name), args...).CombinedOutput()
		want := "v1.37"
		if name == "etcd" {
			want = "etcd Version: 3.7"
		}
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, want %q:\n%s", name, err, want, out)
		}
	}
}
