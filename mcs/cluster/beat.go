package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// beatEvery is how often a replica tells that it is there.
	beatEvery = 30 * time.Second
	// beatAtMost is how often it tells changes.
	beatAtMost = 5 * time.Second
	// beatGood is how long a report holds: a replica that missed three is taken for dead.
	beatGood = 3*beatEvery + beatAtMost

	leaseNamespace = "bunsen-system"
	leasePrefix    = "machine-config-server-"
)

// beat keeps this replica's Lease.
type beat struct {
	*Cluster
	name  string
	lease *coordinationv1.Lease // as it was written last; nil where that is not known
	told  string                // the report in it, but for its counters
	at    time.Time
}

func newBeat(c *Cluster) *beat { return &beat{Cluster: c, name: leaseName(c.Replica.Name)} }

// notInNames is what a name of an object may not have.
var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// leaseName is the Lease of a replica.
func leaseName(replica string) string {
	name := leasePrefix + notInNames.ReplaceAllString(strings.ToLower(replica), "-")
	return strings.TrimRight(name[:min(len(name), 253)], "-.")
}

// run tells until the context ends, and then that this replica is gone.
func (b *beat) run(ctx context.Context) {
	if b.Report == nil {
		return
	}
	tick := time.NewTicker(beatAtMost)
	defer tick.Stop()
	failed := false
	for {
		if b.due() {
			err := b.tell(ctx, beatGood)
			if err != nil && ctx.Err() == nil && !failed { // once: what waits for the API server says more
				b.Log.Warn("telling that this server is there, will try again", "lease", leaseNamespace+"/"+b.name, "error", err)
			}
			failed = err != nil
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
			defer cancel()
			if err := b.tell(last, time.Second); err != nil {
				b.Log.Debug("telling that this server is gone", "error", err)
			}
			return
		case <-tick.C:
		}
	}
}

// report is what is told now, and a text that changes when something besides the counters does.
func (b *beat) report() (v1alpha1.ServerReport, string) {
	r := b.Report()
	r.Pools = b.pools.serving()
	still := r
	still.Served, still.Refused = 0, 0
	return r, still.String()
}

func (b *beat) due() bool {
	if b.Now().Sub(b.at) >= beatEvery {
		return true
	}
	_, still := b.report()
	return still != b.told
}

// tell writes the Lease, good for some time.
func (b *beat) tell(ctx context.Context, good time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	leases := b.api.leases
	if b.lease == nil {
		found := &coordinationv1.Lease{}
		err := leases.Get().Namespace(leaseNamespace).Resource("leases").Name(b.name).Do(ctx).Into(found)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the Lease: %w", err)
		}
		if err == nil {
			b.lease = found
		}
	}
	report, still := b.report()
	next, out := b.next(report, good), &coordinationv1.Lease{}
	var err error
	if next.ResourceVersion == "" {
		err = leases.Post().Namespace(leaseNamespace).Resource("leases").Body(next).Do(ctx).Into(out)
	} else {
		err = leases.Put().Namespace(leaseNamespace).Resource("leases").Name(b.name).Body(next).Do(ctx).Into(out)
	}
	if err != nil {
		b.lease = nil
		return fmt.Errorf("writing the Lease: %w", err)
	}
	b.lease, b.told, b.at = out, still, b.Now()
	return nil
}

// next is the Lease with a report.
func (b *beat) next(report v1alpha1.ServerReport, good time.Duration) *coordinationv1.Lease {
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: b.name, Namespace: leaseNamespace}}
	if b.lease != nil {
		next = b.lease.DeepCopy()
	}
	next.Labels = map[string]string{v1alpha1.ServerLabel: v1alpha1.ServerComponent, "app.kubernetes.io/part-of": "bunsen"}
	next.Annotations = map[string]string{v1alpha1.ServerAnnotation: report.String()}
	if next.ResourceVersion == "" && b.Replica.PodUID != "" {
		next.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: b.Replica.Pod, UID: b.Replica.PodUID}}
	}
	now := metav1.NewMicroTime(b.Now())
	next.Spec.HolderIdentity = &b.Replica.Name
	next.Spec.LeaseDurationSeconds = new(int32(good.Seconds()))
	if next.Spec.AcquireTime == nil {
		next.Spec.AcquireTime = &now
	}
	next.Spec.RenewTime = &now
	return next
}
