package main

import (
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/health"
)

// judge gives the verdicts of `bunsen status`, for the BunsenStatus and the metrics.
func judge(o health.Objects, now time.Time) []v1alpha1.Verdict {
	return inspect.Verdicts(fleet.New(fleet.Cluster{
		Sources: o.Sources, Pools: o.Pools, Nodes: o.Nodes, Policies: o.Policies,
		Rendered: fleet.RenderedRows(o.Configs), Leases: o.Leases, Daemons: o.Daemons,
		Secrets: fleet.Secrets{Revisions: o.Secrets}, Timestamps: true,
	}, now))
}
