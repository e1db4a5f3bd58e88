package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// plane is the embedded control plane with our controllers and our Ignition server, as an administrator sets it up.
type plane struct {
	bin, data, logs string
	ports           planePorts
}

type planePorts struct{ api, etcd, peer, server int }

// startPlane returns when all runs; it is stopped when the test ends.
func startPlane(t *testing.T, root, bin, dir string) *plane {
	t.Helper()
	free := freePorts(t, 4)
	p := &plane{
		bin: bin, data: filepath.Join(dir, "control-plane"), logs: filepath.Join(dir, "logs"),
		ports: planePorts{free[0], free[1], free[2], free[3]},
	}
	if err := os.MkdirAll(p.logs, 0o755); err != nil {
		t.Fatal(err)
	}
	p.start(t, "control-plane", "bunsen-standalone", "up", "--bare", "--data", p.data, "--bin", bin,
		"--api-port", fmt.Sprint(p.ports.api), "--etcd-port", fmt.Sprint(p.ports.etcd), "--etcd-peer-port",
		fmt.Sprint(p.ports.peer))
	p.await(t, "control-plane", "Up after")
	p.apply(t, "-k", filepath.Join(root, "config"))
	// the machine may not reach the server by every name
	p.apply(t, "-k", filepath.Join(root, "config", "components", "nodes-read-configs"))
	p.must(t, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	p.apply(t, "-f", filepath.Join(root, "test", "vm", "objects.yaml"))
	identity := func(name string) string { return filepath.Join(p.data, "identities", name+".kubeconfig") }
	p.start(t, "controller", "machine-config-controller", "--kubeconfig", identity("machine-config-controller"),
		"--store", filepath.Join(dir, "store"))
	// Closed, with its certificate in a Secret, and able to let machines join: they know the API server by a name of
	// its certificate.
	p.start(t, "server", "machine-config-server", "--kubeconfig", identity("machine-config-server"),
		"--listen", fmt.Sprintf("127.0.0.1:%d", p.ports.server), "--hostnames", seenAddress,
		"--join-server", fmt.Sprintf("https://%s:%d", apiName, seenAPI),
		"--cache-dir", filepath.Join(dir, "server-cache"), "--audit-log", filepath.Join(p.logs, "audit.log"))
	p.await(t, "server", "listening")
	return p
}

// start runs one of our binaries until the test ends. Dying by itself fails the test.
func (p *plane) start(t *testing.T, name, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(p.logs, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(p.bin, program), args...)
	cmd.Stdout, cmd.Stderr = log, log
	// Ctrl-C is for the test. It dies of it, and what it started stops then.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("%s ended by itself: %v\n%s", name, err, p.tail(name))
			return
		default:
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may end this very moment
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
}

// log is what a process said so far.
func (p *plane) log(name string) string {
	text, err := os.ReadFile(filepath.Join(p.logs, name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *plane) tail(name string) string {
	text := p.log(name)
	return text[max(0, len(text)-4000):]
}

// await waits until a process has said something.
func (p *plane) await(t *testing.T, name, text string) {
	t.Helper()
	err := poll(t.Context(), 2*time.Minute, func() error {
		if strings.Contains(p.log(name), text) {
			return nil
		}
		return fmt.Errorf("%s has not said %q:\n%s", name, text, p.tail(name))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kubectl is the administrator's.
func (p *plane) kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "bunsen-standalone"), append([]string{
		"kubectl", "--kubeconfig", p.kubeconfig(), "--cache-dir", filepath.Join(p.data, "cache"),
	}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return strings.TrimRight(string(out), "\n"), err
}

func (p *plane) kubeconfig() string { return filepath.Join(p.data, "kubeconfig") }

func (p *plane) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.kubectl(t.Context(), nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *plane) apply(t *testing.T, args ...string) {
	t.Helper()
	p.must(t, append([]string{"apply", "--server-side", "--force-conflicts"}, args...)...)
}

// bunsen is our own command line, as the administrator.
func (p *plane) bunsen(ctx context.Context, args ...string) (string, error) {
	out, errs, err := p.bunsenOut(ctx, args...)
	return strings.TrimRight(out+errs, "\n"), err
}

// bunsenOut has what it prints and what it remarks apart.
func (p *plane) bunsenOut(ctx context.Context, args ...string) (out, errs string, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "bunsen"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig())
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("bunsen %s: %w: %s%s", args[0], err, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String(), err
}

// poll asks until it is told yes, for what has no event to wait for.
func poll(ctx context.Context, limit time.Duration, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, err)
		case <-tick.C:
		}
	}
}
