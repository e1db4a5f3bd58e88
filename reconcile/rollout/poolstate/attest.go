package poolstate

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
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

// Custom is a custom pool into which a machine may have booted.
type Custom struct {
	// Pool is the name of the pool.
	Pool string
	// which put a node into the pool
	Labels map[string]string
}

// NewCustoms returns the custom pools whose labels the controller may set, sorted by name.
func NewCustoms(pools []*mcfgv1.MachineConfigPool) []Custom {
	var out []Custom
	for _, p := range pools {
		if p.Name == membership.Master || p.Name == membership.Worker ||
			membership.SelectsNothing(p.Spec.NodeSelector) {
			continue
		}
		labels := LabelsFor(p.Spec.NodeSelector)
		if slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(key string) bool { return !isSettable(key) }) {
			continue // Only an administrator labels nodes of such a pool.
		}
		out = append(out, Custom{Pool: p.Name, Labels: labels})
	}
	slices.SortFunc(out, func(a, b Custom) int { return strings.Compare(a.Pool, b.Pool) })
	return out
}

// LabelsFor returns the labels that every object needs to match a selector.
func LabelsFor(s *metav1.LabelSelector) map[string]string {
	if s == nil {
		return nil
	}
	out := maps.Clone(s.MatchLabels)
	if out == nil {
		out = map[string]string{}
	}
	for _, e := range s.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) == 1:
			out[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists:
			if _, has := out[e.Key]; !has {
				out[e.Key] = ""
			}
		}
	}
	return out
}

// NeedsPoolCheck reports whether a node claims that it booted for a custom pool, and the server's records are not read
// yet.
func (m NodeMarks) NeedsPoolCheck(customs []Custom) bool {
	return !m.Checked && find(customs, m.BootedPool()) != nil
}

// needsLabels reports whether the controller has to find out for which pool the server admitted the node, or to set its
// labels.
func (m NodeMarks) needsLabels(customs []Custom) bool {
	return m.NeedsPoolCheck(customs) || m.AdmittedPool(customs) != nil
}

// BootedPool returns the pool in the name rendered-POOL-HASH of the config with which the node claims to have first
// booted; "" if it has none, and after the controller has labelled the node.
func (m NodeMarks) BootedPool() string { return v1alpha1.RenderedPool(m.Booted) }

// AdmittedPool returns the custom pool for which the server admitted the machine, whose labels it gets; nil for none.
func (m NodeMarks) AdmittedPool(customs []Custom) *Custom {
	if m.Booted == "" || m.Attested == "" {
		return nil
	}
	return find(customs, m.Attested)
}

func find(customs []Custom, pool string) *Custom {
	for i := range customs {
		if customs[i].Pool == pool {
			return &customs[i]
		}
	}
	return nil
}

// isSettable reports whether the controller may set a label of a Node. The rights in config/rbac allow only such, so
// that a stolen token of the controller cannot turn a node into a control plane node.
func isSettable(key string) bool {
	role, isRole := strings.CutPrefix(key, "node-role.kubernetes.io/")
	return strings.HasPrefix(key, "bunsen.dev/") || isRole && role != membership.Master && role != "control-plane"
}
