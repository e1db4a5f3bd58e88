package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Why a config is taken back that is not to be tried again, or not for ever.
var (
	// ErrNotBooted tells that the machine came back from a reboot without what was staged. Trying again may go on for ever.
	ErrNotBooted = errors.New("after the reboot, the machine runs something else than what was staged")
	// ErrUnhealthy wraps what a Gate said.
	ErrUnhealthy = errors.New("the machine is not healthy with the new config")
	// ErrInterrupted tells that the machine or the daemon went down while steps were done: by a power cut, or by one of them.
	ErrInterrupted = errors.New("the machine or the daemon went down before the steps were done")
)

// Recover finishes what a crash, a power cut or a reboot left. Without a journal it does nothing. It returns an error
// only when it could not look or write down what it saw; then nothing was changed, and it is called again.
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
		return Applied{}, fmt.Errorf("asking for the boot's id: %w", err)
	}
	booted := boot != rec.BootID
	if rec.Phase == host.Returning {
		return wayBack{r}.afterReturn(ctx, *rec, booted)
	}
	if booted { // whatever runs has begun with what it found then
		rec.Acted, rec.Booted = true, reboots(rec.Steps)
	}
	switch rec.Phase {
	case host.Rebooting:
		return wayThere{r}.afterReboot(ctx, *rec, booted)
	case host.Judging:
		return wayThere{r}.judge(ctx, *rec, done)
	case host.Undoing:
		return wayBack{r}.undo(ctx, *rec, recalled(*rec)), nil
	}
	return wayBack{r}.undo(ctx, *rec, ErrInterrupted), nil
}

func reboots(steps []host.Step) bool {
	return slices.ContainsFunc(steps, func(s host.Step) bool { return s.Verb == host.Reboot })
}

// afterReboot asks for the reboot again if it has not happened; else it confirms what booted.
func (r wayThere) afterReboot(ctx context.Context, rec host.Record, booted bool) (Applied, error) {
	done := Applied{From: rec.From, To: rec.To, Done: len(rec.Steps)}
	if !booted {
		done.End = Rebooting
		if err := r.Host.Power.Reboot(ctx, "machine config "+rec.To); err != nil {
			return wayBack(r).undo(ctx, rec, fmt.Errorf("rebooting: %w", err)), nil
		}
		return done, nil
	}
	mismatch, err := r.confirm(ctx, rec.Steps)
	if err != nil {
		return Applied{}, err
	}
	if mismatch != nil {
		return wayBack(r).undo(ctx, rec, mismatch), nil
	}
	return r.judge(ctx, rec, done)
}

// confirm compares what runs after the reboot with what was staged. Files are left to the look-out for drift: taking them
// back now would leave a machine that booted with them. The second result is a failure to look.
func (r Runner) confirm(ctx context.Context, steps []host.Step) (mismatch, failure error) {
	status, err := r.Host.OS.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the state of the OS: %w", err)
	}
	for _, s := range steps {
		if booted, ok := bootedAs(status.Booted, s); !ok {
			return fmt.Errorf("%w: %s is %q, not %q", ErrNotBooted, s.Verb, booted, s.After.Word), nil
		}
	}
	return nil, nil
}

// bootedAs tells what runs of the part that a step staged, and whether it is what was staged.
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
