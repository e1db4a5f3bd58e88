package kube_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// TestManyEventsAreOneReconciliation: a controller that reads all nodes must not do so for each of them.
func TestManyEventsAreOneReconciliation(t *testing.T) {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "worker"}}}
	})
	h := kube.Delayed(all, func(string) time.Duration { return 50 * time.Millisecond })
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	object := func(i int) *mcfgv1.MachineConfig {
		return &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
	}
	for i := range 100 {
		h.Create(t.Context(), event.CreateEvent{Object: object(i)}, q)
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: object(i), ObjectNew: object(i)}, q)
		h.Delete(t.Context(), event.DeleteEvent{Object: object(i)}, q)
	}
	if n := q.Len(); n != 0 {
		t.Errorf("%d reconciliations are due at once", n)
	}
	got, _ := q.Get() // waits for the delay
	if got.Name != "worker" {
		t.Errorf("got %q", got.Name)
	}
	q.Done(got)
	if n := q.Len(); n != 0 {
		t.Errorf("%d reconciliations are due afterwards", n)
	}
}
