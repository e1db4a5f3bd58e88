package view

import (
	"context"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

const (
	// mostTimed is a number of nodes. If a cluster has at most this number, the page of a pool reads the times of all
	// nodes. Larger clusters have a page for the timeline alone.
	mostTimed = 250
	// mostTimedEvents is the maximum number of events that a timeline reads.
	mostTimedEvents = 5000
)

// PoolTimeline returns the timeline for the page of a pool. In a large cluster, PoolTimeline returns only a link to the
// page of the timeline.
func PoolTimeline(ctx context.Context, s DetailSession, pool string, now time.Time) TimelinePage {
	if c, err := s.Cluster(ctx); err == nil && len(c.Nodes) > mostTimed {
		return TimelinePage{Pool: pool, Elsewhere: true}
	}
	p, err := Timeline(ctx, s, pool, now)
	if err != nil {
		p.Notes = append(p.Notes, err.Error())
	}
	return p
}

// Timeline returns the page of a pool's timeline. The error is a *NotFoundError if the pool does not exist.
func Timeline(ctx context.Context, s DetailSession, pool string, now time.Time) (TimelinePage, error) {
	c, err := s.Cluster(ctx)
	if err != nil {
		return TimelinePage{}, err
	}
	f := fleet.New(c, now)
	v, err := f.FindPool(pool)
	if err != nil {
		return TimelinePage{}, notFound("%s", err)
	}
	age := timesAge
	if len(f.Nodes) > mostTimed {
		age = countAge
	}
	return readTimeline(ctx, s, v, lasts(now, age)), nil
}

// readTimeline reads the reports of all nodes.
func readTimeline(ctx context.Context, s DetailSession, v *fleet.Pool, until [2]time.Time) TimelinePage {
	p := TimelinePage{Pool: v.Object.Name}
	machines, err := cached(s.Cache, "mcns", until, func() (result[[]mcfgv1.MachineConfigNode], error) {
		var list mcfgv1.MachineConfigNodeList
		err := s.Reader().List(ctx, &list)
		return result[[]mcfgv1.MachineConfigNode]{list.Items, 4096 * len(list.Items)}, err
	})
	switch note := deniedNote(err, "MachineConfigNodes", "the present steps of nodes", viewerRole); {
	case note != "":
		p.Notes = append(p.Notes, note)
	case err != nil:
		p.Notes = append(p.Notes, fmt.Sprintf("reading MachineConfigNodes: %v", err))
	}
	events, err := cached(s.Cache, "node-events", until, func() (result[[]corev1.Event], error) {
		var list corev1.EventList
		err := s.Reader().List(ctx, &list, client.InNamespace(eventsNamespace),
			client.MatchingFields{"involvedObject.kind": "Node"}, client.Limit(mostTimedEvents))
		return result[[]corev1.Event]{list.Items, 1024 * len(list.Items)}, err
	})
	switch {
	case apierrors.IsForbidden(err):
		p.Notes = append(p.Notes, "permission denied: you may not list events in the namespace "+eventsNamespace+
			", so this page does not show earlier drains and reboots. ClusterRole view grants that right")
	case err != nil:
		p.Notes = append(p.Notes, fmt.Sprintf("reading the events of nodes: %v", err))
	case len(events) >= mostTimedEvents:
		p.Notes = append(p.Notes, fmt.Sprintf("The cluster has more than %d events of nodes, so some drains and "+
			"reboots are missing.", mostTimedEvents))
	}
	p.Timeline = history.NewTimeline(v, machines, events)
	return p
}
