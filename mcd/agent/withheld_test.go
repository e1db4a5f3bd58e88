package agent_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// What rendered-born keeps secret, and where. The pull secret takes effect by itself; everything else takes a reboot.
const (
	pullPath   = "/var/lib/kubelet/config.json"
	keyPath    = "/etc/app/tls.key"
	dropinPath = "/etc/systemd/system/vendor.service.d/10-db.conf"
	unitPath   = "/etc/systemd/system/sync.service"
)

// born is the Ignition of rendered-born without its version: with the pull secret alone, or with all that is secret.
func born(t *testing.T, secret bool) string {
	t.Helper()
	var files, units, users []map[string]any
	at := func(p, text string) map[string]any {
		return map[string]any{
			"path": p, "mode": 0o600, "overwrite": true,
			"contents": map[string]any{"source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(text))},
		}
	}
	if secret {
		files = append(files, at(keyPath, "-----BEGIN PRIVATE KEY-----\nhunter2"))
		units = append(units,
			map[string]any{
				"name": "sync.service", "enabled": true,
				"contents": "[Service]\nExecStart=/usr/bin/sync --token hunter2\n[Install]\n" +
					"WantedBy=multi-user.target\n",
			},
			map[string]any{
				"name": "vendor.service", "enabled": true,
				"dropins": []any{map[string]any{
					"name":     "10-db.conf",
					"contents": "[Service]\nEnvironment=DB_PASSWORD=hunter2\n",
				}},
			})
		users = append(users, map[string]any{"name": "core", "passwordHash": "$6$salt$hunter2"})
	}
	files = append(files, map[string]any{
		"path": policyFile, "overwrite": true,
		"contents": map[string]any{"source": "data:,a"},
	}, at(pullPath, `{"auths":{"quay.io":{"auth":"hunter2"}}}`))
	text, err := json.Marshal(map[string]any{
		"storage": map[string]any{"files": files},
		"systemd": map[string]any{"units": units}, "passwd": map[string]any{"users": users},
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(text), "{"), "}")
}

// newbornRig is a machine that booted with rendered-born without its secrets; where only the pull secret is withheld,
// with all else.
func newbornRig(t *testing.T, secret bool) *rig {
	r := newRig(t)
	r.c.add(t, "rendered-born", born(t, secret))
	config := r.c.configs["rendered-born"]
	config.Annotations = map[string]string{
		v1alpha1.SecretPathsAnnotation: pullPath + "," + keyPath + "," + "vendor.service,sync.service",
	}
	r.c.configs["rendered-born"] = config
	r.m.Put(policyFile, "a")
	r.seeds("rendered-born")
	return r
}

// seeds puts the seed there, as the server or somebody with a backup writes it.
func (r *rig) seeds(withheld string) {
	r.m.Put(host.InitialAnnotationsPath,
		fmt.Sprintf(
			`{"machineconfiguration.openshift.io/currentConfig":"rendered-born","machineconfiguration.openshift.io/desiredConfig":"rendered-born","machineconfiguration.openshift.io/state":"Done","bunsen.dev/withheld":%q}`, withheld))
}

// secrets tells how many of the withheld things are on the machine.
func (r *rig) secrets() (n int) {
	for _, p := range []string{pullPath, keyPath, dropinPath, unitPath, "/etc/shadow"} {
		if strings.Contains(r.disk(p), "hunter2") {
			n++
		}
	}
	return n
}

func TestAMachineGetsWhatWasWithheldAfterItHasJoined(t *testing.T) {
	for _, c := range newborns {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newbornRig(t, c.secret)
				c.check(r)
				if t.Failed() {
					return
				}
				said := r.log.String() + fmt.Sprint(r.events, r.c.told, r.published.writes, r.published.status,
					r.counts)
				if strings.Contains(said, "hunter2") {
					t.Errorf("a secret was told: %s", said)
				}
			})
		})
	}
}

var newborns = []struct {
	says   string
	secret bool
	check  func(*rig)
}{
	{"what disturbs nothing is added at once, without asking anybody", false, func(r *rig) {
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-born")
		want := []string{
			"withheld=rendered-born", "currentConfig=rendered-born", "desiredConfig=rendered-born",
			"reason=adding the secrets of rendered-born, which the server withheld when this machine first booted",
			"state=Working",
			"withheld=", "reason=", "state=Done",
		}
		if !slices.Equal(r.c.told, want) || len(r.m.Log) != 0 {
			r.t.Errorf("it said %q, want %q; it did %q", r.c.told, want, r.m.Log)
		}
		if r.secrets() != 1 || strings.Contains(r.disk(host.InitialAnnotationsPath), "withheld") ||
			!strings.Contains(r.disk(host.InitialAnnotationsPath), "currentConfig") {
			r.t.Errorf("the machine is\n%s", r.tree())
		}
	}},
	{
		"what takes a reboot goes the ordinary way: drained, rebooted, open again, and only then done", true,
		func(r *rig) {
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-born")
			text := strings.Join(r.c.told, "; ")
			at := -1
			for _, step := range []string{
				"state=Working", "desiredDrain=drain-rendered-born",
				"post-config-action=Rebooting", "desiredDrain=uncordon-rendered-born", "withheld=;", "state=Done",
			} {
				next := strings.Index(text, step)
				if next < at || next < 0 {
					r.t.Errorf("%s is not in its place: %s", step, text)
				}
				at = next
			}
			if r.secrets() != 5 || !strings.Contains(r.tree(), "enabled sync.service") ||
				!slices.Contains(r.m.Log, "reboot: machine config rendered-born") {
				r.t.Errorf("%q\n%s", r.m.Log, r.tree())
			}
		},
	},
	{"nothing is added before the drain is acknowledged, and the node says that it works and why", true, func(r *rig) {
		r.c.drains = false
		r.must(r.settle())
		r.c.says(r.t, "Working", "rendered-born", "adding the secrets of rendered-born")
		if r.secrets() != 0 || r.a.Phase() != report.Draining || r.published.says("Updated") != "False Updating the "+
			"node does not have all of rendered-born yet" {
			r.t.Error(r.a.Phase(), r.published.says("Updated"), r.tree())
		}
	}},
	{"a file that somebody edited before is drift: nothing is done until it is right again", true, func(r *rig) {
		r.m.Put(policyFile, "edited")
		if err := r.settle(); err == nil {
			r.t.Fatal("no error")
		}
		r.c.says(r.t, "Degraded", "rendered-born", "unexpected on-disk state validating against rendered-born",
			policyFile)
		if reason := r.c.annotations[v1alpha1.ReasonAnnotation] +
			r.c.annotations[v1alpha1.DriftAnnotation]; strings.Contains(reason, keyPath) ||
			strings.Contains(reason, pullPath) || r.secrets() != 0 {
			r.t.Error("what was withheld is told as drift: " + reason)
		}
		r.m.Put(policyFile, "a")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-born")
		if r.secrets() != 5 {
			r.t.Error(r.tree())
		}
	}},
	{
		"an image's own file in the place of a secret is no drift, and comes back when no config names it", false,
		func(r *rig) {
			r.m.Put(pullPath, `{"auths":{}}`)
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-born")
			if r.secrets() != 1 {
				r.t.Error(r.disk(pullPath))
			}
			r.c.desire("rendered-a")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-a")
			if r.disk(pullPath) != `{"auths":{}}` {
				r.t.Error(r.disk(pullPath))
			}
		},
	},
	{"a node that is sent to another config at once goes there, without the secrets of the first", true, func(r *rig) {
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
		if r.secrets() != 0 || r.disk(policyFile) != "b" || strings.Contains(r.disk(host.InitialAnnotationsPath),
			"withheld") || r.c.annotations[v1alpha1.WithheldAnnotation] != "" {
			r.t.Error(r.tree(), r.c.told)
		}
	}},
	{"the seed that is put back later does nothing: what is edited then is drift", false, func(r *rig) {
		r.must(r.settle())
		r.seeds("rendered-born")
		r.m.Put(pullPath, "edited")
		r.start(r.m.Host())
		_ = r.settle()
		r.c.says(r.t, "Degraded", "rendered-born", pullPath)
		if r.disk(pullPath) != "edited" {
			r.t.Error(r.disk(pullPath))
		}
		r.m.Put(pullPath, `{"auths":{"quay.io":{"auth":"hunter2"}}}`)
		r.must(chmod(r.m, pullPath))
		r.must(r.settle())
		if r.c.says(r.t, "Done", "rendered-born"); strings.Contains(r.disk(host.InitialAnnotationsPath), "withheld") {
			r.t.Error(r.disk(host.InitialAnnotationsPath))
		}
	}},
	{"a record that is removed later does not bring the mark back", false, func(r *rig) {
		r.must(r.settle())
		r.must(r.m.Host().Files.Remove(host.RecordPath))
		r.m.Put(pullPath, "edited")
		r.start(r.m.Host())
		_ = r.settle()
		r.c.says(r.t, "Degraded", "rendered-born", pullPath)
	}},
	{"a mark of another config counts for nothing: what is missing is drift", false, func(r *rig) {
		r.seeds("rendered-other")
		_ = r.settle()
		r.c.says(r.t, "Degraded", "rendered-born", pullPath, "received nothing")
	}},
	{"an API server that goes away after the drain does not keep the secrets away", true, func(r *rig) {
		r.c.downAt("post-config-action", errRefused)
		r.rest()
		if r.secrets() != 5 || !strings.Contains(r.disk(host.RecordPath), "rendered-born") {
			r.t.Error(r.tree())
		}
		r.c.down = nil
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-born")
	}},
	{
		"a machine that does not live with its secrets goes back, says so, and tries again when it is asked", true,
		func(r *rig) {
			l := r.watched()
			l.unitDies = poison{unitPath, "hunter2"}
			r.must(r.settle())
			r.c.says(r.t, "Degraded", "rendered-born", "the machine is not healthy with it",
				"back in rendered-born as it was before")
			if r.secrets() != 0 || r.a.Phase() != report.Rejected {
				r.t.Error(r.a.Phase(), r.tree())
			}
			l.unitDies = poison{}
			r.c.annotations[v1alpha1.RetryAnnotation] = "2100-01-02T03:04:05Z"
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-born")
			if r.secrets() != 5 {
				r.t.Error(r.tree())
			}
		},
	},
	{"a Node that is made anew meanwhile is told again what the machine lacks", true, func(r *rig) {
		r.c.drains = false
		r.must(r.settle())
		clear(r.c.annotations)
		r.c.told, r.c.drains = nil, true
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-born")
		if !slices.Contains(r.c.told, "withheld=rendered-born") || r.secrets() != 5 {
			r.t.Error(r.c.told)
		}
	}},
}

// chmod gives a file the mode that the config says.
func chmod(m *hosttest.Machine, p string) error {
	is, err := m.Host().Files.Stat(p)
	if err != nil {
		return err
	}
	text, err := m.Host().Files.Read(p)
	if err != nil {
		return err
	}
	is.Mode = 0o600
	return m.Host().Files.Write(p, is, text)
}

// TestACrashWhileWhatWasWithheldIsAddedLeavesNothingBehind kills the daemon, or the machine, after each change that it
// makes.
func TestACrashWhileWhatWasWithheldIsAddedLeavesNothingBehind(t *testing.T) {
	for says, secret := range map[string]bool{"in place": false, "with a reboot": true} {
		for how, power := range map[string]bool{"the daemon is killed": false, "the machine loses power": true} {
			t.Run(says+", "+how, func(t *testing.T) {
				want := ""
				places := 0
				for k := 0; ; k++ {
					r := newbornRig(t, secret)
					n, dead := 0, false
					h, _ := hosttest.Wrap(r.m.Host(), func(hosttest.Call) error {
						if n++; n > k && k > 0 {
							dead = true
						}
						if dead {
							return hosttest.ErrCrashed
						}
						return nil
					})
					r.start(h)
					for range 20 {
						_, err := syncOnce(t.Context(), r.a)
						if dead || err == nil && len(r.c.changed) == 0 {
							break
						}
						if errors.Is(err, agent.ErrRebooting) {
							r.start(h)
						}
						select {
						case <-r.c.changed:
						default:
						}
					}
					if dead && power {
						r.m.PowerCut(rand.New(rand.NewPCG(uint64(k), 7)))
					}
					r.start(r.m.Host())
					r.must(r.settle())
					r.whole(&want, k)
					if k > 0 && !dead {
						break
					}
					places = k
				}
				t.Logf("%d places", places)
			})
		}
	}
}

// whole compares a machine that was disturbed with one that was not.
func (r *rig) whole(want *string, k int) {
	r.t.Helper()
	r.c.says(r.t, "Done", "rendered-born")
	if *want == "" {
		*want = r.tree()
	}
	if r.tree() != *want || r.c.annotations[v1alpha1.WithheldAnnotation] != "" ||
		r.events.has(report.EventDriftDetected) {
		r.t.Fatalf("after %d changes: %q\n%s\nwant\n%s", k, r.c.told, r.tree(), *want)
	}
}
