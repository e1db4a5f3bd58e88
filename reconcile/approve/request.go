package approve

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	bootstrapUser = "system:bootstrap:"
	nodeUser      = "system:node:"
	nodesGroup    = "system:nodes"
)

// shortest is for the lifetime of a certificate that a request specifies. kube-controller-manager deletes a request
// when its certificate expires, and it proves that its token was used, so it must exist longer than the token.
const shortest = 2 * time.Hour

// subjectAltName: RFC 5280, 4.2.1.6
var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// IsJoin reports whether a request is for a kubelet's client certificate, by a bootstrap token of
// machine-config-server. The API server sets the user and the groups, so nobody can forge them.
func IsJoin(r *certificatesv1.CertificateSigningRequest) bool {
	return r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName &&
		strings.HasPrefix(r.Spec.Username, bootstrapUser) &&
		slices.Contains(r.Spec.Groups, v1alpha1.BootstrapGroup)
}

// IsPending reports whether a request is neither approved nor denied.
func IsPending(r *certificatesv1.CertificateSigningRequest) bool {
	return len(r.Status.Certificate) == 0 && !slices.ContainsFunc(r.Status.Conditions,
		func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied ||
				c.Type == certificatesv1.CertificateFailed
		})
}

// AsksForAnyName reports whether a pending request uses a bootstrap token that is not limited to one node.
func AsksForAnyName(requests []certificatesv1.CertificateSigningRequest) bool {
	for i := range requests {
		if r := &requests[i]; IsJoin(r) && IsPending(r) && grantOf(r).node == "" {
			return true
		}
	}
	return false
}

// subject is the owner of a certificate: the node's name, and the digest of the public key.
type subject struct {
	node string
	key  [sha256.Size]byte
}

func parse(r *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, subject, error) {
	block, rest := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, subject{}, errors.New("it is not one PEM block CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, subject{}, fmt.Errorf("it cannot be read: %w", err)
	}
	node := strings.TrimPrefix(request.Subject.CommonName, nodeUser)
	return request, subject{node, sha256.Sum256(request.RawSubjectPublicKeyInfo)}, nil
}

// grant is what a bootstrap token of machine-config-server permits.
type grant struct {
	// the public id
	token string
	// those that the token names; empty if the server is open to all machines. The server creates no token with more
	// than one.
	pools []string
	// the only one that may use the token; empty: any new machine
	node string
}

// grantOf reads the user and the groups.
func grantOf(r *certificatesv1.CertificateSigningRequest) grant {
	g := grant{token: strings.TrimPrefix(r.Spec.Username, bootstrapUser)}
	for _, group := range r.Spec.Groups {
		if pool, node, ok := v1alpha1.ParsePoolGroup(group); ok {
			g.pools, g.node = append(g.pools, pool), node
		}
	}
	return g
}

// pool is empty if the token names none.
func (g grant) pool() string { return strings.Join(g.pools, ", ") }
