package notify

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/applyconfigurations/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// the pause between two, and how long one is valid
	reportEvery = 10 * time.Second
	reportValid = 3*reportEvery + 5*time.Second
	// of one request
	leaseTimeout = 5 * time.Second
)

// Heartbeat reports that the notifier runs. Without it, nobody could tell a Notification with nothing to send from one
// that no process reads.
//
// Writes: its own Lease, by an apply patch, for which resourceNames of a Role limit the creation too
type Heartbeat struct {
	Client client.Client
	// of the Lease
	Namespace string
	// of the process, such as its pod or host, and its report
	Name   string
	Report v1alpha1.ControllerReport
	Now    func() time.Time
}

// SetupWithManager runs the heartbeat in the manager.
func (h *Heartbeat) SetupWithManager(mgr ctrl.Manager) error {
	return mgr.Add(manager.RunnableFunc(h.run))
}

// run writes at the end of the context that the notifier has ended.
func (h *Heartbeat) run(ctx context.Context) error {
	h.Report.Started, h.Report.Leader = metav1.NewTime(h.Now()), true
	log := ctrl.Log.WithName("heartbeat")
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for failed := false; ; {
		err := h.Write(ctx, reportValid)
		if err != nil && !failed && ctx.Err() == nil {
			log.Error(err, "the heartbeat failed; trying again", "every", reportEvery.String())
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			if err := h.Write(context.WithoutCancel(ctx), time.Second); err != nil {
				log.V(1).Info("the last heartbeat failed", "error", err.Error())
			}
			return nil
		case <-tick.C:
		}
	}
}

// Write writes one report, valid for a duration.
func (h *Heartbeat) Write(ctx context.Context, valid time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	lease := coordination.Lease(v1alpha1.NotifierComponent, h.Namespace).
		WithLabels(map[string]string{
			v1alpha1.ServerLabel: v1alpha1.NotifierComponent, "app.kubernetes.io/part-of": "bunsen",
		}).
		WithAnnotations(map[string]string{v1alpha1.ControllerAnnotation: h.Report.String()}).
		WithSpec(coordination.LeaseSpec().WithHolderIdentity(h.Name).WithRenewTime(metav1.NewMicroTime(h.Now())).
			WithLeaseDurationSeconds(int32(valid.Seconds())))
	owner := client.FieldOwner(v1alpha1.NotifierComponent)
	if err := h.Client.Apply(ctx, lease, owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("writing Lease %s/%s: %w", h.Namespace, v1alpha1.NotifierComponent, err)
	}
	return nil
}
