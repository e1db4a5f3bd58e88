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
	ErrNotBooted = errors.New("after the reboot, the machine runs something other than what was staged")
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
	boot, err := r.Host.Power.BootID()
	if err != nil {
		return Applied{}, fmt.Errorf("reading the boot id: %w", err)
	}
	booted := boot != rec.BootID
	u := &update{Runner: r, rec: *rec}
	if rec.Phase == host.RollbackReboot {
		return u.continueRollback(ctx, booted)
	}
	if booted { // The services that run started with the files of that time, so they need no restart.
		u.rec.Acted, u.rec.Booted = true, reboots(rec.Steps)
	}
	switch rec.Phase {
	case host.Rebooting:
		return u.continueReboot(ctx, booted)
	case host.CheckingHealth:
		return u.continueCheck(ctx)
	case host.RollingBack:
		return u.rollBack(ctx, recalled(*rec)), nil
	}
	return u.rollBack(ctx, ErrInterrupted), nil
}

func reboots(steps []host.Step) bool {
	return slices.ContainsFunc(steps, func(s host.Step) bool { return s.Verb == host.Reboot })
}

// continueRollback requests the reboot again if the machine has not rebooted. After the reboot the machine is in the
// old config, unless its old OS did not boot.
func (u *update) continueRollback(ctx context.Context, booted bool) (Applied, error) {
	why := recalled(u.rec)
	if !booted {
		return u.goingBack(why, u.rebootAgain(ctx, u.rollbackText())), nil
	}
	mismatch, err := u.compare(ctx, (plan.Plan{Steps: u.rec.Steps}).Inverse().Steps)
	switch {
	case err != nil:
		return Applied{}, err
	case mismatch != nil && u.rec.Returns < mostReturns:
		u.rec.Booted = true
		return u.rollBack(ctx, why), nil
	case mismatch != nil:
		why = fmt.Errorf("%w; rolling back: %s", why, mismatch.Error())
	}
	return u.finishRollback(why), nil
}

// continueReboot requests the reboot again if the machine has not rebooted and does not go down. If the machine has
// rebooted, it confirms that it booted the staged OS.
func (u *update) continueReboot(ctx context.Context, booted bool) (Applied, error) {
	if !booted {
		err := u.rebootAgain(ctx, "machine config "+u.rec.To)
		if err == nil || fault.IsUnknown(err) {
			return u.goingDown(err), nil
		}
		return u.rollBack(ctx, fmt.Errorf("rebooting: %w", err)), nil
	}
	mismatch, err := u.compare(ctx, u.rec.Steps)
	if err != nil {
		return Applied{}, err
	}
	if mismatch != nil {
		return u.rollBack(ctx, mismatch), nil
	}
	return u.continueCheck(ctx)
}

// continueCheck checks the health, and commits the update or rolls it back.
func (u *update) continueCheck(ctx context.Context) (Applied, error) {
	if ended, decided := u.checkHealth(ctx); decided {
		return ended, nil
	}
	if err := u.commit(); err != nil {
		return u.ended("", nil), err
	}
	return u.inNew(), nil
}

// compare compares the OS that runs after the reboot with the staged OS. It does not compare files: the drift scan
// does. The result failure is an error of the comparison itself.
func (u *update) compare(ctx context.Context, steps []host.Step) (mismatch, failure error) {
	status, err := u.Host.OS.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the state of the OS: %w", err)
	}
	for _, s := range steps {
		if booted, ok := bootedAs(status.Booted, s); !ok {
			err := fmt.Errorf("%w: %s is %q, not %q", ErrNotBooted, s.Verb, booted, s.After.Word)
			if short := BootShortage(u.Host, steps); short != "" {
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
