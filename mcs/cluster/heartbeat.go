package cluster

import (
	"context"
	"errors"
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
	heartbeatInterval = 30 * time.Second
	// between two reports of changes
	minHeartbeatInterval = 5 * time.Second
	// A replica that has missed three reports counts as stopped.
	leaseDuration = 3*heartbeatInterval + minHeartbeatInterval
	// without an answer of the API server; longer than the restart of a control-plane node
	cutOffAfter = 5 * time.Minute

	leaseNamespace = "bunsen-system"
	leasePrefix    = "machine-config-server-"
)

// heartbeat writes this replica's Lease.
type heartbeat struct {
	*Cluster
	name    string
	lease   *coordinationv1.Lease // lease is the Lease as this replica last wrote it; nil if unknown.
	written string                // written is the report in the Lease without its counters.
	at      time.Time             // at is the time of the last write.
	// the API server's last answer; at first the start
	answered time.Time
}

// invalidInNames are not allowed in the name of an object.
var invalidInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

func leaseName(replica string) string {
	name := leasePrefix + invalidInNames.ReplaceAllString(strings.ToLower(replica), "-")
	return strings.TrimRight(name[:min(len(name), 253)], "-.")
}

// run renews the Lease until the context ends, and then lets it expire within a second.
func (b *heartbeat) run(ctx context.Context) {
	if b.Report == nil {
		return
	}
	tick := time.NewTicker(minHeartbeatInterval)
	defer tick.Stop()
	failed := false
	b.answered = b.Now()
	for {
		if b.isDue() {
			err := b.write(ctx, leaseDuration)
			b.markAnswer(err)
			if err != nil && ctx.Err() == nil && !failed { // The error is logged once per outage.
				b.Log.Warn("writing this server's Lease failed, will retry", "lease", leaseNamespace+"/"+b.name,
					"error", err)
			}
			failed = err != nil
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			if err := b.write(last, time.Second); err != nil {
				b.Log.Debug("ending this server's Lease failed", "error", err)
			}
			return
		case <-tick.C:
		}
	}
}

// markAnswer records whether this replica is cut off from the API server. An answer that reports an error counts too.
func (b *heartbeat) markAnswer(err error) {
	var status apierrors.APIStatus
	if now := b.Now(); err == nil || errors.As(err, &status) {
		b.answered = now
	}
	b.Pools.SetCutOff(b.Now().Sub(b.answered) > cutOffAfter)
}

// report also returns its text without the counters.
func (b *heartbeat) report() (v1alpha1.ServerReport, string) {
	r := b.Report()
	r.Pools = b.pools.status()
	withoutCounters := r
	withoutCounters.Served, withoutCounters.Refused = 0, 0
	return r, withoutCounters.String()
}

func (b *heartbeat) isDue() bool {
	if b.Now().Sub(b.at) >= heartbeatInterval {
		return true
	}
	_, text := b.report()
	return text != b.written
}

func (b *heartbeat) write(ctx context.Context, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
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
	report, text := b.report()
	next, out := b.next(report, duration), &coordinationv1.Lease{}
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
	b.lease, b.written, b.at = out, text, b.Now()
	return nil
}

func (b *heartbeat) next(report v1alpha1.ServerReport, duration time.Duration) *coordinationv1.Lease {
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: b.name, Namespace: leaseNamespace}}
	if b.lease != nil {
		next = b.lease.DeepCopy()
	}
	next.Labels = map[string]string{
		v1alpha1.ServerLabel:        v1alpha1.ServerComponent,
		"app.kubernetes.io/part-of": "bunsen",
	}
	next.Annotations = map[string]string{v1alpha1.ServerAnnotation: report.String()}
	if next.ResourceVersion == "" && b.Replica.PodUID != "" {
		next.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: b.Replica.Pod,
			UID: b.Replica.PodUID,
		}}
	}
	now := metav1.NewMicroTime(b.Now())
	next.Spec.HolderIdentity = &b.Replica.Name
	next.Spec.LeaseDurationSeconds = new(int32(duration.Seconds()))
	if next.Spec.AcquireTime == nil {
		next.Spec.AcquireTime = &now
	}
	next.Spec.RenewTime = &now
	return next
}
