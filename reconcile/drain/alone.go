package drain

import (
	"slices"

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
