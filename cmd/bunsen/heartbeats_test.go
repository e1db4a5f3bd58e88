package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestHeartbeatsAreReadFromLeases asks a stand-in of an API server, which keeps Leases of controllers and servers, and
// of others.
func TestHeartbeatsAreReadFromLeases(t *testing.T) {
	lease := func(namespace, name, component string) object {
		return object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{
			"namespace": namespace, "name": name, "labels": map[string]any{"bunsen.dev/component": component},
		}, "spec": map[string]any{"holderIdentity": name}}
	}
	for sentence, c := range map[string]struct {
		denied []string
		names  string
		note   string
	}{
		"those of controllers and servers, in Bunsen's own namespace": {names: "a b"},
		"or a note for who may not read them":                         {denied: []string{"list leases"}, note: "not shown, because you may not list leases in bunsen-system"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := &keeper{objects: map[string]object{}, denied: c.denied}
			for _, o := range []object{
				lease("bunsen-system", "a", "machine-config-server"),
				lease("bunsen-system", "b", "machine-config-controller"),
				lease("default", "c", "machine-config-server"),
			} {
				s.objects[o.path()] = o
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.ServeHTTP(w, r)
			}))
			defer server.Close()
			scheme, err := kube.Scheme()
			if err != nil {
				t.Fatal(err)
			}
			kc, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme})
			if err != nil {
				t.Fatal(err)
			}
			var got fleet.Cluster
			r := &kube.Heartbeats{Client: kc}
			if err := r.Fill(t.Context(), &got); err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := range got.Leases {
				names = append(names, got.Leases[i].Name)
			}
			if strings.Join(names, " ") != c.names || got.LeasesNote != c.note {
				t.Errorf("%q, note %q", names, got.LeasesNote)
			}
			server.Close()
			again := got
			if err := r.Fill(t.Context(), &again); err != nil || len(again.Leases) != len(got.Leases) {
				t.Errorf("it asked again at once: %v", err)
			}
			r = &kube.Heartbeats{Client: kc}
			if err := r.Fill(t.Context(), &again); err == nil {
				t.Error("a cluster that does not answer is no error")
			} else if !strings.Contains(err.Error(), "reading Leases") || errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}
