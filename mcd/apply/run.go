package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Applied tells the true state of the machine after Run or Recover.
type Applied struct {
	// End is where the machine is now.
	End End
	// Done counts the steps that were done.
	Done int
	// Stopped is the step that failed, nil when none did.
	Stopped *host.Step
	// From and To are the configs' names.
	From, To string
	// Why the machine is in the old config, on its way there, between or unjudged; nil otherwise.
	Why error
}

// End is where an update ended.
type End string

// The ends.
const (
	// Nothing was under way.
	Nothing End = "nothing"
	// Old: the machine is as it was before.
	Old End = "old"
	// New: the new config is in force.
	New End = "new"
	// Rebooting: the machine goes down and will be in the new config, or, where Why says why, in the old one.
	Rebooting End = "rebooting"
	// Unjudged: the new config is in place, and the context ended before the Gate knew whether the machine is healthy.
	// Recover asks again.
	Unjudged End = "unjudged"
	// Between: taking back failed too. The journal is kept, and Recover tries again.
	Between End = "between"
)

// ErrRefused tells that a plan has refusals and was not begun.
var ErrRefused = errors.New("plan has refusals")

// Runner walks plans. Host must be set; the others may be nil.
type Runner struct {
	// Host to act on.
	Host host.Host
	// Tell is called after each step that was done; undone says that it was taken back.
	Tell func(step host.Step, undone bool)
	// Gate judges the machine when the new config is in place: after the reboot of an update that reboots, and after the
	// last step of one that acted on units. nil is healthy. It blocks until it knows; an error takes everything back, with
	// a reboot where the update had one. An error that wraps context.Canceled, or that comes when the context has ended,
	// says that nobody knows: the next Recover asks again. Without a Gate a machine is always healthy.
	Gate func(ctx context.Context, rec host.Record) error
	// Rejected is called once everything is taken back because of ErrNotBooted, ErrUnhealthy or ErrInterrupted, and before
	// the journal is cleared, so that after a crash it is called again. An error keeps the journal.
	Rejected func(rec host.Record, why error) error
}

// Run does the plan's steps. If one fails, all are taken back, and the error in Applied.Why says why. Run returns an
// error itself only when nothing was begun. Contents has every digest that the plan writes. There must be no journal:
// call Recover first. Pods must be drained where the plan says so.
func (r Runner) Run(ctx context.Context, p plan.Plan, contents map[host.Digest][]byte) (Applied, error) {
	if len(p.Refusals) > 0 {
		return Applied{End: Old}, fmt.Errorf("%w: %s: %s", ErrRefused, p.Refusals[0].Field, p.Refusals[0].Why)
	}
	boot, err := r.Host.Power.BootID()
	if err != nil {
		return Applied{End: Old}, fmt.Errorf("asking for the boot's id: %w", err)
	}
	given, err := r.keep(ctx, p.Steps, contents)
	if err != nil {
		return Applied{End: Old}, errors.Join(err, r.Host.Store.Sweep())
	}
	rec := host.Record{From: p.From, To: p.To, Steps: p.Steps, Phase: host.Applying, BootID: boot}
	if err := r.Host.Journal.Save(rec); err != nil {
		return Applied{End: Old}, fmt.Errorf("writing the journal: %w", err)
	}
	return wayThere{r}.walk(ctx, rec, given), nil
}

// wayThere is how a Runner goes to the new config.
type wayThere struct{ Runner }

// walk does all steps and settles the journal.
func (r wayThere) walk(ctx context.Context, rec host.Record, given source) Applied {
	done := Applied{From: rec.From, To: rec.To}
	r.Host.Disk.Batch()
	for _, s := range rec.Steps {
		if s.IsAction() && !rec.Acted {
			rec.Acted = true
			if err := r.Host.Journal.Save(rec); err != nil {
				return r.back(ctx, rec, done, s, fmt.Errorf("writing the journal: %w", err))
			}
		}
		if s.Verb == host.Reboot {
			return r.reboot(ctx, rec, done)
		}
		if err := r.do(ctx, s, s.Before.Entry, given); err != nil {
			return r.back(ctx, rec, done, s, fmt.Errorf("%s: %w", s, err))
		}
		done.Done++
		r.tell(s, false)
	}
	if err := r.Host.Disk.Flush(ctx); err != nil {
		return r.back(ctx, rec, done, host.Step{}, fmt.Errorf("making the changes durable: %w", err))
	}
	if r.Gate == nil || !rec.Acted {
		return r.end(ctx, rec, done)
	}
	rec.Phase = host.Judging
	if err := r.Host.Journal.Save(rec); err != nil {
		return r.back(ctx, rec, done, host.Step{}, fmt.Errorf("writing the journal: %w", err))
	}
	ended, err := r.judge(ctx, rec, done)
	if err != nil {
		return r.back(ctx, rec, done, host.Step{}, err)
	}
	return ended
}

// end commits, or takes all back.
func (r wayThere) end(ctx context.Context, rec host.Record, done Applied) Applied {
	if err := r.commit(&done); err != nil {
		rec.Phase = "" // the journal may be gone: who knows what of a failed write is there
		return r.back(ctx, rec, done, host.Step{}, err)
	}
	return done
}

// reboot is the last step: what runs after it is confirmed by Recover.
func (r wayThere) reboot(ctx context.Context, rec host.Record, done Applied) Applied {
	at := host.Step{Verb: host.Reboot}
	if err := r.Host.Disk.Flush(ctx); err != nil {
		return r.back(ctx, rec, done, at, fmt.Errorf("making the changes durable: %w", err))
	}
	rec.Phase = host.Rebooting
	if err := r.Host.Journal.Save(rec); err != nil {
		return r.back(ctx, rec, done, at, fmt.Errorf("writing the journal: %w", err))
	}
	if err := r.Host.Power.Reboot(ctx, "machine config "+rec.To); err != nil {
		return r.back(ctx, rec, done, at, fmt.Errorf("rebooting: %w", err))
	}
	done.Done++
	done.End = Rebooting
	return done
}

// judge asks whether the machine is healthy, then commits or takes all back. It returns an error only when it could not
// put the new config in force.
func (r wayThere) judge(ctx context.Context, rec host.Record, done Applied) (Applied, error) {
	if r.Gate != nil {
		err := r.Gate(ctx, rec)
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, context.Canceled):
			done.End, done.Why = Unjudged, err
			return done, nil
		default:
			ended := wayBack(r).undo(ctx, rec, fmt.Errorf("%w: %w", ErrUnhealthy, err))
			ended.Done = done.Done
			return ended, nil
		}
	}
	err := r.commit(&done)
	return done, err
}

// commit puts the new config in force: without a journal there is no way back.
func (r wayThere) commit(done *Applied) error {
	if err := r.Host.Journal.Clear(); err != nil {
		return fmt.Errorf("clearing the journal: %w", err)
	}
	done.End, done.Why = New, r.sweep()
	return nil
}

// sweep comes after the journal is cleared: a store without a journal is only old, a journal without its store is a dead
// end.
func (r Runner) sweep() error {
	if err := r.Host.Store.Sweep(); err != nil {
		return fmt.Errorf("sweeping the store: %w", err)
	}
	return nil
}

// back records a failure and takes everything back.
func (r wayThere) back(ctx context.Context, rec host.Record, done Applied, at host.Step, why error) Applied {
	undone := wayBack(r).undo(ctx, rec, why)
	undone.Done, undone.Stopped = done.Done, &at
	return undone
}

func (r Runner) tell(s host.Step, undone bool) {
	if r.Tell != nil {
		r.Tell(s, undone)
	}
}
