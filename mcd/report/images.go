package report

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Images says how far a node is with the images of its PinnedImageSets.
type Images struct {
	// Sets are the sets of the node; none if it unpins its images.
	Sets []*mcfgv1.PinnedImageSet
	// Done is true if the node has and pins all images.
	Done bool
	// Problem is why it cannot pull or pin an image now; empty if there is no problem.
	Problem string
}

// maxSetError is the maximum number of characters of an error in the status of a set.
const maxSetError = 2000

// Status returns the conditions of a MachineConfigNode, and its list of sets. The time of a condition stays if the
// condition does not change.
func (i Images) Status(was []metav1.Condition,
	now metav1.Time,
) ([]metav1.Condition, []mcfgv1.MachineConfigNodeStatusPinnedImageSet) {
	progressing := metav1.Condition{
		Type:   string(mcfgv1.MachineConfigNodePinnedImageSetsProgressing),
		Status: metav1.ConditionTrue, Reason: "ImagePrefetch", Message: "The node pulls images of its PinnedImageSets",
	}
	degraded := metav1.Condition{
		Type:   string(mcfgv1.MachineConfigNodePinnedImageSetsDegraded),
		Status: metav1.ConditionFalse, Reason: "AsExpected", Message: "No image has a problem",
	}
	switch {
	case i.Done && len(i.Sets) == 0:
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionFalse, "AsExpected",
			"The node has no PinnedImageSets"
	case i.Done:
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionFalse, "AsExpected",
			"The node has all images of its PinnedImageSets"
	case i.Problem != "":
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, "PrefetchFailed",
			truncate(i.Problem, maxSetError)
	}
	conditions := []metav1.Condition{progressing, degraded}
	for n := range conditions {
		c := &conditions[n]
		c.LastTransitionTime = now
		for _, old := range was {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	var sets []mcfgv1.MachineConfigNodeStatusPinnedImageSet
	for _, s := range i.Sets {
		is := mcfgv1.MachineConfigNodeStatusPinnedImageSet{
			Name:              s.Name,
			DesiredGeneration: int32(s.Generation),
		} //nolint:gosec // generations are small
		if i.Done {
			is.CurrentGeneration = is.DesiredGeneration
		} else if i.Problem != "" {
			is.LastFailedGeneration, is.LastFailedGenerationError = is.DesiredGeneration,
				truncate(i.Problem, maxSetError)
		}
		sets = append(sets, is)
	}
	return conditions, sets
}
