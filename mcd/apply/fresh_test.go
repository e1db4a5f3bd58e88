package apply_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestAMachineThatWasMovedLooksLikeAFreshOne compares a machine that went through some configs with one that begins
// with the last: all that the last config names is the same. Numbers that no config says depend on who was there
// before.
func TestAMachineThatWasMovedLooksLikeAFreshOne(t *testing.T) {
	for name, makeWorld := range worlds {
		t.Run(name, func(t *testing.T) {
			for seed := range map[string]uint64{"in memory": 300, "rooted": 10}[name] {
				r := rand.New(rand.NewPCG(seed, 23))
				moved, fresh := makeWorld(t).open(t), makeWorld(t).open(t)
				from := machineconfig.Config{}
				for range 2 + r.IntN(3) {
					to := generate(r)
					bring(t, moved, way(t, moved, from, to))
					from = to
				}
				bring(t, fresh, way(t, fresh, machineconfig.Config{}, from))
				if diff := cmp.Diff(looks(t, fresh, from), looks(t, moved, from)); diff != "" {
					t.Fatalf("seed %d: -fresh +moved:\n%s", seed, diff)
				}
			}
		})
	}
}

// looks is what a machine has of all that a config names, with owners by name.
func looks(t *testing.T, h host.Host, c machineconfig.Config) string {
	t.Helper()
	w := way(t, h, c, c)
	s := observeAll(t, h, w)
	named := func(id int) int {
		for _, name := range []string{"alice", "team"} {
			if id > 1000 && (s.Users[name].UID == id || s.Groups[name].GID == id) {
				return -len(name)
			}
		}
		return id
	}
	for p, e := range s.Paths {
		_, wanted := w.New.Paths[p]
		if !wanted {
			delete(s.Paths, p)
			continue
		}
		e.Owner.UID, e.Owner.GID = named(e.Owner.UID), named(e.Owner.GID)
		s.Paths[p] = e
	}
	passwords := ""
	for name, u := range s.Users {
		u.UID, u.GID = named(u.UID), named(u.GID)
		s.Users[name] = u
	}
	for name, g := range s.Groups {
		s.Groups[name] = host.Group{There: g.There, GID: named(g.GID)}
	}
	for _, name := range []string{"core", "guest", "alice", "carol"} {
		passwords += name + " " + s.Users[name].Password.Short() + "\n"
	}
	s.Units = nil   // who enabled a unit first decides, see plan.Target
	s.OS.Image = "" // a config without an image keeps the one there is
	return strings.TrimSpace(stateText(s)) + "\n" + passwords
}

// TestAMachineThatWasBornWithAConfigMovesLikeOneThatTookIt lets the first config be brought by somebody who keeps no
// records, as Ignition does: appended bytes are told from what was there, and accounts that the config made go.
func TestAMachineThatWasBornWithAConfigMovesLikeOneThatTookIt(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 29))
		born, took := worlds["in memory"](t).open(t), worlds["in memory"](t).open(t)
		first, second := generate(r), generate(r)
		for _, c := range []*machineconfig.Config{&first, &second} {
			c.Ignition.Passwd.Users = slices.DeleteFunc(c.Ignition.Passwd.Users, func(u ign.PasswdUser) bool {
				return u.Name == "guest"
			})
		}
		for _, h := range []host.Host{born, took} {
			bring(t, h, way(t, h, machineconfig.Config{}, first))
		}
		forget(t, born, first)
		for _, h := range []host.Host{born, took} {
			bring(t, h, way(t, h, first, second))
		}
		if diff := cmp.Diff(onlyAppended(t, took, first, second), onlyAppended(t, born, first, second)); diff != "" {
			t.Fatalf("seed %d: -took +born:\n%s", seed, diff)
		}
	}
}

// forget removes all that the daemon keeps.
func forget(t *testing.T, h host.Host, c machineconfig.Config) {
	t.Helper()
	s := observeAll(t, h, way(t, h, c, c))
	for p, e := range s.Paths {
		for _, dir := range []string{host.OrigDir, host.NoOrigDir, host.AccountsPath, host.UnitsPath} {
			if e.Kind == host.File && strings.HasPrefix(p+"/", dir+"/") || strings.HasSuffix(p, ".mcdorig") {
				if err := h.Files.Remove(p); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// onlyAppended is what a machine has of the files that are appended to, and the users alice and carol. What a file was
// before the first config replaced it whole cannot be known without records.
func onlyAppended(t *testing.T, h host.Host, before, c machineconfig.Config) string {
	t.Helper()
	w, first := way(t, h, c, c), way(t, h, before, before).New
	s := observeAll(t, h, plan.Transition{Old: w.Old, New: w.New})
	text := ""
	for _, p := range []string{"/etc/chrony.conf", "/etc/zz.conf"} {
		_, appended := w.New.Appends[p]
		_, born := first.Appends[p]
		if _, whole := first.Paths[p]; appended && (born || !whole) {
			text += p + " " + s.Paths[p].Digest.Short() + "\n"
		}
	}
	for _, name := range []string{"alice", "carol"} {
		text += name + " " + s.Users[name].String() + "\n"
	}
	return text
}
