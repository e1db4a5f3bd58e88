package poolstate

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// nodeUser begins a kubelet's user name.
const nodeUser = "system:node:"

// AttestedPool returns the pool for which the server admitted a node's machine; empty if the records do not name
// exactly one pool. It does not use the node's own annotations. A record is one of the following:
//
//   - an approved certificate request for the node's name, made with a bootstrap token of the server and not newer than the Node: the
//     API server copied the token's groups into the request, and one of the groups names the pool;
//   - a used token that is bound to the node's name and not newer than the Node.
func AttestedPool(n *corev1.Node, requests []certificatesv1.CertificateSigningRequest,
	tokens []v1alpha1.ProvisioningToken,
) string {
	var pools []string
	for i := range requests {
		r := &requests[i]
		if n.CreationTimestamp.Before(&r.CreationTimestamp) || !approved(r) || RequestedNode(r) != n.Name {
			continue
		}
		for _, group := range r.Spec.Groups {
			if pool, node, ok := v1alpha1.ParsePoolGroup(group); ok && (node == "" || node == n.Name) {
				pools = append(pools, pool)
			}
		}
	}
	for i := range tokens {
		t := &tokens[i]
		if t.Spec.Node == n.Name && t.Status.Used > 0 && !t.Spec.Revoked &&
			!n.CreationTimestamp.Before(&t.CreationTimestamp) {
			pools = append(pools, t.Spec.Pool)
		}
	}
	slices.Sort(pools)
	if pools = slices.Compact(pools); len(pools) != 1 {
		return ""
	}
	return pools[0]
}

func approved(r *certificatesv1.CertificateSigningRequest) bool {
	return r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName &&
		strings.HasPrefix(r.Spec.Username, "system:bootstrap:") &&
		len(r.Status.Certificate) > 0 &&
		slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved && c.Status == corev1.ConditionTrue
		})
}

// RequestedNode returns the node name of a kubelet's certificate request; empty for others. A client chooses the name,
// which may contain any character.
func RequestedNode(r *certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return ""
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	name, ok := strings.CutPrefix(request.Subject.CommonName, nodeUser)
	if !ok {
		return ""
	}
	return name
}
