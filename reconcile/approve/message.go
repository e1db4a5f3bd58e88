package approve

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// plainName matches names without characters that a shell interprets. A machine chooses the name of its request, and
// users paste the commands of a message into a shell.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// nameOf returns the name of a request for use in a command. nameOf returns NAME if the name does not match plainName.
func nameOf(request string) string {
	if plainName.MatchString(request) {
		return request
	}
	return "NAME"
}

// The messages of decisions. Each message says what happened, why, and which commands help. A kubelet whose request was
// denied creates another one after a user deletes the request.

func approvedMessage(g grant, who subject) string {
	if g.pool() == "" {
		return fmt.Sprintf("bootstrap token %s admits node %q; the server recorded no pool", g.token, who.node)
	}
	return fmt.Sprintf("bootstrap token %s admits node %q of pool %q", g.token, who.node, g.pool())
}

func poolsMessage(g grant) string {
	return fmt.Sprintf("bootstrap token %s names several pools (%s); machine-config-server creates no such token",
		g.token, g.pool())
}

func usedMessage(a applicant, used Use) string {
	return fmt.Sprintf("bootstrap token %s admits one machine, and it admitted node %q with another key or name "+
		"(request %s). Node %q needs its own token: boot that machine again with its pointer config",
		a.grant.token, used.node, nameOf(used.request), a.who.node)
}

func otherNodeMessage(a applicant) string {
	return fmt.Sprintf("bootstrap token %s is for node %q, not for node %q. Correct the host name of the machine and "+
		"run `kubectl delete csr %s`, or boot the machine with a pointer config for %[3]q",
		a.grant.token, a.grant.node, a.who.node, nameOf(a.request.Name))
}

func existsMessage(a applicant) string {
	return fmt.Sprintf("node %q exists, and bootstrap token %s is for new machines. Only if you reinstall that node, "+
		"run `kubectl delete node %[1]s` and `kubectl delete csr %[3]s`, or boot the machine with a token for that "+
		"node (`bunsen pointer --pool %[4]s --node %[1]s`)",
		a.who.node, a.grant.token, nameOf(a.request.Name), poolOr(a.grant))
}

func controlPlaneMessage(a applicant) string {
	return fmt.Sprintf("node %q of the control plane exists, and no bootstrap token (here %s) lets another machine "+
		"replace it. Only if you reinstall that node, run `kubectl delete node %[1]s` and `kubectl delete csr %[3]s`",
		a.who.node, a.grant.token, nameOf(a.request.Name))
}

func reservedMessage(a applicant, by string) string {
	return fmt.Sprintf("provisioning token %[2]s reserves the name %[1]q, and bootstrap token %[3]s is for any new "+
		"machine. Give the machine another name, or boot it with provisioning token %[2]s. Then run `kubectl delete "+
		"csr %[4]s`",
		a.who.node, by, a.grant.token, nameOf(a.request.Name))
}

func takenMessage(a applicant, holder Use, now time.Time) string {
	return fmt.Sprintf("Bunsen approved a machine as node %q %s ago with bootstrap token %s (request %s), and that "+
		"machine has no Node yet. So bootstrap token %s admits no second machine of that name. If the request was an "+
		"earlier attempt of this machine, run `kubectl delete csr %[4]s %[6]s`. Otherwise give this machine another "+
		"name, because Kubernetes cannot revoke the certificate for %[1]q",
		a.who.node, now.Sub(holder.at).Round(time.Second), holder.token, nameOf(holder.request), a.grant.token,
		nameOf(a.request.Name))
}

func lateMessage(a applicant, age time.Duration) string {
	return fmt.Sprintf("the request waited %s for the controller, longer than %s, so the controller cannot know "+
		"whether another machine used bootstrap token %s. Run `kubectl delete csr %s`, and the machine sends a new "+
		"request",
		age.Round(time.Second), patience, a.grant.token, nameOf(a.request.Name))
}

func poolOr(g grant) string {
	if g.pool() == "" {
		return "POOL"
	}
	return g.pool()
}

// longest is the maximum length of the message about an invalid request, because its subject may be long.
const longest = 500

func invalidMessage(g grant, err error) string {
	text := fmt.Sprintf("bootstrap token %s: this is not the request of a kubelet for its client certificate: %v",
		g.token, err)
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
