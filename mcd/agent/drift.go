package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

// driftCheck compares the machine with its config in force.
type driftCheck struct {
	host    host.Host
	configs configs
	// repairs applies repairs without a health check: a failed repair must not reject the config in force.
	repairs apply.Runner
	trust   *trust.Syncer
	scan    drift.Scanner
	log     *slog.Logger
	// compared is true once this process has compared the machine with a config.
	compared bool
}

// scanner returns the drift scanner, which also watches the present files beside the config.
func (d *driftCheck) scanner() drift.Scanner {
	s := d.scan
	if d.trust != nil {
		s.Also = d.trust.Paths()
	}
	return s
}

// first reports whether this is the first comparison of the machine with a config since the start of the process.
func (d *driftCheck) first() bool {
	first := !d.compared
	d.compared = true
	return first
}

// check scans for drift from the config in force. The agent calls it while the node is in its desired config: before it
// reports Done, when Drift.Disturbed fires, and regularly after a longer time. An error makes the node Degraded. Drift
// never starts an update.
func (d *driftCheck) check(ctx context.Context, node report.Node) error {
	at, err := d.configs.inForce(ctx, node)
	if err != nil || at.Name == "" {
		return err
	}
	if err := d.moveKeys(ctx, at); err != nil {
		return err
	}
	return d.scanner().Check(ctx, at, node)
}

// moveKeys moves the SSH keys of the config in force to where the machine's sshd reads them, after Ignition or an
// earlier operating system of the machine had them elsewhere. The machine has every key at every instant.
func (d *driftCheck) moveKeys(ctx context.Context, at plan.Config) error {
	accounts, err := apply.Accounts(ctx, d.host)
	if err != nil {
		return err
	}
	whole := plan.DesiredOf(at.Config, accounts)
	if len(whole.Keys) == 0 {
		return nil
	}
	way, err := apply.Place(d.host, plan.Transition{From: at.Name, To: at.Name, Old: whole, New: whole})
	if err != nil || maps.Equal(way.Old.Keys, way.New.Keys) {
		return err
	}
	observed, err := apply.Observe(ctx, d.host, way.Scope())
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
	d.log.Info("moving SSH keys to where sshd reads them", "config", at.Name)
	end, err := d.repairs.Run(context.WithoutCancel(ctx), p, contents)
	if err == nil && end.End != apply.New {
		err = end.Why
	}
	if err != nil {
		return fmt.Errorf("moving SSH keys to where sshd reads them: %w", err)
	}
	return nil
}

// reportLogin sets the Node's SSH annotation if a user has logged in over SSH. The agent calls it whenever it has read
// the Node.
func (d *driftCheck) reportLogin(ctx context.Context, node report.Node) error {
	if node.SSH == v1alpha1.SSHAccessed {
		return nil
	}
	if seen, err := d.scanner().HasLogin(); err != nil || !seen {
		return err
	}
	d.log.Info("a user is or was logged in over SSH")
	return d.scan.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.SSHAnnotation: v1alpha1.SSHAccessed})
}
