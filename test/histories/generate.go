package histories

import (
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// History is a cluster and what happens to it. The same history gives the same story each time that it is played.
type History struct {
	Seed  uint64
	Setup Setup
	Steps []Step
}

// Random makes the history of a seed.
func Random(seed uint64) History {
	g := generator{rand.New(rand.NewPCG(seed, 0x62756e73656e))}
	h := History{Seed: seed, Setup: g.setup()}
	for range 3 + g.IntN(9) {
		h.Steps = append(h.Steps, g.event(h.Setup)...)
		for range g.IntN(8) {
			h.Steps = append(h.Steps, g.round(h.Setup)...)
		}
	}
	return withQuorum(withDownloads(withSecrets(h)))
}

// generator is where chance comes from.
type generator struct{ *rand.Rand }

func (g generator) one(in int) bool { return g.IntN(in) == 0 }

// clusters are pools that are found together.
var clusters = [][]string{
	{"worker"},
	{"infra"},
	{"worker", "infra"},
	{"worker", "master"},
	{"worker", "infra", "db"},
	{"master", "arbiter"},
	{"worker", "master", "arbiter"},
}

// setup of one to three pools.
func (g generator) setup() Setup {
	var s Setup
	left := maxMachines - 2
	for _, name := range clusters[g.IntN(len(clusters))] {
		p := Pool{Name: name, Machines: min(left, g.IntN(6)), Zones: g.IntN(4), Budget: g.IntN(len(budgets) - 1)}
		if name == "arbiter" {
			p.Machines = min(p.Machines, 1)
		}
		left -= p.Machines
		s.Pools = append(s.Pools, p)
	}
	for range g.IntN(3) {
		s.Apps = append(s.Apps, g.IntN(4))
	}
	s.PerNode = g.IntN(3)
	if g.one(3) {
		s.Host = machineName(0)
	}
	if !g.one(3) {
		for range 1 + g.IntN(2) {
			s.Policies = append(s.Policies, g.variants(s.Pools))
		}
	}
	if g.one(2) {
		s.Mercy = g.Uint64() & g.Uint64() & g.Uint64() // an eighth of the disturbances goes on
	}
	return s
}

// variants of one policy; the first counts at the beginning.
func (g generator) variants(pools []Pool) []v1alpha1.RolloutPolicySpec {
	out := []v1alpha1.RolloutPolicySpec{g.policy(pools)}
	for range g.IntN(3) {
		out = append(out, g.policy(pools))
	}
	return out
}

// policy that says a few things.
func (g generator) policy(pools []Pool) v1alpha1.RolloutPolicySpec {
	var p v1alpha1.RolloutPolicySpec
	if g.one(2) {
		p.Pools = []string{pools[g.IntN(len(pools))].Name}
	}
	for range 1 + g.IntN(4) {
		aspects[g.IntN(len(aspects))](g, &p, pools)
	}
	return p
}

// soak of some minutes, or none.
func (g generator) soak() metav1.Duration {
	return metav1.Duration{Duration: time.Duration(g.IntN(4)*5) * time.Minute}
}

func (g generator) count() *intstr.IntOrString {
	few := []intstr.IntOrString{
		intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("20%"),
		intstr.FromString("50%"),
	}
	return &few[g.IntN(len(few))]
}

// aspects are what a policy can say.
var aspects = []func(generator, *v1alpha1.RolloutPolicySpec, []Pool){
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) { p.MaxUnavailable = g.count() },
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) { p.MaxUnavailablePerZone = g.count() },
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) { p.MaxUnavailableTogether = g.count() },
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) {
		p.Canary = &v1alpha1.RolloutCanary{Nodes: g.count(), Soak: g.soak()}
	},
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) {
		zone := zones[1+g.IntN(len(zones)-1)]
		p.Canary = &v1alpha1.RolloutCanary{NodeSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"topology.kubernetes.io/zone": zone},
		}, Soak: g.soak()}
	},
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) {
		p.Batches = []v1alpha1.RolloutBatch{{UpTo: intstr.FromString("40%"), Soak: g.soak()}}
		if g.one(2) {
			p.Batches = append(p.Batches, v1alpha1.RolloutBatch{UpTo: intstr.FromString("70%"), Soak: g.soak()})
		}
	},
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) {
		p.Failures = &v1alpha1.FailureBudget{After: int32(1 + g.IntN(3)), Action: v1alpha1.FailureHalt}
		if g.one(2) {
			p.Failures.Action = v1alpha1.FailureRevert
		}
		if g.one(2) {
			p.Failures.NodeDeadline = &metav1.Duration{Duration: 20 * time.Minute}
		}
	},
	func(g generator, p *v1alpha1.RolloutPolicySpec, pools []Pool) {
		if len(p.Pools) > 0 && len(pools) > 1 {
			p.After = []string{pools[g.IntN(len(pools))].Name}
		}
	},
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) {
		w := v1alpha1.MaintenanceWindow{
			Name: "hourly", Schedule: "30 * * * *",
			Duration: metav1.Duration{Duration: 20 * time.Minute}, Kind: v1alpha1.WindowAllow,
		}
		if g.one(3) {
			w.Name, w.Kind = "not now", v1alpha1.WindowDeny
		}
		p.Windows = []v1alpha1.MaintenanceWindow{w}
	},
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) {
		p.Drain = &v1alpha1.DrainPolicy{
			WhenBlocked: v1alpha1.DrainMoveOn,
			After:       metav1.Duration{Duration: 10 * time.Minute},
		}
		if g.one(2) {
			p.Drain.WhenBlocked = v1alpha1.DrainDelete
		}
	},
	func(g generator, p *v1alpha1.RolloutPolicySpec, _ []Pool) {
		gates := []v1alpha1.HealthGate{
			{Name: "ready", Ready: &v1alpha1.ReadyGate{For: metav1.Duration{Duration: 5 * time.Minute}}},
			{Name: "agents", DaemonSets: []v1alpha1.ObjectName{{Namespace: "kube-system", Name: "agent"}}},
			{Name: "smoke", Job: &v1alpha1.JobGate{CronJob: v1alpha1.ObjectName{Namespace: "tests", Name: "smoke"}}},
			{Name: "errors", Prometheus: &v1alpha1.PrometheusGate{URL: "http://prometheus.monitoring.svc:9090", Query: "up"}},
		}
		p.Gates = append(p.Gates, gates[g.IntN(len(gates))])
	},
}

// weights of what happens between rounds; the verbs that are not here are clockwork.
var weights = map[Verb]int{
	Push: 30, Revert: 8, Tick: 25, Restart: 8, Vanish: 2, Remake: 2,
	Cordon: 14, Uncordon: 8, Pause: 4, Resume: 6, DeleteNode: 5, AddNode: 7, Move: 4, Budget: 3, Policy: 6,
	Shut: 6, Open: 6, Gate: 5, NodeGate: 4, RetryNode: 4, RetryPool: 5, OpenUntil: 3, Ill: 6, Well: 6, Drift: 3,
	Mend: 3, Repair: 5,
}

// event is something that clockwork does not do, with what follows from it.
func (g generator) event(s Setup) []Step {
	total := 0
	for v := range verbs {
		total += weights[v]
	}
	k, verb := g.IntN(total), Verb(0)
	for v := range verbs {
		if k -= weights[v]; k < 0 {
			verb = v
			break
		}
	}
	step := Step{Verb: verb, A: g.IntN(maxMachines), B: g.IntN(2)}
	switch verb {
	case Push:
		return g.push(s)
	case Revert:
		step.A = 1 + g.IntN(3)
		return append([]Step{step}, g.renders(s)...)
	case Tick:
		step.B = []int{60, 300, 700, 1300, 1900, 4000, 8000, 40000, -600, -7200}[g.IntN(10)]
	case Vanish, Remake:
		step.A = g.IntN(6)
	case Pause, Resume, AddNode, RetryPool, Budget, OpenUntil:
		step.A = g.IntN(len(s.Pools))
		step.B = map[Verb]int{AddNode: g.IntN(4), Budget: g.IntN(len(budgets)), OpenUntil: 60}[verb]
		step.C = max(0, g.IntN(5)-2)
	case Move:
		step.B, step.C = g.IntN(len(s.Pools)), max(0, g.IntN(6)-4)
	case Shut, Open:
		step.A = g.IntN(3)
	case Policy:
		step.A, step.B = g.IntN(2), g.IntN(3)
	case Gate:
		step.B = g.IntN(3)
	}
	return []Step{step}
}

// push of a new config, two times in five a bad one.
func (g generator) push(s Setup) []Step {
	which := 1 + g.IntN(1<<len(s.Pools)-1)
	ails := 0
	if g.IntN(5) < 2 {
		ails = 1 + g.IntN(len(ailNames)-1)
	}
	on := g.IntN(1 << maxMachines)
	if g.one(2) {
		on = 1<<maxMachines - 1
	}
	return append([]Step{{Push, which, g.IntN(3) + 3*ails, on}}, g.renders(s)...)
}

// renders follow a commit; now and then not for every pool at once.
func (g generator) renders(s Setup) []Step {
	var out []Step
	for i := range s.Pools {
		if !g.one(8) {
			out = append(out, Step{Verb: Render, A: i})
		}
	}
	return out
}

// round lets the clockwork go on, in any order, with watches that lag now and then.
func (g generator) round(s Setup) []Step {
	var out []Step
	hear := func() int {
		if g.one(4) {
			return g.IntN(4)
		}
		return hearNodes | hearPools
	}
	for i := range s.Pools {
		for range 1 + g.IntN(4) {
			out = append(out, Step{Verb: Sync, A: i, B: hear()})
		}
		if g.one(6) {
			out = append(out, Step{Verb: Render, A: i})
		}
	}
	for i := range g.machines(s) {
		for _, v := range []Verb{Daemon, Drain, Machine, Daemon} {
			if g.one(4) {
				continue
			}
			step := Step{Verb: v, A: i}
			switch v {
			case Drain:
				step.B = hear()
			case Machine:
				step.B = g.IntN(2)
			}
			out = append(out, step)
		}
	}
	if g.one(4) { // people do not wait for the clockwork
		out = append(out, g.event(s)[0])
	}
	g.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return append(out, Step{Verb: Tick, B: 10 + g.IntN(90)})
}

// machines are how many there may be: one more than at the beginning may have joined.
func (g generator) machines(s Setup) int {
	n := 1
	for _, p := range s.Pools {
		n += p.Machines
	}
	return min(n, maxMachines)
}
