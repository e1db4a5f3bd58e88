package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// rollBack undoes all steps, last first, then reloads and restarts services. rollBack continues after a step that
// fails, so that the other paths return to the old config. The journal stays until all steps are undone.
func rollBack(ctx context.Context, r Runner, rec host.Record, why error) Applied {
	end := Applied{End: RollbackFailed, From: rec.From, To: rec.To, Why: why}
	was := rec.Phase
	rec.Phase, rec.Why, rec.Cause = host.RollingBack, why.Error(), causeOf(why)
	if err := r.Host.Journal.Save(rec); err != nil {
		end.Why = errors.Join(why, fmt.Errorf("writing the journal: %w", err))
		if was != host.Applying || rec.Booted || rec.Cause != "" && rec.Cause != host.Interrupted {
			return end // The journal has another phase, so the next start decides.
		}
		// The journal still records that all steps have to be rolled back. The disk may be full, and the rollback
		// frees space.
	}
	r.Host.Disk.Batch()
	// Resume comes first and removes temporary files, because the rollback does not remove a directory with files.
	untidy := r.Host.Disk.Resume(ctx, rec.Steps)
	warnings, bad := undoSteps(ctx, r, rec)
	why = errors.Join(append([]error{why}, warnings...)...)
	if untidy != nil {
		bad = append(bad, fmt.Errorf("rolling back: tidying up: %w", untidy))
	}
	if err := r.Host.Disk.Flush(ctx); err != nil {
		bad = append(bad, fmt.Errorf("rolling back: making the changes durable: %w", err))
	}
	if len(bad) > 0 {
		end.Why = errors.Join(append([]error{why}, bad...)...)
		return end
	}
	if rec.Booted {
		return rebootToRollBack(ctx, r, rec, why)
	}
	return finishRollback(r, rec, why)
}

// undoSteps undoes the steps. The errors in bad leave the machine between two configs. The errors in warnings do not: a
// service that fails to reload or restart although the old config is on disk, or a path that a user replaced by a link.
// The latter is only a warning, because no user may keep the node between two configs. Services are restarted only
// after all files are restored.
func undoSteps(ctx context.Context, r Runner, rec host.Record) (warnings, bad []error) {
	r.begin(len(rec.Steps))
	defer r.end()
	for _, s := range (plan.Plan{Steps: rec.Steps}).Inverse().Steps {
		// What MergeKeys wrote stays on disk over a reboot.
		lasts := s.Verb == host.MergeKeys
		if s.Verb == host.Reboot || s.IsAction() && !lasts && (!rec.Acted || rec.Booted || len(bad) > 0) {
			continue
		}
		err := undoStep(ctx, r, s)
		switch {
		case err == nil:
			r.tell(s, true)
		case s.IsAction(), s.IsPath() && errors.As(err, new(*host.UnsafePathError)), s.Verb == host.Enable &&
			cannotEnable(ctx, r, s.Target):
			warnings = append(warnings, fmt.Errorf("rolling back: %s: %w", s, err))
		default:
			bad = append(bad, fmt.Errorf("rolling back: %s: %w", s, err))
		}
	}
	return warnings, bad
}

// undoStep applies a step of the rollback to the present state of its target.
func undoStep(ctx context.Context, r Runner, s host.Step) error {
	var is host.Entry
	if s.IsPath() {
		var err error
		if is, err = r.Host.Files.Stat(s.Target); err != nil {
			return err
		}
	}
	return r.do(ctx, s, is, r.stored)
}

// cannotEnable reports whether a unit cannot be enabled, because its file is masked, does not exist or has no [Install]
// section. A rollback may meet such a unit, if an earlier file of the unit required the links that enabled it before
// the update.
func cannotEnable(ctx context.Context, r Runner, name string) bool {
	u, err := r.Host.Units.Status(ctx, name)
	return err == nil && u.Obstacle.Why != ""
}

// rebootToRollBack reboots a machine that still runs the new OS after all steps are undone.
func rebootToRollBack(ctx context.Context, r Runner, rec host.Record, why error) Applied {
	end := Applied{End: RollbackFailed, From: rec.From, To: rec.To}
	boot, err := r.Host.Power.BootID()
	if err != nil {
		end.Why = errors.Join(why, fmt.Errorf("reading the boot id: %w", err))
		return end
	}
	rec.Phase, rec.BootID, rec.Why = host.RollbackReboot, boot, why.Error()
	rec.Returns++
	if err := r.Host.Journal.Save(rec); err != nil {
		end.Why = errors.Join(why, fmt.Errorf("writing the journal: %w", err))
		return end
	}
	return afterRollbackReboot(rec, why, r.reboot(ctx, rec, rollbackText(rec)))
}

// rollbackText is what users who are logged in are told about the reboot of a rollback.
func rollbackText(rec host.Record) string { return "back to machine config " + rec.From }

// afterRollbackReboot returns the state of the machine after the request for the reboot of a rollback.
func afterRollbackReboot(rec host.Record, why, err error) Applied {
	end := Applied{End: Rebooting, From: rec.From, To: rec.To, Why: why}
	if err == nil {
		return end
	}
	end.End, end.Why = RollbackFailed, errors.Join(why, fmt.Errorf("rolling back: rebooting: %w", err))
	if fault.IsUnknown(err) {
		end.End = RebootUnknown
	}
	return end
}

// mostReturns is how often a machine reboots to return to its old OS. One reboot is enough, unless a power cut removes
// the staged OS. The limit prevents endless reboots.
const mostReturns = 3

// finishRollback removes the journal of an update that was rolled back.
func finishRollback(r Runner, rec host.Record, why error) Applied {
	end := Applied{End: Old, From: rec.From, To: rec.To, Why: why}
	if rec.Cause != "" && r.OnRejected != nil {
		if err := r.OnRejected(rec, why); err != nil {
			end.End, end.Why = RollbackFailed, errors.Join(why, fmt.Errorf("recording that %s is rejected: %w", rec.To,
				err))
			return end
		}
	}
	if err := r.Host.Journal.Clear(); err != nil {
		end.End, end.Why = RollbackFailed, errors.Join(why, fmt.Errorf("clearing the journal: %w", err))
		return end
	}
	if err := r.sweep(); err != nil {
		end.Why = errors.Join(why, err)
	}
	return end
}

// causes are the errors that a journal can store.
var causes = map[host.Cause]error{
	host.NotBooted: ErrNotBooted, host.Unhealthy: ErrUnhealthy,
	host.Interrupted: ErrInterrupted,
}

func causeOf(why error) host.Cause {
	for cause, err := range causes {
		if errors.Is(why, err) {
			return cause
		}
	}
	return ""
}

// recalled returns the stored reason for a rollback as an error.
func recalled(rec host.Record) error { return &recalledError{rec.Why, causes[rec.Cause]} }

type recalledError struct {
	text  string
	cause error
}

// Error returns the reason that was recorded at the start of the rollback.
func (e *recalledError) Error() string { return e.text }

// Unwrap returns ErrNotBooted, ErrUnhealthy, ErrInterrupted or nil.
func (e *recalledError) Unwrap() error { return e.cause }
