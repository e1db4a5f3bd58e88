package schedule_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
)

func pool(name string, labels ...string) *mcfgv1.MachineConfigPool {
	p := &mcfgv1.MachineConfigPool{}
	p.Name, p.Labels = name, map[string]string{}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		p.Labels[key] = value
	}
	return p
}

// spell is a pace as people would tell it.
func spell(p schedule.Pace) string {
	var parts []string
	add := func(name string, v any) { parts = append(parts, fmt.Sprintf("%s=%v", name, v)) }
	add("policies", p.Policies)
	if p.MaxUnavailable != nil {
		add("max", p.MaxUnavailable)
	}
	if p.PerZone != nil {
		add("zone", p.PerZone)
	}
	for _, t := range p.Together {
		add("together", t.Policy+":"+t.Max.String())
	}
	for _, s := range p.Steps {
		switch {
		case s.Selector != nil:
			add("canary", s.Selector)
		case s.Canary:
			add("canary", s.UpTo.String())
		default:
			add("upTo", s.UpTo.String())
		}
		if s.Soak > 0 {
			add("soak", s.Soak)
		}
	}
	for _, g := range p.Gates {
		add("gate", g.Name)
	}
	if f := p.Failures; f.After > 0 {
		add("failures", fmt.Sprintf("%d %s %s", f.After, f.Action, f.NodeDeadline))
	}
	if len(p.After) > 0 {
		add("after", p.After)
	}
	if p.Windows.Len() > 0 {
		add("windows", p.Windows.Len())
	}
	if d := p.Drain; d.WhenBlocked != "" {
		add("drain", fmt.Sprintf("%s %s", d.WhenBlocked, d.After))
	}
	return strings.Join(parts, " ")
}

const plain = " failures=1 Halt 0s drain=Wait 1h0m0s"

// What several policies come to, for the pool worker, whose label tier is edge.
func TestWhatPoliciesComeTo(t *testing.T) {
	for _, c := range []struct {
		sentence string
		policies []string // name: spec
		want     string
	}{
		{"no policy: the plain semantics", nil, "policies=[]"},
		{"a policy for another pool says nothing here", []string{`a: {pools: [master], maxUnavailable: 3}`}, "policies=[]"},
		{"a policy without pools and without a selector is for every pool", []string{`a: {}`}, "policies=[a]" + plain},
		{"a policy whose list of pools is empty is for every pool", []string{`a: {pools: []}`}, "policies=[a]" + plain},
		{"an empty selector selects every pool", []string{`a: {machineConfigPoolSelector: {}}`}, "policies=[a]" + plain},
		{"a pool is selected by its labels, beside those that are named", []string{`a: {pools: [master], machineConfigPoolSelector: {matchLabels: {tier: edge}}}`}, "policies=[a]" + plain},
		{"a pool is named, beside those that are selected by labels", []string{`a: {pools: [worker], machineConfigPoolSelector: {matchLabels: {tier: core}}}`}, "policies=[a]" + plain},
		{"other labels select nothing", []string{`a: {machineConfigPoolSelector: {matchLabels: {tier: core}}}`}, "policies=[]"},
		{"a policy that names the pool before one that selects it by labels, and that before one for all", []string{`a: {maxUnavailable: 1}`, `b: {machineConfigPoolSelector: {matchLabels: {tier: edge}}, maxUnavailable: 2}`, `c: {pools: [worker], maxUnavailable: 3}`}, "policies=[c b a] max=3" + plain},
		{"among equals, the first by name", []string{`z: {pools: [worker], maxUnavailable: 1}`, `y: {pools: [worker], maxUnavailable: 2}`}, "policies=[y z] max=2" + plain},
		{"each field is taken by itself", []string{`all: {maxUnavailable: 5%, drain: {whenBlocked: MoveOn, after: 20m}, failures: {after: 3}}`, `mine: {pools: [worker], maxUnavailablePerZone: 1, failures: {action: Revert, nodeDeadline: 30m}}`}, "policies=[mine all] max=5% zone=1 failures=1 Revert 30m0s drain=MoveOn 20m0s"},
		{"canary and batches are two fields", []string{`all: {canary: {nodes: 1, soak: 10m}, batches: [{upTo: 10%}]}`, `mine: {pools: [worker], batches: [{upTo: 5, soak: 1m}, {upTo: 50%}]}`}, "policies=[mine all] canary=1 soak=10m0s upTo=5 soak=1m0s upTo=50%" + plain},
		{"a canary by labels", []string{`a: {canary: {nodeSelector: {matchLabels: {canary: "true"}}}}`}, "policies=[a] canary=canary=true" + plain},
		{"gates, windows and what comes first add up", []string{`all: {gates: [{name: a, ready: {for: 1m}}], after: [master, etcd], windows: [{schedule: "@daily", duration: 1h}]}`, `mine: {pools: [worker], gates: [{name: b, ready: {for: 1m}}], after: [infra, master], windows: [{schedule: "@weekly", duration: 1h}]}`}, "policies=[mine all] gate=b gate=a failures=1 Halt 0s after=[etcd infra master] windows=2 drain=Wait 1h0m0s"},
		{"shared budgets add up", []string{`all: {maxUnavailableTogether: 10%}`, `mine: {pools: [worker], maxUnavailableTogether: 2}`}, "policies=[mine all] together=mine:2 together=all:10%" + plain},
		{"gates of one name are told apart", []string{`a: {gates: [{name: settled, ready: {for: 1m}}]}`, `b: {gates: [{name: settled, ready: {for: 2m}}]}`}, "policies=[a b] gate=settled gate=settled (b)" + plain},
		{"the same gate twice is one", []string{`a: {gates: [{name: settled, ready: {for: 1m}}]}`, `b: {gates: [{name: settled, ready: {for: 1m}}]}`}, "policies=[a b] gate=settled" + plain},
		{"a policy for every pool that waits for one of them: that one does not wait for itself", []string{`all: {after: [worker, etcd]}`}, "policies=[all] failures=1 Halt 0s after=[etcd] drain=Wait 1h0m0s"},
		{"a policy that selects no pool here may be wrong", []string{`a: {pools: [master], maxUnavailable: none}`, `b: {pools: [worker]}`}, "policies=[b]" + plain},
	} {
		p, err := schedule.PaceFor(pool("worker", "tier=edge"), read(t, c.policies))
		if err != nil {
			t.Errorf("%s: %v", c.sentence, err)
			continue
		}
		if diff := cmp.Diff(c.want, spell(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.sentence, diff)
		}
	}
}

// The control plane's quorum is nobody's by accident.
func TestOnlyAPolicyThatNamesMasterMayTakeSeveralOfIt(t *testing.T) {
	all, labelled, named := `all: {maxUnavailable: 10}`, `some: {machineConfigPoolSelector: {}, maxUnavailable: 5}`,
		`own: {pools: [worker, master], maxUnavailable: 2}`
	for _, c := range []struct {
		sentence, pool string
		policies       []string
		want           string // empty: the pool's own
	}{
		{"a policy for all pools does not", "master", []string{all}, ""},
		{"nor does one that selects by labels", "master", []string{all, labelled}, ""},
		{"one that names it does", "master", []string{all, labelled, named}, "2"},
		{"any other pool takes it from either", "infra", []string{all, labelled}, "5"},
	} {
		p, err := schedule.PaceFor(pool(c.pool), read(t, c.policies))
		got := ""
		if p.MaxUnavailable != nil {
			got = p.MaxUnavailable.String()
		}
		if got != c.want || err != nil || len(p.Policies) != len(c.policies) {
			t.Errorf("%s: maxUnavailable %q of %v, %v; want %q", c.sentence, got, p.Policies, err, c.want)
		}
	}
}

func read(t *testing.T, specs []string) []v1alpha1.RolloutPolicy {
	t.Helper()
	var out []v1alpha1.RolloutPolicy
	for _, s := range specs {
		name, spec, _ := strings.Cut(s, ": ")
		out = append(out, policyOf(t, name, spec))
	}
	return out
}

func TestAPolicyThatCannotBeReadStopsThePool(t *testing.T) {
	policies := read(t, []string{
		`b: {maxUnavailable: some, windows: [{schedule: nightly, duration: 1h}]}`,
		`a: {machineConfigPoolSelector: {matchExpressions: [{key: tier, operator: Like}]}}`,
		`c: {pools: [worker]}`,
	})
	p, err := schedule.PaceFor(pool("worker"), policies)
	if err == nil {
		t.Fatalf("it is rolled out with %s", spell(p))
	}
	for _, want := range []string{
		"RolloutPolicy b: spec.maxUnavailable: ",
		"RolloutPolicy b: spec.windows[0].schedule: ", "RolloutPolicy a: spec.machineConfigPoolSelector: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// The order in which policies come from the API server decides nothing.
func TestOrderOfPoliciesDoesNotMatter(t *testing.T) {
	policies := read(t, []string{
		`a: {maxUnavailable: 1, gates: [{name: x, ready: {for: 1m}}], after: [z]}`,
		`b: {pools: [worker], maxUnavailable: 2, maxUnavailableTogether: 5, after: [a]}`,
		`c: {pools: [worker], drain: {whenBlocked: Delete}, gates: [{name: y, ready: {for: 1m}}]}`,
		`d: {machineConfigPoolSelector: {}, canary: {nodes: 1}, failures: {after: 7}}`,
	})
	p, err := schedule.PaceFor(pool("worker"), policies)
	if err != nil {
		t.Fatal(err)
	}
	want := spell(p)
	for seed := range int64(20) {
		rand.New(rand.NewSource(seed)).Shuffle(len(policies), func(i, j int) {
			policies[i], policies[j] = policies[j], policies[i]
		})
		if p, err := schedule.PaceFor(pool("worker"), policies); err != nil || spell(p) != want {
			t.Fatalf("%s, %v; want %s", spell(p), err, want)
		}
	}
}

func TestSharedBudgetsCountTheirPools(t *testing.T) {
	p, err := schedule.PaceFor(pool("worker"),
		read(t, []string{
			`a: {maxUnavailableTogether: 3, pools: [worker, infra], machineConfigPoolSelector: {matchLabels: {tier: edge}}}`,
		}))
	if err != nil || len(p.Together) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	for other, want := range map[*mcfgv1.MachineConfigPool]bool{
		pool("worker"): true, pool("infra"): true,
		pool("gpu", "tier=edge"): true, pool("master"): false,
	} {
		if got := p.Together[0].Selects(other); got != want {
			t.Errorf("%s: %v", other.Name, got)
		}
	}
}

func TestWindowsOfAllPoliciesAreOneSet(t *testing.T) {
	p, err := schedule.PaceFor(pool("worker"), read(t, []string{
		`a: {windows: [{name: night, schedule: "0 1 * * *", duration: 4h, timeZone: Europe/Berlin}]}`,
		`b: {pools: [worker], windows: [{name: noon, schedule: "0 12 * * *", duration: 1h}, {name: first, kind: Deny, schedule: "0 0 1 * *", duration: 24h, from: "2025-02-01T00:00:00Z", until: "2026-01-01T00:00:00Z"}]}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[string]schedule.WindowState{
		"2025-01-01T01:00:00Z": {Open: true, Window: "night", Until: time.Date(2025, 1, 1, 4, 0, 0, 0, time.UTC)},
		"2025-01-01T12:00:00Z": {Open: true, Window: "noon", Until: time.Date(2025, 1, 1, 13, 0, 0, 0, time.UTC)},
		"2025-02-01T12:00:00Z": {Window: "first", Until: time.Date(2025, 2, 2, 0, 0, 0, 0, time.UTC)},
	} {
		at, _ := time.Parse(time.RFC3339, now)
		if diff := cmp.Diff(want, p.Windows.At(at)); diff != "" {
			t.Errorf("at %s (-want +got):\n%s", now, diff)
		}
	}
}

func TestSizeOfAStep(t *testing.T) {
	for _, c := range []struct {
		sentence    string
		upTo        string
		nodes, want int
	}{
		{"a number is itself", "3", 10, 3},
		{"a number may be more than there are", "30", 10, 30},
		{"a percentage is rounded up", "10%", 11, 2},
		{"a percentage of few is one", "1%", 3, 1},
		{"all are all", "100%", 7, 7},
		{"of no node, it is still one", "10%", 0, 1},
	} {
		if got := (schedule.Step{UpTo: intstr.Parse(c.upTo)}).Size(c.nodes); got != c.want {
			t.Errorf("%s: %s of %d is %d, want %d", c.sentence, c.upTo, c.nodes, got, c.want)
		}
	}
}

func TestPoolsThatWaitForEachOther(t *testing.T) {
	for _, c := range []struct {
		sentence string
		after    string // a: b c, d: a
		want     string
	}{
		{"nobody waits", "", ""},
		{"a chain is no cycle", "a: b, b: c", ""},
		{"a diamond is no cycle", "a: b c, b: d, c: d", ""},
		{"two wait for each other", "a: b, b: a", "a b"},
		{"one waits for itself", "a: a", "a"},
		{"three wait in a ring", "c: a, a: b, b: c", "a b c"},
		{"who waits for a ring is not of it", "a: b, b: c, c: b", "b c"},
		{"a ring behind what is done", "a: b c, b: d, c: d e, e: c", "c e"},
	} {
		after := map[string][]string{}
		for _, line := range strings.Split(c.after, ", ") {
			if name, others, ok := strings.Cut(line, ": "); ok {
				after[name] = strings.Fields(others)
			}
		}
		if got := strings.Join(schedule.Cycle(after), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.sentence, got, c.want)
		}
	}
}

// TestCycleIsOne: what is found is a cycle, and where nothing is found, the pools can be put in order.
func TestCycleIsOne(t *testing.T) {
	found := 0
	for seed := range int64(500) {
		r := rand.New(rand.NewSource(seed))
		after := map[string][]string{}
		for i := range 8 {
			for range r.Intn(3) {
				after[fmt.Sprint(i)] = append(after[fmt.Sprint(i)], fmt.Sprint(r.Intn(9)))
			}
		}
		cycle := schedule.Cycle(after)
		for i, name := range cycle {
			if next := cycle[(i+1)%len(cycle)]; !slices.Contains(after[name], next) {
				t.Fatalf("seed %d: %s does not wait for %s in %v", seed, name, next, after)
			}
		}
		if (cycle == nil) != ordered(after) {
			t.Fatalf("seed %d: cycle %v of %v", seed, cycle, after)
		}
		found += len(cycle)
	}
	if found < 100 {
		t.Errorf("hardly any cycle: %d", found)
	}
}

// ordered takes pools away that wait for none, as long as there are any.
func ordered(after map[string][]string) bool {
	left := map[string][]string{}
	for name, others := range after {
		left[name] = others
	}
	for again := true; again; {
		again = false
		for name, others := range left {
			if !slices.ContainsFunc(others, func(o string) bool { return left[o] != nil }) {
				delete(left, name)
				again = true
			}
		}
	}
	return len(left) == 0
}
