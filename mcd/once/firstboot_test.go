package once

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// born is a machine that Ignition has written, with this spec in the config that the server appended.
func born(spec string) *hosttest.Machine {
	m := hosttest.NewMachine()
	m.Put(EncapsulatedPath,
		`{"kind":"MachineConfig","apiVersion":"machineconfiguration.openshift.io/v1","metadata":{"name":"rendered-worker-1"},"spec":`+spec+`}`)
	return m
}

const (
	sameOS  = `{"osImageURL":"registry.example/os:1","kernelArguments":["ro"],"config":{"ignition":{"version":""}}}`
	otherOS = `{"osImageURL":"registry.example/os:2","kernelArguments":["quiet"],"kernelType":"realtime","extensions":["usbguard"],"config":null}`
)

func exists(t *testing.T, m *hosttest.Machine, path string) bool {
	t.Helper()
	is, err := m.Host().Files.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return is.Kind != host.Absent
}

// deadly is a machine that goes down when something is asked of a port.
func deadly(m *hosttest.Machine, port string) host.Host {
	down := false
	h, _ := hosttest.Wrap(m.Host(), func(c hosttest.Call) error {
		if down = down || c.Port == port; down {
			return hosttest.ErrCrashed
		}
		return nil
	})
	return h
}

func firstBoot(t *testing.T, m *hosttest.Machine) (apply.Applied, error) {
	t.Helper()
	return FirstBoot(t.Context(), apply.Runner{Host: m.Host()}, nil)
}

func TestAMachineWhoseOSIsRightDoesNotReboot(t *testing.T) {
	for says, m := range map[string]*hosttest.Machine{
		"it runs what is asked for": born(sameOS),
		"nothing is asked for":      born(`{}`),
	} {
		t.Run(says, func(t *testing.T) {
			for range 2 { // idempotent
				if done, err := firstBoot(t, m); err != nil || done.End != apply.Nothing {
					t.Fatalf("%+v %v", done, err)
				}
			}
			if exists(t, m, EncapsulatedPath) || exists(t, m, EncapsulatedPath+BackupSuffix) ||
				exists(t, m, host.RecordPath) || len(m.Log) > 0 {
				t.Errorf("%q\n%s", m.Log, m)
			}
		})
	}
}

// Flatcar's Ignition sets kernel arguments itself, and no daemon can change them there.
func TestAPlainHostThatRunsWithTheKernelArgumentsIsRight(t *testing.T) {
	for says, c := range map[string]struct{ args, refused string }{
		"all of them, in another order": {`["ro", "root=/dev/sda1"]`, ""},
		"one is missing":                {`["ro", "quiet"]`, "it is a plain host"},
	} {
		t.Run(says, func(t *testing.T) {
			m := born(`{"kernelArguments":` + c.args + `}`)
			m.Withdraw("it is a plain host")
			done, err := firstBoot(t, m)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%+v %v", done, err)
				}
				return
			}
			if err != nil || done.End != apply.Nothing || exists(t, m, EncapsulatedPath) || len(m.Log) > 0 {
				t.Errorf("%+v %v %q", done, err, m.Log)
			}
		})
	}
}

func TestAMachineWhoseOSIsAnotherRebootsIntoTheRightOneOnce(t *testing.T) {
	m := born(otherOS)
	if done, err := firstBoot(t, m); err != nil || done.End != apply.Rebooting || done.To != "rendered-worker-1" {
		t.Fatalf("%+v %v", done, err)
	}
	if exists(t, m, EncapsulatedPath) || !exists(t, m, EncapsulatedPath+BackupSuffix) {
		t.Error(m)
	}
	if done, err := firstBoot(t, m); err != nil || done.End != apply.New {
		t.Fatalf("after the reboot: %+v %v", done, err)
	}
	status, err := m.Host().OS.Status(t.Context())
	want := host.OS{
		Image: "registry.example/os:2", Kargs: "root=/dev/sda1 ro quiet", KernelType: "realtime",
		Extensions: "usbguard",
	}
	if err != nil || status.Booted != want || exists(t, m, host.RecordPath) {
		t.Errorf("%+v %v", status.Booted, err)
	}
	if done, err := firstBoot(t, m); err != nil || done.End != apply.Nothing || len(m.Log) != 1 {
		t.Errorf("once more: %+v %v %q", done, err, m.Log)
	}
}

func TestAMachineThatDoesNotBootTheNewOSHasTheFileBack(t *testing.T) {
	m := born(otherOS)
	m.BootsOld = true
	if _, err := firstBoot(t, m); err != nil {
		t.Fatal(err)
	}
	done, err := firstBoot(t, m)
	if err != nil || !errors.Is(done.Why, apply.ErrNotBooted) {
		t.Fatalf("%+v %v", done, err)
	}
	if !exists(t, m, EncapsulatedPath) || exists(t, m, EncapsulatedPath+BackupSuffix) {
		t.Error(m)
	}
}

func TestAMachineThatNeverBootsTheNewOSRestsLongerBeforeEachReboot(t *testing.T) {
	m := born(otherOS)
	m.BootsOld = true
	var rests []int
	step := func(want apply.End) {
		t.Helper()
		done, err := FirstBoot(t.Context(), apply.Runner{Host: m.Host()}, func(_ context.Context, reboots int) error {
			rests = append(rests, reboots)
			return nil
		})
		if err != nil || done.End != want {
			t.Fatalf("%+v, %v; want %s", done, err, want)
		}
	}
	for range 3 {
		step(apply.Rebooting)
		step(apply.Rebooting) // back
		step(apply.Old)
	}
	m.BootsOld = false
	step(apply.Rebooting)
	step(apply.New)
	if d := cmp.Diff([]int{1, 2, 3}, rests); d != "" {
		t.Errorf("reboots that were told (-want +got):\n%s", d)
	}
	if exists(t, m, firstBootAttempts) {
		t.Errorf("%s is left", firstBootAttempts)
	}
}

// TestAMachineThatGoesDownWhileItsOSIsStagedRestsButForTheFirstTime: the first may be a power cut, and the others are
// no reason to take the machine down again at once, or to give it up.
func TestAMachineThatGoesDownWhileItsOSIsStagedRestsButForTheFirstTime(t *testing.T) {
	m := born(otherOS)
	var rests []int
	boot := func(h host.Host) (apply.Applied, error) {
		return FirstBoot(t.Context(), apply.Runner{Host: h}, func(_ context.Context, tries int) error {
			rests = append(rests, tries)
			return nil
		})
	}
	for range 4 {
		_, _ = boot(deadly(m, "os"))
		m.PowerCut(rand.New(rand.NewPCG(1, 2)))
		for _, want := range []apply.End{apply.Rebooting, apply.Old} { // it runs what it booted with
			if done, err := boot(m.Host()); err != nil || done.End != want ||
				!errors.Is(done.Why, apply.ErrInterrupted) {
				t.Fatalf("%+v, %v", done, err)
			}
		}
	}
	if d := cmp.Diff([]int{1, 2}, rests); d != "" {
		t.Errorf("tries that were told (-want +got):\n%s", d)
	}
	for _, want := range []apply.End{apply.Rebooting, apply.New, apply.Nothing} {
		if done, err := boot(m.Host()); err != nil || done.End != want {
			t.Fatalf("%+v, %v; want %s", done, err, want)
		}
	}
	if exists(t, m, firstBootAttempts) {
		t.Errorf("%s is left", firstBootAttempts)
	}
}

func TestAMachineThatIsToldToStopWhileItRestsHasBegunNothing(t *testing.T) {
	m := born(otherOS)
	m.BootsOld = true
	for _, want := range []apply.End{apply.Rebooting, apply.Rebooting, apply.Old} {
		if done, err := firstBoot(t, m); err != nil || done.End != want {
			t.Fatalf("%+v %v", done, err)
		}
	}
	stop := errors.New("told to stop")
	_, err := FirstBoot(t.Context(), apply.Runner{Host: m.Host()}, func(context.Context, int) error { return stop })
	if !errors.Is(err, stop) || len(m.Log) != 2 || !exists(t, m, EncapsulatedPath) {
		t.Errorf("%v %q", err, m.Log)
	}
	if rec, err := m.Host().Journal.Load(); err != nil || rec != nil {
		t.Errorf("the journal is %v, %v", rec, err)
	}
}

// TestAFirstBootMayBeKilledAnywhere kills it after each of its changes; those that come after it end where one that was
// not killed does.
func TestAFirstBootMayBeKilledAnywhere(t *testing.T) {
	for says, spec := range map[string]string{"nothing to do": sameOS, "another OS": otherOS} {
		t.Run(says, func(t *testing.T) {
			want := ""
			for k := -1; ; k++ {
				m := born(spec)
				whole := false
				if k >= 0 {
					dying, count := hosttest.Wrap(m.Host(), hosttest.CrashAfter(k))
					_, _ = FirstBoot(t.Context(), apply.Runner{Host: dying}, nil)
					whole = count.N <= k
				}
				for range 3 {
					if _, err := firstBoot(t, m); err != nil {
						t.Fatalf("after %d changes: %v", k, err)
					}
				}
				if rec, err := m.Host().Journal.Load(); err != nil || rec != nil {
					t.Fatalf("after %d changes the journal is %v, %v", k, rec, err)
				}
				is, _, _ := strings.Cut(m.String(), "\njournal ") // what is kept without a journal is only old
				is = strings.Replace(is, host.StateDir+" dir 0700\n", "", 1)
				if k < 0 {
					want = is
				} else if is != want {
					t.Fatalf("after %d changes:\n%s\nwant:\n%s", k, is, want)
				}
				if whole {
					break
				}
			}
		})
	}
}

func TestAFirstBootThatCannotBeIsSaidAndLeavesEverything(t *testing.T) {
	for _, c := range []struct {
		says   string
		m      *hosttest.Machine
		before func(*hosttest.Machine)
		want   string
	}{
		{"a plain host cannot change its OS", born(otherOS), func(m *hosttest.Machine) { m.Withdraw("it is a plain host") }, "it is a plain host"},
		{"FIPS mode is chosen by the installer", born(`{"fips":true}`), nil, "fips=1"},
		{"a file that was cut", born(`{"osImageURL":`), nil, EncapsulatedPath},
		{"a file of something else", born(`{}`), func(m *hosttest.Machine) { m.Put(EncapsulatedPath, `{}`) }, "metadata.name"},
	} {
		t.Run(c.says, func(t *testing.T) {
			if c.before != nil {
				c.before(c.m)
			}
			before := c.m.String()
			if done, err := firstBoot(t, c.m); err == nil || !strings.Contains(err.Error(), c.want) ||
				c.m.String() != before {
				t.Errorf("%+v %v", done, err)
			}
		})
	}
	t.Run("but a machine that runs in FIPS mode is right", func(t *testing.T) {
		m := born(`{"fips":true}`)
		m.Put(fipsPath, "1\n")
		if done, err := firstBoot(t, m); err != nil || done.End != apply.Nothing {
			t.Errorf("%+v %v", done, err)
		}
	})
}

func TestAnUpdateOfTheDaemonIsLeftToTheDaemon(t *testing.T) {
	m := born(otherOS)
	if err := m.Host().Journal.Save(host.Record{
		To: "rendered-worker-2", Phase: host.Rebooting,
		BootID: "boot-0",
	}); err != nil {
		t.Fatal(err)
	}
	before := m.String()
	if done, err := firstBoot(t, m); err != nil || done.End != apply.Nothing || m.String() != before {
		t.Errorf("%+v %v", done, err)
	}
}
