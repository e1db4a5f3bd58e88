package drain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AloneText is the text that says why a pod stays on a node for which IsAlone is true.
const AloneText = "no other node can run it"

// controlPlaneTaints are the taints of control-plane nodes, which ordinary pods do not tolerate.
var controlPlaneTaints = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// IsAlone reports whether the pods of a node cannot move to another node of the cluster, because every other node is
// reserved for the control plane. A node that is cordoned or not Ready counts as another node. So the drain waits until
// that node can run pods again, because PodDisruptionBudgets may protect the pods.
func IsAlone(nodes []corev1.Node, name string) bool {
	return !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name != name && !isReserved(n.Spec.Taints) })
}

func isReserved(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && slices.Contains(controlPlaneTaints, t.Key)
	})
}

// Left says which pods a drain leaves on a node for which IsAlone is true.
type Left struct {
	// Pods is how many pods stay on the node.
	Pods int
	// Budgets are the PodDisruptionBudgets that would have refused the eviction of some of them, as namespace/name.
	Budgets []string
}

// left describes the pods that the drain leaves, if the last report does not say that it leaves them.
func (f Facts) left(verdicts []Verdict) Left {
	var l Left
	if !f.Alone || f.Last.Alone && f.Last.For == f.Config {
		return l
	}
	stay := map[string]bool{}
	for _, v := range verdicts {
		if v.Left {
			stay[v.UID] = true
			l.Pods++
		}
	}
	protected := map[string]int32{}
	for _, p := range f.Pods {
		if !stay[string(p.Pod.UID)] {
			continue
		}
		for _, b := range selecting(p.Pod, f.Budgets) {
			name := b.Namespace + "/" + b.Name
			if protected[name]++; protected[name] == b.Status.DisruptionsAllowed+1 {
				l.Budgets = append(l.Budgets, name)
			}
		}
	}
	slices.Sort(l.Budgets)
	return l
}

// String returns the text of an event; empty if no pod is left.
func (l Left) String() string {
	if l.Pods == 0 {
		return ""
	}
	text := fmt.Sprintf("%d pods are not evicted, because no other node can run them; they end if the node reboots",
		l.Pods)
	if l.Pods == 1 {
		text = "1 pod is not evicted, because no other node can run it; it ends if the node reboots"
	}
	if len(l.Budgets) == 0 {
		return text
	}
	names := strings.Join(l.Budgets[:min(len(l.Budgets), mostPods)], ", ")
	if more := len(l.Budgets) - mostPods; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return text + ", although PodDisruptionBudgets forbid it: " + names
}
