package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

const (
	plainKeys    = "/home/core/" + distribution.KeysFile
	fragmentKeys = "/home/core/" + distribution.KeysFragment
	keyReader    = "/usr/libexec/ssh-key-dir"
	coreOS       = "ID=rhcos\n"
)

func keysConfig(keys ...ign.SSHAuthorizedKey) machineconfig.Config {
	c := machineconfig.Config{HasIgnition: true}
	c.Ignition.Passwd.Users = []ign.PasswdUser{{Name: "core", SSHAuthorizedKeys: keys}}
	return c
}

// TestTheFileOfEachSystem: a system's sshd reads the file that the table gives it, and an unknown system's sshd reads
// what OpenSSH reads by default.
func TestTheFileOfEachSystem(t *testing.T) {
	for release, want := range map[string]struct{ program, with, without string }{
		"ID=fedora\nVARIANT_ID=coreos\n":       {keyReader, fragmentKeys, plainKeys},
		"ID=rhcos\nVERSION_ID=\"4.18\"\n":      {keyReader, fragmentKeys, plainKeys},
		"ID=scos\n":                            {keyReader, fragmentKeys, plainKeys},
		"ID=\"rhel\"\nVARIANT_ID=coreos\n":     {keyReader, fragmentKeys, plainKeys},
		"ID=centos\nVARIANT_ID=coreos\n":       {keyReader, fragmentKeys, plainKeys},
		"ID=flatcar\n":                         {"/usr/bin/update-ssh-keys", fragmentKeys, plainKeys},
		"ID=\"opensuse-microos\"\n":            {keyReader, plainKeys, plainKeys},
		"ID=sl-micro\n":                        {keyReader, plainKeys, plainKeys},
		"ID=debian\n":                          {keyReader, plainKeys, plainKeys},
		"ID=ubuntu\n":                          {keyReader, plainKeys, plainKeys},
		"ID=\"rhel\"\nVARIANT_ID=\"server\"\n": {keyReader, plainKeys, plainKeys},
		"ID=fedora\nVARIANT_ID=server\n":       {keyReader, plainKeys, plainKeys},
		"ID=arch\n":                            {keyReader, plainKeys, plainKeys},
		"":                                     {keyReader, plainKeys, plainKeys},
	} {
		for _, has := range []bool{true, false} {
			m := newMachine()
			if release != "" {
				m.Put("/usr/lib/os-release", release)
			}
			if has {
				m.Put(want.program, "")
			}
			w := way(t, m.Host(), machineconfig.Config{}, keysConfig("ssh-ed25519 AAAA"))
			at := map[bool]string{true: want.with, false: want.without}[has]
			if got := w.New.Keys["core"].Path; got != at {
				t.Errorf("%q with the program %s %t: %s, want %s", release, want.program, has, got, at)
			}
		}
	}
}

// move is a machine whose sshd begins to read the other file.
type move struct {
	*hosttest.Machine
	// before is the file that the machine has the keys in, after is the file that its sshd reads from now on.
	before, after string
	// own is what the user had in .ssh/authorized_keys before any config; "" for nothing.
	own string
}

var leavingKeys, remainingKeys = keysConfig("ssh-ed25519 STAYS", "ssh-ed25519 LEAVES"), keysConfig("ssh-ed25519 STAYS")

// newMove is the machine with the first config, at the moment of the change.
func newMove(t *testing.T, toPlain bool, own string) move {
	t.Helper()
	m := move{newMachine(), plainKeys, fragmentKeys, own}
	m.Put("/usr/lib/os-release", coreOS)
	if own != "" {
		m.Put(plainKeys, own)
	}
	if toPlain {
		m.before, m.after = fragmentKeys, plainKeys
		m.Put(keyReader, "")
	}
	settleIn(t, m.Host(), leavingKeys)
	if !m.has(t, m.before, "STAYS") || m.has(t, m.after, "STAYS") {
		t.Fatalf("the machine does not begin with its keys in %s", m.before)
	}
	if !toPlain {
		m.Put(keyReader, "")
	} else if err := m.Host().Files.Remove(keyReader); err != nil {
		t.Fatal(err)
	}
	if err := m.Host().Disk.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m move) has(t *testing.T, at, key string) bool {
	t.Helper()
	text, err := m.Host().Files.Read(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Contains(string(text), key)
}

// plan is what the daemon does next: the update to a config, or without one the move alone.
func (m move) plan(t *testing.T, to *machineconfig.Config) (plan.Plan, map[host.Digest][]byte) {
	t.Helper()
	if to != nil {
		return planOn(t, m.Host(), named(way(t, m.Host(), leavingKeys, *to), "rendered-b"))
	}
	w := m.still(t, leavingKeys)
	observed, err := apply.Observe(t.Context(), m.Host(), w.Scope())
	if err != nil {
		t.Fatal(err)
	}
	if items := drift.Items(observed, w.Old, w.Old); len(items) > 0 {
		t.Fatalf("a file that the machine still has to move is drift: %v", items)
	}
	return plan.MoveKeys(observed, w)
}

// still is the transition from a config to itself.
func (m move) still(t *testing.T, c machineconfig.Config) plan.Transition {
	t.Helper()
	accounts, err := apply.Accounts(t.Context(), m.Host())
	if err != nil {
		t.Fatal(err)
	}
	whole := plan.DesiredOf(c, accounts)
	w, err := apply.Place(m.Host(), plan.Transition{From: "rendered-a", To: "rendered-a", Old: whole, New: whole})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestKeysMoveAndNobodyIsLockedOut crashes the daemon after every change of a move to the file of another sshd: with
// an update and without, from each file to the other. A key that stays is in one of both files at every instant, and a
// key that leaves is in neither in the end.
func TestKeysMoveAndNobodyIsLockedOut(t *testing.T) {
	for _, toPlain := range []bool{true, false} {
		for _, own := range []string{"", "ssh-ed25519 OWN\n"} {
			for name, to := range map[string]*machineconfig.Config{"the move": nil, "an update": &remainingKeys} {
				t.Run(fmt.Sprintf("%s, to plain %t, own %q", name, toPlain, own), func(t *testing.T) {
					for k := 0; ; k++ {
						m := newMove(t, toPlain, own)
						p, contents := m.plan(t, to)
						h, count := hosttest.Wrap(m.Host(), hosttest.CrashAfter(k))
						_, _ = (apply.Runner{Host: h}).Run(t.Context(), p, contents)
						m.isReachable(t, k)
						if end, err := (apply.Runner{Host: m.Host()}).Recover(t.Context()); err != nil ||
							end.End == apply.RollbackFailed {
							t.Fatal(end, err)
						}
						m.isReachable(t, k)
						m.finish(t, to, k)
						if count.N <= k {
							break
						}
					}
				})
			}
		}
	}
}

func (m move) isReachable(t *testing.T, k int) {
	t.Helper()
	if !m.has(t, m.before, "STAYS") && !m.has(t, m.after, "STAYS") {
		t.Fatalf("after %d changes, no file has the key that stays", k)
	}
}

// finish goes on after a crash, and looks at what came of it.
func (m move) finish(t *testing.T, to *machineconfig.Config, k int) {
	t.Helper()
	now := leavingKeys
	if p, contents := m.plan(t, to); len(p.Steps) > 0 {
		if done, err := (apply.Runner{Host: m.Host()}).Run(t.Context(), p, contents); err != nil ||
			done.End != apply.New {
			t.Fatal(done, err)
		}
	}
	if to != nil {
		now = *to
		if m.has(t, m.after, "LEAVES") || m.has(t, m.before, "LEAVES") {
			t.Fatalf("after %d changes, a key that the config does not have is still there", k)
		}
	}
	is, err := m.Host().Files.Stat(m.after)
	if err != nil || is.Mode != 0o600 || is.Owner != (host.Owner{UID: 1000, GID: 1000}) || !m.has(t, m.after, "STAYS") {
		t.Fatalf("after %d changes, %s is %+v, %v", k, m.after, is, err)
	}
	if m.has(t, m.before, "STAYS") || m.has(t, plainKeys, "OWN") != (m.own != "" && m.after == fragmentKeys) {
		t.Fatalf("after %d changes, %s is not as before any config", k, m.before)
	}
	w := m.still(t, now)
	observed, err := apply.Observe(t.Context(), m.Host(), w.Scope())
	if err != nil {
		t.Fatal(err)
	}
	if items := drift.Items(observed, w.Old, w.New); len(items) > 0 || w.Old.Keys["core"].Path != m.after {
		t.Fatalf("after %d changes, the machine has drifted: %v", k, items)
	}
	bring(t, m.Host(), named(way(t, m.Host(), now, machineconfig.Config{}), "rendered-c"))
	text, err := m.Host().Files.Read(plainKeys)
	if string(text) != m.own || m.own != "" && err != nil || m.has(t, fragmentKeys, "ssh") {
		t.Fatalf("after %d changes, and without a config, %s has %q, %v", k, plainKeys, text, err)
	}
}

// TestFlatcarsKeysAreMerged: sshd reads what update-ssh-keys writes. Whatever happens to an update, that has the keys
// of the config that the machine is in, and the mode that the program gives a file is no drift.
func TestFlatcarsKeysAreMerged(t *testing.T) {
	const merged = "# auto-generated by update-ssh-keys\n"
	for name, c := range map[string]struct {
		to      machineconfig.Config
		actions []disruption.Action
		health  error
	}{
		"a key goes":                             {to: remainingKeys},
		"a key goes with a reboot":               {to: remainingKeys, actions: []disruption.Action{reboot}},
		"a key goes, and the machine is ill":     {to: remainingKeys, actions: []disruption.Action{reboot}, health: errIll},
		"every key goes":                         {},
		"every key goes, and the machine is ill": {actions: []disruption.Action{reboot}, health: errIll},
	} {
		t.Run(name, func(t *testing.T) {
			for k := 0; ; k++ {
				m := move{Machine: newMachine()}
				m.Put("/usr/lib/os-release", "ID=flatcar\n")
				m.Put("/usr/bin/update-ssh-keys", "")
				settleIn(t, m.Host(), leavingKeys)
				if !m.has(t, plainKeys, merged) || !m.has(t, plainKeys, "LEAVES") {
					t.Fatal("the first config is not merged")
				}
				still := m.still(t, leavingKeys)
				observed, err := apply.Observe(t.Context(), m.Host(), still.Scope())
				if err != nil {
					t.Fatal(err)
				}
				if items := drift.Items(observed, still.Old, still.New); len(items) > 0 ||
					observed.Paths[fragmentKeys].Mode != 0o644 {
					t.Fatalf("what the program did has drifted: %v", items)
				}
				p, contents := planOn(t, m.Host(), way(t, m.Host(), leavingKeys, c.to, c.actions...))
				h, count := hosttest.Wrap(m.Host(), hosttest.CrashAfter(k))
				health := func(context.Context, host.Record) error { return c.health }
				_, _ = (apply.Runner{Host: h, HealthCheck: health}).Run(t.Context(), p, contents)
				for range 3 {
					if _, err := (apply.Runner{Host: m.Host(), HealthCheck: health}).Recover(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				text, _ := m.Host().Files.Read(fragmentKeys)
				all, _ := m.Host().Files.Read(plainKeys)
				want := ""
				if len(text) > 0 {
					want = merged + string(text)
				}
				if string(all) != want {
					t.Fatalf("after %d changes, the config has %q, and sshd reads %q", k, text, all)
				}
				if count.N <= k {
					if c.health != nil != strings.Contains(string(all), "LEAVES") {
						t.Fatalf("in the end, sshd reads %q", all)
					}
					break
				}
			}
		})
	}
}
