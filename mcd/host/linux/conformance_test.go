package linux_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/host/linux"
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
	h, root, err := linux.Simulated(dir, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return h
}

func TestTheSimulatedHostConforms(t *testing.T) { hosttest.Conformance(t, open) }

func TestEnablementIsTheSymlinksThatSystemctlMakes(t *testing.T) {
	h := open(t)
	for p, text := range map[string]string{
		"/etc/systemd/system/a.service":  "[Install]\nWantedBy=multi-user.target x.target\nRequiredBy=y.target\nAlias=b.service\nAlso=c.socket\n",
		"/etc/systemd/system/c.socket":   "[Install]\nWantedBy=sockets.target\n",
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
		"/etc/systemd/system/sockets.target.wants/c.socket":     "/etc/systemd/system/c.socket",
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
	for _, at := range []string{"/etc/systemd/system/multi-user.target.wants", "/etc/systemd/system/b.service", "/etc/systemd/system/y.target.requires"} {
		if is, err := h.Files.Stat(at); err != nil || is.Kind != host.Absent {
			t.Errorf("%s is still %v, %v", at, is, err)
		}
	}
}

func TestSecretsOfTheJournalAreForRootOnly(t *testing.T) {
	h := open(t)
	d, err := h.Store.Put([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Journal.Save(host.Record{}); err != nil {
		t.Fatal(err)
	}
	for at, mode := range map[string]uint32{
		host.StateDir: 0o700, host.StateDir + "/contents": 0o700,
		host.StateDir + "/contents/" + string(d): 0o600, host.StateDir + "/journal.json": 0o600,
	} {
		if is, err := h.Files.Stat(at); err != nil || is.Mode != mode {
			t.Errorf("%s is %v, %v; want mode %o", at, is, err, mode)
		}
	}
}
