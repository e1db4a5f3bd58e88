package machines

import (
	"context"
	"errors"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

// TestATokenWithoutAnAnswerIsLookedUp: if it exists, it is printed, because nobody else has its secret.
func TestATokenWithoutAnAnswerIsLookedUp(t *testing.T) {
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for says, c := range map[string]struct {
		// made is true if the API server stores the token, and away is true if it never answers again.
		made, away bool
		want       string
	}{
		"it exists":        {made: true},
		"it does not":      {want: "making a token"},
		"nobody can tell":  {made: true, away: true, want: "revoke it: bunsen token revoke "},
		"nor that it does": {away: true, want: "revoke it: bunsen token revoke "},
	} {
		t.Run(says, func(t *testing.T) {
			lost := errors.New("unexpected EOF")
			pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
			inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool).Build()
			cluster := interceptor.NewClient(inner, interceptor.Funcs{
				Create: func(ctx context.Context, w client.WithWatch, o client.Object,
					opts ...client.CreateOption,
				) error {
					if c.made {
						return errors.Join(w.Create(ctx, o, opts...), lost)
					}
					return lost
				},
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
					opts ...client.GetOption,
				) error {
					if c.away {
						return lost
					}
					return w.Get(ctx, key, o, opts...)
				},
			})
			g := Grant{}
			g.grant.Pool = "worker"
			made, kept, err := g.create(t.Context(), cluster)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("it says %v, want %q", err, c.want)
				}
				return
			}
			stored := &v1alpha1.ProvisioningToken{}
			if err != nil || inner.Get(t.Context(), client.ObjectKey{Name: made.ID}, stored) != nil ||
				stored.Spec.Hash != made.Hash() || kept.Name != made.ID {
				t.Errorf("%v, %+v", err, kept)
			}
		})
	}
}
