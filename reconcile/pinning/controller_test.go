package pinning_test

import (
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/pinning"
)

const role = "machineconfiguration.openshift.io/role"

func node(name, pool string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/" +
		pool: ""}}}
}

// TestNodesAreToldTheSetsOfTheirPool: only theirs, once, again after a change, and nothing after the last set is gone.
func TestNodesAreToldTheSetsOfTheirPool(t *testing.T) {
	set := &mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{
		Name: "apps", Generation: 1,
		Labels: map[string]string{role: "worker"},
	}}
	set.Spec.PinnedImages = []mcfgv1.PinnedImageRef{{Name: "r.example.com/a@sha256:0"}}
	w := controllertest.NewCluster(t, node("w1", "worker"), node("m1", "master"), set)
	r := &pinning.Controller{Client: w.Client, Now: func() time.Time { return w.Now }}
	look := func() v1alpha1.PinRequest {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), controllertest.Request("all")); err != nil {
			t.Fatal(err)
		}
		if text := controllertest.Get(w, "m1", &corev1.Node{}).Annotations[v1alpha1.PinAnnotation]; text != "" {
			t.Errorf("the master is told %s", text)
		}
		at, err := v1alpha1.ParsePinRequest(controllertest.Get(w, "w1", &corev1.Node{}).
			Annotations[v1alpha1.PinAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	first := look()
	if first.Digest == "" || len(first.Sets) != 1 || first.Sets[0] != "apps" {
		t.Errorf("the node is told %+v", first)
	}
	w.Writes.Done = nil
	look()
	controllertest.Equal(t, "writes of the second look", len(w.Writes.Done), 0)
	controllertest.Modify(w, controllertest.Get(w, "apps", &mcfgv1.PinnedImageSet{}), func(s *mcfgv1.PinnedImageSet) {
		s.Spec.PinnedImages[0].Name = "r.example.com/b@sha256:0"
	})
	if second := look(); second.Digest == first.Digest {
		t.Error("the node is not told of the change")
	}
	w.Remove(controllertest.Get(w, "apps", &mcfgv1.PinnedImageSet{}))
	if last := look(); last.Digest != "" {
		t.Errorf("without sets, the node is told %+v", last)
	}
}
