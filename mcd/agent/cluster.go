package agent

import (
	"context"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
)

// Cluster gives the agent its own Node, configs by name, and the cluster's policies. Errors wrap report.ErrUnreachable
// if the API server did not answer.
type Cluster interface {
	// Node reads the Node's annotations that the protocol uses.
	Node(ctx context.Context) (report.Node, error)
	// SetAnnotations sets annotations on the Node and does not change other annotations.
	SetAnnotations(ctx context.Context, annotations map[string]string) error
	secrets.Source
	// Config fetches a MachineConfig.
	Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error)
	// Rules reads the disruption policy and the overrides. Rules returns the defaults if the cluster has neither.
	Rules(ctx context.Context) (plan.Rules, error)
	// DriftRules reads the drift policy for the nodes of a pool. DriftRules returns the zero Policy if the cluster has
	// no drift policy.
	DriftRules(ctx context.Context, pool string) (drift.Policy, error)
}
