package agent

import (
	"context"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// Cluster is what the agent needs of one: its own Node, configs by name, the cluster's rules. Errors wrap protocol.ErrUnreachable
// where there was no answer.
type Cluster interface {
	// Assignment reads the Node's annotations that the protocol uses.
	Assignment(ctx context.Context) (protocol.Assignment, error)
	// Report sets annotations on the Node and leaves others alone.
	Report(ctx context.Context, annotations map[string]string) error
	// Config fetches a MachineConfig.
	Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error)
	// Rules reads the disruption policy and the overrides; the defaults where the cluster has none.
	Rules(ctx context.Context) (plan.Rules, error)
	// DriftRules reads what the cluster says about drift on nodes of a pool; the zero Policy where it says nothing.
	DriftRules(ctx context.Context, pool string) (drift.Policy, error)
}
