package rollout

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// attestedPoolWrites returns the writes that record the pool for which the server admitted each new node.
// attestedPoolWrites reads certificate requests from the API server. The request of a Node always exists first, and
// Kubernetes deletes it after an hour.
func attestedPoolWrites(ctx context.Context, live client.Reader, d decision) ([]nodeWrite, error) {
	names := unattestedNodes(d.next)
	if len(names) == 0 {
		return nil, nil
	}
	var requests certificatesv1.CertificateSigningRequestList
	if err := live.List(ctx, &requests); err != nil {
		return nil, fmt.Errorf("reading the certificate requests of new nodes: %w", err)
	}
	var tokens v1alpha1.ProvisioningTokenList
	if err := live.List(ctx, &tokens); err != nil {
		return nil, fmt.Errorf("reading the used tokens of new nodes: %w", err)
	}
	var out []nodeWrite
	for _, name := range names {
		n := d.nodes[name]
		pool := poolstate.AttestedPool(n, requests.Items, tokens.Items)
		o := newNodeWrite(n, fmt.Sprintf("recording the pool of node %q", name))
		o.patch.Metadata.Annotations = map[string]*string{v1alpha1.AttestedPoolAnnotation: &pool}
		out = append(out, o)
	}
	return out, nil
}

// unattestedNodes returns the nodes of a decision whose attested pool is not recorded yet.
func unattestedNodes(w poolstate.Decision) []string {
	var names []string
	for _, l := range w.Label {
		if l.Attest {
			names = append(names, l.Node)
		}
	}
	return names
}
