package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// apiServer speaks as much of the Kubernetes API as a watch on pools, none on tokens and a get of a config need.
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

type event struct {
	Type   string                    `json:"type"`
	Object *mcfgv1.MachineConfigPool `json:"object"`
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{
		pools: map[string]*mcfgv1.MachineConfigPool{}, configs: map[string]*mcfgv1.MachineConfig{},
		gets: map[string]int{}, changed: make(chan struct{}),
	}
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
	case name == "provisioningtokens" && query.Get("watch") != "":
		s.noTokens(w, r)
	case name == "provisioningtokens":
		list := &v1alpha1.ProvisioningTokenList{
			TypeMeta: tokenType("List"),
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		}
		_ = json.NewEncoder(w).Encode(list)
	case s.configs[name] != nil:
		s.gets[name]++
		_ = json.NewEncoder(w).Encode(s.configs[name])
	default:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   "Failure", Reason: metav1.StatusReasonNotFound, Code: 404, Message: name + " not found",
		})
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

// noTokens is a watch on tokens, of which there are none; mu is held but while it waits.
func (s *apiServer) noTokens(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		end := &v1alpha1.ProvisioningToken{TypeMeta: tokenType("")}
		end.ResourceVersion = "1"
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "BOOKMARK", "object": end})
	}
	w.(http.Flusher).Flush()
	s.mu.Unlock()
	<-r.Context().Done()
	s.mu.Lock()
}

func tokenType(suffix string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProvisioningToken" + suffix}
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

// pool creates or updates a pool; record is its rollout's, where one is given.
func (s *apiServer) pool(name, config string, record ...v1alpha1.RolloutRecord) {
	s.change(func() {
		kind := "MODIFIED"
		if s.pools[name] == nil {
			kind = "ADDED"
		}
		s.version++
		p := &mcfgv1.MachineConfigPool{TypeMeta: poolType()}
		p.Name, p.ResourceVersion = name, strconv.Itoa(s.version)
		p.Spec.Configuration.Name = config
		for _, r := range record {
			p.Annotations = map[string]string{v1alpha1.RolloutAnnotation: r.String()}
		}
		s.pools[name] = p
		s.log = append(s.log, event{kind, p})
	})
}

// mark gives a pool secret paths, as the controller does.
func (s *apiServer) mark(name, paths string) {
	s.change(func() {
		s.version++
		p := s.pools[name].DeepCopy()
		p.ResourceVersion = strconv.Itoa(s.version)
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.PoolSecretPathsAnnotation, paths)
		s.pools[name] = p
		s.log = append(s.log, event{"MODIFIED", p})
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
