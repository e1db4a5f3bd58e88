package kube

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// RequeueConflicts wraps a reconciler: if an object changed between reading and writing it, the request is requeued
// soon, without an error in the log. Such conflicts are normal between controllers that share objects.
func RequeueConflicts(inner reconcile.Reconciler) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		res, err := inner.Reconcile(ctx, req)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, nil
		}
		return res, err
	}
}
