package kube_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/kube"
)

func TestTheDisruptionPolicyIsTheNewestThatTheClusterHas(t *testing.T) {
	const object = `{"apiVersion":"operator.openshift.io/v1","kind":"MachineConfiguration","metadata":{"name":"cluster","generation":2,"annotations":{"bunsen.dev/in-place":"openshift"}},
	 "spec":{"nodeDisruptionPolicy":{"files":[{"path":"/etc/new","actions":[{"type":"None"}]}]}},
	 "status":{"observedGeneration":%d,"nodeDisruptionPolicyStatus":{"clusterPolicies":{"files":[{"path":"/etc/old","actions":[{"type":"None"}]}]}}}}`
	var answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answer == "" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	client, err := kube.New(&rest.Config{Host: server.URL}, "worker-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says, answer string
		old, new     bool // which rule counts
	}{
		{"a cluster without one has the defaults", "", false, false},
		{"a status of this generation counts", fmt.Sprintf(object, 2), true, false},
		{"a status of an earlier generation does not: the spec is newer", fmt.Sprintf(object, 1), false, true},
		{"one that was deleted again counts no more", "", false, false},
	} {
		t.Run(c.says, func(t *testing.T) {
			answer = c.answer
			rules, err := client.Rules(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			has := map[string]bool{}
			for _, r := range rules.Policy.Files {
				has[r.Name] = true
			}
			if has["/etc/old"] != c.old || has["/etc/new"] != c.new || c.answer == "" &&
				len(has) != len(disruption.Default().Files) {
				t.Errorf("it has rules for %v", has)
			}
			if rules.Overrides.OpenShift != (c.answer != "") {
				t.Errorf("the limits are %+v", rules.Overrides)
			}
		})
	}
}

// limited fails calls that may last for ever.
type limited struct {
	http.RoundTripper
	t *testing.T
}

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, ends := r.Context().Deadline(); !ends {
		l.t.Errorf("%s may last for ever", r.URL.Path)
	}
	return l.RoundTripper.RoundTrip(r)
}

func TestNoCallLastsForEver(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "driftpolicies") {
			fmt.Fprint(w,
				`{"apiVersion":"bunsen.dev/v1alpha1","kind":"DriftPolicyList","items":[{"apiVersion":"bunsen.dev/v1alpha1","kind":"DriftPolicy","metadata":{"name":"a"},"spec":{"machineConfigPoolSelector":{}}}]}`)
			return
		}
		if r.URL.Query().Get("watch") != "" {
			fmt.Fprint(w,
				`{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"worker-0"}}}`)
			return
		}
		fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-0"}}`)
	}))
	defer server.Close()
	client, err := kube.New(&rest.Config{
		Host:          server.URL,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return limited{next, t} },
	}, "worker-0")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, _ = client.Node(ctx)
	_ = client.SetAnnotations(ctx, map[string]string{"a": "b"})
	_, _ = client.Config(ctx, "rendered-a")
	_, _ = client.Rules(ctx)
	_, _ = client.DriftRules(ctx, "worker")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	<-client.Watch(ctx, slog.New(slog.DiscardHandler))
}
