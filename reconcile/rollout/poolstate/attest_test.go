package poolstate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestAttestedPool reads records about node a.example.com, which was created at noon and says that it belongs to infra.
func TestAttestedPool(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const name = "a.example.com"
	request := func(node, group string,
		change ...func(*certificatesv1.CertificateSigningRequest),
	) certificatesv1.CertificateSigningRequest {
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{
				CommonName:   "system:node:" + node,
				Organization: []string{"system:nodes"},
			}}, key)
		if err != nil {
			t.Fatal(err)
		}
		r := certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute))},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
				Username:   "system:bootstrap:abc123", Groups: []string{v1alpha1.BootstrapGroup, group},
			},
			Status: certificatesv1.CertificateSigningRequestStatus{
				Certificate: []byte("x"),
				Conditions: []certificatesv1.CertificateSigningRequestCondition{
					{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue},
				},
			},
		}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	token := func(change func(*v1alpha1.ProvisioningToken)) v1alpha1.ProvisioningToken {
		k := v1alpha1.ProvisioningToken{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(
			noon.Add(-time.Hour))}}
		k.Spec.Pool, k.Spec.Node, k.Status.Used = "infra", name, 1
		change(&k)
		return k
	}
	for says, c := range map[string]struct {
		want     string
		requests []certificatesv1.CertificateSigningRequest
		tokens   []v1alpha1.ProvisioningToken
	}{
		"no record":                    {want: ""},
		"a token of a pool":            {want: "infra", requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", ""))}},
		"a pool with dots":             {want: "in.fra", requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("in.fra", ""))}},
		"a token of this node":         {want: "infra", requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", name))}},
		"twice for the same pool":      {want: "infra", requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", "")), request(name, v1alpha1.PoolGroup("infra", ""))}},
		"a token of another node":      {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", "b.example.com"))}},
		"a request of another node":    {requests: []certificatesv1.CertificateSigningRequest{request("b.example.com", v1alpha1.PoolGroup("infra", ""))}},
		"a server that is open to all": {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.BootstrapGroup)}},
		"records of two pools":         {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", "")), request(name, v1alpha1.PoolGroup("edge", ""))}},
		"a request that is newer": {requests: []certificatesv1.CertificateSigningRequest{request(name,
			v1alpha1.PoolGroup("infra", ""), func(r *certificatesv1.CertificateSigningRequest) {
				r.CreationTimestamp = metav1.NewTime(noon.Add(time.Second))
			})}},
		"a request that nobody approved":  {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", ""), func(r *certificatesv1.CertificateSigningRequest) { r.Status.Conditions = nil })}},
		"a request without a certificate": {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", ""), func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = nil })}},
		"a request for another signer":    {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", ""), func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "example.com/x" })}},
		"a request of a user":             {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", ""), func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Username = "ada" })}},
		"a request that cannot be read":   {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("infra", ""), func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("x") })}},
		"a used token of the node":        {want: "infra", tokens: []v1alpha1.ProvisioningToken{token(func(*v1alpha1.ProvisioningToken) {})}},
		"an unused token":                 {tokens: []v1alpha1.ProvisioningToken{token(func(k *v1alpha1.ProvisioningToken) { k.Status.Used = 0 })}},
		"a revoked token":                 {tokens: []v1alpha1.ProvisioningToken{token(func(k *v1alpha1.ProvisioningToken) { k.Spec.Revoked = true })}},
		"a token of the pool alone":       {tokens: []v1alpha1.ProvisioningToken{token(func(k *v1alpha1.ProvisioningToken) { k.Spec.Node = "" })}},
		"a used token of another":         {tokens: []v1alpha1.ProvisioningToken{token(func(k *v1alpha1.ProvisioningToken) { k.Spec.Node = "b.example.com" })}},
		"a token that is newer":           {tokens: []v1alpha1.ProvisioningToken{token(func(k *v1alpha1.ProvisioningToken) { k.CreationTimestamp = metav1.NewTime(noon.Add(time.Second)) })}},
		"a request and a token disagree":  {requests: []certificatesv1.CertificateSigningRequest{request(name, v1alpha1.PoolGroup("edge", ""))}, tokens: []v1alpha1.ProvisioningToken{token(func(*v1alpha1.ProvisioningToken) {})}},
	} {
		t.Run(says, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name, CreationTimestamp: metav1.NewTime(noon),
				Annotations: map[string]string{v1alpha1.FirstPivotConfigAnnotation: "rendered-infra-1a2b"},
			}}
			if is := poolstate.AttestedPool(n, c.requests, c.tokens); is != c.want {
				t.Errorf("%q, want %q", is, c.want)
			}
		})
	}
}
