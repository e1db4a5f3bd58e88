package up

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"
)

func TestTheSourceObject(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"of the repository that is made": {nil, `{"interval":"5s","ref":{"branch":"main"},"url":"DATA/config.git"}`},
		"of a URL":                       {[]string{"--repo", "https://example.com/x"}, `{"interval":"15s","url":"https://example.com/x"}`},
		"of a URL, a branch and a folder": {
			[]string{"--repo", "https://example.com/x", "--ref", "prod", "--path", "a"},
			`{"interval":"15s","path":"a","ref":{"branch":"prod"},"url":"https://example.com/x"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessionOf(t, tc.args...)
			s.dir = "DATA"
			got, err := json.Marshal(applier{o: s.o, dir: s.dir}.sourceSpec())
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestAHostIsAWorkerAsKubeadmRegistersOne(t *testing.T) {
	labels := node("node-2").Metadata.Labels
	if labels["kubernetes.io/hostname"] != "node-2" || labels["kubernetes.io/os"] != "linux" {
		t.Errorf("labels are %v", labels)
	}
	for _, role := range []string{"worker", "master", "control-plane"} {
		if _, ok := labels["node-role.kubernetes.io/"+role]; ok {
			t.Errorf("kubeadm sets no role label, here is %s", role)
		}
	}
}

func TestHostsOfALargerRunAreFormerOnes(t *testing.T) {
	s := sessionOf(t, "--nodes", "2")
	for _, name := range []string{"node-1", "node-2", "node-3", "node-4"} {
		if err := os.Mkdir(s.dir.Host(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got, err := applier{o: s.o, dir: s.dir}.formerHosts()
	if err != nil || !slices.Equal(got, []string{"node-3", "node-4"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAHostIsAwakeWhenItIsReadyAndItsLeaseIsYoungerThanTheStart(t *testing.T) {
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	answers := map[string]string{
		"/api/v1/nodes": `{"items":[
			{"metadata":{"name":"awake"},"status":{"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True"}]}},
			{"metadata":{"name":"from-before"},"status":{"conditions":[{"type":"Ready","status":"True"}]}},
			{"metadata":{"name":"not-ready"},"status":{"conditions":[{"type":"Ready","status":"False"}]}},
			{"metadata":{"name":"pressed"},"status":{"conditions":[{"type":"DiskPressure","status":"True"}]}}]}`,
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases": `{"items":[
			{"metadata":{"name":"awake"},"spec":{"renewTime":"2026-03-01T12:00:01.000000Z"}},
			{"metadata":{"name":"from-before"},"spec":{"renewTime":"2026-03-01T11:59:59.000000Z"}},
			{"metadata":{"name":"not-ready"},"spec":{"renewTime":"2026-03-01T12:00:01.000000Z"}},
			{"metadata":{"name":"pressed"},"spec":{"renewTime":"2026-03-01T12:00:01.000000Z"}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer server.Close()
	c := &apiClient{url: server.URL, http: server.Client()}
	got, err := c.notReady(t.Context(), []string{"awake", "from-before", "not-ready", "pressed", "absent"}, begun)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"from-before", "not-ready", "pressed", "absent"}; !slices.Equal(got, want) {
		t.Errorf("asleep are %v, want %v", got, want)
	}
}
