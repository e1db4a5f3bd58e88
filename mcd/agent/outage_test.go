package agent_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// TestTheAPIServerMayGoDownAtAnyCall lets it go down at the k-th call of an update with a drain and a reboot, for every
// k, and come back when the daemon rests.
func TestTheAPIServerMayGoDownAtAnyCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := 0
		for k := 1; ; k++ {
			r := newRig(t)
			r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
			r.watched()
			r.c.desire("rendered-a")
			r.must(r.settle())
			r.c.desire("rendered-r")
			r.c.calls, r.c.failFrom, r.c.told = 0, k, nil
			reached := !r.restOrDone()
			if !reached {
				t.Logf("%d calls; in %d outages the update was finished alone", k-1, alone)
				if alone < 3 {
					t.Error("the daemon hardly does anything alone")
				}
				return
			}
			inForce := strings.Contains(r.disk(host.RecordPath), "rendered-r")
			drained := r.c.annotations["machineconfiguration.openshift.io/lastAppliedDrain"] == "drain-rendered-r"
			if inForce {
				alone++
			}
			if slices.Contains(r.c.told, "post-config-action=Rebooting") && drained && !inForce {
				t.Errorf("down at call %d, after the node was drained: the update was not finished", k)
			}
			r.start(r.m.Host()) // a daemon that starts without an API server rests too
			r.rest()
			r.c.failFrom = 0
			r.must(r.settle())
			r.c.says(t, "Done", "rendered-r")
			if r.disk("/etc/motd") != "hi" {
				t.Errorf("down at call %d: %s", k, r.disk("/etc/motd"))
			}
		}
	})
}

// restOrDone syncs until the daemon rests; true when that was not for the API server.
func (r *rig) restOrDone() bool {
	for range 20 {
		select {
		case <-r.c.changed:
		default:
		}
		_, err := syncOnce(r.t.Context(), r.a)
		switch {
		case errors.Is(err, agent.ErrRebooting):
			r.start(r.m.Host())
		case errors.Is(err, report.ErrUnreachable):
			return false
		case err != nil:
			r.t.Fatal(err)
		case len(r.c.changed) == 0:
			return true
		}
	}
	r.t.Fatal("it never came to rest")
	return false
}

func TestADaemonThatWaitsForTheAPIServerSleepsLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.c.desire("rendered-a")
		r.must(r.settle())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- r.a.Run(ctx, r.c.changed) }()
		synctest.Wait()
		r.c.down, r.c.calls = errRefused, 0
		r.c.signal()
		time.Sleep(time.Hour)
		synctest.Wait()
		if r.c.calls < 50 || r.c.calls > 200 {
			t.Errorf("it asked %d times in an hour", r.c.calls)
		}
		r.c.down, r.c.calls = nil, 0
		r.c.signal()
		time.Sleep(time.Hour)
		synctest.Wait()
		if r.c.calls > 100 {
			t.Errorf("an idle node asked %d times in an hour", r.c.calls)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

var seeds = flag.Uint64("seeds", 120, "how many stories are told of a node; more find more")

// TestWhateverHappensANodeEndsInTheLastGoodConfig lets outages, crashes, power cuts, bad configs, changes of mind and
// force files follow each other at random. Then the API server answers: the node is Done with what is desired, or says
// Degraded or Unreconcilable with a reason that names it, and is in a config that it was once done with. What was
// rejected is not tried again meanwhile.
func TestWhateverHappensANodeEndsInTheLastGoodConfig(t *testing.T) {
	ends := map[string]int{}
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, rand.New(rand.NewPCG(seed, 1)))
				for range 4 + s.rand.IntN(20) {
					s.step()
				}
				ends[s.end()]++
			})
		})
	}
	t.Logf("%v", ends)
	if ends["Done"] < 20 || ends["Degraded"] < 20 || ends["Unreconcilable"] < 5 {
		t.Errorf("the stories are one-sided: %v", ends)
	}
}

// story is a node to which things happen.
type story struct {
	*rig
	rand *rand.Rand
	// innocent configs were rejected while nothing was heard of the cluster.
	silent bool
}

// outcome of each config of a story, and the contents of policyFile and motd in it.
var outcome = map[string]struct{ end, policy, motd string }{
	"rendered-a":    {"Done", "a", ""},
	"rendered-b":    {"Done", "b", ""},
	"rendered-r":    {"Done", "a", "hi"},
	"rendered-k":    {"Done", "k", ""},
	"rendered-ill":  {"Degraded", "", ""}, // reloads, and the kubelet does not live with it
	"rendered-dead": {"Degraded", "", ""}, // reboots, and its unit fails
	"rendered-cut":  {"Degraded", "", ""}, // reboots, and cuts the machine off
	"rendered-no":   {"Unreconcilable", "", ""},
}

func newStory(t *testing.T, r *rand.Rand) *story {
	s := &story{rig: newRig(t), rand: r}
	s.c.add(t, "rendered-r",
		`"storage":{"files":[{"path":"/etc/motd","contents":{"source":"data:,hi"}},{"path":"/etc/containers/policy.json","contents":{"source":"data:,a"}}]}`)
	s.c.add(t, "rendered-k", file(policyFile, "k"), kargs)
	s.c.add(t, "rendered-ill", file(policyFile, "ill"))
	s.c.add(t, "rendered-dead", badUnit)
	s.c.add(t, "rendered-cut", file("/etc/firewall", "drop"))
	s.c.add(t, "rendered-no", file(policyFile, "no"), fips)
	l := s.watched()
	l.kubeletDies, l.unitDies, l.cutsOff = poison{policyFile, "ill"}, deadly, poison{path: "/etc/firewall"}
	s.c.desire("rendered-a")
	s.must(s.settle())
	return s
}

// step is one thing that happens, and what the daemon makes of it.
func (s *story) step() {
	names := []string{
		"rendered-a", "rendered-b", "rendered-r", "rendered-k", "rendered-ill", "rendered-dead",
		"rendered-cut", "rendered-no",
	}
	standing := s.standing()
	attempts := len(s.m.Log)
	h := s.m.Host()
	switch s.rand.IntN(9) {
	case 0, 1, 2:
		s.c.desire(names[s.rand.IntN(len(names))])
		standing = ""
	case 3:
		s.c.down = []error{errRefused, errSilent}[s.rand.IntN(2)]
		s.silent = s.silent || errors.Is(s.c.down, errSilent)
	case 4, 5:
		s.c.down = nil
	case 6:
		h, _ = hosttest.Wrap(h, hosttest.CrashAfter(s.rand.IntN(12)))
		s.start(h)
	case 7:
		s.m.PowerCut(s.rand)
		s.start(s.m.Host())
	case 8:
		s.m.Put(host.ForcePath, "")
		standing = ""
	}
	s.work(h)
	if standing != "" && s.tried(attempts, standing) {
		s.t.Errorf("%s was rejected, and tried again: %q", standing, s.m.Log[attempts:])
	}
}

// standing is a config that was rejected beyond doubt, and is desired.
func (s *story) standing() string {
	text := s.disk(state.RejectionPath)
	desired := s.c.annotations["machineconfiguration.openshift.io/desiredConfig"]
	if !strings.Contains(s.disk(host.ForcePath), "not exist") {
		return ""
	}
	if strings.Contains(text, `"config":"`+desired+`"`) && !strings.Contains(text, `"doubtful":true`) {
		return desired
	}
	return ""
}

// tried tells whether a config was begun since.
func (s *story) tried(since int, config string) bool {
	return slices.ContainsFunc(s.m.Log[since:], func(line string) bool {
		return strings.HasPrefix(line, "reboot: machine config "+config)
	})
}

// work lets the daemon do what it can; one that dies is started again.
func (s *story) work(h host.Host) {
	for range 12 {
		select {
		case <-s.c.changed:
		default:
		}
		_, err := syncOnce(s.t.Context(), s.a)
		switch {
		case errors.Is(err, agent.ErrRebooting):
			s.start(h)
		case errors.Is(err, hosttest.ErrCrashed):
			h = s.m.Host()
			s.start(h)
		case err != nil, len(s.c.changed) == 0:
			return
		}
	}
}

// end lets all be well again, and says how the node ends.
func (s *story) end() string {
	s.c.down = nil
	s.start(s.m.Host())
	for range 4 {
		s.work(s.m.Host())
		s.start(s.m.Host())
	}
	desired := s.c.annotations["machineconfiguration.openshift.io/desiredConfig"]
	is := report.NodeOf(s.c.annotations)
	want := outcome[desired]
	if s.silent && want.end == "Done" && is.State == "Degraded" && strings.Contains(is.Reason, "is unreachable") {
		want.end = "Degraded" // convicted in an outage that was over too soon
	}
	if is.State != want.end || is.State != "Done" && !strings.Contains(is.Reason, desired) {
		s.t.Errorf("it wants %s and says %s, %q; want %s", desired, is.State, is.Reason, want.end)
	}
	good, known := outcome[is.Current]
	if !known || good.end != "Done" || is.State == "Done" && is.Current != desired {
		s.t.Errorf("it says %s with %s, and wants %s", is.State, is.Current, desired)
	}
	motd := s.disk("/etc/motd")
	if strings.Contains(motd, "not exist") {
		motd = ""
	}
	if s.disk(policyFile) != good.policy || motd != good.motd || strings.Contains(s.tree(), "firewall") {
		s.t.Errorf("it is in %s and has %q, %q", is.Current, s.disk(policyFile), motd)
	}
	if rec, err := s.m.Host().Journal.Load(); rec != nil || err != nil {
		s.t.Errorf("the journal is left: %+v, %v", rec, err)
	}
	return is.State
}

func kargs(s *mcfgv1.MachineConfigSpec) { s.KernelArguments = []string{"quiet"} }

func fips(s *mcfgv1.MachineConfigSpec) { s.FIPS = true }

func TestTheAgentSaysWhenItHasReported(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*rig)
		want    bool
	}{
		"a node in its config":     {func(r *rig) { r.c.desire("rendered-a") }, true},
		"a node without a config":  {func(*rig) {}, true},
		"an API outage":            {func(r *rig) { r.c.desire("rendered-a"); r.c.down = errRefused }, false},
		"a state that is not read": {func(r *rig) { r.c.desire("rendered-a"); r.c.failFrom = 3 }, false},
		"a config without object":  {func(r *rig) { r.c.desire("rendered-none") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c.prepare(r)
			_, err := syncOnce(t.Context(), r.a)
			t.Log(err)
			if got := r.reported > 0; got != c.want {
				t.Errorf("reported is %t after %v", got, err)
			}
		})
	}
}

// TestTheLogSaysWhatTheAPIServerDid: an answer that the daemon cannot use is not silence, and each kind of outage is
// told once.
func TestTheLogSaysWhatTheAPIServerDid(t *testing.T) {
	for sentence, c := range map[string]struct {
		down      error
		says, not string
	}{
		"it rejects the rights": {
			&report.AnswerError{Code: 403, Err: errors.New("node 'a' cannot read 'vm'")},
			"the API server answered 403: node 'a' cannot read 'vm'; check that the rights", "does not answer",
		},
		"it is silent": {
			&report.NoAnswerError{Err: errRefused}, "the API server does not answer; cont", "answered",
		},
		"there is no connection": {
			&report.NotConnectedError{Err: errRefused}, "cannot connect to the API server: ", "does not answer",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.c.desire("rendered-a")
				r.must(r.settle())
				r.log.Reset()
				r.c.down = c.down
				for range 3 {
					_, _ = syncOnce(t.Context(), r.a)
				}
				if log := r.log.String(); !strings.Contains(log, c.says) || strings.Contains(log, c.not) ||
					strings.Count(log, "continuing with what is on disk") != 1 {
					t.Errorf("the log says\n%s", log)
				}
			})
		})
	}
}
