package agent_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
)

const policyFile = "/etc/containers/policy.json"

func TestTheProtocol(t *testing.T) {
	for _, c := range conversation {
		t.Run(c.says, func(t *testing.T) { c.check(newRig(t)) })
	}
}

// failOnce lets the update to rendered-r, which reboots, fail after its drain.
func failOnce(r *rig) {
	r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
	r.c.desire("rendered-a")
	r.must(r.settle())
	h, _ := hosttest.Wrap(r.m.Host(), hosttest.ReadOnlyPath("/etc/motd"))
	r.start(h)
	r.c.desire("rendered-r")
	if err := r.settle(); err == nil || slices.Contains(r.m.Log, "reboot: machine config rendered-r") {
		r.t.Fatalf("%v after %q", err, r.m.Log)
	}
	r.start(r.m.Host())
}

// withNewDefault brings the machine to the boot of an image with another default of a file than the config has.
func withNewDefault(r *rig) {
	r.m.Put("/etc/motd", "default")
	r.c.add(r.t, "rendered-i", file("/etc/motd", "default"), func(spec *mcfgv1.MachineConfigSpec) {
		spec.OSImageURL = "registry.example/os@sha256:2"
	})
	r.c.desire("rendered-a")
	r.must(r.settle())
	r.untilReboot("rendered-i")
	r.m.Put("/etc/motd", "default of the new image")
}

// untilReboot lets the daemon update to a config until the machine has rebooted.
func (r *rig) untilReboot(config string) {
	r.t.Helper()
	r.c.desire(config)
	_, err := syncOnce(r.t.Context(), r.a)
	for !errors.Is(err, agent.ErrRebooting) {
		r.must(err)
		_, err = syncOnce(r.t.Context(), r.a)
	}
}

// TestWhatAnotherImageLeavesOfAConfig: the next image no longer has what a config pins, or has something else there.
// The node ends with what the config says, after one more reboot, or says why it cannot.
func TestWhatAnotherImageLeavesOfAConfig(t *testing.T) {
	const body = `"storage":{"files":[` +
		`{"path":"/etc/a/motd","overwrite":true,"mode":416,"contents":{"source":"data:,default"}}],` +
		`"directories":[{"path":"/etc/d","mode":448}],` +
		`"links":[{"path":"/etc/l","overwrite":true,"target":"a/motd"},` +
		`{"path":"/etc/second","overwrite":true,"hard":true,"target":"/etc/a/motd"}]},` +
		`"systemd":{"units":[{"name":"vendor.service","enabled":true}]}`
	const unit = "/usr/lib/systemd/system/vendor.service"
	file, dir := host.Entry{Kind: host.File, Mode: 0o640}, host.Entry{Kind: host.Dir, Mode: 0o700}
	for sentence, c := range map[string]struct {
		boots func(f host.Files, u host.Units) error
		// says is a part of the reason of a node that is Degraded in the end; "" if it is Done.
		says string
		// notes is a part of the event about the unit; "" for none.
		notes string
	}{
		"a file of the image is gone": {boots: func(f host.Files, _ host.Units) error { return f.Remove("/etc/a/motd") }},
		"a file and its directory are gone": {boots: func(f host.Files, _ host.Units) error {
			return errors.Join(f.Remove("/etc/second"), f.Remove("/etc/a/motd"), f.Remove("/etc/a"))
		}},
		"a file has another mode": {boots: func(f host.Files, _ host.Units) error {
			return f.Write("/etc/a/motd", host.Entry{Kind: host.File, Mode: 0o644}, []byte("default"))
		}},
		"a file has another owner": {boots: func(f host.Files, _ host.Units) error {
			return f.Write("/etc/a/motd", host.Entry{Kind: host.File, Mode: 0o640, Owner: host.Owner{UID: 7}}, []byte("default"))
		}},
		"a second name is a copy": {boots: func(f host.Files, _ host.Units) error {
			return f.Write("/etc/second", file, []byte("default"))
		}},
		"a link leads elsewhere": {boots: func(f host.Files, _ host.Units) error {
			return f.Link("/etc/l", host.Entry{Kind: host.Link, Target: "../usr/etc/motd"})
		}},
		"a link is a file": {boots: func(f host.Files, _ host.Units) error { return f.Write("/etc/l", file, nil) }},
		"a link is an empty directory": {boots: func(f host.Files, _ host.Units) error {
			return errors.Join(f.Remove("/etc/l"), f.Mkdir("/etc/l", dir))
		}},
		"a link is a directory with a file": {boots: func(f host.Files, _ host.Units) error {
			return errors.Join(f.Remove("/etc/l"), f.Mkdir("/etc/l", dir), f.Write("/etc/l/x", file, nil))
		}, says: "/etc/l"},
		"a directory is a file": {boots: func(f host.Files, _ host.Units) error {
			return errors.Join(f.Remove("/etc/d"), f.Write("/etc/d", file, nil))
		}},
		"a directory has another mode": {boots: func(f host.Files, _ host.Units) error {
			return f.Mkdir("/etc/d", host.Entry{Kind: host.Dir, Mode: 0o755})
		}},
		"a unit is not enabled": {boots: func(_ host.Files, u host.Units) error {
			return u.Disable(context.Background(), "vendor.service")
		}},
		"the image masks the unit": {boots: func(f host.Files, _ host.Units) error {
			return f.Link(unit, host.Entry{Kind: host.Link, Target: "/dev/null"})
		}, notes: "is masked by the image"},
		"the image has no unit of the name": {boots: func(f host.Files, u host.Units) error {
			return errors.Join(u.Disable(context.Background(), "vendor.service"), f.Remove(unit))
		}, notes: "does not exist on this machine"},
		"the image clears [Install]": {boots: func(f host.Files, u host.Units) error {
			return errors.Join(u.Disable(context.Background(), "vendor.service"), f.Write(unit, file, []byte("[Service]\n")))
		}, notes: "has no [Install] section"},
		"nothing": {boots: func(host.Files, host.Units) error { return nil }},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := newRig(t)
			r.c.add(t, "rendered-i", body, func(spec *mcfgv1.MachineConfigSpec) {
				spec.OSImageURL = "registry.example/os@sha256:2"
			})
			r.c.desire("rendered-a")
			r.must(r.settle())
			r.c.desire("rendered-i")
			_, err := syncOnce(t.Context(), r.a)
			for !errors.Is(err, agent.ErrRebooting) {
				r.must(err)
				_, err = syncOnce(t.Context(), r.a)
			}
			h := r.m.Host()
			r.must(c.boots(h.Files, h.Units))
			r.start(r.m.Host())
			err = r.settle()
			if c.says != "" {
				r.c.says(t, "Degraded", "rendered-a", c.says)
			} else {
				r.must(err)
				r.c.says(t, "Done", "rendered-i")
			}
			reboots := 0
			for _, line := range r.m.Log {
				if strings.HasPrefix(line, "reboot:") {
					reboots++
				}
			}
			motd, _ := h.Files.Stat("/etc/a/motd")
			d, _ := h.Files.Stat("/etc/d")
			l, _ := h.Files.Stat("/etc/l")
			same, _ := h.Same("/etc/second", "/etc/a/motd")
			if c.says == "" && (r.disk("/etc/a/motd") != "default" || motd.Mode != 0o640 || motd.Owner.UID != 0 ||
				d.Kind != host.Dir || d.Mode != 0o700 || l.Target != "a/motd" || !same) {
				t.Errorf("it is done, and the machine has %s, %s, %s, same %t", motd, d, l, same)
			}
			if got := r.events.has(report.EventUnitNotEnabled, c.notes); got != (c.notes != "") {
				t.Errorf("an event about the unit: %t, want %q", got, c.notes)
			}
			if reboots > 2 {
				t.Errorf("it rebooted %d times", reboots)
			}
		})
	}
}

// TestAProcessThatDiesAfterTheBootOfANewImageStillWritesTheConfigOnceMore kills the daemon after each of its changes.
func TestAProcessThatDiesAfterTheBootOfANewImageStillWritesTheConfigOnceMore(t *testing.T) {
	for n := 0; ; n++ {
		r := newRig(t)
		withNewDefault(r)
		calls := 0
		h, _ := hosttest.Wrap(r.m.Host(), func(hosttest.Call) error {
			if calls++; calls > n {
				return hosttest.ErrCrashed
			}
			return nil
		})
		r.start(h)
		for range 6 {
			if _, err := syncOnce(t.Context(), r.a); errors.Is(err, agent.ErrRebooting) {
				r.start(h)
			}
		}
		r.start(r.m.Host())
		r.must(r.settle())
		r.c.says(t, "Done", "rendered-i")
		if r.disk("/etc/motd") != "default" {
			t.Errorf("after %d calls, %s", n, r.disk("/etc/motd"))
		}
		if calls <= n {
			return
		}
	}
}

// conversation is the annotation protocol, sentence by sentence.
var conversation = []struct {
	says  string
	check func(*rig)
}{
	{"a node that nobody assigned says once that a daemon is here, and waits", func(r *rig) {
		for range 2 {
			r.must(r.settle())
		}
		r.c.says(r.t, "Done", "")
		if !slices.Equal(r.c.told, []string{"state=Done"}) {
			r.t.Errorf("it said %q", r.c.told)
		}
	}},
	{"a node without anything takes what is desired, from the empty config", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
		if r.disk(policyFile) != "a" {
			r.t.Error(r.disk(policyFile))
		}
	}},
	{"a first config that reboots is current when the node is open again, not before", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
		r.c.desire("rendered-r")
		r.must(r.settle())
		open, current := slices.Index(r.c.told, "desiredDrain=uncordon-rendered-r"),
			slices.Index(r.c.told, "currentConfig=rendered-r")
		if open < 0 || current < open {
			r.t.Errorf("it said %q", r.c.told)
		}
	}},
	{"a machine that was born with a config says so, and is done without a step", func(r *rig) {
		r.m.Put(policyFile, "a")
		r.m.Put(host.InitialAnnotationsPath,
			`{"machineconfiguration.openshift.io/currentConfig":"rendered-a","machineconfiguration.openshift.io/desiredConfig":"rendered-a","machineconfiguration.openshift.io/firstPivotConfig":"rendered-a","machineconfiguration.openshift.io/state":"Done"}`)
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
		if r.c.annotations[v1alpha1.DesiredConfigAnnotation] != "rendered-a" ||
			r.c.annotations[v1alpha1.FirstPivotConfigAnnotation] != "rendered-a" {
			r.t.Error(r.c.annotations)
		}
		if !strings.Contains(r.disk(host.RecordPath), `"name":"rendered-a"`) {
			r.t.Error("no record was kept")
		}
	}},
	{"a change that only reloads a service needs no drain and tells Working, then Done", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.told = nil
		r.m.Log = nil
		r.c.desire("rendered-b")
		r.must(r.settle())
		if want := []string{"state=Working", "currentConfig=rendered-b", "state=Done"}; !slices.Equal(r.c.told, want) {
			r.t.Errorf("it said %q, want %q", r.c.told, want)
		}
		if want := []string{"reload crio.service"}; !slices.Equal(r.m.Log, want) {
			r.t.Errorf("it did %q, want %q", r.m.Log, want)
		}
	}},
	{"a config that is desired while a change without any action is applied begins a new update", func(r *rig) {
		r.c.rules.Policy.Files = append(r.c.rules.Policy.Files,
			disruption.Rule{Name: "/etc/motd", Actions: []disruption.Action{{Type: disruption.ActionNone}}})
		for _, name := range []string{"rendered-m1", "rendered-m2", "rendered-m3"} {
			r.c.add(r.t, name, file("/etc/motd", name))
		}
		r.c.desire("rendered-m1")
		r.must(r.settle())
		r.c.onReport = func(report string) {
			if report == "state=Working" {
				r.c.desire("rendered-m3")
			}
		}
		r.c.desire("rendered-m2")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-m3")
		if r.disk("/etc/motd") != "rendered-m3" || len(r.m.Log) > 0 {
			r.t.Errorf("%q after %q", r.disk("/etc/motd"), r.m.Log)
		}
	}},
	{"a change that reboots drains first, reboots, and opens the node after it", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.told = nil
		r.c.desire("rendered-r")
		r.must(r.settle())
		want := []string{
			"state=Working", "desiredDrain=drain-rendered-r", "post-config-action=Rebooting",
			"desiredDrain=uncordon-rendered-r", "currentConfig=rendered-r", "post-config-action=", "state=Done",
		}
		if !slices.Equal(r.c.told, want) {
			r.t.Errorf("it said %q, want %q", r.c.told, want)
		}
		if !slices.Contains(r.m.Log, "reboot: machine config rendered-r") {
			r.t.Error(r.m.Log)
		}
	}},
	{"a failed update whose node somebody uncordoned is drained again before it is tried again", func(r *rig) {
		failOnce(r)
		r.c.uncordoned, r.c.told, r.c.drains = true, nil, false
		r.must(r.settle())
		if slices.Contains(r.m.Log, "reboot: machine config rendered-r") ||
			!slices.Contains(r.c.told, "desiredDrain=drain-rendered-r_1") {
			r.t.Fatalf("it did %q and said %q", r.m.Log, r.c.told)
		}
		r.c.acknowledge()
		r.c.drains = true
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-r")
	}},
	{"another try needs another drain, even if the node is still cordoned: pods may have come", func(r *rig) {
		failOnce(r)
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-r")
		if !slices.Contains(r.c.told, "desiredDrain=drain-rendered-r_1") {
			r.t.Errorf("it said %q", r.c.told)
		}
	}},
	{"a node that somebody uncordons while the update is written is drained again before it reboots", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
		r.c.desire("rendered-a")
		r.must(r.settle())
		once := true
		r.c.onReport = func(report string) {
			if report == "post-config-action=Rebooting" && once {
				once, r.c.uncordoned, r.c.drains = false, true, false
			}
		}
		r.c.desire("rendered-r")
		r.must(r.settle())
		if slices.Contains(r.m.Log, "reboot: machine config rendered-r") || r.disk("/etc/motd") == "hi" ||
			!slices.Contains(r.c.told, "desiredDrain=drain-rendered-r_1") {
			r.t.Fatalf("it did %q, said %q, and /etc/motd is %q", r.m.Log, r.c.told, r.disk("/etc/motd"))
		}
		r.c.acknowledge()
		r.c.drains = true
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-r")
	}},
	{"a node that somebody uncordons and cordons again meanwhile is drained again before it reboots", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
		r.c.desire("rendered-a")
		r.must(r.settle())
		once := true
		r.c.onReport = func(report string) {
			if report == "post-config-action=Rebooting" && once {
				once, r.c.recordoned, r.c.drains = false, true, false
			}
		}
		r.c.desire("rendered-r")
		r.must(r.settle())
		if slices.Contains(r.m.Log, "reboot: machine config rendered-r") || r.disk("/etc/motd") == "hi" ||
			!slices.Contains(r.c.told, "desiredDrain=drain-rendered-r_1") {
			r.t.Fatalf("it did %q, said %q, and /etc/motd is %q", r.m.Log, r.c.told, r.disk("/etc/motd"))
		}
		r.c.recordoned, r.c.drains = false, true // The controller has removed its mark.
		r.c.acknowledge()
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-r")
	}},
	{"a file that was the default of the old image is written once more after the new image replaced it", func(r *rig) {
		withNewDefault(r)
		r.start(r.m.Host())
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-i")
		if r.disk("/etc/motd") != "default" || slices.Contains(r.c.told, "state=Degraded") {
			r.t.Errorf("%s; it said %q", r.disk("/etc/motd"), r.c.told)
		}
		if into := "reboot: machine config rendered-i"; !slices.Equal(r.m.Log[1:], []string{into, into}) {
			r.t.Errorf("it did %q", r.m.Log)
		}
	}},
	{"before it is written once more, a node that somebody uncordoned is drained again", func(r *rig) {
		withNewDefault(r)
		r.c.uncordoned, r.c.drains = true, false
		r.start(r.m.Host())
		r.must(r.settle())
		did := len(r.m.Log)
		if r.disk("/etc/motd") == "default" || !slices.Contains(r.c.told, "desiredDrain=drain-rendered-i_1") {
			r.t.Fatalf("/etc/motd is %q, and it said %q", r.disk("/etc/motd"), r.c.told)
		}
		r.c.drains = true
		r.c.acknowledge()
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-i")
		if into := "reboot: machine config rendered-i"; r.disk("/etc/motd") != "default" ||
			!slices.Equal(r.m.Log[did:], []string{into}) {
			r.t.Errorf("%s, it did %q", r.disk("/etc/motd"), r.m.Log)
		}
	}},
	{"what changes while the node takes pods again is drift, and no other reboot", func(r *rig) {
		withNewDefault(r)
		r.m.Put("/etc/motd", "default")
		r.c.drains = false
		r.start(r.m.Host())
		r.must(r.settle())
		if !slices.Contains(r.c.told, "desiredDrain=uncordon-rendered-i") {
			r.t.Fatalf("it said %q", r.c.told)
		}
		did := len(r.m.Log)
		r.m.Put("/etc/motd", "of a program")
		r.c.drains = true
		r.c.acknowledge()
		r.must(r.settle())
		if r.disk("/etc/motd") != "of a program" || len(r.m.Log) > did ||
			slices.Contains(r.c.told, "desiredDrain=drain-rendered-i_1") {
			r.t.Errorf("%s, it did %q, and said %q", r.disk("/etc/motd"), r.m.Log[did:], r.c.told)
		}
	}},
	{"a file that the policy repairs is no reason for another reboot, and neither are kernel arguments", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		for _, action := range []v1alpha1.DriftAction{v1alpha1.DriftRepair, v1alpha1.DriftDegrade} {
			name := "rendered-" + string(action)
			r.c.add(r.t, name, file(policyFile, string(action)), func(spec *mcfgv1.MachineConfigSpec) {
				if spec.KernelArguments = []string{string(action)}; action == v1alpha1.DriftRepair {
					spec.OSImageURL = "registry.example/os@sha256:2"
				}
			})
			r.c.drift.Rules = []drift.Rule{{Pattern: policyFile, Action: action}}
			r.m.Log = nil
			r.untilReboot(name)
			r.m.Put(policyFile, "of a program at boot")
			r.start(r.m.Host())
			r.must(r.settle())
			repair := 0
			if action == v1alpha1.DriftRepair {
				repair = 1
			}
			if into := "reboot: machine config " + name; len(r.m.Log) != 1+repair || r.m.Log[0] != into {
				r.t.Errorf("%s: it did %q", action, r.m.Log)
			}
		}
	}},
	{"nothing is touched before the drain is acknowledged", func(r *rig) {
		r.c.add(r.t, "rendered-r", file("/etc/motd", "hi"))
		r.c.desire("rendered-a")
		r.must(r.settle())
		before := r.tree()
		r.c.drains = false
		r.c.desire("rendered-r")
		r.must(r.settle())
		r.c.says(r.t, "Working", "rendered-a")
		if r.tree() != before || r.a.Phase() != report.Draining {
			r.t.Error("it did not wait")
		}
	}},
	{"a failing step takes all back, says why, and the node stays closed", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.m.Broken["crio.service"] = true
		r.c.desire("rendered-b")
		if err := r.settle(); err == nil {
			r.t.Fatal("no error")
		}
		r.c.says(r.t, "Degraded", "rendered-a", "reload crio.service", "back in rendered-a")
		if r.disk(policyFile) != "a" {
			r.t.Error(r.disk(policyFile))
		}
	}},
	{"a degraded node takes another config, and is done", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.desire("rendered-none")
		if err := r.settle(); err == nil {
			r.t.Fatal("no error")
		}
		r.c.says(r.t, "Degraded", "rendered-a", "rendered-none")
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"a degraded node that is sent back to what it has is done", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.desire("rendered-none")
		_ = r.settle()
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
	}},
	{"a cluster that keeps to the original's limits has directories refused, others take them", func(r *rig) {
		r.c.add(r.t, "rendered-d", `"storage":{"directories":[{"path":"/etc/d"}]}`)
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.rules.Overrides.OpenShift = true
		r.c.desire("rendered-d")
		r.must(r.settle())
		r.c.says(r.t, "Unreconcilable", "rendered-a", "storage.directories")
		r.c.rules.Overrides.OpenShift = false
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-d")
		if is, err := r.m.Host().Files.Stat("/etc/d"); err != nil || is.Kind != host.Dir {
			r.t.Errorf("it is %v, %v", is, err)
		}
	}},
	{"storage that only new nodes get is no change for a node, and stops nothing", func(r *rig) {
		r.c.add(r.t, "rendered-s", file(policyFile, "b")[:len(file(policyFile, "b"))-1]+
			`,"disks":[{"device":"/dev/sdb","wipeTable":true}]}`)
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.m.Log = nil
		r.c.desire("rendered-s")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-s")
		if want := []string{"reload crio.service"}; !slices.Equal(r.m.Log, want) {
			r.t.Errorf("it did %q, want %q", r.m.Log, want)
		}
	}},
	{"a user with a password comes and goes, and no hash is told", func(r *rig) {
		r.c.add(r.t, "rendered-u",
			`"passwd":{"users":[{"name":"alice","passwordHash":"$6$secret","groups":["wheel"]}]}`)
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.desire("rendered-u")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-u")
		if !strings.Contains(r.disk(host.ShadowPath), "alice:$6$secret:") {
			r.t.Error("the password is not set")
		}
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
		if strings.Contains(r.disk(host.PasswdPath)+r.disk(host.ShadowPath)+r.disk(host.GroupPath), "alice") {
			r.t.Error("alice is still there")
		}
		if told := strings.Join(r.c.told, " ") + r.log.String(); strings.Contains(told, "$6$") {
			r.t.Error("the password's hash was told")
		}
	}},
	{"a setuid file is refused, also in a config that the config merges: the daemon repeats the checks", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		before := r.m.String()
		inner := "data:;base64," +
			base64.StdEncoding.EncodeToString(
				[]byte(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/usr/local/bin/x","mode":2541}]}}`))
		r.c.add(r.t, "rendered-s", "", func(spec *mcfgv1.MachineConfigSpec) {
			spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0","config":{"merge":[{"source":"` + inner + `"}]}}}`)
		})
		r.c.desire("rendered-s")
		_ = r.settle() // the state says it
		r.c.says(r.t, "Unreconcilable", "rendered-a", "ignition.config.merge[0]: files[0] /usr/local/bin/x: mode 04755")
		if after := r.m.String(); after != before {
			r.t.Errorf("the machine has changed:\n%s", after)
		}
	}},
	{"what a running node cannot take is refused whole, and is no error", func(r *rig) {
		r.c.add(r.t, "rendered-d", file("/etc/motd", "hi"), func(s *mcfgv1.MachineConfigSpec) { s.FIPS = true })
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.desire("rendered-d")
		r.must(r.settle())
		r.c.says(r.t, "Unreconcilable", "rendered-a", "fips")
		if r.a.Phase() != report.Refused || !strings.Contains(r.disk("/etc/motd"), "not exist") {
			r.t.Error("something was done")
		}
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"a machine whose OS cannot be changed refuses the OS part, with the reason", func(r *rig) {
		r.m.Withdraw("it is a plain Linux host")
		r.c.add(r.t, "rendered-k", file(policyFile, "a"), func(s *mcfgv1.MachineConfigSpec) {
			s.KernelArguments = []string{"quiet"}
		})
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.desire("rendered-k")
		r.must(r.settle())
		r.c.says(r.t, "Unreconcilable", "rendered-a", "kernelArguments", "plain Linux host")
	}},
	{"a machine that boots its old OS again goes back, gets a second chance, and does not try for ever", func(r *rig) {
		r.c.add(r.t, "rendered-k", file(policyFile, "k"), func(s *mcfgv1.MachineConfigSpec) {
			s.KernelArguments = []string{"quiet"}
		})
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.m.BootsOld, r.m.Log = true, nil
		r.c.desire("rendered-k")
		for range 3 {
			r.must(r.settle())
			r.start(r.m.Host()) // a start of the daemon is no reason to try again
		}
		r.c.says(r.t, "Degraded", "rendered-a", "after the reboot")
		if want := []string{"reboot: machine config rendered-k", "reboot: rolling back to machine config rendered-a, " +
			"because the update to rendered-k failed"}; r.disk(policyFile) != "a" ||
			!slices.Equal(r.m.Log, slices.Concat(want, want)) {
			r.t.Errorf("%s, it did %q", r.disk(policyFile), r.m.Log)
		}
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"a node that has drifted is not overwritten before a person says so", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.m.Put(policyFile, "by hand")
		r.c.desire("rendered-b")
		if err := r.settle(); err == nil {
			r.t.Fatal("no error")
		}
		r.c.says(r.t, "Degraded", "rendered-a", "content mismatch", policyFile)
		if strings.Contains(r.c.annotations[v1alpha1.ReasonAnnotation], "by hand") {
			r.t.Error("the reason tells contents")
		}
		r.m.Put(host.ForcePath, "")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"a node that somebody put right ahead of time has not drifted", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.m.Put(policyFile, "b")
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"the disk's word is newer than the Node's", func(r *rig) {
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.annotations[v1alpha1.CurrentConfigAnnotation] = "rendered-old"
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
	}},
	{"a reason is never longer than the protocol allows", func(r *rig) {
		r.c.desire("rendered-" + strings.Repeat("ü", 3000))
		_ = r.settle()
		if n := len(r.c.annotations[v1alpha1.ReasonAnnotation]); n == 0 || n > 2000 {
			r.t.Errorf("the reason has %d bytes", n)
		}
	}},
}

func TestADaemonThatDiesAnywhereEndsTheSame(t *testing.T) {
	deaths := 0
	for k := 0; ; k++ {
		r := newRig(t)
		r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
		r.c.desire("rendered-a")
		r.must(r.settle())
		r.c.desire("rendered-r")
		dying, count := hosttest.Wrap(r.m.Host(), hosttest.CrashAfter(k))
		r.start(dying)
		for range 4 {
			if _, err := syncOnce(t.Context(), r.a); err != nil {
				break
			}
		}
		r.start(r.m.Host())
		if err := r.settle(); err != nil {
			t.Fatalf("died after %d: %v", k, err)
		}
		r.c.says(t, "Done", "rendered-r")
		if r.disk("/etc/motd") != "hi" {
			t.Fatalf("died after %d: %s", k, r.disk("/etc/motd"))
		}
		if count.N <= k {
			break
		}
		deaths++
	}
	t.Logf("%d deaths, each followed by the same end", deaths)
}

func TestAfterAFailureItPausesButAnotherConfigIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.c.desire("rendered-none")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.a.Run(ctx, r.c.changed) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.c.says(t, "Degraded", "", "rendered-none")
		start := time.Now()
		r.c.desire("rendered-a")
		r.c.signal()
		synctest.Wait()
		r.c.says(t, "Done", "rendered-a")
		if waited := time.Since(start); waited > 0 {
			t.Errorf("it waited %s", waited)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestARetryEndsThePauseAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.m.Broken["crio.service"] = true
		r.c.desire("rendered-a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.a.Run(ctx, r.c.changed) }()
		time.Sleep(10*time.Minute + 7*time.Second)
		synctest.Wait()
		r.c.says(t, "Degraded", "", "crio.service")
		r.m.Broken["crio.service"] = false
		start := time.Now()
		r.c.annotations[v1alpha1.RetryAnnotation] = "no time"
		r.c.signal()
		synctest.Wait()
		r.c.says(t, "Degraded", "", "crio.service")
		r.c.annotations[v1alpha1.RetryAnnotation] = start.Format(time.RFC3339)
		r.c.signal()
		synctest.Wait()
		r.c.says(t, "Done", "rendered-a")
		if waited := time.Since(start); waited > 0 {
			t.Errorf("it waited %s", waited)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAClusterThatIsDownStopsNothingThatIsUnderWay(t *testing.T) {
	r := newRig(t)
	r.c.add(t, "rendered-r", file("/etc/motd", "hi"))
	r.c.desire("rendered-a")
	r.must(r.settle())
	r.c.desire("rendered-r")
	dying, _ := hosttest.Wrap(r.m.Host(), hosttest.CrashAfter(4))
	r.start(dying)
	_, _ = syncOnce(t.Context(), r.a)
	r.c.down = errors.New("no route to host")
	r.start(r.m.Host())
	if _, err := syncOnce(t.Context(), r.a); err == nil {
		t.Fatal("no error")
	}
	if rec, err := r.m.Host().Journal.Load(); rec != nil || err != nil {
		t.Fatalf("the journal is left: %+v, %v", rec, err)
	}
	r.c.down = nil
	r.must(r.settle())
	r.c.says(t, "Done", "rendered-r")
}
