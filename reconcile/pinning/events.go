package pinning

import (
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// pinChanged reports whether a change of a Node concerns its images. Most changes are heartbeats of kubelets.
func pinChanged(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
	for _, key := range []string{v1alpha1.PinAnnotation, v1alpha1.PinnedAnnotation} {
		if was[key] != is[key] {
			return true
		}
	}
	return false
}
