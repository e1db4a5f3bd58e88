package revision_test

import (
	"context"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// reader counts the listings of MachineConfigs.
type reader struct {
	client.Reader
	listed int
}

func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*mcfgv1.MachineConfigList); is {
		r.listed++
	}
	return r.Reader.List(ctx, list, options...)
}

// TestAnApplyIsNotReadWithEachOfItsWrites: while a source of a pool is applied, the pool waits without a look at the
// objects. For other pools, and after the apply, it reads them.
func TestAnApplyIsNotReadWithEachOfItsWrites(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, mcfgv1.Install, operatorv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	pool := func(name string) *mcfgv1.MachineConfigPool {
		p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.MachineConfigSelector = &metav1.LabelSelector{
			MatchLabels: map[string]string{v1alpha1.RoleLabel: name},
		}
		return p
	}
	inventory := []v1alpha1.InventoryEntry{{Kind: revision.KindMachineConfig, Name: "a", Role: "worker", Digest: "1"}}
	src := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "config"}}
	src.Status.Applying = &v1alpha1.ApplyingRevision{Revision: "main@sha1:2", Inventory: inventory}
	for _, c := range []struct {
		says, pool, want string
		applying         bool
		listed           int
	}{
		{"the pool of the source", "worker", "main@sha1:2 is being applied", true, 0},
		{"another pool", "infra", "", true, 1},
		{"after the apply", "worker", "MachineConfig a has its label", false, 1},
	} {
		t.Run(c.says, func(t *testing.T) {
			now := src.DeepCopy()
			if !c.applying {
				now.Status.Applying, now.Status.Inventory = nil, inventory
			}
			r := &reader{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(now).Build()}
			_, why, err := revision.Settled(t.Context(), r, pool(c.pool), &revision.Digests{})
			if err != nil || (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
				t.Errorf("the pool waits for %q (%v), want %q", why, err, c.want)
			}
			if r.listed != c.listed {
				t.Errorf("it listed the MachineConfigs %d times, want %d", r.listed, c.listed)
			}
		})
	}
}
