package agent_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// death is a daemon, or a machine, that goes down after so many changes of each update that it begins.
type death struct {
	after int
	// died tells that it did.
	died bool
}

// fault is for one start of the daemon.
func (d *death) fault() hosttest.Fault {
	changes, began := 0, false
	d.died = false
	return func(c hosttest.Call) error {
		if began {
			changes++
		}
		if d.died = d.died || changes > d.after; d.died {
			return hosttest.ErrCrashed
		}
		began = began || c.Port == "journal" && c.Target == string(host.Applying)
		return nil
	}
}

// lives lets a daemon run until it is dead or at rest; reboots happen. True: it is at rest.
func (r *rig) lives(d *death) bool {
	h, _ := hosttest.Wrap(r.m.Host(), d.fault())
	r.start(h)
	for range 10 {
		select {
		case <-r.c.changed:
		default:
		}
		_, err := syncOnce(r.t.Context(), r.a)
		switch {
		case d.died:
			return false
		case errors.Is(err, agent.ErrRebooting):
			r.start(h)
		case err != nil:
			r.t.Fatal(err)
		case len(r.c.changed) == 0:
			return true
		}
	}
	r.t.Fatal("it never came to rest")
	return false
}

// TestAnUpdateThatTakesTheMachineDownEachTimeIsGivenUp goes down at the same place of each attempt, for every place.
func TestAnUpdateThatTakesTheMachineDownEachTimeIsGivenUp(t *testing.T) {
	kargs := func(s *mcfgv1.MachineConfigSpec) { s.KernelArguments = []string{"quiet"} }
	for says, change := range map[string]func(*mcfgv1.MachineConfigSpec){
		"with a reboot": kargs,
		"with a reload": func(*mcfgv1.MachineConfigSpec) {},
	} {
		for how, down := range map[string]func(*rig, int){
			"the daemon is killed":     func(*rig, int) {},
			"the machine loses power":  func(r *rig, k int) { r.m.PowerCut(rand.New(rand.NewPCG(uint64(k), 3))) },
			"the first time by chance": func(r *rig, k int) { r.m.PowerCut(rand.New(rand.NewPCG(uint64(k), 4))) },
		} {
			t.Run(says+", "+how, func(t *testing.T) {
				given := 0
				for k := 0; ; k++ {
					r := newRig(t)
					r.c.add(t, "rendered-x", file(policyFile, "x"), change)
					r.c.desire("rendered-a")
					r.must(r.settle())
					before, deaths, d := r.tree(), 0, &death{after: k}
					r.c.desire("rendered-x")
					for !r.lives(d) {
						if deaths++; deaths > 3 {
							t.Fatalf("after %d changes: it went down a fourth time", k)
						}
						if down(r, k); how == "the first time by chance" {
							d.after = 1000
						}
					}
					if rec, err := r.m.Host().Journal.Load(); rec != nil || err != nil {
						t.Fatalf("after %d changes the journal is left: %+v, %v", k, rec, err)
					}
					reason := r.c.annotations[v1alpha1.ReasonAnnotation]
					switch {
					case deaths == 3:
						given++
						r.givenUp(before)
					case strings.Contains(reason, "something other than what was staged") &&
						how == "the machine loses power":
						// in the moment of the reboot: two are enough there
					default: // once, or not while steps were done
						r.c.says(t, "Done", "rendered-x")
					}
					if deaths == 0 {
						break
					}
				}
				t.Logf("%d places", given)
				if chance := how == "the first time by chance"; chance != (given == 0) {
					t.Errorf("it was given up %d times", given)
				}
			})
		}
	}
}

// givenUp says what is so of a node that went down three times with rendered-x.
func (r *rig) givenUp(before string) {
	r.t.Helper()
	r.c.says(r.t, "Degraded", "rendered-a", "updating to rendered-x: 3 times, the machine or the daemon went down",
		"journalctl -b -1", "back in rendered-a",
		"revert the commit", "bunsen retry", host.ForcePath)
	if r.tree() != before || r.a.Phase() != report.Rejected || !r.events.has(report.EventRejected, "rendered-x") {
		r.t.Errorf("it is %s, with\n%s\nand was\n%s", r.a.Phase(), r.tree(), before)
	}
	n := len(r.m.Log)
	for range 3 {
		r.start(r.m.Host())
		r.must(r.settle())
	}
	if r.c.says(r.t, "Degraded", "rendered-a", "3 times"); len(r.m.Log) != n {
		r.t.Errorf("it did %q", r.m.Log[n:])
	}
	r.c.desire("rendered-b")
	r.must(r.settle())
	r.c.says(r.t, "Done", "rendered-b")
	r.c.desire("rendered-x")
	r.must(r.settle())
	r.c.says(r.t, "Done", "rendered-x")
}

// TestWhatIsNoInterruptionIsNotCountedAsOne keeps failures of other kinds, and starts of other daemons, from a verdict.
func TestWhatIsNoInterruptionIsNotCountedAsOne(t *testing.T) {
	t.Run("two interruptions and a third attempt that works leave nothing behind", func(t *testing.T) {
		r := newRig(t)
		r.c.desire("rendered-a")
		d := &death{after: 2}
		for range 2 {
			if r.lives(d) {
				t.Fatal("it did not die")
			}
		}
		r.start(r.m.Host())
		r.must(r.settle())
		r.c.says(t, "Done", "rendered-a")
		if text := r.disk(state.RejectionPath); !strings.Contains(text, "not exist") {
			t.Error(text)
		}
	})
	t.Run("a disk that fails in the middle of each attempt of a daemon that lives is none, however often it is tried",
		func(t *testing.T) {
			r := newRig(t)
			r.c.desire("rendered-a")
			fails, broken := true, false
			h, _ := hosttest.Wrap(r.m.Host(), func(c hosttest.Call) error {
				if broken {
					return hosttest.ErrInjected
				}
				broken = fails && c.Port == "journal" && c.Target == string(host.Applying)
				return nil
			})
			r.start(h)
			for range 6 {
				if _, err := syncOnce(t.Context(), r.a); err == nil ||
					!strings.Contains(err.Error(), "parts of both configs") {
					t.Fatal(err)
				}
				broken = false
			}
			fails = false
			r.must(r.settle())
			r.c.says(t, "Done", "rendered-a")
		})
	t.Run("one interruption is one, however often the daemon dies while it takes it back", func(t *testing.T) {
		r := newRig(t)
		r.c.desire("rendered-a")
		if r.lives(&death{after: 2}) {
			t.Fatal("it did not die")
		}
		for range 5 {
			dead := false
			h, _ := hosttest.Wrap(r.m.Host(), func(c hosttest.Call) error {
				if dead = dead || c.Port == "journal" && c.Frees; dead { // all is back, and it is told
					return hosttest.ErrCrashed
				}
				return nil
			})
			r.start(h)
			if _, err := syncOnce(t.Context(), r.a); err == nil || !dead {
				t.Fatal(err)
			}
		}
		r.start(r.m.Host())
		r.must(r.settle())
		r.c.says(t, "Done", "rendered-a")
	})
	t.Run("a forced update that takes the machine down is not forced for ever", func(t *testing.T) {
		r := newRig(t)
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.m.Put(host.ForcePath, "")
		d := &death{after: 1}
		for range 5 {
			if r.lives(d) {
				break
			}
		}
		r.start(r.m.Host())
		r.must(r.settle())
		r.c.says(t, "Done", "rendered-a")
	})
}

// TestAMachineThatGoesDownWhileItIsJudgedGoesBack has nobody there to say that it is ill.
func TestAMachineThatGoesDownWhileItIsJudgedGoesBack(t *testing.T) {
	for says, deaths := range map[string]int{"each time": 100, "twice, by chance": 2} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
				r.c.commit("rendered-r", "aaaabbbbccccdddd", "motd: hi")
				l := r.watched()
				r.c.desire("rendered-a")
				r.must(r.settle())
				before, dead, looks := r.tree(), false, 0
				var end context.CancelFunc
				r.health.Kubelet = func(ctx context.Context) error {
					if l.has(poison{path: "/etc/motd"}) && looks < deaths {
						dead, r.c.down = true, errRefused // nothing that it does from now on is seen
						looks++
						end()
					}
					return l.kubelet(ctx)
				}
				r.c.desire("rendered-r")
				for range 12 {
					h, _ := hosttest.Wrap(r.m.Host(), func(hosttest.Call) error {
						if dead {
							return hosttest.ErrCrashed
						}
						return nil
					})
					r.start(h)
					var ctx context.Context
					ctx, end = context.WithCancel(t.Context())
					_, _ = syncOnce(ctx, r.a)
					end()
					if dead {
						dead, r.c.down = false, nil
						r.m.PowerCut(rand.New(rand.NewPCG(uint64(looks), 5)))
					}
				}
				r.must(r.settle())
				if deaths < 3 {
					r.c.says(t, "Done", "rendered-r")
					return
				}
				r.c.says(t, "Degraded", "rendered-a", "aaaabbbbcc", "the machine or the daemon went down during the "+
					"health check 3 times", "back in rendered-a")
				if r.tree() != before || looks != 3 {
					t.Errorf("%d looks\n%s\nbefore\n%s", looks, r.tree(), before)
				}
			})
		})
	}
}

func TestALookThatIsTakenUpByTheSameDaemonOrEndedInOrderIsNotHeldAgainstTheConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.watched()
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.desire("rendered-b")
		for range 5 { // told to end, and started again
			ctx, end := context.WithTimeout(t.Context(), 5*time.Second)
			_, _ = syncOnce(ctx, r.a)
			end()
			r.start(r.m.Host())
		}
		stuck := true
		h, _ := hosttest.Wrap(r.m.Host(), func(c hosttest.Call) error {
			if stuck && c.Port == "journal" {
				return hosttest.ErrInjected
			}
			return nil
		})
		r.start(h)
		for range 5 { // healthy, and it cannot be written down
			if _, err := syncOnce(t.Context(), r.a); !errors.Is(err, hosttest.ErrInjected) {
				t.Fatal(err)
			}
		}
		stuck = false
		r.must(r.settle())
		r.c.says(t, "Done", "rendered-b")
	})
}

// TestARetryThatIsAskedForOnTheNode: each new time counts once, and nothing is removed from the Node.
func TestARetryThatIsAskedForOnTheNode(t *testing.T) {
	for _, c := range []struct {
		says, when string
		tried      bool
	}{
		{"a time after the verdict has it tried once more", "2100-01-02T03:04:05Z", true},
		{"in another time zone too", "2100-01-02T03:04:05+02:00", true},
		{"so does a time before it, of a clock that is behind", "1999-01-02T03:04:05Z", true},
		{"words that are no time do nothing", "now", false},
	} {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.c.add(t, "rendered-bad", badUnit)
				l := r.watched()
				r.c.desire("rendered-a")
				r.must(r.settle())
				l.unitDies = deadly
				r.c.desire("rendered-bad")
				r.must(r.settle())
				for range 2 { // a time counts once, even one that is still to come
					n := len(r.m.Log)
					r.c.annotations[v1alpha1.RetryAnnotation] = c.when
					r.start(r.m.Host())
					r.must(r.settle())
					if r.c.says(t, "Degraded", "rendered-a", "bad.service"); len(r.m.Log) > n != c.tried {
						t.Errorf("it did %q", r.m.Log[n:])
					}
					c.tried = false
				}
				l.unitDies = poison{}
				r.c.annotations[v1alpha1.RetryAnnotation] = "2100-01-02T03:04:06Z"
				r.must(r.settle())
				r.c.says(t, "Done", "rendered-bad")
				if r.c.annotations[v1alpha1.RetryAnnotation] != "2100-01-02T03:04:06Z" {
					t.Error("it took the annotation away")
				}
			})
		})
	}
}
