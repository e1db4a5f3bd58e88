package fleet

import (
	"cmp"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// DeniedMachine is a machine whose certificate request the controller denied.
type DeniedMachine struct {
	// Request is the name of the certificate request.
	Request string `json:"request"`
	// Node is the requested node name, and Pool is the pool of the machine's token. Node or Pool may be empty.
	Node string `json:"node,omitempty"`
	Pool string `json:"pool,omitempty"`
	// Reason is one of the reasons in package v1alpha1. Message says why, and which commands help.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// At is the time of the denial.
	At time.Time `json:"at"`
}

// DeniedMachines returns the machines that the controller denied, the last denial first. DeniedMachines omits the
// denials of other clients, and all but the last denial of each pair of a node name and a reason.
func DeniedMachines(requests []certificatesv1.CertificateSigningRequest) []DeniedMachine {
	var out []DeniedMachine
	for i := range requests {
		r := &requests[i]
		if !slices.Contains(r.Spec.Groups, v1alpha1.BootstrapGroup) {
			continue
		}
		for _, c := range r.Status.Conditions {
			if c.Type == certificatesv1.CertificateDenied && isReasonOfController(c.Reason) {
				out = append(out, deniedMachine(r, c))
			}
		}
	}
	slices.SortFunc(out, func(a, b DeniedMachine) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Request, b.Request))
	})
	type problem struct{ node, reason string }
	seen := map[problem]bool{}
	return slices.DeleteFunc(out, func(m DeniedMachine) bool {
		p := problem{m.Node, m.Reason}
		repeated := seen[p]
		seen[p] = true
		return repeated
	})
}

// isReasonOfController reports whether the controller denies requests with this reason.
func isReasonOfController(reason string) bool {
	switch reason {
	case v1alpha1.ReasonJoinInvalid, v1alpha1.ReasonJoinPools, v1alpha1.ReasonJoinOtherNode,
		v1alpha1.ReasonJoinTokenUsed, v1alpha1.ReasonJoinNodeExists,
		v1alpha1.ReasonJoinControlPlane, v1alpha1.ReasonJoinNameReserved, v1alpha1.ReasonJoinNameTaken,
		v1alpha1.ReasonJoinTooLate:
		return true
	}
	return false
}

func deniedMachine(r *certificatesv1.CertificateSigningRequest,
	c certificatesv1.CertificateSigningRequestCondition,
) DeniedMachine {
	m := DeniedMachine{
		Request: r.Name, Node: poolstate.RequestedNode(r), Reason: c.Reason, Message: c.Message,
		At: c.LastUpdateTime.Time,
	}
	if len(validation.IsDNS1123Subdomain(m.Node)) > 0 { // The node name in the request is invalid.
		m.Node = ""
	}
	for _, group := range r.Spec.Groups {
		if pool, _, ok := v1alpha1.ParsePoolGroup(group); ok {
			m.Pool = pool
		}
	}
	return m
}

// WithoutJoined removes the machines whose Node was created after the denial: they joined with a later request.
func WithoutJoined(denied []DeniedMachine, nodes []corev1.Node) []DeniedMachine {
	created := make(map[string]time.Time, len(nodes))
	for i := range nodes {
		created[nodes[i].Name] = nodes[i].CreationTimestamp.Time
	}
	var out []DeniedMachine
	for _, m := range denied {
		if at, exists := created[m.Node]; !exists || !at.After(m.At) {
			out = append(out, m)
		}
	}
	return out
}
