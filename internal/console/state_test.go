package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console/view"
)

// TestPagesShareAState draws pages of two users at the same time from one state, again and again. Each is what its user
// gets alone from a state that nobody has seen: no page changes what others draw.
func TestPagesShareAState(t *testing.T) {
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	visitors := map[string]*visitor{}
	for name, may := range map[string]bool{"alice": true, "bob": false} {
		visitors[name] = newVisitor(name, fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(
			interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					o.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed = may
					return nil
				},
			}).Build(), nil)
	}
	now, c := time.Unix(1000, 0), largeCluster()
	draw := func(user, path string, s *state) string {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		p, err := find(pages(), r)(t.Context(), pinned{visitors[user], Snapshot[*state]{1, s, true, nil}}, r, now)
		return fmt.Sprint(view.RegionDigest(p.Regions), err)
	}
	want := map[[2]string]string{}
	for user := range visitors {
		for _, path := range []string{"/", "/commits", "/pool/p07", "/pool/p08?by=state", "/node/p07-000", "/search?q=p0"} {
			want[[2]string{user, path}] = draw(user, path, &state{Cluster: c})
		}
	}
	shared := &state{Cluster: c}
	var all sync.WaitGroup
	for range 3 {
		for of, digest := range want {
			all.Go(func() {
				if got := draw(of[0], of[1], shared); got != digest {
					t.Errorf("%s of %s is another page", of[1], of[0])
				}
			})
		}
	}
	all.Wait()
	f := shared.at(now)
	if shared.at(now.Add(answerAge)) != f || shared.at(now.Add(answerAge+1)) == f {
		t.Error("what follows from a state counts for another time")
	}
}
