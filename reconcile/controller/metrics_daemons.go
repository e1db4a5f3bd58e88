package controller

import (
	"context"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// daemonsReadEvery is how often scrapes read the daemons' heartbeats. They change all the time, so no cache keeps them.
const daemonsReadEvery = time.Minute

// daemonReports are the heartbeats of the daemons as they were last read.
type daemonReports struct {
	mu sync.Mutex
	at time.Time
	// seen is when each node's daemon last reported; a node without a report is not in it.
	seen map[string]time.Time
}

// read returns the last heartbeat of each daemon. They are read from the API server's own cache; what cannot be read stays as
// it was.
func (d *daemonReports) read(ctx context.Context, from client.Reader, now time.Time) map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if from == nil || !d.at.IsZero() && now.Sub(d.at) < daemonsReadEvery {
		return d.seen
	}
	d.at = now
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigNodeList"}}
	if err := from.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
		return d.seen
	}
	d.seen = make(map[string]time.Time, len(list.Items))
	for i := range list.Items {
		if r, err := v1alpha1.ParseDaemonReport(list.Items[i].Annotations[v1alpha1.DaemonAnnotation]); err == nil {
			d.seen[list.Items[i].Name] = r.Seen.Time
		}
	}
	return d.seen
}

// isSilent reports whether the last heartbeat of a node's daemon is too old. A daemon is silent while its machine reboots.
func isSilent(n *rollout.Node, seen, now time.Time) bool {
	return !n.Step.Rebooting && now.Sub(seen) > v1alpha1.DaemonSilentAfter
}

// silentNodes are the nodes of a pool whose daemons have stopped reporting, with their last heartbeats; heard says that any
// daemon of the pool has ever reported.
func (f *Fleet) silentNodes(pool string, seen map[string]time.Time, now time.Time) (silent map[string]time.Time, heard bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	members := f.roster.Pool(pool)
	for name, at := range seen {
		n, ours := members.Node(name)
		if !ours {
			continue
		}
		heard = true
		if isSilent(&n, at, now) {
			if silent == nil {
				silent = map[string]time.Time{}
			}
			silent[name] = at
		}
	}
	return silent, heard
}
