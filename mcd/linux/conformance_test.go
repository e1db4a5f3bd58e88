package linux_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// open makes a simulated host in a directory of its own, with the files that the suite expects.
func open(t *testing.T) host.Host {
	t.Helper()
	dir := t.TempDir()
	for p, text := range hosttest.Base {
		at := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, root, err := linux.OpenSimulated(dir, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return h
}

func TestTheSimulatedHostConforms(t *testing.T) { hosttest.Conformance(t, open) }

func TestALockOfLogindBlocksASimulatedReboot(t *testing.T) {
	h := open(t)
	for text, blocks := range map[string]bool{
		"WHAT=sleep:shutdown\nWHO=backup\nWHY=nightly copy\nMODE=block\n": true,
		"WHAT=sleep\nWHO=backup\nWHY=nightly copy\nMODE=block\n":          false,
		"WHAT=shutdown\nWHO=backup\nWHY=nightly copy\nMODE=delay\n":       false,
	} {
		for _, dir := range []string{"/run/systemd", "/run/systemd/inhibit"} {
			if err := h.Files.Mkdir(dir, host.Entry{Mode: 0o755}); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.Files.Write("/run/systemd/inhibit/1", host.Entry{Mode: 0o644}, []byte(text)); err != nil {
			t.Fatal(err)
		}
		before, _ := h.Power.BootID()
		err := h.Power.Reboot(t.Context(), "test")
		after, _ := h.Power.BootID()
		if (err != nil) != blocks || (before == after) != blocks ||
			blocks && !strings.Contains(err.Error(), `it is blocked by backup ("nightly copy")`) {
			t.Errorf("%q: %v, %s, %s", text, err, before, after)
		}
	}
}

func TestWhatIsInTheWayOfEnablement(t *testing.T) {
	const dir = "/etc/systemd/system/"
	h := open(t)
	for p, text := range map[string]string{
		dir + "a.service": "[Install]\nWantedBy=x.target\nAlias=b.service\n",
		dir + "c.service": "[Install]\nWantedBy=x.target\n",
	} {
		if err := h.Files.Write(p, host.Entry{Mode: 0o644}, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for at, to := range map[string]string{dir + "b.service": dir + "c.service", dir + "z.target.wants": "none"} {
		if err := h.Files.Link(at, host.Entry{Target: to}); err != nil {
			t.Fatal(err)
		}
	}
	for says, c := range map[string]struct {
		unit, install string
		want          []string
		links         string
	}{
		"the alias is a link to another unit": {
			"a.service", "WantedBy=x.target\nAlias=b.service", []string{"a link to " + dir + "c.service at " + dir +
				"b.service"}, dir + "x.target.wants/a.service",
		},
		"the directory is a link to nowhere": {
			"c.service", "WantedBy=z.target",
			[]string{"a link that leads to no directory at " + dir + "z.target.wants"},
			dir + "z.target.wants/c.service",
		},
		"the section has an error": {"c.service", "WantedBy=%b.target", []string{"%b depends on more than the unit's name"}, ""},
		"a unit that the update writes": {
			"new@a.service", "WantedBy=x.target", nil, dir + "x.target.wants/new@a.service",
		},
	} {
		found, links := h.Units.Blockers([]host.Step{{Verb: host.Enable, Target: c.unit}},
			map[string]string{c.unit: c.install})
		for i, b := range found {
			if i >= len(c.want) || !strings.Contains(b.String(), c.want[i]) {
				t.Errorf("%s: %s", says, b)
			}
		}
		var at string
		for _, l := range links {
			at += l.Target
		}
		if len(found) != len(c.want) || at != c.links {
			t.Errorf("%s: %d are in the way, and the links are %q", says, len(found), at)
		}
	}
	if err := h.Units.Enable(t.Context(), "c.service"); err != nil {
		t.Fatal(err)
	}
	_, links := h.Units.Blockers([]host.Step{{Verb: host.Disable, Target: "c.service"}}, nil)
	gone := []string{dir + "b.service", dir + "x.target.wants/c.service"}
	if len(links) != 2 || links[0].Target != gone[0] || links[1].Target != gone[1] || links[0].Verb != host.Remove {
		t.Errorf("disabling c.service removes %v", links)
	}
}

func TestEnablementIsTheSymlinksThatSystemctlMakes(t *testing.T) {
	h := open(t)
	for p, text := range map[string]string{
		"/etc/systemd/system/a.service":  "[Install]\nWantedBy=multi-user.target x.target\nRequiredBy=y.target\nAlias=b.service\n",
		"/etc/systemd/system/t@.service": "[Install]\nWantedBy=%i.target\nDefaultInstance=one\n",
		"/etc/systemd/system/s.service":  "[Install]\nWantedBy=../../../etc/evil\n",
	} {
		if err := h.Files.Write(p, host.Entry{Mode: 0o644}, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range []string{"a.service", "t@.service"} {
		if err := h.Units.Enable(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Units.Enable(t.Context(), "s.service"); err == nil {
		t.Error("a name with a slash in [Install] was taken")
	}
	links := map[string]string{
		"/etc/systemd/system/multi-user.target.wants/a.service": "/etc/systemd/system/a.service",
		"/etc/systemd/system/x.target.wants/a.service":          "/etc/systemd/system/a.service",
		"/etc/systemd/system/y.target.requires/a.service":       "/etc/systemd/system/a.service",
		"/etc/systemd/system/b.service":                         "/etc/systemd/system/a.service",
		"/etc/systemd/system/one.target.wants/t@one.service":    "/etc/systemd/system/t@.service",
	}
	for at, to := range links {
		if is, err := h.Files.Stat(at); err != nil || is.Target != to {
			t.Errorf("%s is %v, %v; want a link to %s", at, is, err, to)
		}
	}
	if err := h.Units.Disable(t.Context(), "a.service"); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{
		"/etc/systemd/system/multi-user.target.wants/a.service", "/etc/systemd/system/b.service",
		"/etc/systemd/system/y.target.requires/a.service",
	} {
		if is, err := h.Files.Stat(at); err != nil || is.Kind != host.Absent {
			t.Errorf("%s is still %v, %v", at, is, err)
		}
	}
}

func TestATemplateIsEnabledByItsDefaultInstance(t *testing.T) {
	h := open(t)
	if err := h.Files.Write("/etc/systemd/system/t@.service", host.Entry{Mode: 0o644},
		[]byte("[Install]\nWantedBy=a.target\nDefaultInstance=one\n")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do   func(context.Context, string) error
		want bool
	}{{h.Units.Enable, true}, {h.Units.Disable, false}} {
		if err := step.do(t.Context(), "t@.service"); err != nil {
			t.Fatal(err)
		}
		if is, err := h.Units.Status(t.Context(), "t@.service"); err != nil || is.Enabled != step.want {
			t.Errorf("enabled is %t, %v; want %t", is.Enabled, err, step.want)
		}
	}
}

func TestEnablingReplacesNothingThatIsSomebodyElses(t *testing.T) {
	for says, there := range map[string]func(host.Files, string) error{
		"a unit file": func(f host.Files, at string) error { return f.Write(at, host.Entry{Mode: 0o644}, []byte("mine")) },
		"a link to other unit": func(f host.Files, at string) error {
			return f.Link(at, host.Entry{Target: "/usr/lib/systemd/system/vendor.service"})
		},
		"a mask": func(f host.Files, at string) error { return f.Link(at, host.Entry{Target: "/dev/null"}) },
	} {
		t.Run(says, func(t *testing.T) {
			h, at := open(t), "/etc/systemd/system/alias.service"
			if err := there(h.Files, at); err != nil {
				t.Fatal(err)
			}
			before, err := h.Files.Stat(at)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Files.Write("/etc/systemd/system/a.service", host.Entry{Mode: 0o644},
				[]byte("[Install]\nAlias=alias.service\n")); err != nil {
				t.Fatal(err)
			}
			if err := h.Units.Enable(t.Context(), "a.service"); err == nil || !strings.Contains(err.Error(), at) {
				t.Errorf("enabling says %v", err)
			}
			if is, err := h.Files.Stat(at); err != nil || is != before {
				t.Errorf("it is %v, %v", is, err)
			}
		})
	}
}

func TestTwoDaemonsDoNotServeOneMachine(t *testing.T) {
	dir := t.TempDir()
	var roots [2]*files.Root
	for i := range roots {
		root, err := files.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		roots[i] = root
	}
	if err := roots[0].Lock(); err != nil {
		t.Fatal(err)
	}
	if err := roots[1].Lock(); err == nil || !strings.Contains(err.Error(), "another machine-config-daemon") {
		t.Errorf("the second says %v", err)
	}
	if err := roots[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := roots[1].Lock(); err != nil {
		t.Errorf("after the first ended: %v", err)
	}
}

func TestSecretsOfTheJournalAreForRootOnly(t *testing.T) {
	h := open(t)
	if err := h.Store.Keep([]host.Old{{
		Digest:   host.DigestOf([]byte("secret")),
		Contents: []byte("secret"),
	}}); err != nil {
		t.Fatal(err)
	}
	if err := h.Journal.Save(host.Record{}); err != nil {
		t.Fatal(err)
	}
	for at, mode := range map[string]uint32{host.StateDir: 0o700, host.StateDir + "/replaced": 0o600, host.StateDir +
		"/journal.json": 0o600} {
		if is, err := h.Files.Stat(at); err != nil || is.Mode != mode {
			t.Errorf("%s is %v, %v; want mode %o", at, is, err, mode)
		}
	}
}

// TestAKernelThatCannotResolveBelowARootConformsToo is for kernels before 5.6, and sandboxes that hide openat2.
func TestAKernelThatCannotResolveBelowARootConformsToo(t *testing.T) {
	hosttest.Conformance(t, func(t *testing.T) host.Host {
		dir := t.TempDir()
		for p, text := range hosttest.Base {
			at := filepath.Join(dir, p)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		h, root, err := linux.OpenSimulated(dir, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		root.WithoutOpenat2()
		return h
	})
}
