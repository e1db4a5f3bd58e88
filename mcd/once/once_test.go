package once

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// config is Ignition with these words in it.
func config(t *testing.T, words string) mcfgv1.MachineConfig {
	t.Helper()
	mc, err := Read("config", []byte(`{"ignition":{"version":"3.5.0"}`+words+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return mc
}

func file(path, text string) string {
	return fmt.Sprintf(`,"storage":{"files":[{"path":%q,"overwrite":true,"contents":{"source":"data:,%s"}}]}`, path,
		text)
}

// do runs Do on a machine and returns what was shown.
func do(t *testing.T, m *hosttest.Machine, ask Request, dry bool) (Result, string, error) {
	t.Helper()
	shown := ""
	r, err := Run(t.Context(), apply.Runner{Host: m.Host()}, ask, dry, func(d Plan) { shown = d.String() })
	return r, shown, err
}

// policyFile is one whose change costs a reload, by the default policy.
const policyFile = "/etc/containers/policy.json"

func TestAMachineWithoutAClusterGoesToAConfigAndStays(t *testing.T) {
	m := hosttest.NewMachine()
	first, second := config(t, file(policyFile, "a")), config(t, file(policyFile, "b"))

	r, shown, err := do(t, m, Request{To: first}, true)
	if err != nil || r.End != apply.Nothing || len(m.Log) > 0 {
		t.Fatalf("a dry run: %+v %v %q", r, err, m.Log)
	}
	want := "from nothing\nto " + first.Name + "\nmkdir /etc/containers 0755 (new)\n" +
		"write /etc/containers/policy.json 0644 (new)\nreload crio.service\ndisruption: reload\n"
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	if r, _, err = do(t, m, Request{To: first}, false); err != nil || r.End != apply.New {
		t.Fatalf("%+v %v", r, err)
	}
	if mc, err := apply.LoadRecord(m.Host().Files); err != nil || mc == nil || mc.Name != first.Name {
		t.Fatalf("the record is %v, %v", mc, err)
	}
	before := m.String()
	if r, shown, err = do(t, m, Request{To: first}, false); err != nil || r.End != apply.Nothing || !r.Plan.Empty() ||
		m.String() != before {
		t.Errorf("the second run is not nothing: %+v %v\n%s", r, err, shown)
	}
	m.Log = nil
	if r, _, err = do(t, m, Request{To: second}, false); err != nil || r.End != apply.New || len(m.Log) != 1 ||
		!strings.Contains(m.Log[0], "crio.service") {
		t.Errorf("%+v %v %q", r, err, m.Log)
	}
}

// refusals begin nothing.
// TestSSHKeysThatNobodyReadsAreNoted: a machine whose sshd has another setting takes the config, and says so first.
func TestSSHKeysThatNobodyReadsAreNoted(t *testing.T) {
	keys := `,"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA a"]}]}`
	for setting, noted := range map[string]bool{"": false, ".ssh/authorized_keys": false, "/etc/ssh/keys/%u": true} {
		m := hosttest.NewMachine()
		m.SSHD = host.SSHSettings{KeysFile: setting}
		r, shown, err := do(t, m, Request{To: config(t, keys)}, false)
		if err != nil || r.Why != nil || strings.Contains(shown, "note: the sshd of this node") != noted {
			t.Errorf("with %q: %v, %v\n%s", setting, err, r.Why, shown)
		}
		if _, again, _ := do(t, m, Request{To: config(t, keys)}, true); strings.Contains(again, "note:") {
			t.Errorf("without new keys it notes them again:\n%s", again)
		}
		for text, noted := range map[string]bool{
			"AuthorizedKeysFile%20/k/%25u": true, "authorizedkeysfile=/k/%25u%20.ssh/authorized_keys": false,
			"Match%20User%20x%0AAuthorizedKeysFile%20/k": false, "%23AuthorizedKeysFile%20/k": false,
		} {
			settings := keys + file("/etc/ssh/sshd_config.d/50-keys.conf", text)
			_, shown, err := do(t, m, Request{To: config(t, settings)}, true)
			if strings.Contains(shown, "note: the sshd") != (noted && setting != "") || err != nil {
				t.Errorf("with %q and then %q: %v\n%s", setting, text, err, shown)
			}
		}
	}
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	disks := `,"storage":{"disks":[{"device":"/dev/vdb","wipeTable":true}],"files":[{"path":"/etc/motd","contents":{"source":"data:,x"}}]}`
	for _, c := range []struct {
		says   string
		before func(*hosttest.Machine)
		ask    Request
		want   []string
	}{
		{"a disk, which only a first boot sets up", nil, Request{To: config(t, disks)}, []string{"storage.disks /dev/vdb", "--as-born"}},
		{"a kernel argument on a machine that cannot change it", func(m *hosttest.Machine) {
			m.Withdraw("it is a plain host")
		}, Request{To: func() mcfgv1.MachineConfig {
			mc := config(t, "")
			mc.Spec.KernelArguments = []string{"quiet"}
			return mc
		}()}, []string{"kernelArguments", "it is a plain host"}},
		{"a file whose contents only a server has", nil, Request{To: config(t, `,"storage":{"files":[{"path":"/etc/key","contents":{"source":"data:application/vnd.bunsen.template,%24%7Bsecret:a/b%7D"}}]}`)}, []string{"refers to secrets", "/etc/key", "Only the daemon of a cluster's node"}},
		{"what somebody changed by hand", func(m *hosttest.Machine) {
			if _, _, err := do(t, m, Request{To: config(t, file(policyFile, "a"))}, false); err != nil {
				t.Fatal(err)
			}
			m.Put(policyFile, "by hand")
		}, Request{To: config(t, file(policyFile, "b"))}, []string{"unexpected on-disk state", policyFile, "--force"}},
	} {
		t.Run(c.says, func(t *testing.T) {
			m := hosttest.NewMachine()
			if c.before != nil {
				c.before(m)
			}
			before := m.String()
			_, _, err := do(t, m, c.ask, false)
			if err == nil || m.String() != before {
				t.Fatalf("%v\n%s", err, cmp.Diff(before, m.String()))
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in %v", want, err)
				}
			}
			var drift *DriftError
			if !errors.Is(err, apply.ErrRefused) && !errors.As(err, &drift) {
				t.Errorf("%T is neither refused nor drift", err)
			}
		})
	}
	t.Run("but not where it is said to be so already, or is forced", func(t *testing.T) {
		m := hosttest.NewMachine()
		if r, _, err := do(t, m, Request{To: config(t, disks), AsFirstBoot: true, SkipReboot: true},
			false); err != nil || r.End != apply.New {
			t.Errorf("%+v %v", r, err)
		}
		m.Put("/etc/motd", "by hand")
		m.Log = nil
		if r, _, err := do(t, m, Request{To: config(t, file("/etc/motd", "y")), Force: true}, false); err != nil ||
			r.End != apply.Rebooting || len(m.Log) != 1 {
			t.Errorf("%+v %v %q", r, err, m.Log)
		}
	})
}

func TestARebootIsDoneAndConfirmedOrLeftToSomebodyElse(t *testing.T) {
	to := config(t, file("/etc/motd", "x"))
	to.Spec.KernelArguments = []string{"quiet"}
	m := hosttest.NewMachine()
	if r, _, err := do(t, m, Request{To: to}, false); err != nil || r.End != apply.Rebooting || r.Plan.RebootDue {
		t.Fatalf("%+v %v", r, err)
	}
	if _, _, err := do(t, m, Request{To: to}, true); !errors.Is(err, ErrUnfinished) {
		t.Errorf("a dry run now: %v", err)
	}
	if r, _, err := do(t, m, Request{To: to}, false); err != nil || r.Earlier.End != apply.New ||
		r.End != apply.Nothing {
		t.Errorf("after the reboot: %+v %v", r, err)
	}
	left := hosttest.NewMachine()
	r, shown, err := do(t, left, Request{To: to, SkipReboot: true}, false)
	if err != nil || r.End != apply.New || !r.Plan.RebootDue || len(left.Log) > 0 ||
		!strings.HasSuffix(shown, "disruption: reboot\na reboot is left to you\n") {
		t.Errorf("%+v %v %q\n%s", r, err, left.Log, shown)
	}
	if r, _, err := do(t, left, Request{To: to, SkipReboot: true}, false); err != nil || r.End != apply.Nothing {
		t.Errorf("again: %+v %v", r, err)
	}
}

func TestAMachineThatCameBackFromItsRebootIsTakenBack(t *testing.T) {
	m := hosttest.NewMachine()
	if _, _, err := do(t, m, Request{To: config(t, file(policyFile, "a"))}, false); err != nil {
		t.Fatal(err)
	}
	to := config(t, file(policyFile, "b"))
	to.Spec.KernelArguments = []string{"quiet"}
	m.BootsOld = true
	if r, _, err := do(t, m, Request{To: to}, false); err != nil || r.End != apply.Rebooting {
		t.Fatalf("%+v %v", r, err)
	}
	m.BootsOld = false
	r, err := apply.Runner{Host: m.Host()}.Recover(t.Context())
	for ; err == nil && r.End == apply.Rebooting; r, err = (apply.Runner{Host: m.Host()}).Recover(t.Context()) {
	}
	if text, _ := m.Host().Files.Read(policyFile); err != nil || string(text) != "a" {
		t.Errorf("%+v %v %s", r, err, text)
	}
}

// TestACrashAnywhereIsMadeGoodByTheNextRun kills the run after each of its changes, and runs it again.
func TestACrashAnywhereIsMadeGoodByTheNextRun(t *testing.T) {
	first := config(t, file(policyFile, "a"))
	for _, kargs := range [][]string{nil, {"quiet"}} {
		to := config(t, file(policyFile, "b"))
		to.Spec.KernelArguments = kargs
		crashes := 0
		for k := 0; ; k++ {
			m := hosttest.NewMachine()
			if _, _, err := do(t, m, Request{To: first}, false); err != nil {
				t.Fatal(err)
			}
			dying, count := hosttest.Wrap(m.Host(), hosttest.CrashAfter(k))
			_, _ = Run(t.Context(), apply.Runner{Host: dying}, Request{To: to}, false, func(Plan) {})
			whole := count.N <= k
			for range 3 { // a run that ends in a reboot is followed by the one after it
				if r, _, err := do(t, m, Request{To: to}, false); err != nil || r.End != apply.Nothing &&
					r.End != apply.New && r.End != apply.Rebooting {
					t.Fatalf("after %d changes: %+v %v", k, r, err)
				}
			}
			rec, err := m.Host().Journal.Load()
			text, _ := m.Host().Files.Read(policyFile)
			if mc, _ := apply.LoadRecord(m.Host().Files); err != nil || rec != nil || mc == nil || mc.Name != to.Name ||
				string(text) != "b" {
				t.Fatalf("after %d changes the machine is in %v with %q, journal %v", k, mc, text, rec)
			}
			if whole {
				break
			}
			crashes++
		}
		if crashes < 8 {
			t.Errorf("only %d crashes", crashes)
		}
		t.Logf("%d crashes with kernel arguments %q", crashes, kargs)
	}
}

// TestAConfigThatTakesTheMachineDownIsGivenUp: a unit that applies it at each boot would take the machine down for
// ever.
func TestAConfigThatTakesTheMachineDownIsGivenUp(t *testing.T) {
	m := hosttest.NewMachine()
	first, to := config(t, file(policyFile, "a")), config(t, file(policyFile, "b"))
	if _, _, err := do(t, m, Request{To: first}, false); err != nil {
		t.Fatal(err)
	}
	before := treeOf(m)
	die := func() { // in the reload of a service that does not live with the new config
		down := false
		h, _ := hosttest.Wrap(m.Host(), func(c hosttest.Call) error {
			text, err := m.Host().Files.Read(policyFile)
			if down = down || c.Port == "units" && err == nil && string(text) == "b"; down {
				return hosttest.ErrCrashed
			}
			return nil
		})
		_, _ = Run(t.Context(), apply.Runner{Host: h}, Request{To: to}, false, func(Plan) {})
		m.PowerCut(rand.New(rand.NewPCG(1, 2)))
	}
	for range 3 {
		die()
	}
	for range 2 {
		r, _, err := do(t, m, Request{To: to}, false)
		if !errors.Is(err, ErrGivenUp) || !strings.Contains(err.Error(), "3 times") ||
			!strings.Contains(err.Error(), "--force") || r.End != "" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if rec, err := m.Host().Journal.Load(); rec != nil || err != nil {
		t.Errorf("the journal is left: %v %v", rec, err)
	}
	if is := treeOf(m); is != before {
		t.Errorf("it is not as it was:\n%s", cmp.Diff(before, is))
	}
	if r, _, err := do(t, m, Request{To: config(t, file(policyFile, "c"))}, false); err != nil || r.End != apply.New {
		t.Errorf("another config: %+v, %v", r, err)
	}
	for range 3 {
		die()
	}
	if r, _, err := do(t, m, Request{To: to, Force: true}, false); err != nil || r.End != apply.Rebooting {
		t.Errorf("forced: %+v, %v", r, err)
	}
	if r, _, err := do(t, m, Request{To: to}, false); err != nil || r.Earlier.End != apply.New ||
		exists(t, m, runAttempts) {
		t.Errorf("after the reboot: %+v, %v", r, err)
	}
}

// treeOf is a machine's disk without the daemon's own state.
func treeOf(m *hosttest.Machine) string {
	text := ""
	for line := range strings.Lines(m.Tree()) {
		if !strings.HasPrefix(line, host.StateDir) {
			text += line
		}
	}
	return text
}

func TestAJournalThatWaitsForABootIsLeftAloneWhereNobodyBoots(t *testing.T) {
	m := hosttest.NewMachine()
	to := config(t, file("/etc/motd", "x"))
	if err := m.Host().Journal.Save(host.Record{
		To: "rendered-x", Phase: host.Rebooting,
		BootID: "elsewhere",
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := do(t, m, Request{To: to, SkipReboot: true}, false); !errors.Is(err, ErrUnfinished) ||
		!strings.Contains(err.Error(), "rendered-x") {
		t.Error(err)
	}
}
