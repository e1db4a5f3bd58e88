package apply_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

var reloads = []disruption.Action{
	{Type: disruption.ActionDaemonReload},
	{Type: disruption.ActionReload, Service: "crio.service"},
	{Type: disruption.ActionRestart, Service: "chronyd.service"},
}

var reboot = disruption.Action{Type: disruption.ActionReboot}

// crashCase is one transition that is disturbed everywhere.
type crashCase struct {
	from, to machineconfig.Config
	actions  []disruption.Action
}

// crashCases have reboots and others in turn.
func crashCases(n uint64) []crashCase {
	var cases []crashCase
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 11))
		c := crashCase{from: generate(r), to: generate(r), actions: []disruption.Action{reboot}}
		if seed%2 == 0 { // what needs a reboot is the same
			c.actions = reloads
			c.to.KernelArguments, c.to.OSImageURL, c.to.KernelType, c.to.Extensions = c.from.KernelArguments,
				c.from.OSImageURL, c.from.KernelType, c.from.Extensions
		}
		c.from.Ignition.Storage.Files = append(c.from.Ignition.Storage.Files, remoteFiles(r)...)
		c.to.Ignition.Storage.Files = append(c.to.Ignition.Storage.Files, remoteFiles(r)...)
		cases = append(cases, c)
	}
	return cases
}

// disturbance is what happens to an update, and to the first daemons that start after it.
type disturbance struct {
	says string
	// fault begins after so many changes.
	fault func(after int) hosttest.Fault
	// cut: the power is cut when the daemon is dead.
	cut bool
	// gate is what the Gate says.
	gate error
	// bootsOld: no new OS ever boots.
	bootsOld bool
	// on is where it can be had; everywhere when empty.
	on string
}

var errIll = errors.New("the kubelet does not answer")

// disturbances are tried on every kind of step.
var disturbances = []disturbance{
	{says: "killed", fault: hosttest.CrashAfter},
	{says: "power cut", fault: hosttest.CrashAfter, cut: true, on: "in memory"},
	{says: "disk full", fault: func(n int) hosttest.Fault { return hosttest.FullFrom(n + 1) }},
	{says: "read-only file system", fault: func(n int) hosttest.Fault { return hosttest.FailFrom(n+1, hosttest.ErrReadOnly) }},
	{says: "I/O error", fault: func(n int) hosttest.Fault { return hosttest.FailFrom(n+1, hosttest.ErrInjected) }},
	{says: "I/O error, once", fault: func(n int) hosttest.Fault { return hosttest.FailNth(n + 1) }},
	{says: "killed, unhealthy", fault: hosttest.CrashAfter, gate: errIll},
	{says: "power cut, unhealthy", fault: hosttest.CrashAfter, cut: true, gate: errIll, on: "in memory"},
	{says: "I/O error, once, unhealthy", fault: func(n int) hosttest.Fault { return hosttest.FailNth(n + 1) }, gate: errIll},
	{says: "killed, not booted", fault: hosttest.CrashAfter, bootsOld: true, on: "in memory"},
	{says: "power cut, not booted", fault: hosttest.CrashAfter, cut: true, bootsOld: true, on: "in memory"},
}

// newHard and oldHard count hard links that come and that go.
const newHard, oldHard = host.Verb("new hard link"), host.Verb("hard link that goes")

// tally counts how machines ended.
type tally struct{ disturbed, olds, news, rejected int }

// TestWhateverHappensAnywhereEndsInTheOldOrTheNewConfig disturbs the daemon after every k-th change of whatever kind
// (file, unit, account, OS, journal, store, flush, power), starts another one, and disturbs that too, until one is left
// in peace.
func TestWhateverHappensAnywhereEndsInTheOldOrTheNewConfig(t *testing.T) {
	verbs := map[host.Verb]int{}
	for name := range worlds {
		for i, d := range disturbances {
			n := map[string]uint64{"in memory": 6, "with a boot loader": 4, "rooted": 2}[name]
			if i < 2 {
				n = map[string]uint64{"in memory": 20, "with a boot loader": 10, "rooted": 4}[name]
			}
			if d.on == "in memory" && name == "rooted" {
				continue
			}
			t.Run(name+"/"+d.says, func(t *testing.T) {
				var sum tally
				for _, c := range crashCases(n) {
					everywhere(t, name, c, d, &sum, verbs)
				}
				t.Logf("%d updates on a host %s, %s: %d ended in the old config (%d rejected), %d in the new",
					sum.disturbed, name, d.says, sum.olds, sum.rejected, sum.news)
			})
		}
	}
	for _, v := range []host.Verb{
		host.Write, host.Remove, host.MakeLink, host.MakeDir, host.SetUser, host.DropUser,
		host.SetGroup, host.DropGroup, host.WriteRecord, host.Enable, host.Disable, host.SetImage, host.SetKargs,
		host.SetKernelType, host.SetExtensions, host.DaemonReload, host.Reload, host.Restart, host.Reboot,
	} {
		if verbs[v] == 0 {
			t.Errorf("no plan had the verb %s", v)
		}
	}
	for _, v := range []host.Verb{newHard, oldHard} {
		if verbs[v] == 0 {
			t.Errorf("no plan had a %s", v)
		}
	}
}

// trial is a machine in the old config, with the plan of the way to the new one.
type trial struct {
	world
	plan     plan.Plan
	contents map[host.Digest][]byte
	// old is the tree before, shall the one after an update in peace.
	old, shall string
	// gate is what the Gate says; rejected counts.
	gate     error
	rejected int
	// boots is how often the machine had booted before.
	boots int
}

// begin brings a machine into the old config and finds out what the new one looks like.
func begin(t *testing.T, c crashCase, makeWorld func(*testing.T) world) *trial {
	t.Helper()
	tr := &trial{shall: treeAfter(t, makeWorld(t), c), world: makeWorld(t)}
	h := tr.open(t)
	settleIn(t, h, c.from)
	tr.old = tr.tree(t)
	tr.plan, tr.contents = planOn(t, h, way(t, h, c.from, c.to, c.actions...))
	return tr
}

// treeAfter is the machine after the transition, undisturbed.
func treeAfter(t *testing.T, w world, c crashCase) string {
	t.Helper()
	h := w.open(t)
	settleIn(t, h, c.from)
	p, contents := planOn(t, h, way(t, h, c.from, c.to, c.actions...))
	if _, err := (apply.Runner{Host: h}).Run(t.Context(), p, contents); err != nil {
		t.Fatal(err)
	}
	if end, err := (apply.Runner{Host: h}).Recover(t.Context()); err != nil || end.Why != nil {
		t.Fatal(end, err)
	}
	return w.tree(t)
}

// settleIn brings a machine into its first config, and lets it boot with it.
func settleIn(t *testing.T, h host.Host, c machineconfig.Config) {
	t.Helper()
	bring(t, h, named(way(t, h, machineconfig.Config{}, c), "rendered-a"))
	if err := h.Power.Reboot(t.Context(), "first config"); err != nil {
		t.Fatal(err)
	}
}

func (tr *trial) runner(h host.Host) apply.Runner {
	return apply.Runner{
		Host:        h,
		HealthCheck: func(context.Context, host.Record) error { return tr.gate },
		OnRejected:  func(host.Record, error) error { tr.rejected++; return nil },
	}
}

// gated tells that the Gate has a say in the plan.
func gated(p plan.Plan) bool {
	return p.Reboots() || len(p.Steps) > 1 && p.Steps[len(p.Steps)-2].IsAction()
}

// everywhere disturbs an update after its k-th change, for every k. A machine that is back where it was is used again.
func everywhere(t *testing.T, on string, c crashCase, d disturbance, sum *tally, verbs map[host.Verb]int) {
	t.Helper()
	tr := begin(t, c, worlds[on])
	for _, s := range tr.plan.Steps {
		verbs[s.Verb]++
		if s.After.Entry.Kind == host.Hard {
			verbs[newHard]++
		}
		if s.Before.Entry.Kind == host.Hard {
			verbs[oldHard]++
		}
	}
	for k := 0; ; k++ {
		if tr.tree(t) != tr.old {
			tr = begin(t, c, worlds[on])
		}
		if tr.booted != nil {
			tr.bootsOld(d.bootsOld)
			_, tr.boots = tr.booted()
		}
		tr.gate, tr.rejected = d.gate, 0
		r := rand.New(rand.NewPCG(uint64(k), 5))
		h, count := hosttest.Wrap(tr.open(t), d.fault(k))
		first, _ := tr.runner(h).Run(t.Context(), tr.plan, tr.contents)
		reached := count.N > k
		if reached && d.cut {
			tr.cut(r)
		}
		end := tr.settle(t, d, r)
		where := fmt.Sprintf("%s after %d changes", d.says, k)
		tr.judge(t, where, end, sum)
		if d.bootsOld && tr.plan.Stages() && tr.plan.Reboots() && tr.tree(t) == tr.shall && tr.shall != tr.old {
			t.Fatalf("%s: the new config is in force without its OS", where)
		}
		if !reached {
			if d.gate == nil && !d.bootsOld && first.End != apply.New && first.End != apply.Rebooting {
				t.Fatalf("undisturbed, the update ended %+v", first)
			}
			return
		}
		sum.disturbed++
	}
}

// settle starts daemons: the first ones are disturbed too, the last ones are not. A reboot that is asked for happens.
func (tr *trial) settle(t *testing.T, d disturbance, r *rand.Rand) apply.Applied {
	t.Helper()
	for try := range 8 {
		h := tr.open(t)
		if try < 2 {
			n := r.IntN(12)
			var count *hosttest.Counter
			h, count = hosttest.Wrap(h, d.fault(n))
			_, _ = tr.runner(h).Recover(t.Context())
			if d.cut && count.N > n {
				tr.cut(r)
			}
			continue
		}
		end, err := tr.runner(h).Recover(t.Context())
		switch {
		case err != nil || end.End == apply.RollbackFailed || end.End == apply.HealthUnknown:
			t.Fatalf("recovering from %s: %+v, %v", d.says, end, err)
		case end.End != apply.Rebooting:
			return end
		}
	}
	t.Fatal("it never came to rest")
	return apply.Applied{}
}

// judge compares the machine with what it may be.
func (tr *trial) judge(t *testing.T, where string, end apply.Applied, sum *tally) {
	t.Helper()
	is := tr.tree(t)
	switch {
	case is == tr.shall && (tr.gate == nil || !gated(tr.plan) || is == tr.old):
		sum.news++
	case is == tr.old:
		sum.olds++
	default:
		t.Fatalf("%s: neither old nor new (%s, %v):\n-old +is %s\n-new +is %s", where, end.End, end.Why,
			cmp.Diff(tr.old, is), cmp.Diff(tr.shall, is))
	}
	if tr.rejected > 0 {
		sum.rejected++
		if is != tr.old {
			t.Fatalf("%s: rejected, and not in the old config", where)
		}
		tr.rejected = 0
	}
	found, boots := "", 0
	if tr.booted != nil {
		found, boots = tr.booted()
	}
	if rec, err := tr.open(t).Journal.Load(); rec != nil || err != nil {
		t.Fatalf("%s: the journal is left: %v %v", where, rec, err)
	}
	if tr.cut == nil {
		return
	}
	if tr.cut(rand.New(rand.NewPCG(1, 6))); tr.tree(t) != is {
		t.Fatalf("%s: at rest (%s, %v), it was not durable:\n%s", where, end.End, end.Why, cmp.Diff(is, tr.tree(t)))
	}
	if !tr.plan.Reboots() {
		return
	}
	if boots > tr.boots && found != tr.files() {
		t.Fatalf("%s: services run with something else than what is there (%s, %v):\n%s", where, end.End, end.Why,
			cmp.Diff(found, tr.files()))
	}
}

// TestAPortThatHangsEndsInTheOldOrTheNewConfig ends the context of an update while systemd, say, does not answer.
func TestAPortThatHangsEndsInTheOldOrTheNewConfig(t *testing.T) {
	for name := range worlds {
		t.Run(name, func(t *testing.T) {
			var sum tally
			for _, c := range crashCases(4) {
				tr := begin(t, c, worlds[name])
				for k := 0; ; k++ {
					if tr.tree(t) != tr.old {
						tr = begin(t, c, worlds[name])
					}
					ctx, giveUp := context.WithCancel(t.Context())
					hangs := false
					h, count := hosttest.Wrap(tr.open(t), hosttest.HangFrom(k+1, func() { hangs = true; giveUp() }))
					done, err := tr.runner(h).Run(ctx, tr.plan, tr.contents)
					giveUp()
					if hangs && done.End == apply.New {
						t.Fatalf("after %d changes a port hung, and the update ended %+v, %v", k, done, err)
					}
					end := tr.settle(t, disturbance{says: "hanging", fault: func(int) hosttest.Fault { return nil }},
						rand.New(rand.NewPCG(1, 1)))
					tr.judge(t, fmt.Sprintf("hanging after %d changes", k), end, &sum)
					if count.N <= k {
						break
					}
					sum.disturbed++
				}
			}
			t.Logf("%d updates on a host %s that hung: %d ended in the old config, %d in the new", sum.disturbed, name,
				sum.olds, sum.news)
		})
	}
}

// TestAFailureIsToldAndTakenBackAtOnce needs nobody to start again.
func TestAFailureIsToldAndTakenBackAtOnce(t *testing.T) {
	for name := range worlds {
		t.Run(name, func(t *testing.T) {
			failures := 0
			for _, c := range crashCases(map[string]uint64{"in memory": 10, "rooted": 4}[name]) {
				tr := begin(t, c, worlds[name])
				for n := 1; ; n++ {
					if tr.tree(t) != tr.old {
						tr = begin(t, c, worlds[name])
					}
					h, count := hosttest.Wrap(tr.open(t), hosttest.FailNth(n))
					done, err := (apply.Runner{Host: h}).Run(t.Context(), tr.plan, tr.contents)
					if count.N < n {
						break
					}
					failures++
					if done.End == apply.New {
						continue // what failed was tidying up
					}
					if told := errors.Join(err, done.Why); !errors.Is(told, hosttest.ErrInjected) ||
						strings.Contains(told.Error(), "$6$") {
						t.Fatalf("failure %d is not told: %+v, %v", n, done, err)
					}
					if done.End != apply.Old {
						t.Fatalf("failure %d ended %+v, %v", n, done, err)
					}
					if diff := cmp.Diff(tr.old, tr.tree(t)); diff != "" {
						t.Fatalf("failure %d left: %s", n, diff)
					}
				}
			}
			t.Logf("%d failures on a host %s, each taken back", failures, name)
		})
	}
}
