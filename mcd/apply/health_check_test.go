package apply_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// gateTrial is a machine in memory in front of an update.
func gateTrial(t *testing.T, c crashCase) (*hosttest.Machine, *trial) {
	t.Helper()
	var m *hosttest.Machine
	tr := begin(t, c, func(*testing.T) world {
		m = newMachine()
		return inMemory(m)
	})
	m.Log = nil
	return m, tr
}

func TestTheGateIsAskedWhenTheNewConfigIsInPlace(t *testing.T) {
	cases := crashCases(2)
	for says, c := range map[string]struct {
		crashCase
		asked bool
	}{
		"after the actions of an update without a reboot": {cases[0], true},
		"after the reboot":                        {cases[1], true},
		"not for an update that no unit hears of": {crashCase{from: cases[0].from, to: cases[0].to}, false},
	} {
		t.Run(says, func(t *testing.T) {
			m, tr := gateTrial(t, c.crashCase)
			asked := false
			r := apply.Runner{Host: m.Host(), HealthCheck: func(_ context.Context, rec host.Record) error {
				asked = true
				if tr.tree(t) != tr.shall || rec.To != "rendered-b" {
					t.Errorf("it is asked about %s with\n%s", rec.To, tr.tree(t))
				}
				if last := m.Log[len(m.Log)-1]; tr.plan.Reboots() != strings.HasPrefix(last, "reboot") {
					t.Errorf("the last that happened is %q", last)
				}
				return nil
			}}
			if _, err := r.Run(t.Context(), tr.plan, tr.contents); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Recover(t.Context()); err != nil || asked != c.asked || tr.tree(t) != tr.shall {
				t.Errorf("asked is %t, %v", asked, err)
			}
		})
	}
}

func TestAnUnhealthyMachineGoesBackAndIsToldOnceAllIsBack(t *testing.T) {
	for says, c := range map[string]crashCase{"without a reboot": crashCases(2)[0], "by a reboot": crashCases(2)[1]} {
		t.Run(says, func(t *testing.T) {
			m, tr := gateTrial(t, c)
			var told []error
			r := apply.Runner{Host: m.Host(), HealthCheck: func(context.Context, host.Record) error { return errIll }}
			r.OnRejected = func(rec host.Record, why error) error {
				told = append(told, why)
				if left, err := m.Host().Journal.Load(); tr.tree(t) != tr.old || left == nil || err != nil ||
					rec.To != "rendered-b" {
					t.Errorf("told too early or too late: %v %v", left, err)
				}
				return nil
			}
			end, err := r.Run(t.Context(), tr.plan, tr.contents)
			for range 2 {
				if err == nil && end.End == apply.Rebooting {
					end, err = r.Recover(t.Context())
				}
			}
			if err != nil || end.End != apply.Old || !errors.Is(end.Why, apply.ErrUnhealthy) ||
				!strings.Contains(end.Why.Error(), errIll.Error()) {
				t.Fatalf("%+v, %v", end, err)
			}
			if len(told) != 1 || !errors.Is(told[0], apply.ErrUnhealthy) {
				t.Errorf("told %v", told)
			}
			found, _ := m.Booted()
			reboots := slices.DeleteFunc(slices.Clone(m.Log), func(line string) bool {
				return !strings.HasPrefix(line, "reboot")
			})
			if tr.plan.Reboots() && (len(reboots) != 2 || found != m.Tree()) || !tr.plan.Reboots() &&
				len(reboots) != 0 {
				t.Errorf("it went back with %q", m.Log)
			}
		})
	}
}

func TestWhatNobodyJudgedIsJudgedLater(t *testing.T) {
	for says, err := range map[string]error{
		"the context ends":                    errIll,
		"the answer is that it was cancelled": context.Canceled,
	} {
		t.Run(says, func(t *testing.T) {
			m, tr := gateTrial(t, crashCases(1)[0])
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := err
			r := apply.Runner{Host: m.Host(), HealthCheck: func(context.Context, host.Record) error {
				if errors.Is(answer, errIll) {
					cancel()
				}
				return answer
			}}
			end, err := r.Run(ctx, tr.plan, tr.contents)
			if err != nil || end.End != apply.HealthUnknown || end.Why == nil || tr.tree(t) != tr.shall {
				t.Fatalf("%+v, %v", end, err)
			}
			answer = nil
			r.Host = m.Host()
			if end, err = r.Recover(t.Context()); err != nil || end.End != apply.New {
				t.Fatalf("%+v, %v", end, err)
			}
		})
	}
}

func TestARejectionThatCannotBeNotedKeepsTheJournal(t *testing.T) {
	m, tr := gateTrial(t, crashCases(1)[0])
	full := true
	r := apply.Runner{Host: m.Host(), HealthCheck: func(context.Context, host.Record) error { return errIll }}
	r.OnRejected = func(host.Record, error) error {
		if full {
			return hosttest.ErrFull
		}
		return nil
	}
	end, err := r.Run(t.Context(), tr.plan, tr.contents)
	if err != nil || end.End != apply.RollbackFailed || !errors.Is(end.Why, hosttest.ErrFull) || tr.tree(t) != tr.old {
		t.Fatalf("%+v, %v", end, err)
	}
	full = false
	if end, err = r.Recover(t.Context()); err != nil || end.End != apply.Old ||
		!errors.Is(end.Why, apply.ErrUnhealthy) {
		t.Fatalf("%+v, %v", end, err)
	}
}

func TestAnOSThatNeverComesBackIsToldAndNotTriedForEver(t *testing.T) {
	m, tr := gateTrial(t, crashCases(2)[1])
	rejected := 0
	r := apply.Runner{Host: m.Host(), OnRejected: func(host.Record, error) error { rejected++; return nil }}
	// now it sticks to the new one
	r.HealthCheck = func(context.Context, host.Record) error { m.BootsOld = true; return errIll }
	end, err := r.Run(t.Context(), tr.plan, tr.contents)
	boots := 0
	for ; err == nil && end.End == apply.Rebooting; boots++ {
		end, err = r.Recover(t.Context())
	}
	if err != nil || end.End != apply.Old || rejected != 1 || boots > 5 || !strings.Contains(end.Why.Error(),
		apply.ErrNotBooted.Error()) {
		t.Fatalf("after %d boots: %+v, %v", boots, end, err)
	}
}
