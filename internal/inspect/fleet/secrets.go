package fleet

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// published returns what a cluster says about the secrets of a pool's configs. Only the controller reads whether a config
// refers to secrets, so published reads its condition.
func published(c Cluster, pool *mcfgv1.MachineConfigPool) poolstate.Published {
	blocked := (&Pool{Object: pool}).Condition(rolloutBlocked)
	waits := blocked.Status == corev1.ConditionTrue && blocked.Reason == string(rollout.CauseSecrets)
	return poolstate.Published{Revisions: c.Secrets, Refers: func(string) bool { return waits }}
}
