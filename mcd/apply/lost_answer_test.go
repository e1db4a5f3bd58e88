package apply_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
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

// blind is the power of a machine that cannot tell whether it goes down.
type blind struct{ host.Power }

// GoingDown implements host.Power.
func (blind) GoingDown(context.Context) (bool, error) { return false, errors.New("nobody answers") }

// deaf is the power of a machine that gets no request, and gives no answer.
type deaf struct{ host.Power }

// Reboot implements host.Power.
func (deaf) Reboot(context.Context, string) error {
	return fault.NewUnknown(errors.New("there was no answer"))
}

// TestAMissingAnswerIsNoReasonToGoBack loses the answer to the request for a reboot. The machine goes down, or not; the
// daemon lives on or is started again, up to three times. The update ends in the new config, after one reboot.
func TestAMissingAnswerIsNoReasonToGoBack(t *testing.T) {
	lost := func(c hosttest.Call) error {
		if c.Port == "power" {
			return hosttest.ErrLost
		}
		return nil
	}
	for says, c := range map[string]struct {
		slow bool
		// first and then are the hosts of the first process and of those after it.
		first, then func(host.Host) host.Host
	}{
		"the machine is down at once": {first: func(h host.Host) host.Host { h, _ = hosttest.Wrap(h, lost); return h }},
		"the machine takes its time": {
			slow: true, first: func(h host.Host) host.Host { h, _ = hosttest.Wrap(h, lost); return h },
		},
		"the machine takes its time, and cannot say so": {
			slow: true, first: func(h host.Host) host.Host { h, _ = hosttest.Wrap(h, lost); return h },
			then: func(h host.Host) host.Host { h.Power = blind{h.Power}; return h },
		},
		"the machine never got the request": {first: func(h host.Host) host.Host { h.Power = deaf{h.Power}; return h }},
		"the machine never got the request, and takes its time then": {
			slow: true, first: func(h host.Host) host.Host { h.Power = deaf{h.Power}; return h },
		},
	} {
		for starts := range 3 {
			t.Run(says, func(t *testing.T) {
				m, tr := gateTrial(t, crashCases(2)[1])
				m.SlowReboots = c.slow
				var steps []host.Step
				runner := func(h host.Host) apply.Runner {
					r := tr.runner(h)
					r.OnStep = func(s host.Step, undone bool) {
						if undone {
							steps = append(steps, s)
						}
					}
					return r
				}
				end, err := runner(c.first(m.Host())).Run(t.Context(), tr.plan, tr.contents)
				if err != nil || end.End != apply.RebootUnknown || !fault.IsUnknown(end.Why) {
					t.Fatalf("%+v, %v", end, err)
				}
				for range starts {
					h := m.Host()
					if c.then != nil {
						h = c.then(h)
					}
					if end, err = runner(h).Recover(t.Context()); err != nil || c.slow && end.End == apply.New {
						t.Fatalf("%+v, %v", end, err)
					}
				}
				if c.slow && rebootsOf(m) > 0 {
					m.GoDown()
				}
				for range 2 {
					end, err = runner(m.Host()).Recover(t.Context())
					if m.SlowReboots = false; c.slow && end.End == apply.Rebooting {
						m.GoDown()
					}
				}
				if err != nil || tr.tree(t) != tr.shall || rebootsOf(m) != 1 || len(steps) > 0 || tr.rejected > 0 {
					t.Fatalf("%+v, %v, after %d reboots; it went back by %v", end, err, rebootsOf(m), steps)
				}
				if rec, err := m.Host().Journal.Load(); rec != nil || err != nil {
					t.Fatalf("the journal is left: %v, %v", rec, err)
				}
			})
		}
	}
}

// TestAMissingAnswerToTheRebootOfARollback keeps its record too.
func TestAMissingAnswerToTheRebootOfARollback(t *testing.T) {
	m, tr := gateTrial(t, crashCases(2)[1])
	r := tr.runner(m.Host())
	tr.gate = errIll
	if end, err := r.Run(t.Context(), tr.plan, tr.contents); err != nil || end.End != apply.Rebooting {
		t.Fatalf("%+v, %v", end, err)
	}
	m.SlowReboots = true
	h, _ := hosttest.Wrap(m.Host(), func(c hosttest.Call) error {
		if c.Port == "power" {
			return hosttest.ErrLost
		}
		return nil
	})
	end, err := tr.runner(h).Recover(t.Context())
	if err != nil || end.End != apply.RebootUnknown || !errors.Is(end.Why, apply.ErrUnhealthy) {
		t.Fatalf("%+v, %v", end, err)
	}
	for range 2 { // The daemon starts again while the machine goes down.
		if end, err = tr.runner(m.Host()).Recover(t.Context()); err != nil || end.End != apply.Rebooting {
			t.Fatalf("%+v, %v", end, err)
		}
	}
	m.GoDown()
	if end, err = tr.runner(m.Host()).Recover(t.Context()); err != nil || end.End != apply.Old || rebootsOf(m) != 2 {
		t.Fatalf("%+v, %v, after %d reboots", end, err, rebootsOf(m))
	}
	if tr.tree(t) != tr.old || tr.rejected != 1 {
		t.Errorf("it was rejected %d times, and has\n%s", tr.rejected, tr.tree(t))
	}
}

// TestARefusedRebootGoesBackWhoeverAsks: an answer is an answer, also to a process that looked first.
func TestARefusedRebootGoesBackWhoeverAsks(t *testing.T) {
	m, tr := gateTrial(t, crashCases(2)[1])
	h := m.Host()
	h.Power = deaf{h.Power}
	if end, err := tr.runner(h).Run(t.Context(), tr.plan, tr.contents); err != nil || end.End != apply.RebootUnknown {
		t.Fatalf("%+v, %v", end, err)
	}
	refusing, _ := hosttest.Wrap(m.Host(), func(c hosttest.Call) error {
		if c.Port == "power" {
			return hosttest.ErrInjected
		}
		return nil
	})
	end, err := tr.runner(refusing).Recover(t.Context())
	if err != nil || end.End != apply.Old || !errors.Is(end.Why, hosttest.ErrInjected) || tr.tree(t) != tr.old {
		t.Fatalf("%+v, %v", end, err)
	}
}
