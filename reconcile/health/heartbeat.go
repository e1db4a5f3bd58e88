package health

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
	// between two reports
	reportEvery = 10 * time.Second
	// for a report: a replica that has missed three counts as gone
	reportValid = 3*reportEvery + 5*time.Second
	// after the first listing of a repository, so that many are reported at once
	firstListingDelay = time.Second
	// of one request
	requestTimeout = 5 * time.Second
	// for a readiness probe to wait for the caches
	syncTimeout = time.Second
)

// Replica is one process of the controller.
type Replica struct {
	// the pod's name, or the host's
	Name string
	// the owner of the Lease, so that Kubernetes deletes it with the pod; empty outside a pod
	Pod    string
	PodUID types.UID
	// of the pod; empty: that of the Lease
	PodNamespace string
	// of a process outside a pod
	Host string
	PID  int
}

// Reporter reports that this replica runs, whether it leads, and when it last listed the repositories.
//
// Reads: its own Lease
// Writes: its own Lease
type Reporter struct {
	Client client.Client
	Live   client.Reader
	// of the Lease
	Namespace string
	// Version is the program's.
	Replica Replica
	Version string
	// Elected is closed once the replica leads; nil: it does.
	Elected <-chan struct{}
	// Listings returns the last listings of the repositories; it may be nil. FirstListing receives a value after the
	// first listing of each; if it is nil, the next regular report includes it.
	Listings     func() map[string]v1alpha1.SourceLook
	FirstListing <-chan struct{}
	// The caches have synced; nil: they have.
	Synced func(context.Context) bool
	Now    func() time.Time

	mu    sync.Mutex
	state state
}

type state struct {
	// as last written; nil if unknown
	lease *coordinationv1.Lease
	// the start of the process, and the API server's last answer
	started, answered time.Time
}

// SetupWithManager runs the heartbeat on the leader and on other replicas, and adds the readiness check.
func (h *Reporter) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(h); err != nil {
		return fmt.Errorf("registering the heartbeat: %w", err)
	}
	if err := mgr.AddReadyzCheck("cluster", h.Ready); err != nil {
		return fmt.Errorf("registering the readiness check: %w", err)
	}
	return nil
}

// NeedLeaderElection returns false, because replicas that do not lead report, too.
func (h *Reporter) NeedLeaderElection() bool { return false }

// Start writes reports until the context ends. When the context ends, Start reports that the replica is gone.
func (h *Reporter) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("heartbeat")
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	elected := h.Elected
	var firstLook <-chan time.Time
	failed := false
	for {
		err := h.Report(ctx, reportValid)
		if err != nil && !failed && ctx.Err() == nil {
			log.Error(err, "the heartbeat failed; trying again", "every", reportEvery.String())
		}
		failed = err != nil
		for report := false; !report; {
			report = true
			select {
			case <-ctx.Done():
				h.end(ctx, log)
				return nil
			case <-elected:
				elected = nil // elected is closed, so this case must not fire again: the next report follows at once.
			case <-h.FirstListing:
				if report = false; firstLook == nil {
					firstLook = time.After(firstListingDelay)
				}
			case <-firstLook:
				firstLook = nil
			case <-tick.C:
			}
		}
	}
}

func (h *Reporter) end(ctx context.Context, log logr.Logger) {
	if err := h.Report(context.WithoutCancel(ctx), time.Second); err != nil {
		log.V(1).Info("the last heartbeat failed", "error", err.Error())
	}
}

// Report writes the Lease, valid for a duration.
func (h *Reporter) Report(ctx context.Context, valid time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
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

// write returns nil if the resulting state of the Lease is unknown.
func (h *Reporter) write(ctx context.Context, is *coordinationv1.Lease,
	valid time.Duration,
) (*coordinationv1.Lease, error) {
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

func (h *Reporter) next(is *coordinationv1.Lease, valid time.Duration) *coordinationv1.Lease {
	next := is.DeepCopy()
	next.Labels = map[string]string{
		v1alpha1.ServerLabel:        v1alpha1.ControllerComponent,
		"app.kubernetes.io/part-of": "bunsen",
	}
	next.Annotations = map[string]string{v1alpha1.ControllerAnnotation: h.report().String()}
	if next.ResourceVersion == "" && h.Replica.PodUID != "" {
		next.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: h.Replica.Pod,
			UID: h.Replica.PodUID,
		}}
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

func (h *Reporter) report() v1alpha1.ControllerReport {
	h.mu.Lock()
	r := v1alpha1.ControllerReport{
		Version: h.Version, Started: metav1.NewTime(h.state.started),
		Leader: h.Elected == nil,
	}
	h.mu.Unlock()
	if r.Host, r.PID = h.Replica.Host, h.Replica.PID; h.Replica.Pod != "" {
		r.Pod, r.Host, r.PID = cmp.Or(h.Replica.PodNamespace, h.Namespace)+"/"+h.Replica.Pod, "", 0
	}
	select {
	case <-h.Elected:
		r.Leader = true
	default:
	}
	if r.Leader && h.Listings != nil {
		r.Sources = h.Listings()
	}
	return r
}

// Ready is a readiness check: the API server answers and the caches have synced, also on a replica that does not lead.
func (h *Reporter) Ready(req *http.Request) error {
	h.mu.Lock()
	answered := h.state.answered
	h.mu.Unlock()
	switch age := h.Now().Sub(answered); {
	case answered.IsZero():
		return errors.New("the API server has not answered yet")
	case age > reportValid:
		return fmt.Errorf("the API server has not answered for %s", age.Round(time.Second))
	}
	ctx, cancel := context.WithTimeout(req.Context(), syncTimeout)
	defer cancel()
	if h.Synced != nil && !h.Synced(ctx) {
		return errors.New("the caches have not synced")
	}
	return nil
}

// invalidInNames are not allowed in the name of an object.
var invalidInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// leaseName has a suffix, because the Lease of the leader election has the name without it.
func leaseName(replica string) string {
	name := v1alpha1.ControllerComponent + "-" + invalidInNames.ReplaceAllString(strings.ToLower(replica), "-")
	return strings.TrimRight(name[:min(len(name), 253)], "-.")
}
