package approve

import (
	"cmp"
	"maps"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// Remembered is how long the controller stores the use of a token. A token is valid for 65 minutes at most, and
	// machines use it within that time.
	Remembered = 2 * time.Hour
	// taken is how long the node name of an approved machine stays reserved for the machine while no Node of this name
	// exists.
	taken = time.Hour
	// patience is how long a request may wait. API servers store an approved request for an hour. Without this limit, a
	// second request with the same token could come after the approved request is deleted.
	patience = 15 * time.Minute
)

// Facts are the input of Decide.
type Facts struct {
	// Requests are the certificate requests of the cluster, both decided and pending requests.
	Requests []certificatesv1.CertificateSigningRequest
	// Nodes are the Nodes that exist, by name. The value is the result of IsControlPlane.
	Nodes map[string]bool
	// Reserved are the node names that a token of a pool cannot get, from ReservedNames. The caller may leave the
	// field empty if AsksForAnyName is false.
	Reserved map[string]string
	// Uses are the uses that the last call of Decide returned; nil for none.
	Uses Uses
	// Now is the time of the decision.
	Now time.Time
}

// IsControlPlane reports whether the labels of a Node are those of the control plane.
func IsControlPlane(labels map[string]string) bool {
	for _, role := range []string{"control-plane", "master"} {
		if _, is := labels["node-role.kubernetes.io/"+role]; is {
			return true
		}
	}
	return false
}

// ReservedNames returns the nodes that provisioning tokens are for, with the id of one such token. The result includes
// used tokens, because their machines may still request a certificate. The result omits revoked and expired tokens.
func ReservedNames(tokens []v1alpha1.ProvisioningToken, now time.Time) map[string]string {
	names := map[string]string{}
	for i := range tokens {
		t := &tokens[i]
		if _, known := names[t.Spec.Node]; !known && t.Spec.Node != "" && !t.Spec.Revoked &&
			now.Before(t.Spec.Expires.Time) {
			names[t.Spec.Node] = t.Name
		}
	}
	return names
}

// Uses are the known uses of bootstrap tokens, by the user name that a token authenticates as.
type Uses map[string]Use

// Use records that a token admitted a machine.
type Use struct {
	subject
	// token is the id of the bootstrap token. request is the name of the approved request, at the time of the approval.
	token, request string
	at             time.Time
	// joined reports that the machine's Node was seen.
	joined bool
}

// Decision is the result for one pending request.
type Decision struct {
	// Request is the request that the decision is about. Request is shared with the Facts.
	Request *certificatesv1.CertificateSigningRequest
	// Approved is true for an approval, and false for a denial.
	Approved bool
	// Reason is one of the reasons in package v1alpha1. Message is a sentence for users.
	Reason, Message string
	// Pool is the pool of the token. Node is the requested node name. Pool or Node may be empty.
	Pool, Node string
}

// Decide returns a decision for each pending request of a bootstrap token of machine-config-server, oldest first, and
// the uses to pass to the next call. An approval is a use even if the caller cannot write the approval: the next call
// of Decide approves the same request again.
func Decide(f Facts) ([]Decision, Uses) {
	e := evaluation{facts: f, uses: maps.Clone(f.Uses), names: map[string]Use{}}
	if e.uses == nil {
		e.uses = Uses{}
	}
	pending := e.readRecords()
	slices.SortFunc(pending, func(a, b *certificatesv1.CertificateSigningRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	out := make([]Decision, len(pending))
	for i, r := range pending {
		out[i] = e.decide(r)
	}
	return out, e.uses
}

// evaluation has the state of one call of Decide.
type evaluation struct {
	facts Facts
	uses  Uses
	// names has the uses whose machines have no Node yet, by node name.
	names map[string]Use
}

// readRecords adds the uses that the approved requests prove, and returns the pending requests.
func (e *evaluation) readRecords() []*certificatesv1.CertificateSigningRequest {
	var pending []*certificatesv1.CertificateSigningRequest
	present := map[string]bool{}
	for i := range e.facts.Requests {
		r := &e.facts.Requests[i]
		if !IsJoin(r) {
			continue
		}
		present[r.Name] = true
		if IsPending(r) {
			pending = append(pending, r)
		} else if at, ok := approvedAt(r); ok {
			e.record(r, at)
		}
	}
	for user, u := range e.uses {
		if e.facts.Now.Sub(u.at) > Remembered {
			delete(e.uses, user)
			continue
		}
		_, exists := e.facts.Nodes[u.node]
		u.joined = u.joined || exists
		e.uses[user] = u
		// If the approved request is deleted, the node name is free again.
		if !u.joined && present[u.request] && e.facts.Now.Sub(u.at) < taken {
			if first, isTaken := e.names[u.node]; !isTaken || u.at.Before(first.at) {
				e.names[u.node] = u
			}
		}
	}
	return pending
}

// record adds the use that an approved request proves. For each token, the earliest use counts.
func (e *evaluation) record(r *certificatesv1.CertificateSigningRequest, at time.Time) {
	if known, ok := e.uses[r.Spec.Username]; ok && (known.request == r.Name || !at.Before(known.at)) {
		return
	}
	_, who, err := parse(r)
	if err != nil {
		// The token counts as used although the subject cannot be parsed, but no machine can repeat this request.
		who = subject{}
	}
	e.uses[r.Spec.Username] = Use{subject: who, token: grantOf(r).token, request: r.Name, at: at}
}

// decide approves or denies one request.
func (e *evaluation) decide(r *certificatesv1.CertificateSigningRequest) Decision {
	g := grantOf(r)
	who, err := check(r)
	d := Decision{Request: r, Pool: g.pool(), Node: who.node}
	if err != nil {
		d.Reason, d.Message = v1alpha1.ReasonJoinInvalid, invalidMessage(g, err)
		return d
	}
	if d.Reason, d.Message = e.refusal(applicant{r, g, who}); d.Reason != "" {
		return d
	}
	if _, isUsed := e.uses[r.Spec.Username]; !isUsed {
		u := Use{subject: who, token: g.token, request: r.Name, at: e.facts.Now}
		e.uses[r.Spec.Username] = u
		if _, exists := e.facts.Nodes[who.node]; !exists {
			e.names[who.node] = u
		}
	}
	d.Approved, d.Reason, d.Message = true, v1alpha1.ReasonJoinApproved, approvedMessage(g, who)
	return d
}

// applicant is a machine that requests a certificate.
type applicant struct {
	request *certificatesv1.CertificateSigningRequest
	grant   grant
	who     subject
}

// refusal returns why a token does not admit a machine; empty if the token admits it.
func (e *evaluation) refusal(a applicant) (reason, message string) {
	used, isUsed := e.uses[a.request.Spec.Username]
	switch g := a.grant; {
	case len(g.pools) > 1:
		return v1alpha1.ReasonJoinPools, poolsMessage(g)
	case g.node != "" && g.node != a.who.node:
		return v1alpha1.ReasonJoinOtherNode, otherNodeMessage(a)
	case isUsed && used.subject == a.who: // The request is a repeated request of the same machine.
		return "", ""
	case isUsed:
		return v1alpha1.ReasonJoinTokenUsed, usedMessage(a, used)
	}
	if reason, message = e.nameRefusal(a); reason != "" {
		return reason, message
	}
	if age := e.facts.Now.Sub(a.request.CreationTimestamp.Time); age > patience {
		return v1alpha1.ReasonJoinTooLate, lateMessage(a, age)
	}
	return "", ""
}

// nameRefusal returns why a machine does not get the requested node name; empty if the machine gets the name.
func (e *evaluation) nameRefusal(a applicant) (reason, message string) {
	controlPlane, exists := e.facts.Nodes[a.who.node]
	reservedBy, isReserved := e.facts.Reserved[a.who.node]
	holder, isTaken := e.names[a.who.node]
	switch {
	case exists && controlPlane:
		return v1alpha1.ReasonJoinControlPlane, controlPlaneMessage(a)
	case exists && a.grant.node == "":
		return v1alpha1.ReasonJoinNodeExists, existsMessage(a)
	case isReserved && a.grant.node == "":
		return v1alpha1.ReasonJoinNameReserved, reservedMessage(a, reservedBy)
	case isTaken && holder.subject != a.who:
		return v1alpha1.ReasonJoinNameTaken, takenMessage(a, holder, e.facts.Now)
	}
	return "", ""
}
