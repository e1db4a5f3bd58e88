package apply_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

func TestWhatWasAppliedIsWhatIsObserved(t *testing.T) {
	for name, makeWorld := range worlds {
		t.Run(name, func(t *testing.T) {
			for seed := range map[string]uint64{"in memory": 200, "rooted": 10}[name] {
				r := rand.New(rand.NewPCG(seed, 7))
				w := makeWorld(t)
				h := w.open(t)
				from := machineconfig.Config{}
				for range 4 {
					to := generate(r)
					step := way(t, h, from, to)
					bring(t, h, step)
					if left, _ := planOn(t, h, plan.Transition{
						From: "x", To: "rendered-b", Old: step.New,
						New: step.New,
					}); len(left.Steps) > 0 {
						t.Fatalf("seed %d: after the update this is left to do:\n%s", seed, left)
					}
					from = to
				}
			}
		})
	}
}

func TestGoingBackToNothingLeavesWhatWasThere(t *testing.T) {
	for name, makeWorld := range worlds {
		t.Run(name, func(t *testing.T) {
			for seed := range map[string]uint64{"in memory": 200, "rooted": 10}[name] {
				w := makeWorld(t)
				h := w.open(t)
				empty, some := machineconfig.Config{}, generate(rand.New(rand.NewPCG(seed, 3)))
				some.OSImageURL = "" // a config without an image keeps the one there is
				bring(t, h, way(t, h, empty, empty))
				before := observeAll(t, h, way(t, h, empty, some))
				bring(t, h, way(t, h, empty, some))
				bring(t, h, way(t, h, some, empty))
				after := observeAll(t, h, way(t, h, empty, some))
				for p, e := range after.Paths {
					if e.Kind == host.Dir && before.Paths[p].Kind == host.Absent {
						delete(after.Paths, p) // directories that were made on the way stay
					}
				}
				delete(before.Paths, host.AccountsPath) // whose homes stay is remembered
				delete(after.Paths, host.AccountsPath)
				for p := range after.Paths {
					if strings.HasPrefix(p, "/home/") && p != "/home/core" {
						delete(before.Paths, p) // what users had at home stays
						delete(after.Paths, p)
					}
				}
				for p, e := range before.Paths {
					if e.Kind == host.Absent && after.Paths[p].Kind == host.Absent {
						delete(before.Paths, p)
						delete(after.Paths, p)
					}
				}
				if diff := cmp.Diff(stateText(before), stateText(after)); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
			}
		})
	}
}

func observeAll(t *testing.T, h host.Host, w plan.Transition) host.State {
	t.Helper()
	s, err := apply.Observe(t.Context(), h, w.Scope())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAReadOnlyDirectoryKeepsTheOldConfig(t *testing.T) {
	for name, makeWorld := range worlds {
		t.Run(name, func(t *testing.T) {
			w := makeWorld(t)
			h := w.open(t)
			before := w.tree(t)
			c := generate(rand.New(rand.NewPCG(1, 11)))
			p, contents := planOn(t, h, way(t, h, machineconfig.Config{}, c))
			readOnly, _ := hosttest.Wrap(h, hosttest.ReadOnlyPath(host.UnitDir))
			done, err := (apply.Runner{Host: readOnly}).Run(t.Context(), p, contents)
			if err != nil || !errors.Is(done.Why, hosttest.ErrReadOnly) || done.FailedStep == nil {
				t.Fatalf("%+v, %v", done, err)
			}
			end, err := (apply.Runner{Host: h}).Recover(t.Context())
			if err != nil || end.End == apply.RollbackFailed {
				t.Fatalf("%+v, %v", end, err)
			}
			if diff := cmp.Diff(before, w.tree(t)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestAccountsOfPackagesAreKnownBehindTheAdministrators(t *testing.T) {
	m := newMachine()
	m.Put("/usr/lib/passwd", "chrony:x:994:992::/var/lib/chrony:/sbin/nologin\ncore:x:7:7::/:/bin/false")
	m.Put("/usr/lib/group", "chrony:x:992:\n")
	a, err := apply.Accounts(t.Context(), m.Host())
	if err != nil {
		t.Fatal(err)
	}
	if a.Users["chrony"] != (host.Owner{UID: 994, GID: 992}) || a.Groups["chrony"] != 992 ||
		a.Users["core"].UID != 1000 {
		t.Errorf("%+v", a)
	}
}

func TestALinkThatTheJournalCannotHoldIsNotReplaced(t *testing.T) {
	for name, makeWorld := range worlds {
		t.Run(name, func(t *testing.T) {
			w := makeWorld(t)
			h := w.open(t)
			if err := h.Files.Link("/etc/motd", host.Entry{Target: "\xff"}); err != nil {
				t.Fatal(err)
			}
			before := w.tree(t)
			c := machineconfig.Config{}
			c.Ignition.Storage.Files = []ign.File{{Node: ign.Node{Path: "/etc/motd"}}}
			p, contents := planOn(t, h, way(t, h, machineconfig.Config{}, c))
			if _, err := (apply.Runner{Host: h}).Run(t.Context(), p, contents); err == nil {
				t.Error("no error")
			}
			if diff := cmp.Diff(before, w.tree(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
