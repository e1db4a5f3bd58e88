package apply_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/policy"
)

var reloads = []policy.Action{{Type: policy.ActionDaemonReload}, {Type: policy.ActionReload, Service: "crio.service"}, {Type: policy.ActionRestart, Service: "chronyd.service"}}

var reboot = policy.Action{Type: policy.ActionReboot}

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
					if left, _ := planOn(t, h, plan.Way{From: "x", To: "rendered-b", Old: step.New, New: step.New}); len(left.Steps) > 0 {
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
				if diff := cmp.Diff(before.String(), after.String()); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
			}
		})
	}
}

func observeAll(t *testing.T, h host.Host, w plan.Way) host.State {
	t.Helper()
	s, err := apply.Observe(t.Context(), h, w.Scope())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// crashCase is one transition that is interrupted everywhere.
type crashCase struct {
	from, to machineconfig.Config
	actions  []policy.Action
}

// crashCases are fewer on a disk that syncs.
func crashCases(world string) []crashCase {
	var cases []crashCase
	n := map[string]uint64{"in memory": 20, "rooted": 4}[world]
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 11))
		c := crashCase{from: generate(r), to: generate(r), actions: reloads}
		if seed%2 == 1 {
			c.actions = []policy.Action{reboot}
		}
		cases = append(cases, c)
	}
	return cases
}

// TestACrashAnywhereEndsInTheOldOrTheNewConfig kills the daemon after every k-th change of whatever kind (file, unit, OS,
// journal, store, power), starts another one, and kills that too on its first changes, until one lives.
func TestACrashAnywhereEndsInTheOldOrTheNewConfig(t *testing.T) {
	verbs := map[host.Verb]int{}
	for name, makeWorld := range worlds {
		t.Run(name, func(t *testing.T) {
			crashes, olds, news := 0, 0, 0
			for _, c := range crashCases(name) {
				newTree := treeAfter(t, makeWorld(t), c)
				for k := 0; ; k++ {
					w := makeWorld(t)
					h := w.open(t)
					bring(t, h, named(way(t, h, machineconfig.Config{}, c.from), "rendered-a"))
					oldTree := w.tree(t)
					p, contents := planOn(t, h, way(t, h, c.from, c.to, c.actions...))
					for _, s := range p.Steps {
						verbs[s.Verb]++
					}
					dying, count := hosttest.Wrap(h, hosttest.CrashAfter(k))
					first, _ := (apply.Runner{Host: dying}).Run(t.Context(), p, contents)
					end := recoverAlways(t, w, k)
					switch tree := w.tree(t); tree {
					case newTree:
						news++
					case oldTree:
						olds++
					default:
						t.Fatalf("crash after %d: neither old nor new (%s, %v):\n%s", k, end.End, end.Why, cmp.Diff(oldTree, tree))
					}
					if rec, err := w.open(t).Journal.Load(); rec != nil || err != nil {
						t.Fatalf("crash after %d: the journal is left: %v %v", k, rec, err)
					}
					if count.N <= k {
						if first.End != apply.New && first.End != apply.Rebooting {
							t.Fatalf("without a crash the update ended %+v", first)
						}
						break
					}
					crashes++
				}
			}
			t.Logf("%d crashes on a host %s: %d ended in the old config, %d in the new", crashes, name, olds, news)
		})
	}
	for _, v := range []host.Verb{host.Write, host.Remove, host.MakeLink, host.MakeDir, host.SetUser, host.DropUser, host.SetGroup, host.DropGroup, host.WriteRecord, host.Enable, host.Disable, host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions, host.DaemonReload, host.Reload, host.Restart, host.Reboot} {
		if verbs[v] == 0 {
			t.Errorf("no plan had the verb %s", v)
		}
	}
}

// recoverAlways starts daemons: the first ones die early, the last one lives. A reboot that is asked for happens.
func recoverAlways(t *testing.T, w world, seed int) apply.Applied {
	t.Helper()
	for try := range 4 {
		h := w.open(t)
		if try < 2 {
			h, _ = hosttest.Wrap(h, hosttest.CrashAfter((seed*7+try*3)%5))
		}
		end, err := (apply.Runner{Host: h}).Recover(t.Context())
		if try < 2 || end.End == apply.Rebooting {
			continue
		}
		if err != nil || end.End == apply.Between {
			t.Fatalf("recovering: %+v, %v", end, err)
		}
		return end
	}
	t.Fatal("it never came to rest")
	return apply.Applied{}
}

// treeAfter is the machine after the transition, undisturbed.
func treeAfter(t *testing.T, w world, c crashCase) string {
	t.Helper()
	h := w.open(t)
	bring(t, h, named(way(t, h, machineconfig.Config{}, c.from), "rendered-a"))
	p, contents := planOn(t, h, way(t, h, c.from, c.to, c.actions...))
	if _, err := (apply.Runner{Host: h}).Run(t.Context(), p, contents); err != nil {
		t.Fatal(err)
	}
	if end := recoverAlways(t, w, 0); end.End == apply.Old {
		t.Fatal(end.Why)
	}
	return w.tree(t)
}

func TestAnyStepThatFailsTakesAllBack(t *testing.T) {
	for name, makeWorld := range worlds {
		t.Run(name, func(t *testing.T) {
			failures := 0
			for _, c := range crashCases(name) {
				for n := 1; ; n++ {
					w := makeWorld(t)
					h := w.open(t)
					bring(t, h, named(way(t, h, machineconfig.Config{}, c.from), "rendered-a"))
					oldTree := w.tree(t)
					p, contents := planOn(t, h, way(t, h, c.from, c.to, c.actions...))
					failing, count := hosttest.Wrap(h, hosttest.FailNth(n))
					done, err := (apply.Runner{Host: failing}).Run(t.Context(), p, contents)
					if count.N < n {
						break
					}
					failures++
					if done.End == apply.New {
						continue // what failed was tidying up
					}
					if !errors.Is(errors.Join(err, done.Why), hosttest.ErrInjected) {
						t.Fatalf("failure %d is not told: %+v, %v", n, done, err)
					}
					if done.End != apply.Old {
						t.Fatalf("failure %d ended %+v, %v", n, done, err)
					}
					if diff := cmp.Diff(oldTree, w.tree(t)); diff != "" {
						t.Fatalf("failure %d left: %s", n, diff)
					}
				}
			}
			t.Logf("%d failures on a host %s, each taken back", failures, name)
		})
	}
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
			if err != nil || !errors.Is(done.Why, hosttest.ErrReadOnly) || done.Stopped == nil {
				t.Fatalf("%+v, %v", done, err)
			}
			end, err := (apply.Runner{Host: h}).Recover(t.Context())
			if err != nil || end.End == apply.Between {
				t.Fatalf("%+v, %v", end, err)
			}
			if diff := cmp.Diff(before, w.tree(t)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestAccountsOfPackagesAreKnownBehindTheAdministrators(t *testing.T) {
	m := hosttest.NewMachine()
	m.Put("/usr/lib/passwd", "chrony:x:994:992::/var/lib/chrony:/sbin/nologin\ncore:x:7:7::/:/bin/false")
	m.Put("/usr/lib/group", "chrony:x:992:\n")
	a, err := apply.Accounts(t.Context(), m.Host())
	if err != nil {
		t.Fatal(err)
	}
	if a.Users["chrony"] != (host.Owner{UID: 994, GID: 992}) || a.Groups["chrony"] != 992 || a.Users["core"].UID != 1000 {
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
