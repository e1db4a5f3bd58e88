package apply_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
)

// TestACrashAnywhereOfTheRealToolsEndsInTheOldOrTheNewAccounts lets the machine's own useradd and its kin change a
// directory's accounts, and kills the daemon after every change.
func TestACrashAnywhereOfTheRealToolsEndsInTheOldOrTheNewAccounts(t *testing.T) {
	needRoot(t, "useradd", "usermod", "userdel", "groupadd", "groupmod", "groupdel", "gpasswd")
	crashes := 0
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 31))
		from, to := machineconfig.Config{}, machineconfig.Config{}
		from.Ignition.Passwd, to.Ignition.Passwd = passwd(r), passwd(r)
		moved := hosttest.TempDir(t)
		furnish(t, moved)
		shall := withTools(t, moved, func(h host.Host) {
			bring(t, h, named(way(t, h, machineconfig.Config{}, from), "rendered-a"))
			bring(t, h, way(t, h, from, to))
		})
		for k := 0; ; k++ {
			dir := hosttest.TempDir(t)
			furnish(t, dir)
			was := withTools(t, dir, func(h host.Host) {
				bring(t, h, named(way(t, h, machineconfig.Config{}, from), "rendered-a"))
			})
			n := 0
			withTools(t, dir, func(h host.Host) {
				p, contents := planOn(t, h, way(t, h, from, to))
				dying, count := hosttest.Wrap(h, hosttest.CrashAfter(k))
				_, _ = (apply.Runner{Host: dying}).Run(t.Context(), p, contents)
				n = count.N
			})
			var end apply.Applied
			is := withTools(t, dir, func(h host.Host) {
				var err error
				if end, err = (apply.Runner{Host: h}).Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			if end.End == apply.Old && is != was || end.End == apply.New && is != shall || is != was && is != shall {
				t.Fatalf("crash after %d ended %s, %v:\n%s\nwas\n%s", k, end.End, end.Why, is, was)
			}
			if n <= k {
				break
			}
			crashes++
		}
	}
	t.Logf("%d crashes", crashes)
}

// furnish makes a directory a machine.
func furnish(t *testing.T, dir string) {
	t.Helper()
	texts := maps.Clone(hosttest.Base)
	maps.Copy(texts, downloaded())
	for p, text := range texts {
		at := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// withTools is a daemon on a directory, and what accounts are there when it has ended.
func withTools(t *testing.T, dir string, do func(host.Host)) string {
	t.Helper()
	h, end, err := linux.OpenHost(context.WithoutCancel(t.Context()), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	do(h)
	text := ""
	for _, name := range []string{"core", "guest", "alice", "carol"} {
		u, hash, err := h.Passwd.User(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		text += name + " " + u.String() + " " + string(hash) + "\n"
	}
	for _, name := range []string{"core", "guest", "alice", "carol", "team", "numbered", "wheel"} {
		g, err := h.Passwd.Group(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		text += name + " " + g.String() + "\n"
	}
	return text
}
