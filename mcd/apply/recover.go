package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// The reasons for a rollback after which the daemon does not retry the config, or retries it only a few times.
var (
	// ErrNotBooted reports that the machine rebooted without the staged OS. Retries could repeat such a reboot for
	// ever.
	ErrNotBooted = errors.New("after the reboot, the machine runs something else than what was staged")
	// ErrUnhealthy wraps the error of the health check.
	ErrUnhealthy = errors.New("the machine is not healthy with the new config")
	// ErrInterrupted reports that the machine or the daemon went down during the steps, because of a power cut or a
	// step itself.
	ErrInterrupted = errors.New("the machine or the daemon went down before the last step")
)

// Recover finishes what a crash, a power cut or a reboot interrupted. Without a journal, Recover does nothing. Recover
// returns an error only if it could not read the state or write the journal. In this case, Recover has changed nothing,
// and the caller calls it again.
func (r Runner) Recover(ctx context.Context) (Applied, error) {
	rec, err := r.Host.Journal.Load()
	if err != nil {
		return Applied{}, fmt.Errorf("reading the journal: %w", err)
	}
	if rec == nil {
		return Applied{End: Nothing}, nil
	}
	done := Applied{From: rec.From, To: rec.To, Done: len(rec.Steps)}
	boot, err := r.Host.Power.BootID()
	if err != nil {
		return Applied{}, fmt.Errorf("reading the boot id: %w", err)
	}
	booted := boot != rec.BootID
	if rec.Phase == host.RollbackReboot {
		return continueRollback(ctx, r, *rec, booted)
	}
	if booted { // The services that run started with the files of that time, so they need no restart.
		rec.Acted, rec.Booted = true, reboots(rec.Steps)
	}
	switch rec.Phase {
	case host.Rebooting:
		return continueAfterReboot(ctx, r, *rec, booted)
	case host.CheckingHealth:
		return checkHealth(ctx, r, *rec, done)
	case host.RollingBack:
		return rollBack(ctx, r, *rec, recalled(*rec)), nil
	}
	return rollBack(ctx, r, *rec, ErrInterrupted), nil
}

// continueRollback requests the reboot again if the machine has not rebooted. After the reboot the machine is in the
// old config, unless its old OS did not boot.
func continueRollback(ctx context.Context, r Runner, rec host.Record, booted bool) (Applied, error) {
	why := recalled(rec)
	if !booted {
		return afterRollbackReboot(rec, why, r.rebootAgain(ctx, rec, rollbackText(rec))), nil
	}
	mismatch, err := r.confirm(ctx, (plan.Plan{Steps: rec.Steps}).Inverse().Steps)
	switch {
	case err != nil:
		return Applied{}, err
	case mismatch != nil && rec.Returns < mostReturns:
		rec.Booted = true
		return rollBack(ctx, r, rec, why), nil
	case mismatch != nil:
		why = fmt.Errorf("%w; rolling back: %s", why, mismatch.Error())
	}
	return finishRollback(r, rec, why), nil
}

func reboots(steps []host.Step) bool {
	return slices.ContainsFunc(steps, func(s host.Step) bool { return s.Verb == host.Reboot })
}

// continueAfterReboot requests the reboot again if the machine has not rebooted and does not go down. If the machine
// has rebooted, continueAfterReboot confirms that it booted the staged OS.
func continueAfterReboot(ctx context.Context, r Runner, rec host.Record, booted bool) (Applied, error) {
	done := Applied{From: rec.From, To: rec.To, Done: len(rec.Steps)}
	if !booted {
		done.End = Rebooting
		if err := r.rebootAgain(ctx, rec, "machine config "+rec.To); fault.IsUnknown(err) {
			done.End, done.Why = RebootUnknown, fmt.Errorf("rebooting: %w", err)
		} else if err != nil {
			return rollBack(ctx, r, rec, fmt.Errorf("rebooting: %w", err)), nil
		}
		return done, nil
	}
	mismatch, err := r.confirm(ctx, rec.Steps)
	if err != nil {
		return Applied{}, err
	}
	if mismatch != nil {
		return rollBack(ctx, r, rec, mismatch), nil
	}
	return checkHealth(ctx, r, rec, done)
}

// confirm compares the OS that runs after the reboot with the staged OS. confirm does not compare files: the drift scan
// does. The result failure is an error of the comparison itself.
func (r Runner) confirm(ctx context.Context, steps []host.Step) (mismatch, failure error) {
	status, err := r.Host.OS.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the state of the OS: %w", err)
	}
	for _, s := range steps {
		if booted, ok := bootedAs(status.Booted, s); !ok {
			err := fmt.Errorf("%w: %s is %q, not %q", ErrNotBooted, s.Verb, booted, s.After.Word)
			if short := BootShortage(r.Host, steps); short != "" {
				err = fmt.Errorf("%w; %s", err, short)
			}
			return err, nil
		}
	}
	return nil, nil
}

// bootedAs returns the running value of the part of the OS that a step staged, and whether it is the staged value.
func bootedAs(booted host.OS, s host.Step) (string, bool) {
	switch s.Verb {
	case host.SetImage:
		return booted.Image, booted.Image == s.After.Word
	case host.SetKernelType:
		kernel := cmp.Or(booted.KernelType, "default")
		return kernel, kernel == s.After.Word
	case host.SetExtensions:
		return booted.Extensions, booted.Extensions == s.After.Word
	case host.SetKargs:
		scope := plan.Scope{Kargs: append(host.SplitArgs(s.Before.Word), host.SplitArgs(s.After.Word)...)}
		managed := scope.Managed(booted.Kargs)
		return managed, managed == s.After.Word
	}
	return "", true
}
