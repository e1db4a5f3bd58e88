package histories

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// maxMachines is how many machines a history has at most, those that join later counted.
const maxMachines = 12

// power is whether a machine runs.
type power int

const (
	up power = iota
	// goingDown: it reboots, and the cluster has not noticed.
	goingDown
	// down: it reboots, and its node is not Ready.
	down
	// lost: it does not come back by itself.
	lost
	// removed for good.
	removed
)

// machine is the hardware below a node, its disk and its daemon's memory.
type machine struct {
	number int
	name   string
	zone   string
	pool   string // that its labels name when its node is made
	power  power
	// ill: its kubelet has trouble of its own.
	ill bool
	// member: it runs a member of etcd; memberDown: that does not serve.
	member, memberDown bool
	disk
	// doing is the config whose steps are under way; after a reboot it has to be confirmed, or given up.
	doing string
	// failed is the config that was tried last and did not work.
	failed string
	rejection
	// tries counts failures in a row.
	tries int
	// drifted: somebody changed what its config put there.
	drifted bool
}

// disk is what a machine keeps on its disk.
type disk struct {
	// inForce is the config in force, before is the one before that, and fetched is the one whose secrets it got last.
	inForce, before, fetched string
	// files are the configs whose remote files it has; cutOff: it cannot reach the server of files.
	files  []string
	cutOff bool
}

// rejection is what a daemon keeps of a config that its machine did not live with.
type rejection struct {
	// verdict is the config that it does not try again, since verdictAt.
	verdict   string
	verdictAt time.Time
}

func machineName(number int) string { return fmt.Sprintf("n%02d", number) }

// hardware plays machines and their kubelets.
type hardware struct{ *world }

// join makes the machine's Node, as a kubelet does that finds none.
func (w hardware) join(m *machine, seeded bool) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: m.name, CreationTimestamp: metav1.NewTime(w.now), Labels: w.labels(m), Annotations: map[string]string{},
	}}
	if seeded {
		setConfig(n, v1alpha1.CurrentConfigAnnotation, v1alpha1.CurrentSecretsAnnotation, m.inForce)
		assign(n, m.inForce)
		n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDone
	}
	n.Status.Conditions = []corev1.NodeCondition{w.ready(corev1.ConditionTrue)}
	w.api.putNode(n)
}

func (w hardware) labels(m *machine) map[string]string {
	labels := map[string]string{roleLabel + m.pool: ""}
	if m.pool != "master" && m.pool != "arbiter" {
		labels[roleLabel+"worker"] = ""
	}
	if m.zone != "" {
		labels[corev1.LabelTopologyZone] = m.zone
	}
	return labels
}

// roleLabel is the prefix of labels that pools select by.
const roleLabel = "node-role.kubernetes.io/"

func (w hardware) ready(status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status,
		LastTransitionTime: metav1.NewTime(w.now.Truncate(time.Second)),
	}
}

// health tells the cluster how the machine is.
func (w hardware) health(m *machine, status corev1.ConditionStatus) {
	n := w.api.nodes[m.name]
	if n == nil || n.Status.Conditions[0].Status == status {
		return
	}
	w.api.editNode(m.name, func(n *corev1.Node) { n.Status.Conditions[0] = w.ready(status) })
	word := map[corev1.ConditionStatus]string{
		corev1.ConditionTrue: "is Ready", corev1.ConditionFalse: "is not Ready",
		corev1.ConditionUnknown: "stops reporting",
	}[status]
	w.tell("%s %s", m.name, word)
}

// hardware does the machine's next thing: a reboot goes on, pods end and begin. A quick reboot is not noticed.
func (w hardware) act(m *machine, quick bool) {
	switch m.power {
	case goingDown:
		if !quick {
			m.power = down
			w.health(m, corev1.ConditionUnknown)
			return
		}
		w.boot(m)
	case down:
		w.boot(m)
	case lost:
		w.health(m, corev1.ConditionUnknown)
	case up:
		if w.dies(m) {
			m.power = lost
			w.tell("%s dies in %s", m.name, m.inForce)
			return
		}
		if w.api.nodes[m.name] == nil {
			w.join(m, false)
			w.tell("%s registers anew, without annotations", m.name)
		}
		if m.ill {
			w.health(m, corev1.ConditionFalse)
		} else {
			w.health(m, corev1.ConditionTrue)
		}
		w.pods.live(w.world, m)
	}
}

// dies tells that a machine has what it dies of, and was not told yet to leave it.
func (w hardware) dies(m *machine) bool {
	c, n := w.configOf(m.inForce), w.api.nodes[m.name]
	if c == nil || n == nil || !c.hits(m) || c.ails != doomed {
		return false
	}
	read := poolstate.ReadNode(n)
	return done(&read) && read.Config.Current == v1alpha1.ParseConfigVersion(c.name)
}

// boot ends a reboot, with what the machine went down for.
func (w hardware) boot(m *machine) {
	c := w.configOf(m.doing)
	switch {
	case c == nil:
	case c.hits(m) && c.ails == dead:
		m.power = lost
		w.tell("%s does not come back", m.name)
		w.health(m, corev1.ConditionUnknown)
		return
	case c.hits(m) && c.ails == rejected:
		m.verdict, m.verdictAt = c.name, w.now
		w.tell("%s came up in %s, did not live with it, and goes back to %s", m.name, c.name, m.inForce)
	default:
		m.inForce, m.before, m.drifted = c.name, m.inForce, false
		w.tell("%s comes up in %s", m.name, c.name)
	}
	m.doing, m.power = "", up
}

// configOf is a config that exists or did: a machine keeps what it has on disk.
func (w *world) configOf(name string) *config { return w.made[name] }
