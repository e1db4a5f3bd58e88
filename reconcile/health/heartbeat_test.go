package health_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/health"
)

type heartbeats struct {
	*health.Reporter
	t       *testing.T
	cluster client.Client
	now     time.Time
	elected chan struct{}
	// down is what every request gets; nil: the API server answers.
	down error
}

func newHeartbeat(t *testing.T) *heartbeats {
	t.Helper()
	scheme, err := reconcile.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	h := &heartbeats{t: t, now: controllertest.Noon, elected: make(chan struct{})}
	h.cluster = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			if h.down != nil {
				return h.down
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if h.down != nil {
				return h.down
			}
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	h.Reporter = &health.Reporter{
		Client: h.cluster, Live: h.cluster, Namespace: "bunsen-system", Version: "v1", Elected: h.elected,
		Replica: health.Replica{Name: "Host_1.example.com", Pod: "mcc-1", PodUID: "u-1"},
		Listings: func() map[string]v1alpha1.SourceLook {
			return map[string]v1alpha1.SourceLook{"config": {
				At:      metav1.NewTime(controllertest.Noon),
				Problem: "no route",
			}}
		},
		Now: func() time.Time { return h.now },
	}
	return h
}

func (h *heartbeats) lease() (coordinationv1.Lease, v1alpha1.ControllerReport) {
	h.t.Helper()
	var l coordinationv1.Lease
	if err := h.cluster.Get(h.t.Context(), client.ObjectKey{
		Namespace: "bunsen-system",
		Name:      "machine-config-controller-host-1.example.com",
	}, &l); err != nil {
		h.t.Fatal(err)
	}
	r, err := v1alpha1.ParseControllerReport(l.Annotations[v1alpha1.ControllerAnnotation])
	if err != nil {
		h.t.Fatal(err)
	}
	return l, r
}

func (h *heartbeats) report() {
	h.t.Helper()
	if err := h.Report(h.t.Context(), 35*time.Second); err != nil {
		h.t.Fatal(err)
	}
}

// TestAReplicaReports: the Lease says who it is, whether it leads, and when the leader last looked at the repositories.
func TestAReplicaReports(t *testing.T) {
	h := newHeartbeat(t)
	h.report()
	l, r := h.lease()
	if l.Labels[v1alpha1.ServerLabel] != v1alpha1.ControllerComponent || len(l.OwnerReferences) != 1 ||
		l.OwnerReferences[0].UID != "u-1" {
		t.Errorf("labels %v, owners %v", l.Labels, l.OwnerReferences)
	}
	if r.Pod != "bunsen-system/mcc-1" || r.Host != "" || r.PID != 0 {
		t.Errorf("a replica in a pod reports pod %q, host %q, process %d", r.Pod, r.Host, r.PID)
	}
	if r.Leader || r.Sources != nil || r.Version != "v1" || !r.Started.Time.Equal(controllertest.Noon) ||
		*l.Spec.LeaseDurationSeconds != 35 {
		t.Errorf("a replica that stands by reports %v for %ds", r, *l.Spec.LeaseDurationSeconds)
	}
	close(h.elected)
	h.now = controllertest.Noon.Add(10 * time.Second)
	h.report()
	l, r = h.lease()
	if look := r.Sources["config"]; !r.Leader || !look.At.Time.Equal(controllertest.Noon) ||
		look.Problem != "no route" {
		t.Errorf("the leader reports %v", r)
	}
	if !r.Started.Time.Equal(controllertest.Noon) || !l.Spec.RenewTime.Time.Equal(h.now) ||
		!l.Spec.AcquireTime.Time.Equal(controllertest.Noon) {
		t.Errorf("started %v, acquired %v, renewed %v", r.Started, l.Spec.AcquireTime, l.Spec.RenewTime)
	}
}

// TestALeaseThatAnotherChangedIsReadAgain: a conflict costs one report.
func TestALeaseThatAnotherChangedIsReadAgain(t *testing.T) {
	h := newHeartbeat(t)
	h.report()
	l, _ := h.lease()
	l.Spec.HolderIdentity = new("somebody")
	if err := h.cluster.Update(t.Context(), &l); err != nil {
		t.Fatal(err)
	}
	if err := h.Report(t.Context(), time.Second); !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want a conflict", err)
	}
	h.report()
	if l, _ = h.lease(); *l.Spec.HolderIdentity != "Host_1.example.com" {
		t.Errorf("the holder is %s", *l.Spec.HolderIdentity)
	}
}

// TestReady: a replica is ready while the API server answers and its caches have synced, whether it leads or not.
func TestReady(t *testing.T) {
	gone := errors.New("connection refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", nil)
	for sentence, tc := range map[string]struct {
		before func(h *heartbeats)
		want   string
	}{
		"the first report has not been written": {func(*heartbeats) {}, "has not answered yet"},
		"the API server answers":                {func(h *heartbeats) { h.report() }, ""},
		"the caches have not synced":            {func(h *heartbeats) { h.report(); h.Synced = func(context.Context) bool { return false } }, "the caches have not synced"},
		"the caches have synced":                {func(h *heartbeats) { h.report(); h.Synced = func(context.Context) bool { return true } }, ""},
		"the API server has been away for a moment": {func(h *heartbeats) {
			h.report()
			h.down = gone
			h.now = controllertest.Noon.Add(30 * time.Second)
			_ = h.Report(h.t.Context(), time.Second)
		}, ""},
		"the API server has been away for too long": {func(h *heartbeats) {
			h.report()
			h.down = gone
			h.now = controllertest.Noon.Add(time.Minute)
			_ = h.Report(h.t.Context(), time.Second)
		}, "has not answered for 1m0s"},
		"a right is missing, so the server answered": {func(h *heartbeats) { h.down = forbidden; _ = h.Report(h.t.Context(), time.Second) }, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			h := newHeartbeat(t)
			tc.before(h)
			err := h.Ready(httptest.NewRequest("GET", "/readyz", nil))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestAReplicaOutsideOfAPod: the report names the host and the process, which a person needs to restart it.
func TestAReplicaOutsideOfAPod(t *testing.T) {
	h := newHeartbeat(t)
	h.Replica = health.Replica{Name: "Host_1.example.com", Host: "Host_1.example.com", PID: 4711}
	h.report()
	if _, r := h.lease(); r.Pod != "" || r.Host != "Host_1.example.com" || r.PID != 4711 {
		t.Errorf("pod %q, host %q, process %d", r.Pod, r.Host, r.PID)
	}
}

// TestAFirstLookIsReported: the first look at a repository does not wait for the next regular report.
func TestAFirstLookIsReported(t *testing.T) {
	h := newHeartbeat(t)
	looked := make(chan struct{}, 1)
	close(h.elected)
	wrote := make(chan v1alpha1.ControllerReport, 16)
	h.Client = interceptor.NewClient(h.cluster.(client.WithWatch), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			r, err := v1alpha1.ParseControllerReport(o.GetAnnotations()[v1alpha1.ControllerAnnotation])
			if err == nil {
				wrote <- r
			}
			return c.Update(ctx, o, opts...)
		},
	})
	h.FirstListing = looked
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Start(ctx) }()
	if <-wrote; len(wrote) > 0 { // the election
		t.Error("two reports before a look")
	}
	began := time.Now()
	looked <- struct{}{}
	looked <- struct{}{}
	looked <- struct{}{}
	if r := <-wrote; len(r.Sources) == 0 || time.Since(began) > 8*time.Second {
		t.Errorf("after %s the report has the looks %v", time.Since(began), r.Sources)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(wrote) != 1 { // that of the end
		t.Errorf("%d reports after the first look, want one", len(wrote))
	}
}
