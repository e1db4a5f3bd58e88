package controller

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// attest returns the writes that record for which pool the server let each node of a wave in. It reads past the cache: a
// certificate request is older than its Node, and deleted an hour later.
func attest(ctx context.Context, live client.Reader, d decision) ([]order, error) {
	names := unattested(d.wave)
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
	var out []order
	for _, name := range names {
		n := d.nodes[name]
		pool := rollout.AttestedPool(n, requests.Items, tokens.Items)
		o := newOrder(n, fmt.Sprintf("recording the pool of node %q", name))
		o.patch.Metadata.Annotations = map[string]*string{v1alpha1.AttestedPoolAnnotation: &pool}
		out = append(out, o)
	}
	return out, nil
}

// unattested are the nodes of a wave whose records are to be read.
func unattested(w rollout.Wave) []string {
	var names []string
	for _, l := range w.Label {
		if l.Attest {
			names = append(names, l.Node)
		}
	}
	return names
}
