package apply

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// rollBack undoes all steps, last first, then reloads and restarts services. rollBack continues after a step that
// fails, so that the other paths return to the old config. The journal stays until all steps are undone.
func (u *update) rollBack(ctx context.Context, why error) Applied {
	was := u.rec.Phase
	u.rec.Phase, u.rec.Why, u.rec.Cause = host.RollingBack, why.Error(), causeOf(why)
	if err := u.save(); err != nil {
		if was != host.Applying || u.rec.Booted || u.rec.Cause != "" && u.rec.Cause != host.Interrupted {
			return u.between(why, err) // The journal has another phase, so the next start decides.
		}
		// The journal still records that all steps have to be rolled back. The disk may be full, and the rollback
		// frees space.
	}
	u.Host.Disk.Batch()
	// Resume comes first and removes temporary files, because the rollback does not remove a directory with files.
	untidy := u.Host.Disk.Resume(ctx, u.rec.Steps)
	warnings, bad := u.undoSteps(ctx)
	why = errors.Join(append([]error{why}, warnings...)...)
	if untidy != nil {
		bad = append(bad, fmt.Errorf("rolling back: tidying up: %w", untidy))
	}
	u.relabel(ctx)
	if err := u.flush(ctx); err != nil {
		bad = append(bad, fmt.Errorf("rolling back: %w", err))
	}
	if len(bad) > 0 {
		return u.between(why, bad...)
	}
	if u.rec.Booted {
		return u.rebootIntoOld(ctx, why)
	}
	return u.finishRollback(why)
}

// between returns the state of a machine that may have parts of both configs. The journal stays.
func (u *update) between(why error, more ...error) Applied {
	return u.ended(RollbackFailed, errors.Join(append([]error{why}, more...)...))
}

// undoSteps undoes the steps. The errors in bad leave the machine between two configs. The errors in warnings do not: a
// service that fails to reload or restart although the old config is on disk, or a path that a user replaced by a link.
// The latter is only a warning, because no user may keep the node between two configs. Services are restarted only
// after all files are restored. At the end, services stop whose files the rollback removed: systemd may have started
// them because another one of the update needs them.
func (u *update) undoSteps(ctx context.Context) (warnings, bad []error) {
	u.begin()
	defer u.end()
	stopped := map[string]bool{}
	for _, s := range (plan.Plan{Steps: u.rec.Steps}).Inverse().Steps {
		if (s.Verb == host.Reload || s.Verb == host.Restart) && u.isGone(ctx, s.Target) {
			s.Verb = host.Stop
			stopped[s.Target] = true
		}
		// What MergeKeys wrote stays on disk over a reboot.
		lasts := s.Verb == host.MergeKeys
		if s.Verb == host.Reboot || s.IsAction() && !lasts && (!u.rec.Acted || u.rec.Booted || len(bad) > 0) {
			continue
		}
		err := u.undoStep(ctx, s)
		switch {
		case err == nil:
			u.tell(s, true)
		case s.IsAction(), s.IsPath() && errors.As(err, new(*host.UnsafePathError)), s.Verb == host.Enable &&
			u.cannotEnable(ctx, s.Target):
			warnings = append(warnings, fmt.Errorf("rolling back: %s: %w", s, err))
		default:
			bad = append(bad, fmt.Errorf("rolling back: %s: %w", s, err))
		}
	}
	if !u.rec.Acted || u.rec.Booted || len(bad) > 0 {
		return warnings, bad
	}
	for _, made := range u.rec.Steps {
		// A link may be another name of a service of the image. Of a template, no instance is known here.
		name := path.Base(made.Target)
		isService := path.Ext(name) == ".service" && !strings.HasSuffix(name, "@.service")
		if made.After.Entry.Kind != host.File || path.Dir(made.Target) != host.UnitDir || !isService || stopped[name] ||
			!u.isGone(ctx, name) {
			continue
		}
		if err := u.Host.Units.Stop(ctx, name); err != nil {
			warnings = append(warnings, fmt.Errorf("rolling back: stop %s: %w", name, err))
		}
	}
	return warnings, bad
}

// undoStep applies a step of the rollback to the present state of its target.
func (u *update) undoStep(ctx context.Context, s host.Step) error {
	var is host.Entry
	if s.IsPath() {
		var err error
		if is, err = u.Host.Files.Stat(s.Target); err != nil {
			return err
		}
	}
	return stepper{host: u.Host}.do(ctx, s, is)
}

// isGone reports whether the update made the file of a unit, and the unit has none now, or is masked again. The update
// may have started it, and systemd can only stop it then. A unit that was there before the update keeps its step, also
// if only a generator of systemd makes its file.
func (u *update) isGone(ctx context.Context, name string) bool {
	made := slices.ContainsFunc(u.rec.Steps, func(s host.Step) bool {
		was := s.Before.Entry
		return s.IsPath() && (was.Kind == host.Absent || host.IsMask(s.Target, was)) &&
			path.Dir(s.Target) == host.UnitDir && slices.Contains(host.FileNames(name), path.Base(s.Target))
	})
	if !made {
		return false
	}
	unit, err := u.Host.Units.Status(ctx, name)
	return err == nil && (unit.Obstacle.Why == host.UnitMissing || unit.Obstacle.Why == host.UnitMasked)
}

// cannotEnable reports whether a unit cannot be enabled, because its file is masked, does not exist or has no [Install]
// section. A rollback may meet such a unit, if an earlier file of the unit required the links that enabled it before
// the update.
func (u *update) cannotEnable(ctx context.Context, name string) bool {
	unit, err := u.Host.Units.Status(ctx, name)
	return err == nil && unit.Obstacle.Why != ""
}

// rebootIntoOld reboots a machine that still runs the new OS after all steps are undone.
func (u *update) rebootIntoOld(ctx context.Context, why error) Applied {
	boot, err := u.Host.Power.BootID()
	if err != nil {
		return u.between(why, fmt.Errorf("reading the boot id: %w", err))
	}
	u.rec.Phase, u.rec.BootID, u.rec.Why = host.RollbackReboot, boot, why.Error()
	u.rec.Returns++
	if err := u.save(); err != nil {
		return u.between(why, err)
	}
	return u.goingBack(why, u.reboot(ctx, u.rollbackText()))
}

// rollbackText is what users who are logged in are told about the reboot of a rollback.
func (u *update) rollbackText() string { return "back to machine config " + u.rec.From }

// goingBack returns the state of a machine after the request for the reboot of a rollback.
func (u *update) goingBack(why, err error) Applied {
	if err == nil {
		return u.ended(Rebooting, why)
	}
	end := u.between(why, fmt.Errorf("rolling back: rebooting: %w", err))
	if fault.IsUnknown(err) {
		end.End = RebootUnknown
	}
	return end
}

// mostReturns is how often a machine reboots to return to its old OS. One reboot is enough, unless a power cut removes
// the staged OS. The limit prevents endless reboots.
const mostReturns = 3

// finishRollback removes the journal of an update that was rolled back.
func (u *update) finishRollback(why error) Applied {
	if u.rec.Cause != "" && u.OnRejected != nil {
		if err := u.OnRejected(u.rec, why); err != nil {
			return u.between(why, fmt.Errorf("recording that %s is rejected: %w", u.rec.To, err))
		}
	}
	if err := u.Host.Journal.Clear(); err != nil {
		return u.between(why, fmt.Errorf("clearing the journal: %w", err))
	}
	if err := u.sweep(); err != nil {
		why = errors.Join(why, err)
	}
	return u.ended(Old, why)
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
