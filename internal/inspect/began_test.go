package inspect_test

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestSinceWhenANodeIsAtItsStep: its MachineConfigNode tells, once it has come as far as the Node.
func TestSinceWhenANodeIsAtItsStep(t *testing.T) {
	for sentence, tc := range map[string]struct {
		step   string
		kind   mcfgv1.StateProgress
		status metav1.ConditionStatus
		known  bool
	}{
		"the files are being written":              {fleet.StepApplying, mcfgv1.MachineConfigNodeUpdateFilesAndOS, metav1.ConditionUnknown, true},
		"the MachineConfigNode is late":            {fleet.StepApplying, mcfgv1.MachineConfigNodeUpdateFilesAndOS, metav1.ConditionFalse, false},
		"the machine reboots":                      {fleet.StepRebooting, mcfgv1.MachineConfigNodeUpdateRebooted, metav1.ConditionUnknown, true},
		"the node failed":                          {fleet.StepFailed, mcfgv1.MachineConfigNodeNodeDegraded, metav1.ConditionTrue, true},
		"it says nothing of that step":             {fleet.StepRebooting, mcfgv1.MachineConfigNodeUpdateFilesAndOS, metav1.ConditionUnknown, false},
		"nobody knows when a node was told":        {fleet.StepTold, mcfgv1.MachineConfigNodeUpdateFilesAndOS, metav1.ConditionUnknown, false},
		"a drain's beginning is on the Node":       {fleet.StepDraining, mcfgv1.MachineConfigNodeUpdateDrained, metav1.ConditionUnknown, false},
		"the node is being opened to pods":         {fleet.StepUncordoning, mcfgv1.MachineConfigNodeUpdateUncordoned, metav1.ConditionUnknown, true},
		"a node that is done is at no step at all": {"", mcfgv1.MachineConfigNodeUpdated, metav1.ConditionTrue, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			var n mcfgv1.MachineConfigNode
			n.Status.Conditions = []metav1.Condition{{
				Type: string(tc.kind), Status: tc.status,
				LastTransitionTime: metav1.NewTime(noon),
			}}
			got := fleet.Began(&n, tc.step)
			if (got != nil) != tc.known || got != nil && !got.Equal(noon) {
				t.Errorf("since %v", got)
			}
		})
	}
}
