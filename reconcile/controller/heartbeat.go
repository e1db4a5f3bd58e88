package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// heartbeatEvery is the pause between two reports of a replica.
	heartbeatEvery = 10 * time.Second
	// heartbeatLasts is for how long a report holds: a replica that missed three counts as gone.
	heartbeatLasts = 3*heartbeatEvery + 5*time.Second
	// firstLookAfter is how long a report waits after a first look at a repository, so that many first looks cost one report.
	firstLookAfter = time.Second
	// heartbeatTimeout bounds one request.
	heartbeatTimeout = 5 * time.Second
	// syncTimeout is how long a readiness probe waits for the caches.
	syncTimeout = time.Second
)

// Replica is one process of the controller.
type Replica struct {
	// Name among the replicas: the pod's name, or the host's.
	Name string
	// Pod and PodUID own the Lease, so that it is deleted with the pod; both are empty outside of one.
	Pod    string
	PodUID types.UID
	// PodNamespace is the namespace of the pod; empty: that of the Lease.
	PodNamespace string
	// Host and PID are the host and the process, where the replica runs in no pod.
	Host string
	PID  int
}

// Heartbeat reports that this replica runs, whether it leads, and when it last looked at the repositories.
//
// Reads: its own Lease
// Writes: its own Lease
type Heartbeat struct {
	// Client writes, and Live reads past the cache.
	Client client.Client
	Live   client.Reader
	// Namespace of the Lease.
	Namespace string
	// Replica whose heartbeat it is, and the Version of its program.
	Replica Replica
	Version string
	// Elected is closed once the replica leads; nil: it leads.
	Elected <-chan struct{}
	// Looks are the last looks at the repositories; nil: none. FirstLook is sent to when a repository that no report has yet was looked
	// at; nil: those wait for the next report.
	Looks     func() map[string]v1alpha1.SourceLook
	FirstLook <-chan struct{}
	// Synced reports whether the caches have synced; nil: they have.
	Synced func(context.Context) bool
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	state heartbeatState
}

// heartbeatState is what a Heartbeat remembers.
type heartbeatState struct {
	// lease as it was last written; nil where that is not known.
	lease *coordinationv1.Lease
	// started is when the process began, answered when the API server last answered.
	started, answered time.Time
}

// register runs the heartbeat in mgr, whoever leads, and lets it decide whether the process is ready.
func (h *Heartbeat) register(mgr ctrl.Manager) error {
	if err := mgr.Add(h); err != nil {
		return fmt.Errorf("registering the heartbeat: %w", err)
	}
	if err := mgr.AddReadyzCheck("cluster", h.Ready); err != nil {
		return fmt.Errorf("registering the readiness check: %w", err)
	}
	return nil
}

// NeedLeaderElection is false: a replica that stands by reports, too.
func (h *Heartbeat) NeedLeaderElection() bool { return false }

// Start reports until the context ends, and then that the replica is gone.
func (h *Heartbeat) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("heartbeat")
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	elected := h.Elected
	var firstLook <-chan time.Time
	failed := false
	for {
		err := h.Report(ctx, heartbeatLasts)
		if err != nil && !failed && ctx.Err() == nil {
			log.Error(err, "the heartbeat failed; trying again", "every", heartbeatEvery.String())
		}
		failed = err != nil
		for report := false; !report; {
			report = true
			select {
			case <-ctx.Done():
				h.end(ctx, log)
				return nil
			case <-elected:
				elected = nil // it says so at once
			case <-h.FirstLook:
				if report = false; firstLook == nil {
					firstLook = time.After(firstLookAfter)
				}
			case <-firstLook:
				firstLook = nil
			case <-tick.C:
			}
		}
	}
}

// end reports that the replica is gone.
func (h *Heartbeat) end(ctx context.Context, log logr.Logger) {
	if err := h.Report(context.WithoutCancel(ctx), time.Second); err != nil {
		log.V(1).Info("the last heartbeat failed", "error", err.Error())
	}
}

// Report writes the Lease, valid for a duration.
func (h *Heartbeat) Report(ctx context.Context, valid time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	h.mu.Lock()
	was := h.state.lease
	if h.state.started.IsZero() {
		h.state.started = h.Now()
	}
	h.mu.Unlock()
	lease, err := h.write(ctx, was, valid)
	h.mu.Lock()
	defer h.mu.Unlock()
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		h.state.answered = h.Now()
	}
	h.state.lease = lease
	return err
}

// write brings the Lease to what it should say. It returns nil where what is there is not known.
func (h *Heartbeat) write(ctx context.Context, is *coordinationv1.Lease, valid time.Duration) (*coordinationv1.Lease, error) {
	if is == nil {
		is = &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: h.Namespace, Name: leaseName(h.Replica.Name)}
		if err := h.Live.Get(ctx, key, is); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Lease %s: %w", key, err)
		}
		is.Name, is.Namespace = key.Name, key.Namespace
	}
	next := h.next(is, valid)
	write := func() error { return h.Client.Update(ctx, next) }
	if next.ResourceVersion == "" {
		write = func() error { return h.Client.Create(ctx, next) }
	}
	if err := write(); err != nil {
		return nil, fmt.Errorf("writing Lease %s/%s: %w", next.Namespace, next.Name, err)
	}
	return next, nil
}

// next is the Lease with a new report.
func (h *Heartbeat) next(is *coordinationv1.Lease, valid time.Duration) *coordinationv1.Lease {
	next := is.DeepCopy()
	next.Labels = map[string]string{v1alpha1.ServerLabel: v1alpha1.ControllerComponent, "app.kubernetes.io/part-of": "bunsen"}
	next.Annotations = map[string]string{v1alpha1.ControllerAnnotation: h.report().String()}
	if next.ResourceVersion == "" && h.Replica.PodUID != "" {
		next.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: h.Replica.Pod, UID: h.Replica.PodUID}}
	}
	now := metav1.NewMicroTime(h.Now())
	next.Spec.HolderIdentity = &h.Replica.Name
	next.Spec.LeaseDurationSeconds = new(int32(valid.Seconds()))
	if next.Spec.AcquireTime == nil {
		next.Spec.AcquireTime = &now
	}
	next.Spec.RenewTime = &now
	return next
}

func (h *Heartbeat) report() v1alpha1.ControllerReport {
	h.mu.Lock()
	r := v1alpha1.ControllerReport{Version: h.Version, Started: metav1.NewTime(h.state.started), Leader: h.Elected == nil}
	h.mu.Unlock()
	if r.Host, r.PID = h.Replica.Host, h.Replica.PID; h.Replica.Pod != "" {
		r.Pod, r.Host, r.PID = cmp.Or(h.Replica.PodNamespace, h.Namespace)+"/"+h.Replica.Pod, "", 0
	}
	select {
	case <-h.Elected:
		r.Leader = true
	default:
	}
	if r.Leader && h.Looks != nil {
		r.Sources = h.Looks()
	}
	return r
}

// Ready is a readiness check: the API server answers, and the caches have synced. A replica that stands by is ready, too.
func (h *Heartbeat) Ready(req *http.Request) error {
	h.mu.Lock()
	answered := h.state.answered
	h.mu.Unlock()
	switch age := h.Now().Sub(answered); {
	case answered.IsZero():
		return errors.New("the API server has not answered yet")
	case age > heartbeatLasts:
		return fmt.Errorf("the API server has not answered for %s", age.Round(time.Second))
	}
	ctx, cancel := context.WithTimeout(req.Context(), syncTimeout)
	defer cancel()
	if h.Synced != nil && !h.Synced(ctx) {
		return errors.New("the caches have not synced")
	}
	return nil
}

// invalidInNames are the characters that the name of an object must not have.
var invalidInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// leaseName is the name of a replica's Lease. The Lease by which the leader is elected has no suffix.
func leaseName(replica string) string {
	name := v1alpha1.ControllerComponent + "-" + invalidInNames.ReplaceAllString(strings.ToLower(replica), "-")
	return strings.TrimRight(name[:min(len(name), 253)], "-.")
}

// lastLooks are the last looks of a Source at the repositories, by the name of the GitSource.
func lastLooks(r *Source) map[string]v1alpha1.SourceLook {
	const longest = 500
	looks := map[string]v1alpha1.SourceLook{}
	r.listings.Range(func(name, value any) bool {
		last := value.(listing)
		look := v1alpha1.SourceLook{At: metav1.NewTime(last.at)}
		if last.err != nil {
			text := []rune(last.err.Error())
			look.Problem = string(text[:min(len(text), longest)])
		}
		looks[name.(string)] = look
		return true
	})
	return looks
}
