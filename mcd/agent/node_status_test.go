package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// published is a StatusPublisher that records each write of a status, unless the status is the same as before.
type published struct {
	spec   mcfgv1.MachineConfigNodeSpec
	status mcfgv1.MachineConfigNodeStatus
	// writes are lines of what was written: `spec`, or the conditions that are not False.
	writes []string
}

// Show implements agent.Board.
func (b *published) Publish(at report.Status) {
	if spec := at.Spec(); spec != b.spec {
		b.spec = spec
		b.writes = append(b.writes, "spec "+spec.ConfigVersion.Desired)
	}
	status := at.ObjectStatus(b.status, 1, metav1.Unix(int64(len(b.writes)), 0))
	if report.SameStatus(b.status, status) {
		return
	}
	b.status = status
	var words []string
	for _, c := range status.Conditions {
		switch c.Status {
		case metav1.ConditionTrue:
			words = append(words, c.Type)
		case metav1.ConditionUnknown:
			words = append(words, c.Type+"?")
		}
	}
	b.writes = append(b.writes, strings.Join(words, " "))
}

// says is what a condition says.
func (b *published) says(kind mcfgv1.StateProgress) string {
	i := slices.IndexFunc(b.status.Conditions, func(c metav1.Condition) bool { return c.Type == string(kind) })
	if i < 0 {
		return "nothing"
	}
	c := b.status.Conditions[i]
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

const (
	prepared    = "UpdatePrepared "
	drainedAway = "Cordoned Drained "
)

// shown are updates with what people see of them, write by write.
var shown = []struct {
	says  string
	do    func(*rig)
	want  []string
	words string // of NodeDegraded
}{
	{"a change in place", func(r *rig) {
		r.c.desire("rendered-b")
		r.must(r.settle())
	}, []string{
		"spec rendered-b", prepared + "UpdateExecuted? AppliedFilesAndOS?",
		prepared + "UpdateExecuted AppliedFilesAndOS UpdatePostActionComplete?", "Updated",
	}, ""},
	{"a drain that waits", func(r *rig) {
		r.c.drains = false
		r.c.desire("rendered-r")
		r.must(r.settle())
		r.c.annotations[v1alpha1.DrainStartedAnnotation] = time.Now().Format(time.RFC3339)
		r.must(r.settle())
	}, []string{
		"spec rendered-r", prepared + "UpdateExecuted? Cordoned? Drained?",
		prepared + "UpdateExecuted? Cordoned Drained?",
	}, ""},
	{"a reboot", func(r *rig) {
		r.c.desire("rendered-r")
		r.must(r.settle())
	}, []string{
		"spec rendered-r", prepared + "UpdateExecuted? Cordoned? Drained?", prepared + "UpdateExecuted? " +
			drainedAway + "AppliedFilesAndOS?",
		prepared + "UpdateExecuted " + drainedAway + "AppliedFilesAndOS UpdatePostActionComplete? RebootedNode?",
		prepared + "UpdateExecuted " + drainedAway + "AppliedFilesAndOS UpdatePostActionComplete? RebootedNode",
		prepared + "UpdateExecuted " + drainedAway + "AppliedFilesAndOS UpdatePostActionComplete RebootedNode " +
			"UpdateComplete Uncordoned? Resumed?", "Updated",
	}, ""},
	{
		"a step that fails, and is tried again and again", func(r *rig) {
			r.m.Broken["crio.service"] = true
			r.c.desire("rendered-b")
			for range 5 {
				if r.settle() == nil {
					r.t.Fatal("no error")
				}
			}
		},
		[]string{"spec rendered-b", prepared + "UpdateExecuted? AppliedFilesAndOS?", prepared + "NodeDegraded"},
		"True RolledBack updating to rendered-b: reload crio.service",
	},
	{
		"a directory in the place of a file, in which another program has files", func(r *rig) {
			r.m.Put("/etc/motd/keep", "of another program")
			r.c.drains = false
			r.c.desire("rendered-r")
			for range 3 {
				if r.settle() == nil {
					r.t.Fatal("no error")
				}
			}
			if r.a.Phase() != report.Blocked {
				r.t.Error(r.a.Phase())
			}
			r.must(r.m.Host().Files.Remove("/etc/motd/keep"))
			r.must(r.settle())
		},
		[]string{"spec rendered-r", "NodeDegraded", prepared + "UpdateExecuted? Cordoned? Drained?"},
		"False NotYetOccurred",
	},
	{"a config that a running node cannot take", func(r *rig) {
		r.c.desire("rendered-d")
		r.must(r.settle())
	}, []string{"spec rendered-d", "NodeDegraded"}, "True Refused the node refused rendered-d, and nothing was " +
		"changed: fips:"},
	{"a config that is not there", func(r *rig) {
		r.c.desire("rendered-none")
		if r.settle() == nil {
			r.t.Fatal("no error")
		}
	}, []string{"spec rendered-none", "NodeDegraded"}, "see kubectl get machineconfig rendered-none"},
	{"a config that the machine does not live with", func(r *rig) {
		r.watched().unitDies = poison{path: "/etc/motd", text: "hi"}
		r.health.Settle, r.health.AfterReboot = 1, 1
		r.c.desire("rendered-r")
		r.must(r.settle())
	}, []string{
		"spec rendered-r", prepared + "UpdateExecuted? Cordoned? Drained?", prepared + "UpdateExecuted? " +
			drainedAway + "AppliedFilesAndOS?",
		prepared + "UpdateExecuted " + drainedAway + "AppliedFilesAndOS UpdatePostActionComplete? RebootedNode?",
		prepared + "UpdateExecuted " + drainedAway + "AppliedFilesAndOS UpdatePostActionComplete? RebootedNode",
		prepared + drainedAway + "RebootedNode? NodeDegraded", prepared + drainedAway + "NodeDegraded",
	}, "True Rejected updating to rendered-r: the machine is not healthy with it: unit"},
	{"drift", func(r *rig) {
		r.m.Put(policyFile, "by hand")
		r.must(r.settle())
	}, []string{"Updated NodeDegraded"}, "True Drifted unexpected on-disk state validating against rendered-a"},
}

func shownRig(t *testing.T) *rig {
	r := newRig(t)
	r.c.add(t, "rendered-r", `"systemd":{"units":[{"name":"u.service","contents":"x"}]},`+file("/etc/motd", "hi"))
	r.c.add(t, "rendered-d", file("/etc/d", ""), func(s *mcfgv1.MachineConfigSpec) { s.FIPS = true })
	r.c.desire("rendered-a")
	r.must(r.settle())
	r.published.writes = nil
	return r
}

func TestPeopleSeeWhereTheDaemonIs(t *testing.T) {
	for _, c := range shown {
		t.Run(c.says, func(t *testing.T) {
			r := shownRig(t)
			c.do(r)
			if diff := cmp.Diff(c.want, r.published.writes); diff != "" {
				t.Error(diff)
			}
			if len(r.published.writes) > 8 {
				t.Errorf("%d writes", len(r.published.writes))
			}
			if !strings.Contains(r.published.says(mcfgv1.MachineConfigNodeNodeDegraded), c.words) {
				t.Error(r.published.says(mcfgv1.MachineConfigNodeNodeDegraded))
			}
			if refused := len(r.published.status.IrreconcilableChanges); (refused > 0) != strings.Contains(c.words,
				"Refused") {
				t.Errorf("%d irreconcilable changes", refused)
			}
			before := r.published.status
			r.published.writes = nil
			for range 3 {
				r.start(r.m.Host())
				_, _ = syncOnce(t.Context(), r.a) // what fails, fails again
			}
			if diff := cmp.Diff(before, r.published.status); diff != "" && !strings.Contains(c.says, "again") {
				t.Errorf("a daemon that was started anew shows something else: %s", diff)
			}
		})
	}
}

// TestADaemonThatWasCutOffShowsWhereItIs kills the daemon after each change of an update with a reboot, and begins with
// an empty status: what is published belongs to that update, and the end is the same.
func TestADaemonThatWasCutOffShowsWhereItIs(t *testing.T) {
	r := shownRig(t)
	r.c.desire("rendered-r")
	r.must(r.settle())
	known := append(r.published.writes, "spec rendered-r", "spec rendered-a",
		prepared+"UpdateExecuted? AppliedFilesAndOS?", prepared+"UpdateExecuted? Cordoned Drained")
	for n := 0; ; n++ {
		r := shownRig(t)
		r.c.desire("rendered-r")
		calls := 0
		h, _ := hosttest.Wrap(r.m.Host(), func(hosttest.Call) error {
			if calls++; calls > n {
				return hosttest.ErrCrashed
			}
			return nil
		})
		r.start(h)
		for range 10 {
			if _, err := syncOnce(t.Context(), r.a); errors.Is(err, agent.ErrRebooting) {
				r.start(h)
			}
		}
		died := calls > n
		r.start(r.m.Host())
		r.published = published{}
		r.must(r.settle())
		for _, w := range r.published.writes {
			if !slices.Contains(known, w) && !strings.HasSuffix(w, "NodeDegraded") && !strings.Contains(w, "Updated") {
				t.Errorf("after %d calls, it shows %q", n, w)
			}
		}
		if last := r.published.writes[len(r.published.writes)-1]; last != "Updated" {
			t.Errorf("after %d calls, it ends with %q", n, last)
		}
		if !died {
			t.Logf("%d places", n)
			return
		}
	}
}
