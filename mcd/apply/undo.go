package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// wayBack is how a Runner goes back.
type wayBack struct{ Runner }

// undo takes all steps back, last first, then lets services hear of it. It goes on after a step that fails, so that one
// bad path does not keep the rest in the new config; the journal stays until all is back.
func (r wayBack) undo(ctx context.Context, rec host.Record, why error) Applied {
	end := Applied{End: Between, From: rec.From, To: rec.To, Why: why}
	was := rec.Phase
	rec.Phase, rec.Why, rec.Cause = host.Undoing, why.Error(), causeOf(why)
	if err := r.Host.Journal.Save(rec); err != nil {
		end.Why = errors.Join(why, fmt.Errorf("writing the journal: %w", err))
		if was != host.Applying || rec.Booted || rec.Cause != "" && rec.Cause != host.Interrupted {
			return end // the journal still says something else, and the next start decides
		}
		// It still says that all has to be taken back. A disk may be too full to say more, and going back makes room.
	}
	r.Host.Disk.Batch()
	untidy := r.Host.Disk.Resume(ctx, rec.Steps) // first, because a directory with something left in it stays
	told, bad := r.takeBack(ctx, rec)
	why = errors.Join(append([]error{why}, told...)...)
	if untidy != nil {
		bad = append(bad, fmt.Errorf("going back: tidying up: %w", untidy))
	}
	if err := r.Host.Disk.Flush(ctx); err != nil {
		bad = append(bad, fmt.Errorf("going back: making the changes durable: %w", err))
	}
	if len(bad) > 0 {
		end.Why = errors.Join(append([]error{why}, bad...)...)
		return end
	}
	if rec.Booted {
		return r.returning(ctx, rec, why)
	}
	return r.isBack(rec, why)
}

// takeBack undoes the steps. What the services do not take is only told: the old config is back on disk, and that is no
// reason to stay between. They are told nothing while it is not. A path that a user leads elsewhere is only told, too: else
// that user could keep the node between two configs.
func (r wayBack) takeBack(ctx context.Context, rec host.Record) (told, bad []error) {
	for _, s := range (plan.Plan{Steps: rec.Steps}).Inverse().Steps {
		if s.Verb == host.Reboot || s.IsAction() && (!rec.Acted || rec.Booted || len(bad) > 0) {
			continue
		}
		err := r.redo(ctx, s)
		switch {
		case err == nil:
			r.tell(s, true)
		case s.IsAction(), s.IsPath() && errors.As(err, new(*host.UnsafePathError)), s.Verb == host.Enable && r.cannotEnable(ctx, s.Target):
			told = append(told, fmt.Errorf("going back: %s: %w", s, err))
		default:
			bad = append(bad, fmt.Errorf("going back: %s: %w", s, err))
		}
	}
	return told, bad
}

// redo does a step of the way back, from whatever is there now.
func (r wayBack) redo(ctx context.Context, s host.Step) error {
	var is host.Entry
	if s.IsPath() {
		var err error
		if is, err = r.Host.Files.Stat(s.Target); err != nil {
			return err
		}
	}
	return r.do(ctx, s, is, r.stored)
}

// cannotEnable tells that a unit was pulled in by links that nobody can make again, because its file is masked, gone or
// says nothing: somebody had left them behind.
func (r wayBack) cannotEnable(ctx context.Context, name string) bool {
	u, err := r.Host.Units.Status(ctx, name)
	return err == nil && u.Install == ""
}

// returning reboots a machine on which all is taken back, and which still runs what it booted with.
func (r wayBack) returning(ctx context.Context, rec host.Record, why error) Applied {
	end := Applied{End: Between, From: rec.From, To: rec.To}
	boot, err := r.Host.Power.BootID()
	if err != nil {
		end.Why = errors.Join(why, fmt.Errorf("asking for the boot's id: %w", err))
		return end
	}
	rec.Phase, rec.BootID, rec.Why = host.Returning, boot, why.Error()
	rec.Returns++
	if err := r.Host.Journal.Save(rec); err != nil {
		end.Why = errors.Join(why, fmt.Errorf("writing the journal: %w", err))
		return end
	}
	return r.rebootBack(ctx, rec, why)
}

func (r wayBack) rebootBack(ctx context.Context, rec host.Record, why error) Applied {
	end := Applied{End: Rebooting, From: rec.From, To: rec.To, Why: why}
	if err := r.Host.Power.Reboot(ctx, "back to machine config "+rec.From); err != nil {
		end.End, end.Why = Between, errors.Join(why, fmt.Errorf("going back: rebooting: %w", err))
	}
	return end
}

// mostReturns is how often a machine reboots to come back to its old OS. Once is enough, but what is staged for the way
// back may be lost to a power cut; and trying again may go on for ever.
const mostReturns = 3

// afterReturn asks for the reboot back again if it has not happened; else the machine is in the old config, unless
// its OS did not come back with it.
func (r wayBack) afterReturn(ctx context.Context, rec host.Record, booted bool) (Applied, error) {
	why := recalled(rec)
	if !booted {
		return r.rebootBack(ctx, rec, why), nil
	}
	mismatch, err := r.confirm(ctx, (plan.Plan{Steps: rec.Steps}).Inverse().Steps)
	switch {
	case err != nil:
		return Applied{}, err
	case mismatch != nil && rec.Returns < mostReturns:
		rec.Booted = true
		return r.undo(ctx, rec, why), nil
	case mismatch != nil:
		why = fmt.Errorf("%w; going back: %s", why, mismatch.Error())
	}
	return r.isBack(rec, why), nil
}

// isBack settles the journal of an update that was taken back.
func (r wayBack) isBack(rec host.Record, why error) Applied {
	end := Applied{End: Old, From: rec.From, To: rec.To, Why: why}
	if rec.Cause != "" && r.Rejected != nil {
		if err := r.Rejected(rec, why); err != nil {
			end.End, end.Why = Between, errors.Join(why, fmt.Errorf("noting that %s is rejected: %w", rec.To, err))
			return end
		}
	}
	if err := r.Host.Journal.Clear(); err != nil {
		end.End, end.Why = Between, errors.Join(why, fmt.Errorf("clearing the journal: %w", err))
		return end
	}
	if err := r.sweep(); err != nil {
		end.Why = errors.Join(why, err)
	}
	return end
}

// causes are the errors that a journal can say.
var causes = map[host.Cause]error{host.NotBooted: ErrNotBooted, host.Unhealthy: ErrUnhealthy, host.Interrupted: ErrInterrupted}

func causeOf(why error) host.Cause {
	for cause, err := range causes {
		if errors.Is(why, err) {
			return cause
		}
	}
	return ""
}

// recalled is why an update is taken back, as the journal has it.
func recalled(rec host.Record) error { return &recalledError{rec.Why, causes[rec.Cause]} }

type recalledError struct {
	text  string
	cause error
}

// Error is what was said when the way back was begun.
func (e *recalledError) Error() string { return e.text }

// Unwrap is ErrNotBooted, ErrUnhealthy, ErrInterrupted or nil.
func (e *recalledError) Unwrap() error { return e.cause }
