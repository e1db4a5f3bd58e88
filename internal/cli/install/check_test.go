package install

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestACheckReadsTheReportsOfTheControllers reads Leases from a stand-in of an API server that knows no other kind.
func TestACheckReadsTheReportsOfTheControllers(t *testing.T) {
	now := time.Now()
	lease := func(age time.Duration, leader bool) coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-age))
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "machine-config-controller-a",
				Labels: map[string]string{v1alpha1.ServerLabel: v1alpha1.ControllerComponent},
				Annotations: map[string]string{
					v1alpha1.ControllerAnnotation: v1alpha1.ControllerReport{Leader: leader}.String(),
				},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("a"), RenewTime: &at,
				LeaseDurationSeconds: new(int32(35)),
			},
		}
	}
	for name, c := range map[string]struct {
		leases []coordinationv1.Lease
		want   string
	}{
		"a leader reports":                       {[]coordinationv1.Lease{lease(time.Second, true)}, ""},
		"no replica has ever reported":           {nil, "no machine-config-controller has reported"},
		"the leader is cut off":                  {[]coordinationv1.Lease{lease(2*time.Minute, true)}, "no machine-config-controller reports any more (a was last seen 2m ago"},
		"replicas run, and none of them is lead": {[]coordinationv1.Lease{lease(time.Second, false)}, "no machine-config-controller leads"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				var answer any = coordinationv1.LeaseList{
					TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}, Items: c.leases,
				}
				// no config has secrets
				if r.URL.Path == "/api/v1/namespaces/bunsen-system/configmaps/machine-config-server-secrets" {
					w.WriteHeader(http.StatusNotFound)
					answer = metav1.Status{
						TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
						Status:   metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
					}
				} else if r.URL.Path != "/apis/coordination.k8s.io/v1/namespaces/bunsen-system/leases" {
					t.Errorf("it requested %s", r.URL.Path)
				}
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			kinds := meta.NewDefaultRESTMapper(nil)
			kinds.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
			kinds.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			scheme := runtime.NewScheme()
			if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			kc, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme, Mapper: kinds})
			if err != nil {
				t.Fatal(err)
			}
			read, err := cluster{client: kc}.reports(t.Context())
			got := reportProblems(read, nil, now)
			switch {
			case err != nil:
				t.Fatal(err)
			case c.want == "" && len(got) > 0, c.want != "" &&
				(len(got) != 1 || !got[0].Fatal || !strings.Contains(got[0].What, c.want) || got[0].Fix == ""):
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
}

// TestPartsThatRunAsProcesses: a part without pods is not missing if it reports, as with make run.
func TestPartsThatRunAsProcesses(t *testing.T) {
	now := time.Now()
	lease := func(component, holder string, age time.Duration) coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-age))
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: component + "-" + holder, Labels: map[string]string{v1alpha1.ServerLabel: component},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: new(int32(35)),
			},
		}
	}
	daemon := func(form string, age time.Duration) v1alpha1.DaemonReport {
		return v1alpha1.DaemonReport{Form: form, Seen: metav1.NewTime(now.Add(-age))}
	}
	read := fleet.Cluster{
		Leases: []coordinationv1.Lease{
			lease(v1alpha1.ControllerComponent, "vm", time.Second),
			lease(v1alpha1.ControllerComponent, "old", time.Hour),
			lease(v1alpha1.ServerComponent, "b", time.Second), lease(v1alpha1.ServerComponent, "a", time.Second),
		},
		Daemons: map[string]v1alpha1.DaemonReport{
			"node-1": daemon("", time.Second), "node-2": daemon("", time.Second),
			"node-3": daemon("service", time.Second), "node-4": daemon("", time.Hour),
		},
	}
	var parts []PartState
	for part, want := range map[string]string{
		Controller: "1 process on vm", Server: "2 processes on a, b",
		Daemon: "1 service, 2 processes", Console: "",
	} {
		got := outside(part, read, now)
		if got != want {
			t.Errorf("%s runs as %q, want %q", part, got, want)
		}
		parts = append(parts, PartState{Part: part, Missing: true, Outside: got})
	}
	if r := (report{Parts: parts}); !r.good() || !strings.Contains(r.text(), "1 process on vm") {
		t.Errorf("the check fails:\n%s", r.text())
	}
	if (report{Parts: []PartState{{Part: Controller, Missing: true}}}).good() {
		t.Error("a check without any controller is good")
	}
}
