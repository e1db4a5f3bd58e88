package kube

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcd/report"
)

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// eventServer takes events; the first is refused while the API server is not there.
func eventServer(t *testing.T) (*Connection, chan corev1.Event) {
	t.Helper()
	got, refused := make(chan corev1.Event, 200), false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refused {
			refused = true
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/api/v1/nodes/worker-0" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-0","uid":"c256e7b6"}}`)
			return
		}
		var e corev1.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || r.URL.Path != "/api/v1/namespaces/default/events" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		got <- e
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"default"}}`)
	}))
	t.Cleanup(server.Close)
	return NewConnection("worker-0", func() (*rest.Config, error) {
		return &rest.Config{Host: server.URL, QPS: 1000, Burst: 1000}, nil
	}), got
}

func TestAnEventReachesTheClusterWhenItAnswers(t *testing.T) {
	cluster, got := eventServer(t)
	r := cluster.NewRecorder(t.Context(), testLog(t))
	r.Event(report.EventDrain, "draining the node for rendered-a")
	r.Event(report.EventRejected, strings.Repeat("ü", 2000)+"\xff")
	first, second := <-got, <-got
	if first.Reason != "Drain" || first.Type != "Normal" || first.InvolvedObject.Kind != "Node" ||
		first.InvolvedObject.Name != "worker-0" ||
		first.InvolvedObject.UID != "c256e7b6" || first.InvolvedObject.APIVersion != "v1" || first.Source.Component != "machineconfigdaemon" || first.Count != 1 ||
		first.FirstTimestamp.IsZero() {
		t.Errorf("%+v", first)
	}
	if second.Type != "Warning" || len(second.Message) > maxMessage || !utf8.ValidString(second.Message) ||
		second.Name == first.Name {
		t.Errorf("%d bytes: %+v", len(second.Message), second.ObjectMeta)
	}
}

func TestEventsAreBounded(t *testing.T) {
	r := &Recorder{recent: map[report.EventReason]queuedEvent{}, tokens: burst, filled: time.Unix(0, 0)}
	now := time.Unix(0, 0)
	if !r.enqueue(queuedEvent{reason: report.EventDrain, message: "m"}, now) ||
		r.enqueue(queuedEvent{reason: report.EventDrain, message: "m"}, now.Add(repeat-time.Second)) ||
		!r.enqueue(queuedEvent{reason: report.EventDrain, message: "m"}, now.Add(repeat)) {
		t.Error("what was said is said again too soon, or never")
	}
	now = now.Add(2 * repeat)
	for _, config := range []string{"a", "b", "a"} { // The node goes from a to b, and returns within a minute.
		now = now.Add(20 * time.Second)
		if !r.enqueue(queuedEvent{reason: report.EventNodeDone, message: "the node is in rendered-" + config}, now) {
			t.Errorf("it is not said that the node is in %s", config)
		}
	}
	now = now.Add(time.Hour)
	admitted := 0
	for i := range 10000 { // a thousand seconds
		if r.enqueue(queuedEvent{reason: report.EventDrain, message: fmt.Sprint(i)},
			now.Add(time.Duration(i)*100*time.Millisecond)) {
			admitted++
		}
	}
	if admitted < burst || admitted > burst+1000/int(refill.Seconds())+1 || len(r.queue) > maxQueued ||
		len(r.recent) > burst+100 {
		t.Errorf("%d events, %d wait, %d are remembered", admitted, len(r.queue), len(r.recent))
	}
}
