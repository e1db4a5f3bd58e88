package agent_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// secretCrash is one way of a node with secrets that is disturbed after each of its changes.
type secretCrash struct {
	// paths refer to secrets; from and to are the assignments before and while the daemon crashes.
	paths    []string
	from, to string
	// server is the revision that servers have while the daemon crashes.
	server string
	// ill: the machine is not healthy with the new files.
	ill bool
}

var secretCrashes = map[string]secretCrash{
	"the first secrets, with a reload":         {[]string{policyFile}, "rendered-a", "rendered-s@r1", "r1", false},
	"the first secrets, with a reboot":         {[]string{keyFile, policyFile}, "rendered-a", "rendered-s@r1", "r1", false},
	"a rotation, with a reload":                {[]string{policyFile}, "rendered-s@r1", "rendered-s@r2", "r2", false},
	"a rotation, with a reboot":                {[]string{keyFile, policyFile}, "rendered-s@r1", "rendered-s@r2", "r2", false},
	"a bad rotation, with a reload":            {[]string{policyFile}, "rendered-s@r1", "rendered-s@r2", "r2", true},
	"a bad rotation, with a reboot":            {[]string{keyFile, policyFile}, "rendered-s@r1", "rendered-s@r2", "r2", true},
	"the secrets of a config without revision": {[]string{policyFile}, "rendered-s", "rendered-s@r1", "r1", false},
	"a config without secrets":                 {[]string{policyFile}, "rendered-s@r1", "rendered-b", "r1", false},
}

// TestNoCrashLosesOrLeaksASecret lets the daemon crash after each k-th change of whatever kind, with and without a
// power cut: while it stores the contents, plans, applies, checks, reports and removes contents. Then the servers are
// away, if the machine has the contents or the update has begun. Each machine ends in the desired config, or in the one
// before it if it is not healthy, with exactly the contents of it.
func TestNoCrashLosesOrLeaksASecret(t *testing.T) {
	crashes, cuts := 0, 0
	for says, c := range secretCrashes {
		for how, cut := range map[string]bool{"killed": false, "power cut": true} {
			t.Run(says+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					for k := 0; c.run(t, k, cut); k++ {
						if crashes++; cut {
							cuts++
						}
					}
				})
			})
		}
	}
	t.Logf("%d crashes, %d of them with a power cut", crashes, cuts)
}

// run disturbs a way after k changes. It returns false if the daemon was done before.
func (c secretCrash) run(t *testing.T, k int, cut bool) (crashed bool) {
	r, v := secretRig(t, c.paths...)
	l := r.watched()
	_, v.revision, _ = strings.Cut(c.from, "@")
	r.c.desireAt(c.from)
	r.must(r.settle())
	if c.ill {
		l.kubeletDies = poison{policyFile, "r2"}
	}
	v.revision = c.server
	r.c.desireAt(c.to)
	h, count := hosttest.Wrap(r.m.Host(), hosttest.CrashAfter(k))
	r.start(h)
	for range 10 { // It is drained, may reboot, is checked and uncordoned.
		if _, err := syncOnce(t.Context(), r.a); errors.Is(err, agent.ErrRebooting) && count.N <= k {
			r.start(h)
		}
	}
	if crashed = count.N > k; crashed && cut {
		r.m.PowerCut(rand.New(rand.NewPCG(uint64(k), 9)))
	}
	_, known := r.copyOf().Contents[c.to]
	task, err := (state.Files{Host: r.m.Host()}).Task(c.to)
	r.must(err)
	v.down = known || task != nil // An update that has begun needs no server.
	r.start(r.m.Host())
	for range 5 {
		if err := r.settle(); err != nil && !errors.Is(err, report.ErrUnreachable) && !strings.Contains(err.Error(),
			"rolled back") && !strings.Contains(err.Error(), "back in") {
			t.Fatalf("after %d changes: %v", k, err)
		}
	}
	where := fmt.Sprintf("after %d changes (the copy had the contents: %t)", k, known)
	c.judge(r, where)
	return crashed
}

// judge compares the machine with what it may be.
func (c secretCrash) judge(r *rig, where string) {
	r.t.Helper()
	want, state := c.to, v1alpha1.StateDone
	if c.ill {
		want, state = c.from, v1alpha1.StateDegraded
	}
	is := report.NodeOf(r.c.annotations)
	if is.State != state || is.Current != want {
		r.t.Fatalf("%s: the node says %s %q, current %s; want %s, current %s", where, is.State, is.Reason, is.Current,
			state, want)
	}
	revision := v1alpha1.ParseConfigVersion(want).Secrets
	for _, p := range c.paths {
		if text := r.disk(p); revision != "" && text != valueAt(p, revision) {
			r.t.Fatalf("%s: %s has %q", where, p, text)
		}
		if kept := string(r.copyOf().Contents[want][p]); revision != "" && kept != valueAt(p, revision) {
			r.t.Fatalf("%s: the copy lost %s: %q", where, p, kept)
		}
	}
	if n := len(r.copyOf().Contents); n > 3 || !c.ill && n > 2 {
		r.t.Fatalf("%s: the copy has the contents of %d configs", where, n)
	}
	if rec, err := r.m.Host().Journal.Load(); rec != nil || err != nil {
		r.t.Fatalf("%s: the journal is left: %v, %v", where, rec, err)
	}
}
