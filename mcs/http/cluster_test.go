package http

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcs"
)

// apiServer speaks as much of the Kubernetes API as a watch on pools and a get of a config need.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	version int
	pools   map[string]*mcfgv1.MachineConfigPool
	configs map[string]*mcfgv1.MachineConfig
	gets    map[string]int
	changed chan struct{} // closed at every change
	log     []event
	away    bool
}

// event is one change of a pool.
type event struct {
	Type   string                    `json:"type"`
	Object *mcfgv1.MachineConfigPool `json:"object"`
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{pools: map[string]*mcfgv1.MachineConfigPool{}, configs: map[string]*mcfgv1.MachineConfig{}, gets: map[string]int{}, changed: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	name := path.Base(r.URL.Path)
	switch {
	case s.away:
		http.Error(w, "{}", http.StatusServiceUnavailable)
	case name == "machineconfigpools" && query.Get("watch") != "":
		s.watch(w, r, query.Get("sendInitialEvents") == "true")
	case name == "machineconfigpools":
		list := &mcfgv1.MachineConfigPoolList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
		list.APIVersion, list.Kind = mcfgv1.GroupVersion.String(), "MachineConfigPoolList"
		for _, pool := range s.pools {
			list.Items = append(list.Items, *pool)
		}
		_ = json.NewEncoder(w).Encode(list)
	case s.configs[name] != nil:
		s.gets[name]++
		_ = json.NewEncoder(w).Encode(s.configs[name])
	default:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404, Message: name + " not found"})
	}
}

// watch streams what happens after the request's resourceVersion; mu is held but while it waits.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, initial bool) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	out := json.NewEncoder(w)
	if initial {
		for _, pool := range s.pools {
			_ = out.Encode(event{"ADDED", pool})
		}
		end := &mcfgv1.MachineConfigPool{TypeMeta: poolType()}
		end.ResourceVersion = strconv.Itoa(s.version)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		_ = out.Encode(event{"BOOKMARK", end})
		from = s.version
	}
	for {
		for ; from < len(s.log); from++ {
			_ = out.Encode(s.log[from])
		}
		w.(http.Flusher).Flush()
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		s.mu.Lock()
		if r.Context().Err() != nil || s.away {
			return
		}
	}
}

func poolType() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigPool"}
}

// change runs under the lock and wakes the watchers.
func (s *apiServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// pool creates or updates a pool.
func (s *apiServer) pool(name, config string) {
	s.change(func() {
		kind := "MODIFIED"
		if s.pools[name] == nil {
			kind = "ADDED"
		}
		s.version++
		p := &mcfgv1.MachineConfigPool{TypeMeta: poolType()}
		p.Name, p.ResourceVersion = name, strconv.Itoa(s.version)
		p.Spec.Configuration.Name = config
		s.pools[name] = p
		s.log = append(s.log, event{kind, p})
	})
}

func (s *apiServer) remove(name string) {
	s.change(func() {
		s.version++
		p := s.pools[name].DeepCopy()
		p.ResourceVersion = strconv.Itoa(s.version)
		delete(s.pools, name)
		s.log = append(s.log, event{"DELETED", p})
	})
}

func (s *apiServer) config(mc *mcfgv1.MachineConfig) {
	mc.APIVersion, mc.Kind = mcfgv1.GroupVersion.String(), "MachineConfig"
	s.change(func() { s.configs[mc.Name] = mc })
}

// lines is a log that a test can wait on.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

func (l lines) await(t *testing.T, parts ...string) {
	t.Helper()
	var seen []string
	deadline := time.After(time.Minute)
	for {
		select {
		case line := <-l:
			seen = append(seen, line)
			all := true
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				return
			}
		case <-deadline:
			t.Fatalf("no line with %q in\n%s", parts, seen)
		}
	}
}

// start runs a Cluster against the server until the test ends.
func start(t *testing.T, api *apiServer) (*Shelf, lines) {
	t.Helper()
	log := make(lines, 10000)
	s := NewShelf()
	cluster, err := NewCluster(&rest.Config{Host: api.URL}, s, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cluster.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return s, log
}

func serves(t *testing.T, s *Shelf, pool, want string) {
	t.Helper()
	o, err := s.Offer(pool)
	if err != nil {
		t.Fatalf("pool %s: %v", pool, err)
	}
	if o.Config() != want {
		t.Errorf("pool %s serves %s, want %s", pool, o.Config(), want)
	}
}

func TestTheShelfFollowsTheCluster(t *testing.T) {
	api := newAPIServer(t)
	for _, name := range []string{"rendered-worker-1", "rendered-worker-2", "rendered-other-1"} {
		api.config(rendered(name, "a"))
	}
	api.pool("worker", "rendered-worker-1")
	api.pool("new", "")
	s, log := start(t, api)

	log.await(t, "ready")
	serves(t, s, "worker", "rendered-worker-1")
	if _, err := s.Offer("new"); !errors.Is(err, mcs.ErrNothingRendered) {
		t.Errorf("a pool without a config: %v", err)
	}
	if _, err := s.Offer("nobody"); !errors.Is(err, mcs.ErrUnknownPool) {
		t.Errorf("no pool: %v", err)
	}
	api.pool("worker", "rendered-worker-2")
	log.await(t, "msg=serving", "rendered-worker-2")
	serves(t, s, "worker", "rendered-worker-2")
	api.pool("worker", "rendered-worker-2") // a status that moves on
	api.pool("late", "rendered-other-1")
	log.await(t, "msg=serving", "rendered-other-1")
	serves(t, s, "late", "rendered-other-1")

	api.mu.Lock()
	defer api.mu.Unlock()
	if api.gets["rendered-worker-2"] != 1 || api.gets["rendered-worker-1"] != 1 {
		t.Errorf("each config is read once, got %v", api.gets)
	}
}

func TestTheLastGoodConfigIsServedWhateverHappens(t *testing.T) {
	api := newAPIServer(t)
	api.config(rendered("rendered-worker-1", "a"))
	api.pool("worker", "rendered-worker-1")
	s, log := start(t, api)
	log.await(t, "ready")

	api.pool("worker", "rendered-worker-2")
	log.await(t, "keeping", "rendered-worker-2 not found")
	serves(t, s, "worker", "rendered-worker-1")
	api.config(rendered("rendered-worker-2", "b"))
	log.await(t, "msg=serving", "rendered-worker-2")

	bad := rendered("rendered-worker-3", "")
	bad.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"relative"}]}}`)
	api.config(bad)
	api.pool("worker", "rendered-worker-3")
	log.await(t, "keeping", "rendered-worker-3", "relative")
	serves(t, s, "worker", "rendered-worker-2")

	api.change(func() { api.away = true })
	api.CloseClientConnections()
	serves(t, s, "worker", "rendered-worker-2")
	if !s.Ready() {
		t.Error("not ready while the API server is away")
	}
	api.config(rendered("rendered-worker-4", "d"))
	api.pool("worker", "rendered-worker-4")
	api.pool("other", "rendered-worker-4")
	api.remove("other")
	api.change(func() { api.away = false })
	log.await(t, "msg=serving", "rendered-worker-4")
	serves(t, s, "worker", "rendered-worker-4")
}

func TestAPoolThatIsGoneIsUnknown(t *testing.T) {
	api := newAPIServer(t)
	api.config(rendered("rendered-worker-1", "a"))
	api.pool("worker", "rendered-worker-1")
	api.pool("gone", "rendered-worker-1")
	s, log := start(t, api)
	log.await(t, "ready")
	serves(t, s, "gone", "rendered-worker-1")
	api.remove("gone")
	api.pool("mark", "rendered-worker-1") // handled after the removal
	log.await(t, "msg=serving", "pool=mark")
	if _, err := s.Offer("gone"); !errors.Is(err, mcs.ErrUnknownPool) {
		t.Errorf("got %v", err)
	}
}
