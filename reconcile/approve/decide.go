package approve

import (
	"cmp"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	corev1 "k8s.io/api/core/v1"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	// Remembered is how long the use of a token is stored. A token is valid for 65 minutes at most, and machines use it
	// within that time.
	Remembered = 2 * time.Hour
	// for which the name of an approved machine stays reserved while no such Node exists
	taken = time.Hour
	// for a request to wait. API servers store an approved one for an hour: without this limit, a second request with
	// the same token could come after it is deleted.
	patience = 15 * time.Minute
)

// Facts are the input of Decide.
type Facts struct {
	// of the cluster, decided and pending
	Requests []certificatesv1.CertificateSigningRequest
	// by name, with the result of IsControlPlane
	Nodes map[string]bool
	// the node names that a token of a pool cannot get, from ReservedNames; may be empty if AsksForAnyName is false
	Reserved map[string]string
	// those that the last call of Decide returned; nil for none
	Uses Uses
	Now  time.Time
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

// ReservedNames returns the nodes that provisioning tokens are for, with the id of one. Used tokens count, because
// their machines may still request a certificate; revoked and expired ones do not.
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
	// the id of the bootstrap token, and the name of the approved request
	token, request string
	at             time.Time
	// The machine's Node was seen.
	joined bool
}

// Decision is the result for one pending request.
type Decision struct {
	// shared with the Facts
	Request  *certificatesv1.CertificateSigningRequest
	Approved bool
	// Reason is one of v1alpha1. Message is a sentence for users.
	Reason, Message string
	// Pool of the token, and the requested node name; either may be empty.
	Pool, Node string
}

// Decide returns a decision for each pending request of a bootstrap token of machine-config-server, oldest first, and
// the uses to pass to the next call. An approval is a use even if it cannot be written: the next call approves the same
// request again.
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

type evaluation struct {
	facts Facts
	uses  Uses
	// uses whose machines have no Node yet, by node name
	names map[string]Use
}

// readRecords adds the uses that approved requests prove, and returns the pending ones.
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

// approvedAt is false if the request is not approved.
func approvedAt(r *certificatesv1.CertificateSigningRequest) (at time.Time, ok bool) {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved && c.Status != corev1.ConditionFalse {
			if c.LastUpdateTime.IsZero() {
				return r.CreationTimestamp.Time, true
			}
			return c.LastUpdateTime.Time, true
		}
	}
	return time.Time{}, false
}

// record adds the use that an approved request proves, the earliest for each token.
func (e *evaluation) record(r *certificatesv1.CertificateSigningRequest, at time.Time) {
	if known, ok := e.uses[r.Spec.Username]; ok && (known.request == r.Name || !at.Before(known.at)) {
		return
	}
	_, who, err := parse(r)
	if err != nil {
		// Unreadable, it uses the token up, but no machine can repeat it.
		who = subject{}
	}
	e.uses[r.Spec.Username] = Use{subject: who, token: grantOf(r).token, request: r.Name, at: at}
}

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

func invalidMessage(g grant, err error) string {
	text := fmt.Sprintf("bootstrap token %s: this is not the request of a kubelet for its client certificate: %v",
		g.token, err)
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// check returns the subject of a request, or how it differs from a kubelet's request for a client certificate.
func check(r *certificatesv1.CertificateSigningRequest) (subject, error) {
	request, who, err := parse(r)
	if err != nil {
		return subject{}, err
	}
	if err := request.CheckSignature(); err != nil {
		return subject{}, fmt.Errorf("it is not signed with its own key: %w", err)
	}
	name := request.Subject
	switch {
	case !strings.HasPrefix(name.CommonName, nodeUser):
		return subject{}, fmt.Errorf("its common name is %q, want %sNAME", name.CommonName, nodeUser)
	case len(validation.IsDNS1123Subdomain(who.node)) > 0:
		return subject{}, fmt.Errorf("%q is not a name of a node", who.node)
	case !slices.Equal(name.Organization, []string{nodesGroup}):
		return subject{}, fmt.Errorf("its organizations are %q, want %s only", name.Organization, nodesGroup)
	case len(name.Names) != 2:
		return subject{}, fmt.Errorf("its subject has %d attributes, want a common name and an organization only",
			len(name.Names))
	case len(request.DNSNames)+len(request.EmailAddresses)+len(request.IPAddresses)+len(request.URIs) > 0,
		slices.ContainsFunc(request.Extensions, isSubjectAltName):
		return subject{}, errors.New("it has alternative names, which a client certificate of a kubelet has not")
	case !clientUsages(r.Spec.Usages):
		return subject{}, fmt.Errorf("its usages are %q, want client auth, digital signature and perhaps key "+
			"encipherment", r.Spec.Usages)
	case r.Spec.ExpirationSeconds != nil && time.Duration(*r.Spec.ExpirationSeconds)*time.Second < shortest:
		return subject{}, fmt.Errorf("its expirationSeconds are %d, want none or at least %d",
			*r.Spec.ExpirationSeconds, int(shortest.Seconds()))
	}
	return who, nil
}

func isSubjectAltName(e pkix.Extension) bool { return e.Id.Equal(subjectAltName) }

// clientUsages reports whether usages are those of a kubelet's client certificate, for RSA keys with key encipherment.
func clientUsages(usages []certificatesv1.KeyUsage) bool {
	for _, u := range usages {
		if u != certificatesv1.UsageClientAuth && u != certificatesv1.UsageDigitalSignature &&
			u != certificatesv1.UsageKeyEncipherment {
			return false
		}
	}
	return slices.Contains(usages, certificatesv1.UsageClientAuth) && slices.Contains(usages,
		certificatesv1.UsageDigitalSignature)
}

func approvedMessage(g grant, who subject) string {
	if g.pool() == "" {
		return fmt.Sprintf("bootstrap token %s admits node %q; the server recorded no pool", g.token, who.node)
	}
	return fmt.Sprintf("bootstrap token %s admits node %q of pool %q", g.token, who.node, g.pool())
}

type applicant struct {
	request *certificatesv1.CertificateSigningRequest
	grant   grant
	who     subject
}

// refusal is empty if the token admits the machine.
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

func usedMessage(a applicant, used Use) string {
	return fmt.Sprintf("bootstrap token %s admits one machine, and it admitted node %q with another key or name "+
		"(request %s). Node %q needs its own token: install that machine again with its pointer config",
		a.grant.token, used.node, nameOf(used.request), a.who.node)
}

func poolsMessage(g grant) string {
	return fmt.Sprintf("bootstrap token %s names several pools (%s); machine-config-server creates no such token",
		g.token, g.pool())
}

func otherNodeMessage(a applicant) string {
	return fmt.Sprintf("bootstrap token %s is for node %q, not for node %q. Correct the host name of the machine and "+
		"run `kubectl delete csr %s`, or install the machine again with a pointer config for %[3]q",
		a.grant.token, a.grant.node, a.who.node, nameOf(a.request.Name))
}

func lateMessage(a applicant, age time.Duration) string {
	return fmt.Sprintf("the request waited %s for the controller, longer than %s, so the controller cannot know "+
		"whether another machine used bootstrap token %s. Run `kubectl delete csr %s`, and the machine sends a new "+
		"request",
		age.Round(time.Second), patience, a.grant.token, nameOf(a.request.Name))
}

// nameRefusal is empty if the machine gets the requested node name.
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

func takenMessage(a applicant, holder Use, now time.Time) string {
	return fmt.Sprintf("Bunsen approved a machine as node %q %s ago with bootstrap token %s (request %s), and that "+
		"machine has no Node yet. So bootstrap token %s admits no second machine of that name. If the request was an "+
		"earlier attempt of this machine, run `kubectl delete csr %[4]s %[6]s`. Otherwise give this machine another "+
		"name, because Kubernetes cannot revoke the certificate for %[1]q",
		a.who.node, now.Sub(holder.at).Round(time.Second), holder.token, nameOf(holder.request), a.grant.token,
		nameOf(a.request.Name))
}

func reservedMessage(a applicant, by string) string {
	return fmt.Sprintf("provisioning token %[2]s reserves the name %[1]q, and bootstrap token %[3]s is for any new "+
		"machine. Give the machine another name, or boot it with provisioning token %[2]s. Then run `kubectl delete "+
		"csr %[4]s`",
		a.who.node, by, a.grant.token, nameOf(a.request.Name))
}

func existsMessage(a applicant) string {
	return fmt.Sprintf("node %q exists, and bootstrap token %s is for new machines. Only if you reinstall that node, "+
		"run `kubectl delete node %[1]s` and `kubectl delete csr %[3]s`, or boot the machine with a token for that "+
		"node (`bunsen pointer --pool %[4]s --node %[1]s`)",
		a.who.node, a.grant.token, nameOf(a.request.Name), poolOr(a.grant))
}

func poolOr(g grant) string {
	if g.pool() == "" {
		return "POOL"
	}
	return g.pool()
}

func controlPlaneMessage(a applicant) string {
	return fmt.Sprintf("node %q of the control plane exists, and no bootstrap token (here %s) lets another machine "+
		"replace it. Only if you reinstall that node, run `kubectl delete node %[1]s` and `kubectl delete csr %[3]s`",
		a.who.node, a.grant.token, nameOf(a.request.Name))
}

// plainName: a machine chooses the name of its request, and users paste the commands of a message into a shell.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// nameOf returns NAME unless the name is plain.
func nameOf(request string) string {
	if plainName.MatchString(request) {
		return request
	}
	return "NAME"
}

// Each says what happened, why, and which commands help. A kubelet whose request was denied creates another one after a
// user deletes it.

// longest is for the message about an invalid request, whose subject may be long.
const longest = 500
