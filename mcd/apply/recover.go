package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// ErrNotBooted tells that the machine came back from a reboot without what was staged. Trying again may go on for ever.
var ErrNotBooted = errors.New("after the reboot, the machine runs something else than what was staged")

// Recover finishes what a crash, a power cut or a reboot left. Without a journal it does nothing. It returns an error
// only when it could not look; then nothing was changed, and it is called again.
func (r Runner) Recover(ctx context.Context) (Applied, error) {
	rec, err := r.Host.Journal.Load()
	if err != nil {
		return Applied{}, fmt.Errorf("reading the journal: %w", err)
	}
	if rec == nil {
		return Applied{End: Nothing}, nil
	}
	done := Applied{From: rec.From, To: rec.To}
	switch rec.Phase {
	case host.Committed:
		done.End, done.Why = New, r.forget()
		return done, nil
	case host.Rebooting:
		return r.afterReboot(ctx, *rec)
	case host.Undoing:
		return r.undo(ctx, *rec, errors.New(rec.Why)), nil
	}
	return r.undo(ctx, *rec, fmt.Errorf("the update to %s was interrupted", rec.To)), nil
}

// afterReboot asks for the reboot again if it has not happened; else it confirms what booted.
func (r Runner) afterReboot(ctx context.Context, rec host.Record) (Applied, error) {
	boot, err := r.Host.Power.BootID()
	if err != nil {
		return Applied{}, fmt.Errorf("asking for the boot's id: %w", err)
	}
	done := Applied{From: rec.From, To: rec.To, Done: len(rec.Steps)}
	if boot == rec.BootID {
		done.End = Rebooting
		if err := r.Host.Power.Reboot(ctx, "machine config "+rec.To); err != nil {
			return r.undo(ctx, rec, fmt.Errorf("rebooting: %w", err)), nil
		}
		return done, nil
	}
	mismatch, err := r.confirm(ctx, rec.Steps)
	if err != nil {
		return Applied{}, err
	}
	if mismatch != nil {
		return r.undo(ctx, rec, mismatch), nil
	}
	rec.Phase = host.Committed
	if err := r.Host.Journal.Save(rec); err != nil {
		return Applied{}, fmt.Errorf("writing the journal: %w", err)
	}
	done.End, done.Why = New, r.forget()
	return done, nil
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

// undo takes all steps back, last first, then lets services hear of it. It goes on after a step that fails, so that one
// bad path does not keep the rest in the new config; the journal stays until all is back.
func (r Runner) undo(ctx context.Context, rec host.Record, why error) Applied {
	end := Applied{End: Between, From: rec.From, To: rec.To, Why: why}
	rec.Phase, rec.Why = host.Undoing, why.Error()
	if err := r.Host.Journal.Save(rec); err != nil {
		// The journal still says that all has to be taken back, or that a reboot is due: the next start decides.
		end.Why = errors.Join(why, fmt.Errorf("writing the journal: %w", err))
		return end
	}
	var bad []error
	for _, s := range (plan.Plan{Steps: rec.Steps}).Inverse().Steps {
		switch {
		case s.Verb == host.Reboot, s.IsAction() && !rec.Acted:
			continue
		}
		err := r.do(ctx, s)
		switch {
		case err == nil:
			r.tell(s, true)
		case s.IsAction(), s.Verb == host.Enable && r.cannotEnable(ctx, s.Target):
			// The old config is back on disk; that a service does not take it is told, and is no reason to stay between.
			why = errors.Join(why, fmt.Errorf("going back: %s: %w", s, err))
		default:
			bad = append(bad, fmt.Errorf("going back: %s: %w", s, err))
		}
	}
	if len(bad) > 0 {
		end.Why = errors.Join(append([]error{why}, bad...)...)
		return end
	}
	end.End, end.Why = Old, why
	if err := r.forget(); err != nil {
		end.Why = errors.Join(why, err)
	}
	return end
}

// cannotEnable tells that a unit was pulled in by links that nobody can make again, because its file is masked, gone or
// says nothing: somebody had left them behind.
func (r Runner) cannotEnable(ctx context.Context, name string) bool {
	u, err := r.Host.Units.Status(ctx, name)
	return err == nil && u.Install == ""
}
