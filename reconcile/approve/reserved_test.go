package approve_test

import (
	"crypto/ecdsa"
	"maps"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/approve"
)

// TestReservedNames: a token reserves its node's name until it expires or is revoked.
func TestReservedNames(t *testing.T) {
	token := func(id, node string, left time.Duration,
		edit func(*v1alpha1.ProvisioningToken),
	) v1alpha1.ProvisioningToken {
		out := v1alpha1.ProvisioningToken{
			ObjectMeta: metav1.ObjectMeta{Name: id},
			Spec: v1alpha1.ProvisioningTokenSpec{
				Pool: "db", Node: node, Expires: metav1.NewTime(noon.Add(left)),
				Uses: 1,
			},
		}
		edit(&out)
		return out
	}
	asIs := func(*v1alpha1.ProvisioningToken) {}
	is := approve.ReservedNames([]v1alpha1.ProvisioningToken{
		token("good", "db-1", time.Minute, asIs), token("second", "db-1", time.Minute, asIs),
		token("pool", "", time.Minute, asIs),
		token("expired", "db-2", 0, asIs), token("revoked", "db-3", time.Minute, func(t *v1alpha1.ProvisioningToken) {
			t.Spec.Revoked = true
		}),
		token("used-up", "db-4", time.Minute, func(t *v1alpha1.ProvisioningToken) { t.Status.Used = 1 }),
	}, noon)
	if want := map[string]string{"db-1": "good", "db-4": "used-up"}; !maps.Equal(is, want) {
		t.Errorf("%v, want %v", is, want)
	}
}

// TestAsksForAnyName: only a pending request by a token that is for no node makes the reserved names matter.
func TestAsksForAnyName(t *testing.T) {
	f := &fixture{t, map[string]*ecdsa.PrivateKey{}}
	for sentence, c := range map[string]struct {
		request certificatesv1.CertificateSigningRequest
		want    bool
	}{
		"a token of a pool":            {f.request("r", "aaaaaa", "w1", "k1"), true},
		"a token of an open server":    {f.request("r", "aaaaaa", "w1", "k1", groups()), true},
		"a token of a node":            {f.request("r", "aaaaaa", "w1", "k1", groups(v1alpha1.PoolGroup("worker", "w1"))), false},
		"a decided request":            {f.request("r", "aaaaaa", "w1", "k1", decided(approved)), false},
		"a kubelet renews its own one": {f.request("r", "aaaaaa", "w1", "k1", func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Username = "system:node:w1" }), false},
	} {
		if is := approve.AsksForAnyName([]certificatesv1.CertificateSigningRequest{c.request}); is != c.want {
			t.Errorf("%s: %t, want %t", sentence, is, c.want)
		}
	}
}
