package approve

import (
	"context"
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// collectFor collects requests, because each reconciliation reads every one.
const collectFor = 200 * time.Millisecond

// Controller approves and denies the certificate requests of new machines.
//
// Reads: CertificateSigningRequest, Node, ProvisioningToken
// Writes: the conditions Approved and Denied of certificate requests by bootstrap tokens of machine-config-server
type Controller struct {
	// Client reads from the manager's cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Events reports denials. A nil Metrics counts no decisions.
	Events  kube.Events
	Metrics *health.Metrics
	Now     func() time.Time

	// what this process has read or written; nil before its first reconciliation. Reconciliations do not run at the
	// same time, so it needs no lock.
	uses Uses
}

const maxConcurrentWrites = 16

// SetupWithManager enqueues the only reconcile key when a machine requests a certificate, and when a Node is created or
// deleted.
func (r *Controller) SetupWithManager(mgr ctrl.Manager, pass reconcile.Reconciler) error {
	wake := func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: "machines"}}, collectFor)
	}
	requests := handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent,
			q workqueue.TypedRateLimitingInterface[reconcile.Request],
		) {
			wake(q)
		},
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent,
			q workqueue.TypedRateLimitingInterface[reconcile.Request],
		) {
			wake(q)
		},
	}
	pending := predicate.NewPredicateFuncs(func(o client.Object) bool {
		csr, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && IsJoin(csr) && IsPending(csr)
	})
	return ctrl.NewControllerManagedBy(mgr).Named("approve").
		Watches(&certificatesv1.CertificateSigningRequest{}, requests, builder.WithPredicates(pending)).
		Watches(&corev1.Node{}, requests, builder.WithPredicates(kube.CreatedOrDeleted)).
		Complete(pass)
}

// Reconcile decides about all pending requests of new machines. The first time, it reads from the API server, because
// the cache may not show the last approvals of another replica yet. Later, it uses the stored approvals of this
// process.
func (r *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var requests certificatesv1.CertificateSigningRequestList
	var err error
	if r.uses == nil {
		err = r.Live.List(ctx, &requests,
			client.MatchingFields{"spec.signerName": certificatesv1.KubeAPIServerClientKubeletSignerName})
	} else {
		err = r.Client.List(ctx, &requests, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the certificate requests of new machines: %w", err)
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the nodes that new machines must not replace: %w", err)
	}
	facts := Facts{
		Requests: requests.Items, Nodes: make(map[string]bool, len(nodes.Items)), Uses: r.uses,
		Now: r.Now(),
	}
	for i := range nodes.Items {
		facts.Nodes[nodes.Items[i].Name] = IsControlPlane(nodes.Items[i].Labels)
	}
	if AsksForAnyName(requests.Items) {
		var tokens v1alpha1.ProvisioningTokenList
		if err := r.Live.List(ctx, &tokens); err != nil {
			return reconcile.Result{}, fmt.Errorf("reading the provisioning tokens that reserve names of nodes: %w",
				err)
		}
		facts.Reserved = ReservedNames(tokens.Items, facts.Now)
	}
	decisions, uses := Decide(facts)
	r.uses = uses
	return reconcile.Result{}, r.write(ctx, decisions)
}

// write carries out several decisions at a time, and returns the first failure.
func (r *Controller) write(ctx context.Context, decisions []Decision) error {
	var group errgroup.Group
	group.SetLimit(maxConcurrentWrites)
	for _, d := range decisions {
		group.Go(func() error { return r.writeOne(ctx, d) })
	}
	return group.Wait()
}

func (r *Controller) writeOne(ctx context.Context, d Decision) error {
	csr := d.Request.DeepCopy()
	condition := certificatesv1.CertificateSigningRequestCondition{
		// The API server sets the time of the condition.
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: d.Reason, Message: d.Message,
	}
	if d.Approved {
		condition.Type = certificatesv1.CertificateApproved
	}
	csr.Status.Conditions = append(csr.Status.Conditions, condition)
	err := r.Client.SubResource("approval").Update(ctx, csr)
	err = kube.AfterWrite(err, func() (bool, error) { return r.isDecided(ctx, csr, condition) })
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the decision about certificate request %q: %w", csr.Name, err)
	} else if err != nil {
		return nil // The request was deleted, so there is nothing to write.
	}
	r.Metrics.JoinDecided(d.Approved, d.Reason)
	if d.Approved {
		log.FromContext(ctx).Info("machine approved", "request", csr.Name, "node", d.Node, "pool", d.Pool, "message",
			d.Message)
		return nil
	}
	r.Events.Send(kube.Event{
		Object: r.objectOf(ctx, d), Warning: true, Reason: "MachineDenied", Action: "Approve",
		Note: fmt.Sprintf("certificate request %q: %s", csr.Name, d.Message),
	})
	return nil
}

// isDecided lists requests, because the controller may not get one.
func (r *Controller) isDecided(ctx context.Context, csr *certificatesv1.CertificateSigningRequest,
	condition certificatesv1.CertificateSigningRequestCondition,
) (bool, error) {
	var live certificatesv1.CertificateSigningRequestList
	if err := r.Live.List(ctx, &live, client.MatchingFields{"metadata.name": csr.Name}); err != nil {
		return false, err
	}
	return len(live.Items) == 1 && live.Items[0].UID == csr.UID && slices.ContainsFunc(live.Items[0].Status.Conditions,
		func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == condition.Type && c.Reason == condition.Reason
		}), nil
}

// objectOf returns the object of the event about a denial: the Node with the requested name, otherwise the pool,
// otherwise the request.
func (r *Controller) objectOf(ctx context.Context, d Decision) runtime.Object {
	for _, o := range []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: d.Node}},
		&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: d.Pool}},
	} {
		if name := o.GetName(); name != "" && r.Client.Get(ctx, client.ObjectKey{Name: name}, o) == nil {
			return o
		}
	}
	return d.Request
}

// StripRequest removes from a certificate request the fields that the controller does not read.
func StripRequest(r *certificatesv1.CertificateSigningRequest) {
	// The approval only reads whether there is a certificate.
	r.Status.Certificate = append([]byte(nil), r.Status.Certificate[:min(1, len(r.Status.Certificate))]...)
	r.Spec.Extra = nil
	if !IsJoin(r) {
		r.Spec.Request, r.Spec.Groups = nil, nil
	}
}
