package ignition

import (
	"context"
	"errors"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// daemon is ours, on a machine that does not run: the host's own files, enablement and accounts. Starting and stopping
// of services is all that it only says.
type daemon struct {
	host host.Host
	root *files.Root
}

func openDaemon(root string) (daemon, error) {
	h, r, err := linux.OpenOffline(root, func(string) {})
	h.Power = &button{}
	return daemon{h, r}, err
}

// button is a switch that works at once: what it restarts is in another boot.
type button struct{ boots int }

// BootID implements host.Power.
func (b *button) BootID() (string, error) { return fmt.Sprint("boot-", b.boots), nil }

// GoingDown implements host.Power.
func (*button) GoingDown(context.Context) (bool, error) { return false, nil }

// Reboot implements host.Power.
func (b *button) Reboot(context.Context, string) error {
	b.boots++
	return nil
}

// errRefused tells that the daemon takes a config on no node, or not on this one.
var errRefused = errors.New("the daemon refuses")

// read reads a rendered config as the daemon does.
func read(mc *mcfgv1.MachineConfig) (plan.Config, error) {
	c, err := machineconfig.Parse(mc.Spec)
	if err == nil {
		err = machineconfig.Check(c).Err()
	}
	if err != nil {
		return plan.Config{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	marked, err := secretmask.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	return plan.Config{Name: mc.Name, Config: c, Secrets: marked}, err
}

// move brings the machine from one config to another, through the reboot where there is one.
func (d daemon) move(ctx context.Context, from, to plan.Config) error {
	accounts, err := apply.Accounts(ctx, d.host)
	if err != nil {
		return err
	}
	way, err := apply.Place(d.host, plan.NewTransition(from, to, plan.Rules{Policy: disruption.Default()}, accounts))
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, d.host, way.Scope())
	if err != nil {
		return err
	}
	if items := drift.Items(observed, way.Old, way.New); from.Name != "" && len(items) > 0 {
		return fmt.Errorf("the machine has drifted from %s: %v", from.Name, items)
	}
	p, contents := way.Plan(observed, []byte(to.Name))
	if len(p.Refusals) > 0 {
		var why []error
		for _, r := range p.Refusals {
			why = append(why, fmt.Errorf("%s: %s", r.Field, r.Why))
		}
		return fmt.Errorf("%w: %w", errRefused, errors.Join(why...))
	}
	runner := apply.Runner{Host: d.host}
	done, err := runner.Run(ctx, p, contents)
	if err == nil && done.End == apply.Rebooting {
		done, err = runner.Recover(ctx)
	}
	if err == nil && done.End != apply.New {
		err = fmt.Errorf("the update ended %s: %w", done.End, done.Why)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p)
	}
	return done.Why
}

// drift is what the daemon finds on a machine that should be in a config.
func (d daemon) drift(ctx context.Context, in plan.Config) ([]drift.Item, error) {
	accounts, err := apply.Accounts(ctx, d.host)
	if err != nil {
		return nil, err
	}
	want := plan.DesiredOf(in.Config, accounts)
	here, err := apply.Place(d.host, plan.Transition{Old: want, New: want})
	if err != nil {
		return nil, err
	}
	observed, err := apply.Observe(ctx, d.host, here.Scope())
	if err != nil {
		return nil, err
	}
	return drift.Items(observed, here.Old, here.New), nil
}
