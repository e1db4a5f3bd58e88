package health

import (
	"context"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// ReadEvery is between two reads. Heartbeats change all the time, so the manager's cache does not contain them.
const ReadEvery = time.Minute

// readFirstEvery is for the time while no daemon has reported yet, so that a new installation soon counts as available.
const readFirstEvery = 5 * time.Second

// Heartbeats has the heartbeats of the daemons from the last read.
type Heartbeats struct {
	mu sync.Mutex
	at time.Time
	// the last report by node; none without an entry
	seen map[string]time.Time
	// by node
	versions map[string]string
	// by node
	etcd map[string]v1alpha1.DaemonReport
	// nodes whose daemons download files before a config is assigned; replaced, never changed
	ahead map[string]bool
	// nodes whose daemons pull the images of PinnedImageSets; replaced, never changed
	pins map[string]bool
}

// Read returns the last heartbeat of each node's daemon, from the API server's own cache, or on failure those of the
// previous read.
func (d *Heartbeats) Read(ctx context.Context, from client.Reader, now time.Time) map[string]time.Time {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	interval := ReadEvery
	if len(d.seen) == 0 {
		interval = readFirstEvery
	}
	if from == nil || !d.at.IsZero() && now.Sub(d.at) < interval {
		return d.seen
	}
	d.at = now
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{
		APIVersion: mcfgv1.GroupVersion.String(),
		Kind:       "MachineConfigNodeList",
	}}
	if err := from.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
		return d.seen
	}
	d.seen, d.versions = make(map[string]time.Time, len(list.Items)), make(map[string]string, len(list.Items))
	d.etcd, d.ahead, d.pins = map[string]v1alpha1.DaemonReport{}, map[string]bool{}, map[string]bool{}
	for i := range list.Items {
		if r, err := v1alpha1.ParseDaemonReport(list.Items[i].Annotations[v1alpha1.DaemonAnnotation]); err == nil {
			d.seen[list.Items[i].Name], d.versions[list.Items[i].Name] = r.Seen.Time, r.Version
			if r.FetchesAhead {
				d.ahead[list.Items[i].Name] = true
			}
			if r.PinsImages {
				d.pins[list.Items[i].Name] = true
			}
			if r.Etcd != nil {
				d.etcd[list.Items[i].Name] = r
			}
		}
	}
	return d.seen
}

// Versions returns the version that each node's daemon reported at the last Read.
func (d *Heartbeats) Versions() map[string]string {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.versions
}

// FetchAhead returns the nodes whose daemons download files of a config before it is assigned, by the last Read.
func (d *Heartbeats) FetchAhead() map[string]bool {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ahead
}

// PinImages returns the nodes whose daemons pull the images of PinnedImageSets, according to the last Read.
func (d *Heartbeats) PinImages() map[string]bool {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pins
}

// Etcd returns the reports of the daemons that reported about etcd at the last Read.
func (d *Heartbeats) Etcd() map[string]v1alpha1.DaemonReport {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.etcd
}

// IsSilent reports whether the last heartbeat of a node's daemon is too old. A daemon cannot report while its machine
// reboots.
func IsSilent(n *poolstate.Node, seen, now time.Time) bool {
	return !n.Step.Rebooting && now.Sub(seen) > v1alpha1.DaemonSilentAfter
}

// Silent returns the nodes whose daemons have stopped reporting, with their last heartbeats. hasHeartbeats: at least
// one daemon has ever reported.
func Silent(nodes []poolstate.Node, seen map[string]time.Time,
	now time.Time,
) (silent map[string]time.Time, hasHeartbeats bool) {
	silent = map[string]time.Time{}
	for i := range nodes {
		at, reported := seen[nodes[i].Name]
		hasHeartbeats = hasHeartbeats || reported
		if reported && IsSilent(&nodes[i], at, now) {
			silent[nodes[i].Name] = at
		}
	}
	return silent, hasHeartbeats
}
