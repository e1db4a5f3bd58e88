package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// rebootsOf counts the reboots that a machine accepted.
func rebootsOf(m *hosttest.Machine) int {
	n := 0
	for _, line := range m.Log {
		if strings.HasPrefix(line, "reboot") {
			n++
		}
	}
	return n
}

// lostPower loses the answer to each request for a reboot. It is blind if the machine cannot say whether it goes down,
// and shut if the request does not reach the machine.
type lostPower struct {
	host.Power
	blind, shut *bool
}

// Reboot implements host.Power.
func (p lostPower) Reboot(ctx context.Context, why string) error {
	inner := p.Power
	if *p.shut {
		inner = nothing{}
	}
	wrapped, _ := hosttest.Wrap(host.Host{Power: inner}, func(hosttest.Call) error { return hosttest.ErrLost })
	return wrapped.Power.Reboot(ctx, why)
}

// GoingDown implements host.Power.
func (p lostPower) GoingDown(ctx context.Context) (bool, error) {
	if *p.blind {
		return false, errors.New("neither systemd nor logind answers")
	}
	return p.Power.GoingDown(ctx)
}

// nothing is the power of a machine that gets no request.
type nothing struct{ host.Power }

// Reboot implements host.Power.
func (nothing) Reboot(context.Context, string) error { return nil }

// TestADaemonWhoseRebootGotNoAnswerWaitsAndLooks: it rolls nothing back, reports nothing while the machine may be going
// down, and reports where to look once that takes too long.
func TestADaemonWhoseRebootGotNoAnswerWaitsAndLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
		r.c.desire("rendered-a")
		r.must(r.settle())
		blind, shut := true, true
		h := r.m.Host()
		h.Power = lostPower{h.Power, &blind, &shut}
		r.start(h)
		r.c.desire("rendered-r")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- r.a.Run(ctx, r.c.changed) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		r.c.says(t, "Working", "rendered-a")
		if r.a.Phase() != report.Rebooting || r.disk("/etc/motd") != "hi" {
			t.Errorf("after 30 s it is %s, with %q", r.a.Phase(), r.disk("/etc/motd"))
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		r.c.says(t, "Degraded", "rendered-a", "unknown whether the machine reboots into rendered-r", "list-jobs")
		if r.a.Phase() != report.Rebooting || r.disk("/etc/motd") != "hi" || rebootsOf(r.m) != 0 {
			t.Errorf("after 3 min it is %s, with %q", r.a.Phase(), r.disk("/etc/motd"))
		}
		// The machine answers again, and does not go down. So it is asked again, and goes down before it answers.
		blind, shut, r.m.SlowReboots = false, false, true
		if err := <-ended; !errors.Is(err, agent.ErrRebooting) {
			t.Fatal(err)
		}
		r.start(r.m.Host()) // The daemon starts again in the same boot.
		if _, err := syncOnce(t.Context(), r.a); !errors.Is(err, agent.ErrRebooting) || rebootsOf(r.m) != 1 {
			t.Fatalf("%v, after %d reboots", err, rebootsOf(r.m))
		}
		r.m.GoDown()
		r.start(r.m.Host())
		r.must(r.settle())
		r.c.says(t, "Done", "rendered-r")
		if strings.Contains(r.log.String(), "rolled back") || rebootsOf(r.m) != 1 {
			t.Errorf("after %d reboots:\n%s", rebootsOf(r.m), r.log.String())
		}
	})
}

// TestADaemonThatIsToldToStopOnTheWayDownLeavesTheUpdateAlone: the shutdown that it asked for stops it before the
// answer.
func TestADaemonThatIsToldToStopOnTheWayDownLeavesTheUpdateAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for says, down := range map[string]bool{"the machine says that it goes down": false, "nobody answers": true} {
			r := newRig(t)
			r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
			r.c.desire("rendered-a")
			r.must(r.settle())
			r.m.SlowReboots = true
			blind, shut := down, false
			h := r.m.Host()
			ctx, stop := context.WithCancel(t.Context())
			h.Power = stopping{lostPower{h.Power, &blind, &shut}, stop}
			r.start(h)
			r.c.desire("rendered-r")
			if err := r.a.Run(ctx, r.c.changed); err != nil {
				t.Fatalf("%s: %v", says, err)
			}
			if r.disk("/etc/motd") != "hi" || strings.Contains(r.log.String(), "rolled back") {
				t.Errorf("%s: it went back:\n%s", says, r.log.String())
			}
			r.m.GoDown()
			r.start(r.m.Host())
			r.must(r.settle())
			r.c.says(t, "Done", "rendered-r")
			if rebootsOf(r.m) != 1 {
				t.Errorf("%s: %d reboots", says, rebootsOf(r.m))
			}
		}
	})
}

// stopping stops the daemon when the machine has got its request, as systemd does.
type stopping struct {
	host.Power
	stop context.CancelFunc
}

// Reboot implements host.Power.
func (p stopping) Reboot(ctx context.Context, why string) error {
	defer p.stop()
	return p.Power.Reboot(ctx, why)
}
