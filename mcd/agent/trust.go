package agent

import (
	"context"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

// syncTrust writes the files that the machine gets beside its config. It returns false if an update is under way.
func syncTrust(ctx context.Context, a *Agent) (done bool) {
	if a.Trust == nil {
		return true
	}
	defer a.Fetch.Lock()()
	turn := trust.Turn{Rules: a.Cluster.Rules, OnStep: a.runner.OnStep, Now: time.Now()}
	if a.node != nil && a.node.Current == "" && a.node.Desired == "" {
		seed, err := readInitialAnnotations(a.Host.Files)
		turn.Unconfigured = err == nil && seed[v1alpha1.CurrentConfigAnnotation] == ""
	}
	return a.Trust.Sync(ctx, turn)
}

// reportTrust reports what the machine has of what its pools trust, if the Node does not have this report yet.
func reportTrust(ctx context.Context, a *Agent, node report.Node) error {
	if a.Trust == nil || node.Trust == a.Trust.Report() {
		return nil
	}
	return a.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.TrustReportAnnotation: a.Trust.Report()})
}
