package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/health"
)

// summary checks the object, its columns and its rules on a real API server.
func (s *stage) summary() {
	s.t.Helper()
	s.shows("NAME OUTCOME VERSION AVAILABLE PROGRESSING DEGRADED MESSAGE\ncluster test False False False no "+
		"machine-config-daemon of 2 nodes reports", "get", "bunsenstatuses")
	s.kubectl("wait", "--for=condition=Progressing=False", "bunsenstatus/cluster", "--timeout=30s")
	second := &v1alpha1.BunsenStatus{ObjectMeta: metav1.ObjectMeta{Name: "second"}}
	if err := s.admin.Create(s.t.Context(), second); err == nil ||
		!strings.Contains(err.Error(), "the only BunsenStatus is named cluster") {
		s.t.Errorf("creating a second BunsenStatus: %v", err)
	}
	deleted := &v1alpha1.BunsenStatus{}
	if err := s.get(v1alpha1.BunsenStatusName, deleted); err != nil {
		s.t.Fatal(err)
	}
	if err := s.admin.Delete(s.t.Context(), deleted); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the object exists again after its deletion", func() error {
		return s.get(v1alpha1.BunsenStatusName, &v1alpha1.BunsenStatus{})
	})
}

// TestTheSummaryOfTheCluster reads the programs from their Leases and heartbeats.
func TestTheSummaryOfTheCluster(t *testing.T) {
	w := controllertest.NewCluster(t)
	seconds, until := int32(35), metav1.NewMicroTime(controllertest.Noon)
	lease := func(name, component, annotation, report string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "bunsen-system",
				Labels:      map[string]string{v1alpha1.ServerLabel: component},
				Annotations: map[string]string{annotation: report},
			},
			Spec: coordinationv1.LeaseSpec{RenewTime: &until, LeaseDurationSeconds: &seconds},
		}
	}
	w.Create(lease("c-0", v1alpha1.ControllerComponent, v1alpha1.ControllerAnnotation,
		v1alpha1.ControllerReport{Version: "v2", Leader: true}.String()))
	w.Create(lease("c-1", v1alpha1.ControllerComponent, v1alpha1.ControllerAnnotation, "{"))
	w.Create(lease("s-0", v1alpha1.ServerComponent, v1alpha1.ServerAnnotation,
		v1alpha1.ServerReport{Version: "v1"}.String()))
	for name, version := range map[string]string{"n0": "v2", "n1": "v1"} {
		w.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		w.Create(&mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			v1alpha1.DaemonAnnotation: v1alpha1.DaemonReport{Version: version, Seen: metav1.NewTime(controllertest.Noon)}.String(),
		}}})
	}
	c := &health.SummaryController{
		Client: w.Client, Live: w.Client, Heartbeats: &health.Heartbeats{}, Namespace: "bunsen-system", Version: "v2",
		Now: func() time.Time { return w.Now },
	}
	summarize := func() v1alpha1.ClusterStatus {
		t.Helper()
		if _, err := c.Reconcile(t.Context(), controllertest.Request(v1alpha1.BunsenStatusName)); err != nil {
			t.Fatal(err)
		}
		return controllertest.Get(w, v1alpha1.BunsenStatusName, &v1alpha1.BunsenStatus{}).Status
	}
	got := summarize()
	var versions []string
	for _, v := range got.Versions {
		versions = append(versions, fmt.Sprintf("%s %s %d", v.Component, v.Version, v.Count))
	}
	controllertest.Equal(t, "the versions", strings.Join(versions, ", "),
		"machine-config-controller unknown 1, machine-config-controller v2 1, machine-config-daemon v1 1, "+
			"machine-config-daemon v2 1, machine-config-server v1 1")
	if !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.AvailableCondition) ||
		meta.IsStatusConditionTrue(got.Conditions, v1alpha1.UpgradeableCondition) {
		t.Errorf("the conditions are %+v", got.Conditions)
	}

	w.Now = w.Now.Add(time.Minute) // the Leases have expired
	if reason := meta.FindStatusCondition(summarize().Conditions, v1alpha1.AvailableCondition).
		Reason; reason != v1alpha1.ReasonNoServers {
		t.Errorf("without servers, the reason of Available is %s", reason)
	}
	w.Now = w.Now.Add(10 * time.Minute) // the heartbeats are old
	if reason := meta.FindStatusCondition(summarize().Conditions, v1alpha1.AvailableCondition).
		Reason; reason != v1alpha1.ReasonNoDaemons {
		t.Errorf("with silent daemons, the reason of Available is %s", reason)
	}

	writes := len(w.Writes.Done)
	w.Now = w.Now.Add(time.Minute)
	summarize()
	if now := len(w.Writes.Done); now != writes {
		t.Errorf("an unchanged cluster caused %d writes", now-writes)
	}
}

// TestTheVerdictIsInThePool: it is written once, follows the outcome, and leaves the other conditions alone.
func TestTheVerdictIsInThePool(t *testing.T) {
	w := controllertest.NewCluster(t)
	pool := controllertest.Get(w, "worker", &mcfgv1.MachineConfigPool{})
	pool.Status.Conditions = []mcfgv1.MachineConfigPoolCondition{{
		Type: mcfgv1.MachineConfigPoolUpdated, Status: corev1.ConditionTrue, Message: "All nodes are updated",
		LastTransitionTime: metav1.NewTime(w.Now),
	}}
	if err := w.Admin.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	outcome := v1alpha1.OutcomeFine
	c := &health.SummaryController{
		Client: w.Client, Live: w.Client, Heartbeats: &health.Heartbeats{}, Namespace: "bunsen-system",
		Now: func() time.Time { return w.Now },
		Judge: func(health.Objects, time.Time) []v1alpha1.Verdict {
			return []v1alpha1.Verdict{
				{Kind: "GitSource", Name: "worker", Outcome: v1alpha1.OutcomeDegraded, Message: "another object of the name"},
				{Kind: "MachineConfigPool", Name: "worker", Outcome: outcome, Cause: "Halted", Message: w.Now.String()},
				{Kind: "MachineConfigPool", Name: "deleted", Outcome: outcome},
			}
		},
	}
	shows := func() string {
		t.Helper()
		w.Now = w.Now.Add(time.Minute)
		if _, err := c.Reconcile(t.Context(), controllertest.Request(v1alpha1.BunsenStatusName)); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range controllertest.Get(w, "worker", &mcfgv1.MachineConfigPool{}).Status.Conditions {
			out = append(out, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
		return strings.Join(out, "; ")
	}
	const updated = "Updated=True  All nodes are updated"
	controllertest.Equal(t, "fine", shows(), updated)
	outcome = v1alpha1.OutcomeDegraded
	stalled := updated + "; Stalled=True Halted pool worker is degraded; for the reason: bunsen why pool/worker"
	controllertest.Equal(t, "halted", shows(), stalled)
	writes := len(w.Writes.Done)
	controllertest.Equal(t, "still halted, with another message", shows(), stalled)
	for _, write := range w.Writes.Done[writes:] {
		if strings.Contains(fmt.Sprint(write), "MachineConfigPool") {
			t.Errorf("an equal verdict was written again: %v", write)
		}
	}
	outcome = v1alpha1.OutcomeWaiting
	controllertest.Equal(t, "waiting", shows(),
		updated+"; Reconciling=True Halted pool worker is waiting; for the reason: bunsen why pool/worker")
	outcome = v1alpha1.OutcomeFine
	controllertest.Equal(t, "fine again", shows(), updated)
}

// TestAClusterWithoutTheKindOfTheSummary is one whose CRDs are of an earlier version than its controller.
func TestAClusterWithoutTheKindOfTheSummary(t *testing.T) {
	w := controllertest.NewCluster(t)
	live := interceptor.NewClient(w.Admin,
		interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
			...client.GetOption,
		) error {
			return &meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("BunsenStatus").GroupKind()}
		}})
	c := &health.SummaryController{
		Client: w.Client, Live: live, Heartbeats: &health.Heartbeats{},
		Namespace: "bunsen-system", Now: func() time.Time { return w.Now },
	}
	result, err := c.Reconcile(t.Context(), controllertest.Request(v1alpha1.BunsenStatusName))
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("%+v, %v; want a later attempt", result, err)
	}
}
