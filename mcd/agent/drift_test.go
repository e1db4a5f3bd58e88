package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/drift"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// watcher stands for inotify: the test says what it noticed.
type watcher struct {
	paths    []string
	accessed bool
	signal   chan struct{}
}

func (w *watcher) Watch(paths []string) error    { w.paths = paths; return nil }
func (w *watcher) Disturbed() <-chan struct{}    { return w.signal }
func (w *watcher) Accessed() bool                { return w.accessed }
func (w *watcher) Modified(string) (t time.Time) { return t }

func TestDrift(t *testing.T) {
	for _, c := range drifted {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &watched{rig: newRig(t)}
				r.watch(nil)
				r.c.desire("rendered-a")
				r.must(r.settle())
				r.c.told, r.m.Log = nil, nil
				c.check(r)
			})
		})
	}
}

// watched is a node whose cluster has a policy on drift.
type watched struct {
	*rig
	policy drift.Policy
}

// judging is its cluster.
type judging struct {
	*cluster
	of *watched
}

func (j judging) DriftRules(context.Context, string) (drift.Policy, error) {
	return j.of.policy, j.away()
}

// watch starts the daemon anew, with a watcher or none.
func (r *watched) watch(w drift.Watcher) {
	r.a = agent.New(agent.Config{
		Node: "worker-0", Cluster: judging{r.c, r}, Host: r.m.Host(), Drift: w,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(r.t.Output(), &r.log), nil)),
	})
}

// rules are a policy of one rule after the other.
func rules(pairs ...string) (p drift.Policy) {
	for i := 0; i < len(pairs); i += 2 {
		p.Rules = append(p.Rules, drift.Rule{Pattern: pairs[i], Action: v1alpha1.DriftAction(pairs[i+1])})
	}
	return p
}

// reported is what the Node says about drift.
func (r *watched) reported() v1alpha1.Drift {
	var d v1alpha1.Drift
	if text := r.c.annotations[v1alpha1.DriftAnnotation]; text != "" {
		r.must(json.Unmarshal([]byte(text), &d))
	}
	return d
}

// edit is somebody who changes the file that rendered-a is about.
func (r *watched) edit() { r.m.Put(policyFile, "by hand") }

// looks syncs; what it says of that is on the Node.
func (r *watched) looks() { _ = r.settle() }

const policyDiff = drift.ExportDir + "/etc%2Fcontainers%2Fpolicy.json.diff"

// drifted starts from a node that is done with rendered-a.
var drifted = []struct {
	says  string
	check func(*watched)
}{
	{"an edited file degrades the node, which says which; the difference is on the node only", func(r *watched) {
		r.edit()
		r.looks()
		r.c.says(r.t, "Degraded", "rendered-a",
			`unexpected on-disk state validating against rendered-a: content mismatch for file "/etc/containers/policy.json"`)
		is := r.reported()
		if len(is.Items) != 1 || is.Config != "rendered-a" || is.Items[0].Name != policyFile ||
			is.Items[0].Actual.Digest != string(host.DigestOf([]byte("by hand"))) {
			r.t.Errorf("the Node reports %+v", is)
		}
		if diff := r.disk(policyDiff); !strings.Contains(diff, "-a\n") || !strings.Contains(diff, "+by hand\n") {
			r.t.Error(diff)
		}
		if e, err := r.m.Host().Files.Stat(policyDiff); err != nil || e.Mode != 0o600 {
			r.t.Error(e, err)
		}
		if strings.Contains(r.c.annotations[v1alpha1.DriftAnnotation]+r.c.annotations[v1alpha1.ReasonAnnotation]+
			r.log.String(), "by hand") {
			r.t.Error("contents were told")
		}
	}},
	{"drift that heals by itself is forgotten everywhere", func(r *watched) {
		r.edit()
		r.looks()
		r.m.Put(policyFile, "a")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
		if text := r.c.annotations[v1alpha1.DriftAnnotation]; text != "" {
			r.t.Error(text)
		}
		if diff := r.disk(policyDiff); !strings.Contains(diff, "not exist") {
			r.t.Error(diff)
		}
	}},
	{"a repair writes the file back, reloads its service, and the node stays Done", func(r *watched) {
		r.policy = rules("/etc/**", "Repair")
		r.edit()
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
		if r.disk(policyFile) != "a" || !slices.Equal(r.m.Log, []string{"reload crio.service"}) {
			r.t.Errorf("%q, and it did %q", r.disk(policyFile), r.m.Log)
		}
		if text := r.c.annotations[v1alpha1.DriftAnnotation]; text != "" {
			r.t.Error(text)
		}
	}},
	{"a fight is given up, though the daemon starts anew each time", func(r *watched) {
		r.policy = rules("/etc/**", "Repair")
		for range 3 {
			r.edit()
			r.must(r.settle())
			r.watch(nil)
		}
		r.edit()
		r.looks()
		r.c.says(r.t, "Degraded", "rendered-a", "repaired it 3 times", "another program writes it")
		if r.disk(policyFile) != "by hand" {
			r.t.Error(r.disk(policyFile))
		}
	}},
	{"a repair whose service does not reload is taken back and degrades", func(r *watched) {
		r.policy = rules("/etc/**", "Repair")
		r.m.Broken["crio.service"] = true
		r.edit()
		r.looks()
		r.c.says(r.t, "Degraded", "rendered-a", "repairing drift from rendered-a", "crio.service")
		if r.disk(policyFile) != "by hand" {
			r.t.Error(r.disk(policyFile))
		}
	}},
	{
		"what is only reported leaves the node Done, and an update that does not change it leaves it alone",
		func(r *watched) {
			r.c.add(r.t, "rendered-2",
				`"storage":{"files":[{"path":"/etc/containers/policy.json","contents":{"source":"data:,a"}},{"path":"/etc/containers/registries.d/x","contents":{"source":"data:,x"}}]}`)
			r.policy = rules("/etc/**", "Report")
			r.edit()
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-a")
			if is := r.reported(); len(is.Items) != 1 || is.Items[0].Action != v1alpha1.DriftReport {
				r.t.Errorf("%+v", is)
			}
			r.c.desire("rendered-2")
			r.must(r.settle())
			r.c.says(r.t, "Done", "rendered-2")
			if r.disk(policyFile) != "by hand" || r.disk("/etc/containers/registries.d/x") != "x" {
				r.t.Error(r.disk(policyFile))
			}
			if is := r.reported(); len(is.Items) != 1 || is.Config != "rendered-2" {
				r.t.Errorf("%+v", is)
			}
		},
	},
	{"what is ignored is nowhere said, and an update that changes it does", func(r *watched) {
		r.policy = rules("**", "Ignore")
		r.edit()
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
		if len(r.reported().Items) > 0 || !strings.Contains(r.disk(policyDiff), "not exist") {
			r.t.Error("it is said")
		}
		r.c.desire("rendered-b")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
		if r.disk(policyFile) != "b" {
			r.t.Error(r.disk(policyFile))
		}
	}},
	{"what degrades stops the next update; what is to be repaired is repaired first", func(r *watched) {
		r.edit()
		r.c.desire("rendered-b")
		r.looks()
		r.c.says(r.t, "Degraded", "rendered-a", "unexpected on-disk state validating against rendered-a")
		if is := r.reported(); len(is.Items) != 1 || is.Config != "rendered-a" {
			r.t.Errorf("it reports %+v", is)
		}
		// A commit is not the cause, so nobody is told to revert it. What the pool says of it is a plain sentence.
		if f := r.c.failure(r.t); f.Cause != v1alpha1.FailureDrift || f.Config != "rendered-b" ||
			!strings.HasPrefix(f.Problem, policyFile+" was changed by hand (content; ") {
			r.t.Errorf("the failure is %+v", f)
		}
		r.policy = rules("/etc/**", "Repair")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-b")
	}},
	{"a force file overrides drift by a full update, and the report is gone", func(r *watched) {
		r.edit()
		r.looks()
		r.m.Put(host.ForcePath, "")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-a")
		if r.disk(policyFile) != "a" || r.c.annotations[v1alpha1.DriftAnnotation] != "" ||
			!slices.Contains(r.m.Log, "reboot: machine config rendered-a") {
			r.t.Errorf("%q, %q, %q", r.disk(policyFile), r.c.annotations[v1alpha1.DriftAnnotation], r.m.Log)
		}
	}},
	{"while the API server does not answer drift is repaired by the rules that it gave last", func(r *watched) {
		r.policy = rules("/etc/containers/**", "Repair")
		r.must(r.settle())
		r.c.down = report.ErrUnreachable
		r.edit()
		r.looks()
		if r.disk(policyFile) != "a" {
			r.t.Error("it is not repaired:", r.disk(policyFile))
		}
	}},
	{"while the API server does not answer drift is noticed, and told when it answers", func(r *watched) {
		r.c.down = report.ErrUnreachable
		r.edit()
		r.looks()
		if !strings.Contains(r.disk(policyDiff), "+by hand") {
			r.t.Error("it is not noticed")
		}
		r.c.down = nil
		r.looks()
		r.c.says(r.t, "Degraded", "rendered-a", "content mismatch")
		if len(r.reported().Items) != 1 {
			r.t.Error(r.reported())
		}
	}},
	{"a difference that a daemon wrote before it crashed goes when the drift has ended", func(r *watched) {
		original := r.disk(policyFile)
		for n, crashed := 0, true; crashed; n++ {
			r.edit()
			h, count := hosttest.Wrap(r.m.Host(), hosttest.CrashAfter(n))
			r.start(h)
			r.looks()
			crashed = count.N > n
			r.m.Put(policyFile, original)
			r.start(r.m.Host())
			r.must(r.settle())
			if _, err := drift.DiffFound(r.m.Host().Files, policyFile); !errors.Is(err, drift.ErrNoDrift) {
				r.t.Errorf("after %d changes: %v", n, err)
			}
		}
	}},
	{"what is watched are the config's paths, the record and the force file", func(r *watched) {
		w := &watcher{signal: make(chan struct{}, 1)}
		r.watch(w)
		r.must(r.settle())
		for _, p := range []string{policyFile, host.RecordPath, host.ForcePath} {
			if !slices.Contains(w.paths, p) {
				r.t.Errorf("%s is not watched: %q", p, w.paths)
			}
		}
	}},
	{"the links that enable a unit are watched, whoever says in [Install] which they are", func(r *watched) {
		const dropin = `"dropins":[{"name":"10.conf","contents":"[Install]\nUpheldBy=app.target\nAlias=other.service\n"}]`
		r.c.add(r.t, "rendered-u", `"systemd":{"units":[{"name":"vendor.service","enabled":true,`+dropin+`},
		  {"name":"echo@.service","enabled":true,"contents":"[Service]\nExecStart=/bin/a\n[Install]\nRequiredBy=b.target\nDefaultInstance=one\n"}]}`)
		r.c.desire("rendered-u")
		r.must(r.settle())
		r.c.says(r.t, "Done", "rendered-u")
		w := &watcher{signal: make(chan struct{}, 1)}
		r.watch(w)
		r.must(r.settle())
		for _, p := range []string{
			"multi-user.target.wants/vendor.service", "app.target.upholds/vendor.service",
			"other.service", "b.target.requires/echo@one.service",
		} {
			if !slices.Contains(w.paths, host.UnitDir+"/"+p) {
				r.t.Errorf("%s is not watched: %q", p, w.paths)
			}
		}
	}},
	{"somebody who was logged in over SSH is noted once, and for ever", func(r *watched) {
		w := &watcher{signal: make(chan struct{}, 1), accessed: true}
		r.watch(w)
		for range 2 {
			r.must(r.settle())
		}
		if !slices.Equal(r.c.told, []string{"ssh=accessed"}) {
			r.t.Error(r.c.told)
		}
		w.accessed = false
		r.must(r.settle())
		if r.c.annotations[v1alpha1.SSHAnnotation] != "accessed" {
			r.t.Error("it is taken back")
		}
	}},
	{"a login while the API server does not answer is told by the next daemon", func(r *watched) {
		w := &watcher{signal: make(chan struct{}, 1), accessed: true}
		r.watch(w)
		r.c.down = report.ErrUnreachable
		r.looks()
		r.watch(&watcher{signal: make(chan struct{}, 1)})
		r.c.down = nil
		r.must(r.settle())
		if r.c.annotations[v1alpha1.SSHAnnotation] != "accessed" {
			r.t.Error(r.c.told)
		}
	}},
	{"a memory that a power cut emptied is found out again", func(r *watched) {
		r.edit()
		r.looks()
		r.m.Put(drift.ExportDir+"/state.json", "")
		r.looks()
		r.c.says(r.t, "Degraded", "rendered-a", "content mismatch")
	}},
}
