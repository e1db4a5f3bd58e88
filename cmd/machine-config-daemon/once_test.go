package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/once"
)

const (
	oldConfig = `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"old"},"spec":{"config":{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,old"}},{"path":"/etc/gone","contents":{"source":"data:,x"}}]}}}}`
	newConfig = `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"new"},"spec":{"config":{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,new"}},{"path":"/etc/d/b","contents":{"source":"data:,b"}}]}}}}`
)

func applyIn(t *testing.T, dir, config string) error {
	t.Helper()
	at := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(at, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newRoot()
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{"apply", "--once-from", at, "--root", dir})
	return cmd.ExecuteContext(t.Context())
}

// TestApplyMakesACrashOfAnEarlierOneGood kills apply in a directory after each of its changes, and runs it again.
func TestApplyMakesACrashOfAnEarlierOneGood(t *testing.T) {
	crashes := 0
	for k := 0; ; k++ {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := applyIn(t, dir, oldConfig); err != nil {
			t.Fatal(err)
		}
		to, err := once.Read("new", []byte(newConfig))
		if err != nil {
			t.Fatal(err)
		}
		h, root, err := linux.OpenOffline(dir, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		dying, count := hosttest.Wrap(h, hosttest.CrashAfter(k))
		_, _ = once.Run(t.Context(), apply.Runner{Host: dying}, once.Request{To: to, SkipReboot: true}, false,
			func(once.Plan) {})
		if err := root.Close(); err != nil {
			t.Fatal(err)
		}
		if err := applyIn(t, dir, newConfig); err != nil {
			t.Fatalf("after %d changes: %v", k, err)
		}
		if got, want := tree(t, dir), "etc/a=new etc/d/b=b"; got != want {
			t.Fatalf("after %d changes: %s, not %s", k, got, want)
		}
		if count.N <= k {
			break
		}
		crashes++
	}
	if crashes < 8 {
		t.Errorf("only %d crashes", crashes)
	}
}

// tree has the files below /etc with what is in them, but for the daemon's own.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(dir, "etc"), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == "machine-config-daemon" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(at)
		files = append(files, strings.TrimPrefix(at, dir+"/")+"="+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(files, " ")
}

func TestFirstBootTriesForEverUnlessToldNotTo(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	refused := func() *hosttest.Machine {
		m := hosttest.NewMachine()
		m.Withdraw("it is a plain host")
		m.Put(once.EncapsulatedPath, `{"metadata":{"name":"rendered-worker-1"},"spec":{"kernelArguments":["quiet"]}}`)
		return m
	}
	if err := untilFirstBooted(t.Context(), refused().Host(), 0, quiet); !errors.Is(err, apply.ErrRefused) {
		t.Errorf("once: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		m, began := refused(), time.Now()
		go func() {
			<-time.After(150 * time.Second)
			m.Put(once.EncapsulatedPath, `{"metadata":{"name":"rendered-worker-1"},"spec":{}}`) // a person mends it
		}()
		if err := untilFirstBooted(t.Context(), m.Host(), time.Minute, quiet); err != nil ||
			time.Since(began) != 3*time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := untilFirstBooted(ctx, refused().Host(), time.Minute, quiet); !errors.Is(err,
			context.DeadlineExceeded) || !errors.Is(err, apply.ErrRefused) {
			t.Errorf("told to stop: %v", err)
		}
	})
}

// powerOff ends the process with the machine, as systemd does.
type powerOff struct {
	host.Power
	end context.CancelFunc
}

func (p powerOff) Reboot(ctx context.Context, why string) error {
	defer p.end()
	return p.Power.Reboot(ctx, why)
}

// lostPower loses the answer to each request for a reboot.
type lostPower struct{ host.Power }

func (p lostPower) Reboot(ctx context.Context, why string) error {
	return errors.Join(p.Power.Reboot(ctx, why), fault.NewUnknown(errors.New("the connection was closed")))
}

// TestFirstBootWhoseRebootGotNoAnswerLooks: it requests no second reboot, and waits for the end like after an answer.
func TestFirstBootWhoseRebootGotNoAnswerLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := hosttest.NewMachine()
		m.SlowReboots = true
		m.Put(once.EncapsulatedPath, `{"metadata":{"name":"rendered-worker-1"},"spec":{"kernelArguments":["quiet"]}}`)
		h := m.Host()
		h.Power = lostPower{h.Power}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := untilFirstBooted(ctx, h, time.Minute, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		if len(m.Log) != 1 || !strings.HasPrefix(m.Log[0], "reboot") {
			t.Errorf("it did %q", m.Log)
		}
		m.GoDown()
		done, err := once.FirstBoot(t.Context(), apply.Runner{Host: m.Host()}, nil)
		if err != nil || done.End != apply.New {
			t.Errorf("after the boot: %+v, %v", done, err)
		}
	})
}

// TestFirstBootRebootsMoreAndMoreSeldomIntoAnOSThatNeverBoots: what was staged does not boot, whoever stages it.
func TestFirstBootRebootsMoreAndMoreSeldomIntoAnOSThatNeverBoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := hosttest.NewMachine()
		m.BootsOld = true
		m.Put(once.EncapsulatedPath, `{"metadata":{"name":"rendered-worker-1"},"spec":{"kernelArguments":["quiet"]}}`)
		quiet := slog.New(slog.DiscardHandler)
		var rests []time.Duration
		for boot := range 16 { // into what was staged, and back, by turns
			ctx, cancel := context.WithCancel(t.Context())
			began, h := time.Now(), m.Host()
			h.Power = powerOff{h.Power, cancel}
			if err := untilFirstBooted(ctx, h, time.Minute, quiet); err != nil {
				t.Fatal(err)
			}
			if boot%2 == 0 {
				rests = append(rests, time.Since(began))
			}
		}
		want := []time.Duration{
			0, 3 * time.Minute, 5 * time.Minute, 9 * time.Minute, 17 * time.Minute,
			33 * time.Minute, 61 * time.Minute, 61 * time.Minute,
		}
		if d := cmp.Diff(want, rests); d != "" {
			t.Errorf("before each reboot (-want +got):\n%s", d)
		}
	})
}
