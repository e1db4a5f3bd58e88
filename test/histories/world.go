package histories

import (
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Setup is what a history begins with.
type Setup struct {
	// Pools with their machines.
	Pools []Pool
	// Policies are the RolloutPolicies, each as its first variant; a step may put another one in its place.
	Policies [][]v1alpha1.RolloutPolicySpec
	// Apps are how many pods of each app may be missing at a time; PerNode is how many pods begin on each machine.
	Apps    []int
	PerNode int
	// Host is the node that the controllers run on; empty where it is not known.
	Host string
	// Secrets has a bit for each config that refers to secrets, by number, and 32 bits later one for each whose secrets
	// servers resolve late.
	Secrets uint64
	// Downloads has a bit for each config that has remote files, by number, and 32 bits later one for each machine
	// whose daemon downloads them before it is told the config.
	Downloads uint64
	// Mercy has a bit for each disturbance that does not stop in the end.
	Mercy uint64
}

// Pool is a MachineConfigPool, all of whose machines run its first config.
type Pool struct {
	// Name is master, worker, arbiter, or that of a custom pool.
	Name string
	// Machines is how many there are, Zones over how many zones they are spread; 0 is none.
	Machines, Zones int
	// Budget is a number in the table of budgets; 0 is none.
	Budget int
}

// budgets are the values of maxUnavailable that are tried.
var budgets = []intstr.IntOrString{
	intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("34%"), intstr.FromString("100%"), intstr.FromInt32(3),
	intstr.FromString("10%"), intstr.FromInt32(0),
}

var zones = []string{"", "a", "b", "c"}

// noon of a Monday is when every history begins.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// world is a cluster and all that is around it.
type world struct {
	setup Setup
	core  Core
	now   time.Time
	api   server
	proc  *process
	git   []commit
	// made are all configs that were ever rendered, order is their order.
	made  map[string]*config
	order []*config

	machines []*machine
	pods     podset
	surroundings
	witness
}

// surroundings are what gates see beside the nodes, and the policies.
type surroundings struct {
	// gate is what the pool-wide gates answer: 0 open, 1 nothing, 2 failed.
	gate  int
	vault vault
	// sick are the nodes on which the DaemonSet's pod is not ready.
	sick map[string]bool
	// policies are the objects, edition counts their changes.
	policies []v1alpha1.RolloutPolicy
	edition  int
	// elapsed is the time that passed, however the clock was set.
	elapsed time.Duration
	// furthest is the latest that the clock ever was.
	furthest time.Time
}

// witness remembers what rules are about, and tells.
type witness struct {
	ledger ledger
	tale   tale
}

// newWorld sets a cluster up: every machine runs the first config of its pool.
func newWorld(s Setup, core Core) *world {
	w := &world{setup: s, core: core, now: noon, api: newServer(), made: map[string]*config{}, git: []commit{{}}}
	w.vault = newVault()
	w.sick, w.ledger, w.pods.refused = map[string]bool{}, newLedger(), map[string]bool{}
	for _, p := range s.Pools {
		first := w.make(p.Name, rebooted, sound, 0)
		w.git[0][p.Name] = first.name
		pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Annotations: map[string]string{},
			Labels: map[string]string{"pool": p.Name},
		}}
		pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{roleLabel + p.Name: ""}}
		if p.Budget > 0 {
			pool.Spec.MaxUnavailable = &budgets[p.Budget-1]
		}
		pool.Status.Configuration.Name = first.name
		w.api.putPool(pool)
		w.render(p.Name)
		for i := range p.Machines {
			if len(w.machines) == maxMachines {
				break
			}
			m := &machine{
				number: len(w.machines), name: machineName(len(w.machines)), pool: p.Name,
				disk: disk{inForce: w.targetOf(first.name)}, member: p.hasEtcd(),
			}
			if p.Zones > 0 {
				m.zone = zones[1+i%min(p.Zones, len(zones)-1)]
			}
			w.machines = append(w.machines, m)
			hardware{w}.join(m, true)
		}
	}
	for i, spare := range s.Apps {
		w.pods.apps = append(w.pods.apps, app{name: fmt.Sprintf("app%d", i), spare: spare})
	}
	for i, m := range w.machines {
		for k := range s.PerNode {
			if len(s.Apps) > 0 {
				w.pods.add(w.pods.apps[(i+k)%len(s.Apps)].name, m.name)
			}
		}
	}
	for i := range s.Policies {
		w.policies = append(w.policies,
			v1alpha1.RolloutPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("policy%d", i)},
				Spec:       s.Policies[i][0],
			})
	}
	w.proc = newProcess(w)
	return w
}

// editPolicy puts a variant of a policy in its place.
func (w people) editPolicy(i, variant int) {
	if i >= len(w.policies) || variant >= len(w.setup.Policies[i]) {
		return
	}
	w.policies[i].Spec = w.setup.Policies[i][variant]
	w.edition++
	w.tell("somebody edits RolloutPolicy %s: %s", w.policies[i].Name, describePolicy(w.policies[i].Spec))
}

// tale is the story of a history.
type tale struct {
	on    bool
	lines []line
	// stirs counts what happened, also where nobody listens.
	stirs int
}

type line struct {
	at   time.Time
	text string
}

// tell adds a sentence to the story.
func (w *world) tell(format string, args ...any) {
	w.tale.stirs++
	if w.tale.on {
		w.tale.lines = append(w.tale.lines, line{w.now, fmt.Sprintf(format, args...)})
	}
}
