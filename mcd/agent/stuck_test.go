package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
)

func TestANodeInTroubleSaysWhatIsTrueAndFindsItsWayOut(t *testing.T) {
	for _, c := range trouble {
		t.Run(c.says, func(t *testing.T) {
			r := newRig(t)
			r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
			r.c.add(t, "rendered-d", file("/etc/d", ""), func(s *mcfgv1.MachineConfigSpec) { s.FIPS = true })
			r.c.desire("rendered-a")
			r.must(r.settle())
			r.c.told, r.m.Log = nil, nil
			c.check(r)
		})
	}
}

// trouble starts from a node that is done with rendered-a.
var trouble = []struct {
	says  string
	check func(*rig)
}{
	{
		"a config that could not be read at first is worked on, not degraded, while the node is drained for it",
		func(r *rig) {
			late := r.c.configs["rendered-r"]
			delete(r.c.configs, "rendered-r")
			r.c.drains = false
			r.c.desire("rendered-r")
			if err := r.settle(); err == nil {
				r.t.Fatal("no error")
			}
			r.c.says(r.t, "Degraded", "rendered-a", "rendered-r")
			r.c.configs["rendered-r"] = late
			r.must(r.settle())
			r.c.says(r.t, "Working", "rendered-a")
		},
	},
	{"a config that failed, and is desired again after one that was refused, is worked on", func(r *rig) {
		r.m.Broken["crio.service"] = true
		r.c.desire("rendered-b")
		if err := r.settle(); err == nil {
			r.t.Fatal("no error")
		}
		r.c.desire("rendered-d")
		r.must(r.settle())
		r.c.says(r.t, "Unreconcilable", "rendered-a", "fips")
		if f, err := v1alpha1.ParseFailure(r.c.annotations[v1alpha1.FailureAnnotation]); err != nil ||
			f.Cause != v1alpha1.FailureRefused || f.Config != "rendered-d" {
			r.t.Errorf("the cause is %v, %v", f, err)
		}
		r.m.Broken["crio.service"] = false
		r.c.told = nil
		r.c.desire("rendered-b")
		r.must(r.settle())
		if len(r.c.told) < 3 || r.c.told[0] != "failure=" || r.c.told[1] != "reason=" ||
			r.c.told[2] != "state=Working" {
			r.t.Errorf("it said %q", r.c.told)
		}
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{
		"a config that did not boot is tried again after another one was desired, even one that was refused",
		func(r *rig) {
			r.c.add(r.t, "rendered-k", file(policyFile, "k"), func(s *mcfgv1.MachineConfigSpec) {
				s.KernelArguments = []string{"quiet"}
			})
			r.m.BootsOld = true
			r.c.desire("rendered-k")
			r.must(r.settle())
			r.c.says(r.t, "Degraded", "rendered-a", "rendered-k")
			r.c.desire("rendered-d")
			r.must(r.settle())
			r.m.BootsOld = false
			r.c.desire("rendered-k")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-k")
		},
	},
	{"what is in force is told though the daemon died before it could, and the next config fails", func(r *rig) {
		r.c.annotations[v1alpha1.CurrentConfigAnnotation] = "rendered-old"
		r.m.Broken["crio.service"] = true
		r.c.desire("rendered-b")
		if err := r.settle(); err == nil {
			r.t.Fatal("no error")
		}
		r.c.says(r.t, "Degraded", "rendered-a", "crio.service")
	}},
	{"a node that was drained for a config that failed stays closed, and opens when it is sent back", func(r *rig) {
		failOnce(r)
		if drain := r.c.annotations[v1alpha1.DesiredDrainAnnotation]; drain != "drain-rendered-r" {
			r.t.Errorf("it asks for %q", drain)
		}
		r.c.desire("rendered-a")
		r.must(r.settle())
		if drain := r.c.annotations[v1alpha1.DesiredDrainAnnotation]; drain != "uncordon-rendered-a" {
			r.t.Errorf("it asks for %q", drain)
		}
		r.c.says(r.t, "Done", "rendered-a")
	}},
	{"a force file forces one update, which drains and reboots, and is gone", func(r *rig) {
		r.m.Put(policyFile, "by hand")
		r.m.Put(host.ForcePath, "")
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
		if !slices.Contains(r.c.told, "desiredDrain=drain-rendered-b") ||
			!slices.Equal(r.m.Log, []string{"reboot: machine config rendered-b"}) {
			r.t.Errorf("it said %q and did %q", r.c.told, r.m.Log)
		}
		if is, err := r.m.Host().Files.Stat(host.ForcePath); err != nil || is.Kind != host.Absent {
			r.t.Errorf("the force file is %v, %v", is, err)
		}
	}},
	{
		"a machine with another kernel is drained and rebooted with the next config, which does not differ in it",
		func(r *rig) {
			h := r.m.Host()
			r.must(h.OS.Stage(r.t.Context(), host.Step{Verb: host.SetKernelType, After: host.Value{Word: "realtime"}}))
			r.must(h.Power.Reboot(r.t.Context(), "by hand"))
			r.m.Log = nil
			r.c.desire("rendered-b")
			r.must(r.settle())
			if !slices.Contains(r.c.told, "desiredDrain=drain-rendered-b") ||
				!slices.Equal(r.m.Log, []string{"reboot: machine config rendered-b"}) {
				r.t.Errorf("it said %q and did %q", r.c.told, r.m.Log)
			}
		},
	},
	{"what would stop an update is told before the node is drained, and tried again when it is gone", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
		r.m.Blockers["/etc/motd"] = host.Immutable
		r.c.desire("rendered-r")
		for range 2 {
			if err := r.settle(); err == nil || !strings.Contains(err.Error(), "chattr -i /etc/motd") {
				r.t.Fatal(err)
			}
		}
		r.c.says(r.t, "Degraded", "rendered-a", "nothing has changed yet", "chattr -i /etc/motd")
		if f, err := v1alpha1.ParseFailure(r.c.annotations[v1alpha1.FailureAnnotation]); err != nil ||
			f.Cause != v1alpha1.FailureHost || f.Path != "/etc/motd" || r.a.Phase() != report.Blocked {
			r.t.Errorf("the cause is %v, %v", f, err)
		}
		if slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("it was drained: %q", r.c.told)
		}
		delete(r.m.Blockers, "/etc/motd")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-r")
	}},
	{"a directory that another program uses is told before the node is drained, and heals by itself", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
		r.m.Put("/etc/motd/keep", "of another program")
		r.c.desire("rendered-r")
		if err := r.settle(); err == nil ||
			!strings.Contains(err.Error(), `that is not empty (in it: "keep")`) {
			r.t.Fatal(err)
		}
		r.c.says(r.t, "Degraded", "rendered-a", "nothing has changed yet", "/etc/motd")
		if f, err := v1alpha1.ParseFailure(r.c.annotations[v1alpha1.FailureAnnotation]); err != nil ||
			f.Cause != v1alpha1.FailureHost || f.Path != "/etc/motd" ||
			slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("the cause is %v, %v; it said %q", f, err, r.c.told)
		}
		r.must(r.m.Host().Files.Remove("/etc/motd/keep"))
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-r")
	}},
	{"a file where the link of a unit has to be is told before the node is drained, and heals by itself", func(r *rig) {
		const at = "/etc/systemd/system/x.target.wants"
		r.c.add(r.t, "rendered-r", `"systemd":{"units":[{"name":"a.service","enabled":true,"contents":`+
			`"[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=x.target\n"}]}`)
		r.m.Put(at, "x")
		r.c.desire("rendered-r")
		if err := r.settle(); err == nil || !strings.Contains(err.Error(), "a file at "+at+": move that away (mv "+at) {
			r.t.Fatal(err)
		}
		if f := r.c.failure(r.t); f.Cause != v1alpha1.FailureHost || f.Path != at ||
			slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("the cause is %+v; it said %q", f, r.c.told)
		}
		r.must(r.m.Host().Files.Remove(at))
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-r")
	}},
	{"a masked unit that an update reloads is told before its first step, and heals by itself", func(r *rig) {
		const at = "/etc/systemd/system/crio.service"
		r.must(r.m.Host().Files.Link(at, host.Entry{Target: "/dev/null"}))
		r.c.desire("rendered-b")
		if err := r.settle(); err == nil || !strings.Contains(err.Error(), "the update wants to reload crio.service, "+
			"which is masked by hand with "+at+": systemctl unmask crio.service on the node, or take this action out") {
			r.t.Fatal(err)
		}
		if f := r.c.failure(r.t); f.Cause != v1alpha1.FailureHost || f.Path != at || len(r.m.Log) > 0 {
			r.t.Errorf("the cause is %+v; it did %q", f, r.m.Log)
		}
		r.must(r.m.Host().Files.Remove(at))
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"a unit that the config masks and its own update reloads is told as that", func(r *rig) {
		const masked = `"systemd":{"units":[{"name":"crio.service","mask":true}]}`
		r.c.add(r.t, "rendered-m", masked)
		r.c.desire("rendered-m")
		r.must(r.settle())
		r.c.add(r.t, "rendered-n", masked+","+file("/etc/containers/policy.json", "n"))
		r.c.desire("rendered-n")
		if err := r.settle(); err == nil || !strings.Contains(err.Error(), "the update wants to reload crio.service, "+
			"which the config masks: do not mask it") {
			r.t.Fatal(err)
		}
		if f := r.c.failure(r.t); f.Cause != v1alpha1.FailureBlocked || r.disk("/etc/containers/policy.json") == "n" {
			r.t.Errorf("the cause is %+v", f)
		}
	}},
	{"a full disk is told before the node is drained, with its cause", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
		r.m.Blockers["/etc/motd"] = host.Full
		r.c.desire("rendered-r")
		if err := r.settle(); err == nil {
			r.t.Fatal("no error")
		}
		if f, err := v1alpha1.ParseFailure(r.c.annotations[v1alpha1.FailureAnnotation]); err != nil ||
			f.Cause != v1alpha1.FailureDiskFull || slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("the cause is %v, %v; it said %q", f, err, r.c.told)
		}
	}},
	{"a full /boot is told before the node is drained for an OS image", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"), func(s *mcfgv1.MachineConfigSpec) {
			s.OSImageURL = "registry.example/os@sha256:" + strings.Repeat("1", 64)
		})
		r.m.Boot = host.BootSpace{At: "/boot", Free: 4 << 10, Least: 64 << 10}
		r.c.desire("rendered-r")
		if err := r.settle(); err == nil || !strings.Contains(err.Error(),
			"/boot has 4 KiB free, and the update needs 64 KiB: see df /boot") {
			r.t.Fatal(err)
		}
		if f, err := v1alpha1.ParseFailure(r.c.annotations[v1alpha1.FailureAnnotation]); err != nil ||
			f.Cause != v1alpha1.FailureDiskFull || f.Path != "/boot" || r.a.Phase() != report.Blocked ||
			slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("the cause is %v, %v; it said %q", f, err, r.c.told)
		}
	}},
	{"a /boot that is probably too small for another kernel is told, and tried", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"), func(s *mcfgv1.MachineConfigSpec) {
			s.OSImageURL = "registry.example/os@sha256:" + strings.Repeat("1", 64)
		})
		r.m.Boot = host.BootSpace{At: "/boot", Free: 9 << 20, Least: 64 << 10, Likely: 90 << 20}
		r.m.BootsOld = true
		r.c.desire("rendered-r")
		r.must(r.settle())
		const short = "the file system /boot has 9216 KiB free, and another kernel like the one that runs needs " +
			"92160 KiB: see df /boot"
		if !r.events.has(report.EventOSUpdateStarted, "the new OS may not boot: "+short) {
			r.t.Errorf("%v", r.events)
		}
		r.c.says(r.t, "Degraded", "rendered-a", "runs something other than what was staged", short)
	}},
	{"a file that the update's own reboot would remove is told before the node is drained", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/run/app", "hi"))
		r.m.Blockers["/run/app"] = host.InMemory
		r.c.desire("rendered-r")
		if err := r.settle(); err == nil {
			r.t.Fatal("no error")
		}
		r.c.says(r.t, "Degraded", "rendered-a", "nothing has changed yet", "/run/app", "/etc/tmpfiles.d")
		if slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("it was drained: %q", r.c.told)
		}
	}},
	{"a file in memory is written where the drift policy repairs it after each boot", func(r *rig) {
		r.c.drift.Rules = []drift.Rule{{Pattern: "/run/**", Action: v1alpha1.DriftRepair}}
		r.c.add(r.t, "rendered-r", file("/run/app", "hi"))
		r.m.Blockers["/run/app"] = host.InMemory
		r.c.desire("rendered-r")
		r.must(r.settle())
		if !slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("it said %q", r.c.told)
		}
	}},
	{"a rule of the drift policy is for the path of the config, wherever a link of the machine leads it", func(r *rig) {
		r.must(r.m.Host().Files.Link("/var/run", host.Entry{Target: "../run"}))
		r.c.drift.Rules = []drift.Rule{{Pattern: "/var/run/**", Action: v1alpha1.DriftRepair}}
		r.c.add(r.t, "rendered-r", file("/var/run/app", "hi"))
		r.m.Blockers["/run/app"] = host.InMemory
		r.c.desire("rendered-r")
		r.must(r.settle())
		if !slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("it said %q", r.c.told)
		}
	}},
	{"a drift policy that cannot be asked for does not decide about a file in memory", func(r *rig) {
		r.c.drift.Rules = []drift.Rule{{Pattern: "/run/**", Action: v1alpha1.DriftRepair}}
		r.c.add(r.t, "rendered-r", file("/run/app", "hi"))
		r.m.Blockers["/run/app"] = host.InMemory
		r.c.desire("rendered-r")
		r.c.driftAway = true
		if err := r.settle(); !errors.Is(err, report.ErrUnreachable) {
			r.t.Fatal(err)
		}
		if f := r.c.annotations[v1alpha1.FailureAnnotation]; f != "" {
			r.t.Errorf("it failed: %s", f)
		}
		r.c.driftAway = false
		r.must(r.settle())
		if !slices.Contains(r.c.told, "desiredDrain=drain-rendered-r") {
			r.t.Errorf("it said %q", r.c.told)
		}
	}},
	{"a file in memory on a machine whose /var is in memory is written", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/var/app", "hi"))
		r.m.Blockers["/var/app"] = host.InMemory
		r.c.desire("rendered-r")
		r.must(r.settle())
	}},
	{"a unit whose name climbs out of its directory is refused", func(r *rig) {
		r.c.add(r.t, "rendered-evil", `"systemd":{"units":[{"name":"../../cron.d/evil.service","contents":"x"}]}`)
		r.c.desire("rendered-evil")
		r.must(r.settle())
		r.c.says(r.t, "Unreconcilable", "rendered-a", "is not the name of a unit")
		if r.a.Phase() != report.Refused || !strings.Contains(r.disk("/etc/cron.d/evil.service"), "not exist") {
			r.t.Error("it was written")
		}
	}},
	{"a password that is no hash is refused, and is not told", func(r *rig) {
		r.c.add(r.t, "rendered-p", `"passwd":{"users":[{"name":"core","passwordHash":"core:secret"}]}`)
		r.c.desire("rendered-p")
		r.must(r.settle())
		r.c.says(r.t, "Unreconcilable", "rendered-a", "core passwordHash: it contains a colon")
		if strings.Contains(r.c.annotations[v1alpha1.ReasonAnnotation], "secret") {
			r.t.Error(r.c.annotations[v1alpha1.ReasonAnnotation])
		}
	}},
	{"a reason is text, whatever a name has in it", func(r *rig) {
		r.c.desire("rendered-\xff")
		_ = r.settle()
		if reason := r.c.annotations[v1alpha1.ReasonAnnotation]; reason == "" || !utf8.ValidString(reason) {
			r.t.Errorf("%q", reason)
		}
	}},
}
