package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// lookForOperator is the pause between two looks while Bunsen leads.
const lookForOperator = time.Minute

// OperatorWait has the settings of a process that waits for the Machine Config Operator.
type OperatorWait struct {
	// the address for probes; 0 for none
	Health string
	// of this process
	Replica health.Replica
	// the pause between two looks
	Every time.Duration
}

// errOperatorLeads: it ends this process if the Machine Config Operator is installed while Bunsen leads. The next one
// waits for its removal.
var errOperatorLeads = errors.New("OpenShift's Machine Config Operator runs on this cluster and leads its pools, so " +
	"Bunsen does nothing: two controllers would write the same objects. To keep the operator, run kubectl delete " +
	"namespace bunsen-system. To let Bunsen lead, stop the operator, and run kubectl delete -n " +
	"openshift-machine-config-operator deployment/machine-config-operator deployment/machine-config-controller " +
	"daemonset/machine-config-daemon daemonset/machine-config-server")

// WaitForOperator returns once OpenShift's Machine Config Operator does not lead the pools of the cluster. Until then,
// and while the API server does not answer, this process writes nothing but an event on its pod, and is not ready.
func WaitForOperator(ctx context.Context, rc *rest.Config, o OperatorWait) error {
	clients, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	if leads, err := operatorLeads(ctx, clients); err == nil && !leads {
		return nil
	}
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		HealthProbeBindAddress: o.Health, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	events, err := kube.NewEvents(mgr)
	if err != nil {
		return err
	}
	var absent atomic.Bool
	told := false
	err = errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("operator", func(r *http.Request) error {
			if leads, err := operatorLeads(r.Context(), clients); err != nil || !leads {
				return err
			}
			return errOperatorLeads
		}),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			defer gone()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Replica.PodNamespace, Name: o.Replica.Name, UID: o.Replica.PodUID,
			}}
			return watchOperator(ctx, o.Every, func() (end bool, err error) {
				leads, err := operatorLeads(ctx, clients)
				switch {
				case err != nil:
					mgr.GetLogger().Error(err, "waiting for the API server")
				case leads && !told:
					told = true
					events.Send(kube.Event{
						Object: pod, Warning: true, Reason: "OperatorLeads", Action: "Wait",
						Note: errOperatorLeads.Error(),
					})
				}
				absent.Store(err == nil && !leads)
				return absent.Load(), nil
			})
		})),
	)
	if err != nil {
		return fmt.Errorf("serving --health: %w", err)
	}
	if err := mgr.Start(ctx); err != nil || absent.Load() {
		return err
	}
	return context.Cause(ctx)
}

// operatorWatch ends its manager if the operator is installed while it runs.
type operatorWatch struct{ clients kubernetes.Interface }

// Start runs until the operator leads.
func (w operatorWatch) Start(ctx context.Context) error {
	return watchOperator(ctx, lookForOperator, func() (end bool, err error) {
		if leads, _ := operatorLeads(ctx, w.clients); leads { // without an answer nothing changes
			return true, errOperatorLeads
		}
		return false, nil
	})
}

// NeedLeaderElection is false, because no replica may become the leader then.
func (operatorWatch) NeedLeaderElection() bool { return false }

// watchOperator looks until that returns true.
func watchOperator(ctx context.Context, pause time.Duration, look func() (end bool, err error)) error {
	every := time.NewTicker(pause)
	defer every.Stop()
	for {
		if end, err := look(); end {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// operatorLeads does without the API server's list of kinds, a request for which cannot be ended.
func operatorLeads(ctx context.Context, clients kubernetes.Interface) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	leads, err := v1alpha1.OperatorLeads(func(namespace, name string) error {
		_, err := clients.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("looking for OpenShift's Machine Config Operator: %w", err)
	}
	return leads, nil
}
