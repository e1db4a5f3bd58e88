package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
)

// roll is the machine-config-servers that have told of themselves. They do so every half a minute, whatever happens: that is
// asked for now and then rather than watched.
type roll struct {
	c      client.Reader
	leases []coordinationv1.Lease
	note   string
	called time.Time
}

// callAgain is how old what is known of servers may be on a live screen.
const callAgain = 10 * time.Second

// due tells that it is time to ask again.
func (r *roll) due(now time.Time) bool { return now.Sub(r.called) >= callAgain }

// call asks, where that is due, and fills in what is known. Who may not read it sees all else.
func (r *roll) call(ctx context.Context, cluster *inspect.Cluster) error {
	if now := time.Now(); r.due(now) {
		var list coordinationv1.LeaseList
		ctx, cancel := context.WithTimeout(ctx, looksAlive)
		defer cancel()
		err := r.c.List(ctx, &list, client.InNamespace(serverNamespace), client.MatchingLabels{v1alpha1.ServerLabel: v1alpha1.ServerComponent})
		switch {
		case apierrors.IsForbidden(err):
			r.note = "not shown, because you may not list leases in " + serverNamespace
		case err != nil:
			return unread("Leases", err)
		default:
			r.note = ""
		}
		r.leases, r.called = list.Items, now
	}
	cluster.Leases, cluster.LeasesNote = r.leases, r.note
	return nil
}
