package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/drift"

	"github.com/bunsen-os/bunsen/mcd/state"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// restless is a watcher that tells of disturbances all the time.
func restless() *watcher {
	signal := make(chan struct{})
	close(signal)
	return &watcher{signal: signal}
}

// runs lets the daemon run for a while.
func (r *rig) runs(d time.Duration) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.a.Run(ctx, r.c.changed) }()
	time.Sleep(d)
	cancel()
	r.must(<-ended)
}

func TestAMachineThatIsDisturbedAllTheTimeIsNotLookedAtAllTheTime(t *testing.T) {
	for says, c := range map[string]struct {
		desired string
		down    error
	}{
		"in its config":                        {"rendered-a", nil},
		"with a config that fails":             {"rendered-b", nil},
		"with a config that is not there":      {"rendered-none", nil},
		"failing while the API server is away": {"rendered-b", errRefused},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &watched{rig: newRig(t)}
				r.c.desire("rendered-a")
				r.must(r.settle())
				r.m.Broken["crio.service"] = true
				r.c.desire(c.desired)
				r.looks() // so that the update is known, and its pods are gone
				r.c.down = c.down
				r.watch(restless())
				r.c.calls, r.m.Log = 0, nil
				r.runs(time.Hour)
				if r.c.calls > 1200 || len(r.m.Log) > 400 {
					t.Errorf("in an hour it asked the cluster %d times, and acted %d times", r.c.calls, len(r.m.Log))
				}
			})
		})
	}
}

func TestAFailureWhileTheAPIServerIsAwayIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.m.Broken["crio.service"] = true
		r.c.desire("rendered-b")
		_ = r.settle()
		r.c.down = errRefused
		r.start(r.m.Host())
		r.log.Reset()
		r.runs(time.Minute)
		if !strings.Contains(r.log.String(), "level=ERROR") || !strings.Contains(r.log.String(), "crio.service") {
			t.Error(r.log.String())
		}
	})
}

func TestANodeThatIsDeletedAndComesBackIsTakenUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.c.desire("rendered-a")
		r.must(r.settle())
		gone := &gone{cluster: r.c}
		r.a = agent.New(agent.Config{Node: "worker-0", Cluster: gone, Host: r.m.Host(), Log: r.logger()})
		gone.is = true
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.a.Run(ctx, r.c.changed) }()
		time.Sleep(20 * time.Minute)
		clear(r.c.annotations)
		gone.is = false
		r.c.signal()
		synctest.Wait()
		r.c.says(t, "Done", "rendered-a")
		if is := report.NodeOf(r.c.annotations); is.Desired != "rendered-a" {
			t.Errorf("it desires %q", is.Desired)
		}
		cancel()
		r.must(<-ended)
	})
}

// gone is a cluster in which there may be no such Node.
type gone struct {
	*cluster
	is bool
}

func (g *gone) Node(ctx context.Context) (report.Node, error) {
	if g.is {
		return report.Node{}, errors.New(`nodes "worker-0" not found`)
	}
	return g.cluster.Node(ctx)
}

func (g *gone) SetAnnotations(ctx context.Context, a map[string]string) error {
	if g.is {
		return errors.New(`nodes "worker-0" not found`)
	}
	return g.cluster.SetAnnotations(ctx, a)
}

// odd is a cluster with objects that cannot be read, and that takes no word about logins.
type odd struct{ *cluster }

func (odd) Rules(context.Context) (plan.Rules, error) {
	return plan.Rules{}, errors.New("spec.nodeDisruptionPolicy: no such action")
}

func (odd) DriftRules(context.Context, string) (drift.Policy, error) {
	return drift.Policy{}, errors.New("DriftPolicy x: spec.repair.interval: no duration")
}

func (o odd) SetAnnotations(ctx context.Context, a map[string]string) error {
	if a[v1alpha1.SSHAnnotation] != "" {
		return errors.New("denied by a webhook")
	}
	return o.cluster.SetAnnotations(ctx, a)
}

func TestAnInnocentNodeIsNotDegradedBy(t *testing.T) {
	for _, c := range []struct {
		says string
		make func(r *rig) agent.Config
	}{
		{"policies of the cluster that cannot be read, nor by a login that cannot be told", func(r *rig) agent.Config {
			return agent.Config{Cluster: odd{r.c}, Drift: &watcher{accessed: true}}
		}},
		{"a disk without room for what is known about drift", func(r *rig) agent.Config {
			r.must(r.m.Host().Files.Remove(drift.ExportDir + "/state.json"))
			h, _ := hosttest.Wrap(r.m.Host(), hosttest.FullFrom(1))
			return agent.Config{Cluster: r.c, Host: h}
		}},
		{"a seed that cannot be read on a machine whose Node was made anew", func(r *rig) agent.Config {
			r.m.Put(host.InitialAnnotationsPath, "{")
			clear(r.c.annotations)
			return agent.Config{Cluster: r.c}
		}},
		{"a directory where the force file would be", func(r *rig) agent.Config {
			r.m.Put(host.ForcePath+"/why", "by mistake")
			return agent.Config{Cluster: r.c}
		}},
	} {
		t.Run(c.says, func(t *testing.T) {
			r := newRig(t)
			r.c.desire("rendered-a")
			r.must(r.settle())
			r.m.Log = nil
			config := c.make(r)
			config.Node, config.Log = "worker-0", r.logger()
			if config.Host.Files == nil {
				config.Host = r.m.Host()
			}
			r.a = agent.New(config)
			for range 3 {
				r.must(r.settle())
			}
			r.c.says(t, "Done", "rendered-a")
			if len(r.m.Log) > 0 {
				t.Errorf("it did %q", r.m.Log)
			}
		})
	}
}

// unreadable is a disk on which one file cannot be read once the machine was rebooted.
type unreadable struct {
	host.Files
	path string
}

func (u unreadable) Read(p string) ([]byte, error) {
	if p == u.path {
		return nil, errors.New("input/output error")
	}
	return u.Files.Read(p)
}

func TestADiskThatCannotBeReadIsNotTheConfigsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
		r.watched()
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.m.Log = nil
		r.c.desire("rendered-r")
		for range 4 {
			if _, err := syncOnce(t.Context(), r.a); errors.Is(err, agent.ErrRebooting) {
				break
			}
		}
		h := r.m.Host()
		h.Files = unreadable{h.Files, state.TaskPath}
		r.start(h)
		_, _ = syncOnce(t.Context(), r.a)
		r.start(r.m.Host())
		r.must(r.settle())
		r.c.says(t, "Done", "rendered-r")
		if n := len(r.m.Log); n != 1 {
			t.Errorf("it did %q", r.m.Log)
		}
	})
}

func TestAUnitThatDiedAgainAndAgainBeforeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.health = &agent.HealthOptions{Units: dying{}}
		r.start(r.m.Host())
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.says(t, "Done", "rendered-a")
	})
}

// dying are units that are started again and again.
type dying struct{}

func (dying) Active(context.Context, string) (state, sub, result string, err error) {
	return "activating", "auto-restart", "exit-code", nil
}

func TestALongReasonKeepsItsEndWhichSaysWhatToDo(t *testing.T) {
	r := newRig(t)
	var refused []string
	for i := range 60 {
		refused = append(refused, fmt.Sprintf(`{"name":"u%d","passwordHash":"u%d:secret"}`, i, i))
	}
	r.c.add(t, "rendered-long", `"passwd":{"users":[`+strings.Join(refused, ",")+`]}`)
	r.c.desire("rendered-a")
	r.must(r.settle())
	r.c.desire("rendered-long")
	r.must(r.settle())
	reason := r.c.annotations[v1alpha1.ReasonAnnotation]
	if len(reason) > 2000 || len(reason) < 1900 || !strings.Contains(reason, "u59 passwordHash") ||
		!strings.Contains(reason, "rendered-long") {
		t.Errorf("%d bytes: %s", len(reason), reason)
	}
	told := r.c.told
	r.must(r.settle())
	if len(r.c.told) != len(told) {
		t.Errorf("it says the same again: %q", r.c.told[len(told):])
	}
}

func TestADrainThatIsStuckIsAnEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.drains = false
		r.c.desire("rendered-r")
		r.events, r.c.told = nil, nil
		r.runs(4 * time.Hour)
		stuck := 0
		for _, e := range r.events {
			if strings.HasPrefix(e, string(report.EventFailedToDrain)) {
				stuck++
			}
		}
		if stuck != 1 || len(r.c.told) > 30 {
			t.Errorf("%d events, %d reports: %q", stuck, len(r.c.told), r.events)
		}
		if f := r.c.failure(t); f.Cause != v1alpha1.FailureDrain || f.Phase != string(report.Draining) ||
			r.a.Phase() != report.Draining {
			t.Errorf("the phase is %s, and the failure %+v", r.a.Phase(), f)
		}
	})
}

func TestAConfigThatTheMachineRefusesIsTriedAgainWithinMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mask = "/etc/systemd/system/x.service"
		r := newRig(t)
		r.m.Put("/usr/lib/systemd/system/x.service", "[Install]\nWantedBy=a.target\n")
		r.c.add(t, "rendered-x", `"systemd":{"units":[{"name":"x.service","enabled":true}]}`)
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.must(r.m.Host().Files.Link(mask, host.Entry{Target: "/dev/null"}))
		r.c.desire("rendered-x")
		time.AfterFunc(2*time.Minute, func() {
			r.c.says(t, "Unreconcilable", "rendered-a", "systemctl unmask x.service")
			r.must(r.m.Host().Files.Remove(mask))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		if err := r.a.Run(ctx, r.c.changed); !errors.Is(err, agent.ErrRebooting) {
			t.Errorf("it ends with %v, and not with the reboot of the update", err)
		}
	})
}

func TestThousandsOfDriftsAreAFewWords(t *testing.T) {
	r := &watched{rig: newRig(t)}
	var files []string
	for i := range 600 {
		files = append(files, fmt.Sprintf(`{"path":"/etc/many/%04d","contents":{"source":"data:,x"}}`, i))
	}
	r.c.add(t, "rendered-many", `"storage":{"files":[`+strings.Join(files, ",")+`]}`)
	r.c.desire("rendered-many")
	r.must(r.settle())
	for i := range 600 {
		r.m.Put(fmt.Sprintf("/etc/many/%04d", i), "y")
	}
	r.log.Reset()
	r.events = nil
	r.looks()
	r.c.says(t, "Degraded", "rendered-many", "and 594 more", host.ForcePath)
	if len(r.events) == 0 {
		t.Fatal("nothing is told")
	}
	for _, e := range r.events {
		if len(e) > 4096 {
			t.Errorf("an event of %d bytes", len(e))
		}
	}
	if n := r.log.Len(); n > 64<<10 {
		t.Errorf("%d bytes were logged", n)
	}
	if n := len(r.c.annotations[v1alpha1.DriftAnnotation]); n > v1alpha1.MaxDrift {
		t.Errorf("the report has %d bytes", n)
	}
}

func TestADaemonThatStartsOnARefusedNodeCountsItsState(t *testing.T) {
	r := newRig(t)
	r.c.add(t, "rendered-d", file("/etc/d", ""), fips)
	r.c.desire("rendered-a")
	r.must(r.settle())
	r.c.desire("rendered-d")
	for range 2 {
		r.start(r.m.Host())
		r.counts = nil
		r.must(r.settle())
	}
	if !slices.Contains(r.counts, "state Unreconcilable") {
		t.Errorf("it counts %q", r.counts)
	}
}
