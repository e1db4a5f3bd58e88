package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcd/report"
)

// boardServer keeps one MachineConfigNode, as an API server does as far as a board can tell.
type boardServer struct {
	t  *testing.T
	mu sync.Mutex
	is *mcfgv1.MachineConfigNode
	// answer is what every request gets, 0 for what is right.
	answer int
	// unknown: there is no such kind.
	unknown bool
	// asked are the requests: `GET`, `PATCH`, `PATCH status`.
	asked []string
	heard chan struct{}
}

func newBoard(t *testing.T, log io.Writer) (*boardServer, *StatusPublisher) {
	t.Helper()
	s := &boardServer{t: t, heard: make(chan struct{}, 100)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	cluster := NewConnection("worker-0", func() (*rest.Config, error) {
		return &rest.Config{Host: server.URL, QPS: 1000, Burst: 1000}, nil
	})
	return s, cluster.NewStatusPublisher(t.Context(),
		slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)))
}

// ServeHTTP implements http.Handler.
func (s *boardServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.heard <- struct{}{} }()
	path, status := strings.CutSuffix(r.URL.Path, "/status")
	what := r.Method
	if status {
		what += " status"
	}
	s.asked = append(s.asked, what)
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"no %d"}`,
			map[int]string{404: "NotFound", 403: "Forbidden", 422: "Invalid"}[code], code, code)
	}
	switch {
	case path != "/apis/machineconfiguration.openshift.io/v1/machineconfignodes/worker-0":
		s.t.Errorf("somebody asks for %s", path)
	case s.answer != 0:
		refuse(s.answer)
		return
	case s.unknown || s.is == nil && (status || r.Method == http.MethodGet):
		refuse(http.StatusNotFound)
		return
	case r.Method == http.MethodPatch:
		if q := r.URL.Query(); q.Get("fieldManager") != "machine-config-operator" || q.Get("force") != "true" ||
			r.Header.Get("Content-Type") != "application/apply-patch+yaml" {
			s.t.Errorf("%s %s", r.URL, r.Header.Get("Content-Type"))
		}
		s.apply(r.Body, status)
	}
	if err := json.NewEncoder(w).Encode(s.is); err != nil {
		s.t.Error(err)
	}
}

func (s *boardServer) apply(body io.Reader, status bool) {
	var said mcfgv1.MachineConfigNode
	if err := json.NewDecoder(body).Decode(&said); err != nil {
		s.t.Error(err)
	}
	if s.is == nil {
		s.is = &mcfgv1.MachineConfigNode{TypeMeta: said.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: said.Name}}
	}
	if status {
		s.is.Status = said.Status
		return
	}
	s.is.Spec, s.is.OwnerReferences = said.Spec, said.OwnerReferences
	s.is.Generation++
}

// got waits for so many requests, and returns them.
func (s *boardServer) got(n int) string {
	s.t.Helper()
	for range n {
		select {
		case <-s.heard:
		case <-time.After(time.Minute):
			s.mu.Lock()
			defer s.mu.Unlock()
			s.t.Fatalf("there are only %q", s.asked)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := strings.Join(s.asked, ", ")
	s.asked = nil
	return asked
}

func (s *boardServer) set(change func(*boardServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func boardPlace(phase report.Phase, desired string) report.Status {
	return report.Status{
		NodeName: "worker-0", Phase: phase, Planned: true,
		Node: report.Node{UID: "u", Current: "rendered-worker-a", Desired: desired},
	}
}

func TestABoardSaysWhatIsNewAndNothingElse(t *testing.T) {
	s, b := newBoard(t, io.Discard)
	b.Publish(boardPlace(report.Idle, "rendered-worker-a"))
	if got := s.got(3); got != "GET, PATCH, PATCH status" {
		t.Errorf("a new object took %s", got)
	}
	s.set(func(s *boardServer) {
		if o := s.is.OwnerReferences; len(o) != 1 || o[0].UID != "u" || s.is.Spec.Pool.Name != "worker" ||
			s.is.Status.ObservedGeneration != 1 {
			t.Errorf("%+v", s.is)
		}
	})
	for range 3 { // an idle node looks, and has nothing to say
		b.Publish(boardPlace(report.Idle, "rendered-worker-a"))
	}
	// What is over before the pause is, is not written: of these three, one is.
	b.Publish(boardPlace(report.Draining, "rendered-worker-b"))
	b.Publish(boardPlace(report.Applying, "rendered-worker-b"))
	b.Publish(boardPlace(report.Checking, "rendered-worker-b"))
	if got := s.got(2); got != "PATCH, PATCH status" {
		t.Errorf("an update took %s", got)
	}
	b.Publish(boardPlace(report.Confirming, "rendered-worker-b"))
	if got := s.got(1); got != "PATCH status" {
		t.Errorf("a phase took %s", got)
	}
	s.set(func(s *boardServer) { s.is = nil })
	b.Publish(boardPlace(report.RolledBack, "rendered-worker-b"))
	if got := s.got(4); got != "PATCH status, GET, PATCH, PATCH status" {
		t.Errorf("one that was deleted took %s", got)
	}
	other := boardPlace(report.RolledBack, "rendered-worker-b")
	other.Node.UID = "v"
	b.Publish(other)
	if got := s.got(2); got != "GET, PATCH" {
		t.Errorf("another Node of the same name took %s", got)
	}
}

func TestABoardWaitsForTheAPIServerAndNobodyWaitsForTheBoard(t *testing.T) {
	var log lines
	s, b := newBoard(t, &log)
	s.set(func(s *boardServer) { s.answer = http.StatusServiceUnavailable })
	b.Publish(boardPlace(report.Draining, "rendered-worker-b"))
	s.got(1)
	b.Publish(boardPlace(report.Idle, "rendered-worker-a"))
	s.set(func(s *boardServer) { s.answer = 0 })
	if got := s.got(3); got != "GET, PATCH, PATCH status" {
		t.Errorf("it took %s", got)
	}
	s.set(func(s *boardServer) {
		if s.is.Spec.ConfigVersion.Desired != "rendered-worker-a" {
			t.Error("it shows what was, not what is")
		}
	})
	if log.has("cannot update the MachineConfigNode") != 0 {
		t.Error("it makes a noise about an outage")
	}
}

func TestACompleteRefusalIsToldOnceAndLeft(t *testing.T) {
	for says, c := range map[string]struct {
		change func(*boardServer)
		asked  string // by the first, and by the second that is shown
		again  string
	}{
		"the kind is not known":  {func(s *boardServer) { s.unknown = true }, "GET, PATCH", ""},
		"rights are missing":     {func(s *boardServer) { s.answer = http.StatusForbidden }, "GET", "GET"},
		"the object is not well": {func(s *boardServer) { s.answer = http.StatusUnprocessableEntity }, "GET", "GET"},
	} {
		t.Run(says, func(t *testing.T) {
			var log lines
			s, b := newBoard(t, &log)
			s.set(c.change)
			b.Publish(boardPlace(report.Idle, "rendered-worker-a"))
			if got := s.got(strings.Count(c.asked, ",") + 1); got != c.asked {
				t.Errorf("it asked %s", got)
			}
			log.await(t, "cannot update the MachineConfigNode")
			_, _ = b.write(t.Context(), boardPlace(report.Draining, "rendered-worker-b"))
			if got := s.got(strings.Count(c.again, "G")); got != c.again {
				t.Errorf("then it asked %q", got)
			}
			b.Publish(boardPlace(report.Draining, "rendered-worker-b"))
			if n := log.has("cannot update the MachineConfigNode"); n != 1 {
				t.Errorf("it was logged %d times", n)
			}
		})
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), words)
}

// await looks until it has the words: they come after the answer that they are about.
func (l *lines) await(t *testing.T, words string) {
	t.Helper()
	limit, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for l.has(words) == 0 {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("nobody logged %q", words)
		}
	}
}
