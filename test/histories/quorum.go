package histories

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// withQuorum adds what happens to members of etcd and to the disks of their nodes. Each history with masters has etcd
// on them, and on the arbiter.
func withQuorum(h History) History {
	g := generator{rand.New(rand.NewPCG(h.Seed, 0x65746364))}
	if !slices.ContainsFunc(h.Setup.Pools, func(p Pool) bool { return p.hasEtcd() }) {
		return h
	}
	for range g.IntN(6) {
		s := Step{Verb: []Verb{Member, Member, Pressure}[g.IntN(3)], A: g.IntN(g.machines(h.Setup)), B: g.IntN(2)}
		h.Steps = slices.Insert(h.Steps, g.IntN(len(h.Steps)+1), s)
	}
	return h
}

func (p Pool) hasEtcd() bool { return p.Name == membership.Master || p.Name == poolstate.ArbiterPool }

// etcd are the members on machines. One whose machine is gone for good stays a member until somebody removes it.
type etcd struct{ *world }

// lives tells whether the machine's member serves.
func (m *machine) lives() bool { return m.member && m.power == up && !m.memberDown }

// count has how many members there are, and how many of them serve.
func (w etcd) count() (members, live int) {
	for _, m := range w.machines {
		if m.member {
			members++
		}
		if m.lives() {
			live++
		}
	}
	return members, live
}

// needsAll tells whether a member does not serve, and no further one may be missing.
func (w etcd) needsAll() bool {
	members, live := w.count()
	return live < members && live-1 < members/2+1
}

// reports are what the daemons of machines that run say about the members.
func (w etcd) reports() map[string]v1alpha1.DaemonReport {
	members, live := w.count()
	reports := map[string]v1alpha1.DaemonReport{}
	for _, m := range w.machines {
		if m.member && m.power == up {
			reports[m.name] = v1alpha1.DaemonReport{
				Seen: metav1.NewTime(w.now),
				Etcd: &v1alpha1.EtcdReport{Members: members, Healthy: live, Down: m.memberDown},
			}
		}
	}
	return reports
}

// forget takes the members of machines that are gone out of etcd.
func (w etcd) forget() {
	for _, m := range w.machines {
		if m.member && m.power == removed {
			m.member = false
			w.tell("somebody removes the member of %s from etcd", m.name)
		}
	}
}

// setMember and setPressure play what happens to one machine.
func (w people) setMember(m *machine, down bool) {
	if m.member && m.memberDown != down {
		m.memberDown = down
		w.tell("the member of etcd on %s %s", m.name, map[bool]string{true: "stops", false: "serves again"}[down])
		w.proc.news() // a pool that waits for etcd asks again every minute
	}
}

func (w people) setPressure(m *machine, on bool) {
	if n := w.api.nodes[m.name]; n == nil || (len(n.Status.Conditions) > 1) == on {
		return
	}
	w.tell("%s %s", m.name, map[bool]string{true: "is short of disk space", false: "has disk space again"}[on])
	w.api.editNode(m.name, func(n *corev1.Node) {
		n.Status.Conditions = n.Status.Conditions[:1:1]
		if on {
			c := w.pressure()
			n.Status.Conditions = append(n.Status.Conditions, c)
		}
	})
}

func (w people) pressure() corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now),
	}
}

// quorum: whoever etcd needs stays in service, and the masters and their arbiter are never away together.
func (v verdict) quorum() {
	etcd := etcd{v.world}
	for i := range v.f.Nodes {
		n := &v.f.Nodes[i]
		_, told := v.told[n.Name]
		m := truth{v.world}.machineOf(n.Name)
		if !told || n.Config.Current == v.decision.Target || m == nil {
			continue
		}
		members, live := etcd.count()
		if m.lives() && etcd.needsAll() {
			v.breaks(KeptQuorum, "%s is told %s: %d of %d members of etcd serve, and its own is one of them", n.Name,
				v.decision.Target, live, members)
		}
		if dead := n.Health.NotReady && !m.lives(); dead {
			continue
		}
		other := map[string]string{poolstate.ArbiterPool: membership.Master, membership.Master: poolstate.ArbiterPool}
		if away := v.awayIn(other[v.f.Pool]); away != "" {
			v.breaks(KeptQuorum, "%s of pool %s is told %s while %s is away", n.Name, v.f.Pool, v.decision.Target, away)
		}
	}
}

// awayIn names a node of a pool that is at work or not Ready, as the watches show it. The arbiter waits for cordoned
// masters too.
func (v verdict) awayIn(pool string) string {
	for _, m := range v.machines {
		seen := v.proc.seen(m.name)
		if pool == "" || seen.of == nil || seen.pool != pool {
			continue
		}
		n := seen.read
		atWork := n.Config.Current != n.Config.Desired && !failing(&n)
		if atWork || n.Health.NotReady || pool == membership.Master && n.Cordon.Unschedulable {
			return m.name
		}
	}
	return ""
}

// short tells whether a pool may have to wait for a quorum for long.
func (w truth) short(f poolstate.Facts) bool {
	if f.Care.Around.Quorum == "" {
		return false
	}
	if etcd(w).needsAll() || f.Pool == membership.Master && w.noArbiter() {
		return true
	}
	masters := 0
	for _, m := range w.machines {
		n := w.api.nodes[m.name]
		if n == nil || w.poolOf(n) == nil || w.poolOf(n).Name != membership.Master {
			continue
		}
		masters++
		if read := poolstate.ReadNode(n); out(&read) && f.Pool == poolstate.ArbiterPool {
			return true
		}
	}
	return f.Pool == poolstate.ArbiterPool && masters == 1
}
