package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
)

const badUnit = `"systemd":{"units":[{"name":"bad.service","enabled":true,"contents":"[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"}]}`

// deadly is what badUnit brings.
var deadly = poison{"/etc/systemd/system/bad.service", "/bin/false"}

func TestAMachineMustLiveWithItsConfig(t *testing.T) {
	for _, c := range living {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
				r.c.add(t, "rendered-bad", badUnit)
				r.c.commit("rendered-bad", "0123456789abcdef", "time: try it \x1b[31mred")
				r.c.commit("rendered-b", "fedcba9876543210", "policy: b")
				r.c.commit("rendered-r", "aaaabbbbccccdddd", "motd: hi")
				l := r.watched()
				r.c.desire("rendered-a")
				r.must(r.settle())
				r.c.told, r.m.Log, r.events = nil, nil, nil
				c.check(r, l)
			})
		})
	}
}

// living starts from a healthy node that is done with rendered-a.
var living = []struct {
	says  string
	check func(*rig, *life)
}{
	{"a unit that fails after the reboot sends the machine back by itself, and the node says which, why, whose and " +
		"what to do", func(r *rig, l *life) {
		l.unitDies = deadly
		before := r.tree()
		r.c.desire("rendered-bad")
		r.must(r.settle())
		r.c.says(r.t, "Degraded", "rendered-a", `rendered-bad (commit 0123456789 "time: try it [31mred" by Alice)`,
			"unit bad.service failed (result exit-code)",
			"back in rendered-a", "journalctl -u bad.service", "revert the commit", host.ForcePath)
		if r.tree() != before || r.a.Phase() != report.Rejected {
			r.t.Errorf("it is %s, and was\n%s, is\n%s", r.a.Phase(), before, r.tree())
		}
		want := []string{
			`reboot: machine config rendered-bad (commit 0123456789 "time: try it [31mred" by Alice)`,
			"reboot: rolling back to machine config rendered-a, because the update to rendered-bad failed",
		}
		if !slices.Equal(r.m.Log, want) {
			r.t.Errorf("it did %q", r.m.Log)
		}
		if !r.events.has(report.EventReboot, "rendered-bad", "0123456789") || !r.events.has(report.EventRejected,
			"rendered-bad") {
			r.t.Errorf("it told %q", r.events)
		}
	}},
	{
		"the node names the commit that asked now, and not the one that the config was first made for",
		func(r *rig, l *life) {
			request := v1alpha1.ConfigRequest{
				Config: "rendered-r",
				Requester: v1alpha1.Requester{
					Revision: "main@sha1:5555666677778888", Subject: "Revert it",
					Author: "Bob <b@example.com>",
				},
			}
			r.c.annotations[v1alpha1.RequestAnnotation] = request.String()
			r.c.desire("rendered-r")
			r.must(r.settle())
			if !r.events.has(report.EventReboot, "rendered-r", `(commit 5555666677 "Revert it" by Bob)`) {
				r.t.Errorf("it told %q", r.events)
			}
		},
	},
	{"a request for another config says nothing of this one", func(r *rig, l *life) {
		r.c.annotations[v1alpha1.RequestAnnotation] = v1alpha1.ConfigRequest{
			Config:    "rendered-b",
			Requester: v1alpha1.Requester{Revision: "main@sha1:5555666677778888"},
		}.String()
		r.c.desire("rendered-r")
		r.must(r.settle())
		if !r.events.has(report.EventReboot, "rendered-r", `(commit aaaabbbbcc "motd: hi" by Alice)`) {
			r.t.Errorf("it told %q", r.events)
		}
	}},
	{"the node names the object that was changed through the API", func(r *rig, l *life) {
		change := v1alpha1.APIChange{
			Kind: "MachineConfig", Name: "99-by-hand", Action: v1alpha1.APICreated,
			Manager: "kubectl-create",
		}
		request := v1alpha1.ConfigRequest{
			Config:    "rendered-r",
			Requester: v1alpha1.Requester{Revision: "main@sha1:aaaabbbbccccdddd", API: []v1alpha1.APIChange{change}},
		}
		r.c.annotations[v1alpha1.RequestAnnotation] = request.String()
		r.c.desire("rendered-r")
		r.must(r.settle())
		if !r.events.has(report.EventReboot, "rendered-r", "(MachineConfig 99-by-hand, made through the API)") {
			r.t.Errorf("it told %q", r.events)
		}
	}},
	{"the node names the change through the API first, and then the commit that came on it", func(r *rig, l *life) {
		change := v1alpha1.APIChange{
			Kind: "MachineConfig", Name: "99-by-hand", Action: v1alpha1.APICreated,
			Manager: "kubectl-client-side-apply",
		}
		request := v1alpha1.ConfigRequest{
			Config: "rendered-r",
			Requester: v1alpha1.Requester{
				Revision: "main@sha1:5555666677778888", Subject: "motd: fix",
				API: []v1alpha1.APIChange{change}, AlsoCommit: true,
			},
		}
		r.c.annotations[v1alpha1.RequestAnnotation] = request.String()
		r.c.desire("rendered-r")
		r.must(r.settle())
		if !r.events.has(report.EventReboot, "rendered-r",
			`(MachineConfig 99-by-hand, made through the API; commit 5555666677 "motd: fix")`) {
			r.t.Errorf("it told %q", r.events)
		}
	}},
	{
		"what was rejected is not tried again, by no signal and no start, until another config is desired",
		func(r *rig, l *life) {
			l.unitDies = deadly
			r.c.desire("rendered-bad")
			r.must(r.settle())
			l.unitDies = poison{} // it would work now
			n := len(r.m.Log)
			for range 3 {
				r.start(r.m.Host())
				r.must(r.settle())
			}
			r.c.says(r.t, "Degraded", "rendered-a", "bad.service")
			if len(r.m.Log) != n {
				r.t.Errorf("it did %q", r.m.Log[n:])
			}
			r.c.desire("rendered-a")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-a")
			r.c.desire("rendered-bad")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-bad")
		},
	},
	{"a force file has it tried once more, once", func(r *rig, l *life) {
		l.unitDies = deadly
		r.c.desire("rendered-bad")
		r.must(r.settle())
		n := len(r.m.Log)
		r.m.Put(host.ForcePath, "")
		r.must(r.settle())
		r.c.says(r.t, "Degraded", "rendered-a", "bad.service")
		if got := len(r.m.Log) - n; got != 2 {
			r.t.Errorf("it did %q", r.m.Log[n:])
		}
		l.unitDies = poison{}
		r.m.Put(host.ForcePath, "")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-bad")
	}},
	{"a reload that the kubelet does not survive is taken back without a reboot", func(r *rig, l *life) {
		l.kubeletDies = poison{policyFile, "b"}
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Degraded", "rendered-a", `(commit fedcba9876 "policy: b" by Alice)`,
			"the kubelet is not healthy", "connection refused")
		if want := []string{"reload crio.service", "reload crio.service"}; !slices.Equal(r.m.Log, want) {
			r.t.Errorf("it did %q", r.m.Log)
		}
	}},
	{"a kubelet that was down before does not count", func(r *rig, l *life) {
		l.kubeletDies = poison{path: "/etc/passwd"}
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"a unit that had failed before does not count", func(r *rig, l *life) {
		l.unitDies = poison{path: "/etc/passwd"}
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"a machine that cut itself off goes back, and is told when it is heard again", func(r *rig, l *life) {
		l.cutsOff = poison{path: "/etc/motd"}
		r.c.desire("rendered-r")
		r.must(r.settle())
		r.c.says(r.t, "Degraded", "rendered-a", "the API server is unreachable", "aaaabbbbcc")
	}},
	{"an API server that is down for all is no reason to go back", func(r *rig, _ *life) {
		r.c.desire("rendered-r")
		r.c.downAt("post-config-action", errors.New("connection refused"))
		r.rest()
		if !strings.Contains(r.disk(host.RecordPath), "rendered-r") ||
			!slices.Equal(r.m.Log,
				[]string{`reboot: machine config rendered-r (commit aaaabbbbcc "motd: hi" by Alice)`}) {
			r.t.Errorf("it did %q", r.m.Log)
		}
		r.c.down = nil
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-r")
	}},
	{
		"an outage in which nothing is heard sends the machine back, acquits the config, and " +
			"it is tried again after it",
		func(r *rig, _ *life) {
			r.c.desire("rendered-r")
			r.c.downAt("post-config-action", errSilent)
			r.rest()
			if strings.Contains(r.disk(host.RecordPath), "rendered-r") || len(r.m.Log) != 2 {
				r.t.Errorf("it did %q", r.m.Log)
			}
			time.Sleep(10 * time.Minute)
			r.rest()
			if len(r.m.Log) != 2 {
				r.t.Errorf("it tried again without being told: %q", r.m.Log)
			}
			r.c.down = nil
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-r")
		},
	},
	{"an outage that is over once the machine is back says that it was the config", func(r *rig, _ *life) {
		r.c.desire("rendered-r")
		r.c.downAt("post-config-action", errSilent)
		r.rest()
		r.c.down = nil
		r.must(r.settle())
		r.c.says(r.t, "Degraded", "rendered-a", "rendered-r", "is unreachable")
	}},
	{"being told to end in the middle of it leaves the question to the next start", func(r *rig, l *life) {
		l.kubeletDies = poison{policyFile, "b"}
		r.c.desire("rendered-b")
		ctx, cancel := context.WithCancel(r.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.a.Run(ctx, r.c.changed) }()
		time.Sleep(30 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			r.t.Fatal(err)
		}
		if rec, err := r.m.Host().Journal.Load(); err != nil || rec == nil || rec.Phase != host.CheckingHealth {
			r.t.Fatalf("%+v, %v", rec, err)
		}
		l.kubeletDies = poison{}
		r.start(r.m.Host())
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{
		"a power cut that loses what was staged, in the moment of the reboot, is not held against the config",
		func(r *rig, _ *life) {
			r.c.add(r.t, "rendered-k", file(policyFile, "k"), kargs)
			r.m.BootsOld = true
			r.c.desire("rendered-k")
			r.c.drains = false
			r.must(r.settle())
			r.c.drains = true
			r.c.annotations[v1alpha1.LastAppliedDrainAnnotation] = "drain-rendered-k"
			for range 3 { // there, back, and looked at
				if _, err := syncOnce(r.t.Context(), r.a); errors.Is(err, agent.ErrRebooting) {
					r.m.BootsOld = len(r.m.Log) < 2
					r.start(r.m.Host())
				}
			}
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-k")
		},
	},
	{
		"a force file on a node that is in its config has all of it written again, with a drain and a reboot",
		func(r *rig, _ *life) {
			r.m.Put(policyFile, "by hand")
			r.m.Put(host.ForcePath, "")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-a")
			if r.disk(policyFile) != "a" || !slices.Equal(r.m.Log, []string{"reboot: machine config rendered-a"}) ||
				!slices.Contains(r.c.told, "desiredDrain=drain-rendered-a") {
				r.t.Errorf("%s, it did %q and said %q", r.disk(policyFile), r.m.Log, r.c.told)
			}
		},
	},
	{
		"a kubelet's first kubeconfig is for root only after an update, and one that is not there is not missed",
		func(r *rig, _ *life) {
			r.c.desire("rendered-b")
			r.must(r.settle())
			r.m.Put("/etc/kubernetes/kubeconfig", "secret")
			r.c.desire("rendered-a")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-a")
			if is, err := r.m.Host().Files.Stat("/etc/kubernetes/kubeconfig"); err != nil || is.Mode != 0o600 ||
				r.disk("/etc/kubernetes/kubeconfig") != "secret" {
				r.t.Errorf("%v, %v", is, err)
			}
		},
	},
	{
		"a kubeconfig of the config before goes with it, and the machine's own returns for root only",
		func(r *rig, _ *life) {
			const file = "/etc/kubernetes/kubeconfig"
			r.c.add(r.t, "rendered-k", `"storage":{"files":[{"path":"`+file+`","contents":{"source":"data:,of-k"}}]}`)
			r.c.desire("rendered-k")
			r.must(r.settle())
			if text := r.disk(file); text != "of-k" {
				r.t.Fatal(text)
			}
			r.c.desire("rendered-a")
			r.must(r.settle())
			if text := r.disk(file); !strings.Contains(text, "not exist") {
				r.t.Errorf("it is still there: %s", text)
			}
			r.m.Put(file, "own")
			for _, config := range []string{"rendered-k", "rendered-a"} {
				r.c.desire(config)
				r.must(r.settle())
			}
			if is, err := r.m.Host().Files.Stat(file); err != nil || is.Mode != 0o600 || r.disk(file) != "own" {
				r.t.Errorf("%v, %v, %s", is, err, r.disk(file))
			}
		},
	},
}

func TestWhatAFirstBootLeftIsMovedAside(t *testing.T) {
	r := newRig(t)
	const encapsulated, preset = "/etc/ignition-machine-config-encapsulated.json",
		"/etc/systemd/system-preset/20-ignition.preset"
	r.m.Put(encapsulated, "secret")
	r.m.Put(preset, "enable a.service\n")
	r.must(r.settle())
	if is, err := r.m.Host().Files.Stat(encapsulated + ".bak"); err != nil || is.Mode != 0o600 ||
		r.disk(encapsulated+".bak") != "secret" {
		t.Errorf("%v, %v", is, err)
	}
	for _, p := range []string{encapsulated, preset} {
		if !strings.Contains(r.disk(p), "not exist") {
			t.Errorf("%s is still there", p)
		}
	}
}

// TestACrashWhileAConfigIsRejectedForgetsNothing kills the daemon after every change on the way there and back.
func TestACrashWhileAConfigIsRejectedForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for k := 0; ; k++ {
			r := newRig(t)
			r.c.add(t, "rendered-bad", badUnit)
			l := r.watched()
			r.c.desire("rendered-a")
			r.must(r.settle())
			l.unitDies = deadly
			r.c.desire("rendered-bad")
			before := r.tree()
			dying, count := hosttest.Wrap(r.m.Host(), hosttest.CrashAfter(k))
			for range 6 {
				r.start(dying)
				if _, err := syncOnce(t.Context(), r.a); err != nil && !errors.Is(err, agent.ErrRebooting) {
					break
				}
			}
			r.start(r.m.Host())
			r.must(r.settle())
			r.c.says(t, "Degraded", "rendered-a", "rendered-bad", "bad.service")
			if r.tree() != before {
				t.Fatalf("died after %d: it is\n%s\nand was\n%s", k, r.tree(), before)
			}
			if count.N <= k {
				t.Logf("%d deaths, each followed by the same end", k)
				return
			}
		}
	})
}

// ending tells the daemon to end as soon as it reloads a service.
type ending struct {
	host.Units
	cancel context.CancelFunc
}

// Reload implements host.Units.
func (u ending) Reload(ctx context.Context, name string) error {
	u.cancel()
	return errors.Join(ctx.Err(), u.Units.Reload(ctx, name))
}

func TestADaemonThatIsToldToEndFinishesItsSteps(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := r.m.Host()
	h.Units = ending{h.Units, cancel}
	r.start(h)
	r.c.desire("rendered-a")
	if err := r.a.Run(ctx, r.c.changed); err != nil {
		t.Fatal(err)
	}
	if rec, err := r.m.Host().Journal.Load(); rec != nil || err != nil || r.disk(policyFile) != "a" ||
		!strings.Contains(r.disk(host.RecordPath), "rendered-a") {
		t.Errorf("%+v, %v, %s", rec, err, r.disk(policyFile))
	}
	r.start(r.m.Host())
	r.must(r.settle())
	r.c.says(t, "Done", "rendered-a")
}

func TestWhatIsCounted(t *testing.T) {
	r := newRig(t)
	r.m.Put("/etc/os-release", "NAME=x\nID=\"debian\"\nVERSION_ID=\"12\"\n")
	r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
	r.c.desire("rendered-a")
	r.must(r.settle())
	r.m.Broken["crio.service"] = true
	r.c.desire("rendered-b")
	if err := r.settle(); err == nil {
		t.Fatal("no error")
	}
	r.c.desire("rendered-r")
	r.must(r.settle())
	for _, want := range []string{
		"boot debian 12", "state Working", "update rendered-a false", "state Done",
		"reboot false", "update rendered-r false", "drift false", "update rendered-b true", "state Degraded",
	} {
		if !slices.Contains(r.counts, want) {
			t.Errorf("%q is not among %q", want, r.counts)
		}
	}
	if !r.events.has(report.EventFailedServiceReload, "crio.service") || !r.events.has(report.EventNodeDone,
		"rendered-r") || !r.events.has(report.EventSkipReboot, "rendered-a") {
		t.Errorf("it told %q", r.events)
	}
}
