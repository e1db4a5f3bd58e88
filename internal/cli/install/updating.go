package install

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Updating returns the names of the nodes whose daemons are in an update or are about to start an update. A node that
// failed its update is not in the result, because it waits for a user.
func Updating(nodes []metav1.PartialObjectMetadata) []string {
	var names []string
	for i := range nodes {
		a := nodes[i].Annotations
		desired := a[v1alpha1.DesiredConfigAnnotation]
		assigned := a[v1alpha1.StateAnnotation] == v1alpha1.StateDone && desired != "" &&
			desired != a[v1alpha1.CurrentConfigAnnotation]
		if assigned || a[v1alpha1.StateAnnotation] == v1alpha1.StateWorking {
			names = append(names, nodes[i].Name)
		}
	}
	slices.Sort(names)
	return names
}
