package kube

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestHeartbeat: the daemon writes its report to its own MachineConfigNode, once there is one, and leaves the rest of
// it alone.
func TestHeartbeat(t *testing.T) {
	var asked atomic.Int32
	written := make(chan mcfgv1.MachineConfigNode, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(
				[]byte(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`))
			return
		}
		if r.Method == http.MethodGet { // of the Node
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(
				[]byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"worker-0"}}`))
			return
		}
		if r.Method != http.MethodPatch ||
			r.URL.Path != "/apis/machineconfiguration.openshift.io/v1/machineconfignodes/worker-0" ||
			r.Header.Get("Content-Type") != "application/merge-patch+json" ||
			r.URL.Query().Get("fieldManager") == statusManager {
			t.Errorf("%s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		w.Header().Set("Content-Type", "application/json")
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write(
				[]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
			return
		}
		var is mcfgv1.MachineConfigNode
		if err := json.NewDecoder(r.Body).Decode(&is); err != nil {
			t.Error(err)
		}
		_, _ = w.Write(
			[]byte(`{"kind":"MachineConfigNode","apiVersion":"machineconfiguration.openshift.io/v1","metadata":{"name":"worker-0"}}`))
		written <- is
	}))
	defer server.Close()
	before := time.Now().Truncate(time.Second)
	cluster := NewConnection("worker-0", func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil })
	cluster.Heartbeat(t.Context(), v1alpha1.DaemonReport{Version: "v1"}, nil,
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	is := <-written
	r, err := v1alpha1.ParseDaemonReport(is.Annotations[v1alpha1.DaemonAnnotation])
	if err != nil || r.Version != "v1" || !r.ReadsAllConfigs || r.ConfigsFrom != "" || r.Seen.Time.Before(before) ||
		r.Seen.After(time.Now()) {
		t.Errorf("%+v, %v", r, err)
	}
	if len(is.Annotations) != 1 || is.Spec != (mcfgv1.MachineConfigNodeSpec{}) {
		t.Errorf("it writes more than the report: %+v", is)
	}
}

// TestARefusedHeartbeatIsLoggedOnce: rights that are missing do not come by trying again.
func TestARefusedHeartbeatIsLoggedOnce(t *testing.T) {
	asked := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(
			[]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`))
		if r.Method == http.MethodPatch {
			asked <- struct{}{}
		}
	}))
	defer server.Close()
	cluster := NewConnection("worker-0", func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil })
	lines := make(chan string, 10)
	cluster.Heartbeat(t.Context(), v1alpha1.DaemonReport{Version: "v1"}, nil,
		slog.New(slog.NewTextHandler(writer(func(p []byte) { lines <- string(p) }), nil)))
	<-asked
	if line := <-lines; !strings.Contains(line, "cannot write the heartbeat") || !strings.Contains(line, "worker-0") {
		t.Error(line)
	}
	<-asked // the second try
	<-asked // the third, before which the second was told
	if len(lines) > 0 {
		t.Errorf("logged again: %s", <-lines)
	}
}

// writer is an io.Writer.
type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }
