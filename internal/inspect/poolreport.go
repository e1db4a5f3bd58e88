package inspect

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// PoolReport has the problems of a pool with what its nodes get besides the config: certificates, the pull secret, and
// the values of secrets.
type PoolReport struct {
	Pool  string     `json:"pool"`
	Trust TrustNodes `json:"trust,omitzero"`
	// Secrets that the server cannot resolve. SecretsKept: nodes keep the values from before.
	Secrets     []v1alpha1.SecretProblem `json:"secrets,omitempty"`
	SecretsKept bool                     `json:"secretsKept,omitempty"`
}

// TrustNodes counts the nodes of a pool that report a problem with their certificates or their pull secret.
type TrustNodes struct {
	// The nodes with a certificate that has expired or expires soon; those whose config names the path; those that
	// refuse a file; those without the newest files.
	Expiring int `json:"expiring,omitempty"`
	Conflict int `json:"conflict,omitempty"`
	Blocked  int `json:"blocked,omitempty"`
	Failed   int `json:"failed,omitempty"`
	// First node with a problem.
	First string `json:"first,omitempty"`
}

func (t *TrustNodes) add(node string, r *v1alpha1.TrustReport) {
	if r == nil {
		return
	}
	for _, c := range []struct {
		has   bool
		count *int
	}{
		{len(r.Expiring) > 0, &t.Expiring},
		{len(r.Conflicts) > 0, &t.Conflict},
		{len(r.Blocked) > 0, &t.Blocked},
		{r.Failed != "", &t.Failed},
	} {
		if !c.has {
			continue
		}
		if *c.count++; t.First == "" {
			t.First = node
		}
	}
}

// texts are warnings, each with the command that has the details.
func (r PoolReport) texts() []string {
	var parts, out []string
	for _, c := range []struct {
		count int
		text  string
	}{
		{r.Trust.Failed, "do not have the newest certificates and pull secret"},
		{r.Trust.Blocked, "refuse a certificate or pull secret"},
		{r.Trust.Expiring, "have a certificate that has expired or expires soon"},
		{r.Trust.Conflict, "have a config with the path of a certificate or pull secret"},
	} {
		if c.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.count, c.text))
		}
	}
	if len(parts) > 0 {
		out = append(out, fmt.Sprintf("nodes of pool %s: %s: bunsen why node/%s", r.Pool, strings.Join(parts, ", "),
			r.Trust.First))
	}
	if r.SecretsKept { // Otherwise the pool waits, and its state has the reason.
		out = append(out, fmt.Sprintf("pool %s keeps the earlier values of its secrets, because the server cannot "+
			"resolve %s: bunsen why pool/%s", r.Pool, fleet.Count(len(r.Secrets), "secret"), r.Pool))
	}
	return out
}
