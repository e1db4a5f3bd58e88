package agent

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/plan"

	"github.com/bunsen-os/bunsen/mcd/report"
)

// scanner returns the agent's drift scanner. scanner applies repairs without a health check: a failed repair must not
// reject the config in force.
func scanner(a *Agent) drift.Scanner {
	var also []string
	if a.Trust != nil {
		also = a.Trust.Paths()
	}
	return drift.Scanner{
		Also: also,
		Host: a.Host, Cluster: a.Cluster, Watcher: a.Drift, Log: a.Log, OnStep: a.runner.OnStep, Event: a.event,
		DriftedSince: func(at time.Time) {
			if a.Metrics != nil {
				a.Metrics.Drift(at)
			}
		},
	}
}

// checkDrift scans for drift from the config in force. The agent calls it while the node is in its desired config:
// before it reports Done, when Drift.Disturbed fires, and regularly after a longer time. An error makes the node
// Degraded. Drift never starts an update.
func (a *Agent) checkDrift(ctx context.Context, node report.Node) error {
	at, err := a.currentConfig(ctx, node)
	if err != nil || at.Name == "" {
		return err
	}
	if err := moveKeys(ctx, a, at); err != nil {
		return err
	}
	return scanner(a).Check(ctx, at, node)
}

// moveKeys moves the SSH keys of the config in force to where the machine's sshd reads them, after Ignition or an
// earlier operating system of the machine had them elsewhere. The machine has every key at every instant.
func moveKeys(ctx context.Context, a *Agent, at plan.Config) error {
	accounts, err := apply.Accounts(ctx, a.Host)
	if err != nil {
		return err
	}
	whole := plan.DesiredOf(at.Config, accounts)
	if len(whole.Keys) == 0 {
		return nil
	}
	way, err := apply.Place(a.Host, plan.Transition{From: at.Name, To: at.Name, Old: whole, New: whole})
	if err != nil || maps.Equal(way.Old.Keys, way.New.Keys) {
		return err
	}
	observed, err := apply.Observe(ctx, a.Host, way.Scope())
	if err != nil {
		return err
	}
	p, contents := plan.MoveKeys(observed, way)
	if len(p.Refusals) > 0 {
		return fmt.Errorf("moving SSH keys to where sshd reads them: %s: %s", p.Refusals[0].Field, p.Refusals[0].Why)
	}
	if len(p.Steps) == 0 {
		return nil
	}
	a.Log.Info("moving SSH keys to where sshd reads them", "config", at.Name)
	done, err := (apply.Runner{
		Host: a.Host, OnStep: a.runner.OnStep, OnBegin: a.runner.OnBegin, OnEnd: a.runner.OnEnd,
	}).Run(context.WithoutCancel(ctx), p, contents)
	if err == nil && done.End != apply.New {
		err = done.Why
	}
	if err != nil {
		return fmt.Errorf("moving SSH keys to where sshd reads them: %w", err)
	}
	return nil
}

// reportLogin sets the Node's SSH annotation if a user has logged in over SSH. The agent calls it whenever it has read
// the Node.
func (a *Agent) reportLogin(ctx context.Context, node report.Node) error {
	if node.SSH == v1alpha1.SSHAccessed {
		return nil
	}
	if seen, err := scanner(a).HasLogin(); err != nil || !seen {
		return err
	}
	a.Log.Info("a user is or was logged in over SSH")
	return a.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.SSHAnnotation: v1alpha1.SSHAccessed})
}
