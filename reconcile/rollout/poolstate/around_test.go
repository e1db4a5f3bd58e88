package poolstate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// poolAt is a pool of a source, at a revision, with a target and what all its nodes ran last.
func poolAt(source, revision, target, ran string) *mcfgv1.MachineConfigPool {
	p := pool("p", nil)
	p.Annotations = map[string]string{v1alpha1.SourceAnnotation: source, v1alpha1.RevisionAnnotation: revision}
	p.Spec.Configuration.Name, p.Status.Configuration.Name = target, ran
	return p
}

// peopled gives a pool nodes, and the record of a rollout that has ended or has not.
func peopled(p *mcfgv1.MachineConfigPool, ended bool) *mcfgv1.MachineConfigPool {
	p.Status.MachineCount = 3
	r := v1alpha1.RolloutRecord{Config: p.Spec.Configuration.Name, Began: metav1.NewTime(noon)}
	if ended {
		r.Ended = &r.Began
	}
	p.Annotations[v1alpha1.RolloutAnnotation] = r.String()
	return p
}

// TestWhenAPoolThatComesFirstIsDone says what of two pools is compared.
func TestWhenAPoolThatComesFirstIsDone(t *testing.T) {
	own := poolAt("fleet", "main@sha1:b", "w2", "w1")
	for sentence, tc := range map[string]struct {
		other *mcfgv1.MachineConfigPool
		why   string // empty: done
	}{
		"it runs what the same commit wants of it":             {poolAt("fleet", "main@sha1:b", "m2", "m2"), ""},
		"a commit that changed nothing for it counts":          {poolAt("fleet", "main@sha1:b", "m1", "m1"), ""},
		"it is on its way":                                     {poolAt("fleet", "main@sha1:b", "m2", "m1"), "not all of its nodes run m2 yet"},
		"it is at an older commit":                             {poolAt("fleet", "main@sha1:a", "m1", "m1"), "it is at main@sha1:a, this pool is at main@sha1:b"},
		"nothing is rendered for it":                           {poolAt("fleet", "main@sha1:b", "", ""), "nothing is rendered"},
		"it is of another source, whose commits mean no more":  {poolAt("base", "main@sha1:z", "m1", "m1"), ""},
		"it is of no source":                                   {poolAt("", "", "m1", "m1"), ""},
		"its nodes run it, and a gate holds one":               {peopled(poolAt("fleet", "main@sha1:b", "m2", "m2"), false), "not all of its nodes are healthy with m2 yet"},
		"its nodes were all well with it":                      {peopled(poolAt("fleet", "main@sha1:b", "m2", "m2"), true), ""},
		"there is no such pool":                                {nil, "there is no such pool"},
		"it is of another source, and on its way all the same": {poolAt("base", "main@sha1:z", "m2", "m1"), "not all of its nodes run m2 yet"},
	} {
		t.Run(sentence, func(t *testing.T) {
			a := poolstate.NewAhead(own, "master", tc.other)
			if a.Pool != "master" || a.Done != (tc.why == "") || !strings.Contains(a.Why, tc.why) {
				t.Errorf("got %+v, want %q", a, tc.why)
			}
		})
	}
}

// TestWhoComesFirst: the masters come before the arbiter.
func TestWhoComesFirst(t *testing.T) {
	p := schedule.Pace{After: []string{"infra"}}
	if got := poolstate.AheadOf("worker", p); !slices.Equal(got, []string{"infra"}) {
		t.Errorf("worker waits for %v", got)
	}
	if got := poolstate.AheadOf("arbiter", p); !slices.Equal(got, []string{"infra", "master"}) || len(p.After) != 1 {
		t.Errorf("arbiter waits for %v", got)
	}
}

// TestMastersAndArbiterWaitForEachOther: two of the three stay in service, and never do both wait for the other.
func TestMastersAndArbiterWaitForEachOther(t *testing.T) {
	states := map[string]poolstate.Node{
		"in service":         {State: v1alpha1.StateDone, Config: poolstate.Configs{Current: version("v0"), Desired: version("v0")}},
		"at work":            {State: v1alpha1.StateWorking, Config: poolstate.Configs{Current: version("v0"), Desired: version("v1")}},
		"failed":             {State: v1alpha1.StateDegraded, Config: poolstate.Configs{Current: version("v0"), Desired: version("v1")}},
		"drifted":            {State: v1alpha1.StateDegraded, Config: poolstate.Configs{Current: version("v0"), Desired: version("v0")}},
		"short of disk":      {State: v1alpha1.StateDone, Config: poolstate.Configs{Current: version("v0"), Desired: version("v0")}, Health: poolstate.Health{Trouble: "short of disk space"}},
		"not Ready":          {State: v1alpha1.StateDone, Config: poolstate.Configs{Current: version("v0"), Desired: version("v0")}, Health: poolstate.Health{Trouble: "not Ready", NotReady: true}},
		"cordoned":           {State: v1alpha1.StateDone, Config: poolstate.Configs{Current: version("v0"), Desired: version("v0")}, Cordon: poolstate.Cordon{Unschedulable: true}},
		"failed, cordoned":   {State: v1alpha1.StateDegraded, Config: poolstate.Configs{Current: version("v0"), Desired: version("v1")}, Cordon: poolstate.Cordon{Unschedulable: true, For: "v1"}},
		"without a report":   {},
		"at work and closed": {State: v1alpha1.StateWorking, Config: poolstate.Configs{Current: version("v0"), Desired: version("v1")}, Cordon: poolstate.Cordon{Unschedulable: true, For: "v1"}},
	}
	for master, m := range states {
		for arbiter, a := range states {
			masters := poolstate.Counts{Machines: 1}.With(&m, version("v1"), 0) // the other master is in service
			arbiters := poolstate.Counts{}.With(&a, version("v1"), 0)
			at := fmt.Sprintf("a master %s, the arbiter %s", master, arbiter)
			waits := map[string]bool{}
			for _, pool := range []string{"master", "arbiter", "worker"} {
				waits[pool] = poolstate.NewQuorum(pool, masters, arbiters) != ""
			}
			in := func(state string) bool { return state == "in service" || state == "failed" }
			cordoned := func(state string) bool { return strings.HasSuffix(state, "cordoned") }
			first := cordoned(master) && (cordoned(arbiter) || arbiter == "drifted")
			if want := !in(arbiter) && !first; waits["master"] != want {
				t.Errorf("%s: the masters wait: %v, want %v", at, waits["master"], want)
			}
			if want := !in(master) && master != "drifted"; waits["arbiter"] != want {
				t.Errorf("%s: the arbiter waits: %v, want %v", at, waits["arbiter"], want)
			}
			if waits["worker"] {
				t.Errorf("%s: the workers wait", at)
			}
		}
	}
	if poolstate.NewQuorum("arbiter", poolstate.Counts{Machines: 1}, poolstate.Counts{Machines: 1}) == "" {
		t.Error("the arbiter does not wait for a master that is missing")
	}
	if got := poolstate.NewQuorum("arbiter", poolstate.Counts{}, poolstate.Counts{Machines: 1}); got != "" {
		t.Errorf("without masters, the arbiter waits: %s", got)
	}
}

// TestASharedBudgetIsOfAllPoolsTogether: a percentage is of all their nodes, and the own places are not counted as used
// by others.
func TestASharedBudgetIsOfAllPoolsTogether(t *testing.T) {
	pools := map[string]poolstate.Counts{
		"worker": {Machines: 50, Places: 3}, "infra": {Machines: 30, Places: 2},
		"gpu": {Machines: 20}, "edge": {Machines: 1, Places: 1},
	}
	got, err := poolstate.NewShared(schedule.Together{Policy: "all", Max: intstr.FromString("10%")}, "worker", pools)
	if diff := gocmp.Diff(poolstate.Shared{
		Policy: "all", Max: 10, Used: 3, Who: "edge 1, infra 2",
		Pools: []string{"edge", "infra"},
	}, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]int{"1%": 1, "0": 1, "200%": 202, "7": 7} {
		if got, err := poolstate.NewShared(schedule.Together{Max: intstr.Parse(text)}, "worker",
			pools); got.Max != want ||
			err != nil {
			t.Errorf("%s comes to %d, %v; want %d", text, got.Max, err, want)
		}
	}
	if _, err := poolstate.NewShared(schedule.Together{Policy: "all", Max: intstr.FromString("many")}, "worker",
		pools); err == nil || !strings.Contains(err.Error(), `"many" of RolloutPolicy "all"`) {
		t.Errorf("error %v", err)
	}
}

// TestReadFacts reads a pool with everything on it, and says of everything that cannot be read that it cannot.
func TestReadFacts(t *testing.T) {
	p := poolAt("fleet", "main@sha1:b", "v1", "v0")
	p.Name, p.Spec.Paused, p.Spec.MaxUnavailable = "worker", true, new(intstr.FromString("50%"))
	p.Annotations[v1alpha1.RolloutAnnotation] = v1alpha1.RolloutRecord{
		Config: "v1", Began: metav1.NewTime(noon),
		Steps: 2, Healthy: "v0",
	}.String()
	p.Annotations[v1alpha1.OpenUntilAnnotation] = "2026-01-02T13:00:00Z"
	p.Annotations[v1alpha1.RetryAnnotation] = "yesterday"
	p.Status.Configuration.Name = "v1" // as an empty pool has it, which was well with nothing
	f := poolstate.Read(p, nil, poolstate.Published{}, 8)
	if f.Pool != "worker" || f.Target != version("v1") || !f.Paused || f.MaxUnavailable != 4 ||
		f.Care.Healthy != version("v0") ||
		f.Care.Record.Steps != 2 ||
		f.Care.OpenUntil.Hour() != 13 || !f.Care.RetryAt.IsZero() || f.Care.Invalid+f.Care.Lost != "" {
		t.Errorf("got %+v", f)
	}
	p.Annotations[v1alpha1.RolloutAnnotation], p.Spec.MaxUnavailable = "{", new(intstr.FromString("half"))
	bad := v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "careful"}}
	bad.Spec.Windows = []v1alpha1.MaintenanceWindow{{Schedule: "never", Duration: metav1.Duration{Duration: 3600e9}}}
	f = poolstate.Read(p, []v1alpha1.RolloutPolicy{bad}, poolstate.Published{}, 8)
	if f.Care.Record.Config != "" || f.Care.Healthy != version("v1") ||
		!strings.Contains(f.Care.Lost, v1alpha1.RolloutAnnotation) {
		t.Errorf("lost: %q, healthy %q", f.Care.Lost, f.Care.Healthy)
	}
	for _, want := range []string{`"half"`, "careful", "spec.windows[0].schedule"} {
		if !strings.Contains(f.Care.Invalid, want) {
			t.Errorf("%q does not name %s", f.Care.Invalid, want)
		}
	}
}
