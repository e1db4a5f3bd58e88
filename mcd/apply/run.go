package apply

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

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
	// Why the machine is in the old config or between, nil otherwise.
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
	// Rebooting: the machine goes down and will be in the new config.
	Rebooting End = "rebooting"
	// Between: taking back failed too. The journal is kept, and Recover tries again.
	Between End = "between"
)

// ErrRefused tells that a plan has refusals and was not begun.
var ErrRefused = errors.New("plan has refusals")

// Runner walks plans. The zero value of Tell is silence.
type Runner struct {
	// Host to act on.
	Host host.Host
	// Tell is called after each step that was done; undone says that it was taken back.
	Tell func(step host.Step, undone bool)
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
	if err := r.keep(ctx, p.Steps, contents); err != nil {
		return Applied{End: Old}, errors.Join(err, r.Host.Store.Sweep())
	}
	rec := host.Record{From: p.From, To: p.To, Steps: p.Steps, Phase: host.Applying, BootID: boot}
	if err := r.Host.Journal.Save(rec); err != nil {
		return Applied{End: Old}, fmt.Errorf("writing the journal: %w", err)
	}
	return r.walk(ctx, rec), nil
}

// keep puts into the store what the steps replace, so that undo needs no one, and what they write, so that doing needs
// no one either. What one step replaces may be what another writes: an original that moves aside, or comes back.
func (r Runner) keep(ctx context.Context, steps []host.Step, contents map[host.Digest][]byte) error {
	kept := map[host.Digest]bool{"": true, host.DigestOf(nil): true}
	for _, s := range steps {
		if !utf8.ValidString(s.Before.Entry.Target) {
			return fmt.Errorf("keeping %s: it is a link whose target is not text, which the journal cannot hold: move it away", s.Target)
		}
		if kept[digest(s.Before)] {
			continue
		}
		old, err := replaced(ctx, r.Host, s)
		if err == nil && host.DigestOf(old) != digest(s.Before) {
			err = errors.New("it has changed since it was looked at")
		}
		if err == nil {
			_, err = r.Host.Store.Put(old)
		}
		if err != nil {
			return fmt.Errorf("keeping %s: %w", s.Target, err)
		}
		kept[digest(s.Before)] = true
	}
	for _, s := range steps {
		if kept[digest(s.After)] {
			continue
		}
		now, ok := contents[digest(s.After)]
		if !ok {
			return fmt.Errorf("keeping the new %s: nobody gave its contents", s.Target)
		}
		if _, err := r.Host.Store.Put(now); err != nil {
			return fmt.Errorf("keeping the new %s: %w", s.Target, err)
		}
		kept[digest(s.After)] = true
	}
	return nil
}

// digest of what a value has in the store: a file's contents, or the hash of a user's password; "" for nothing.
func digest(v host.Value) host.Digest {
	if v.User.There {
		return v.User.Password
	}
	return v.Entry.Digest
}

// replaced reads what a step replaces.
func replaced(ctx context.Context, h host.Host, s host.Step) ([]byte, error) {
	if !s.Before.User.There {
		return h.Files.Read(s.Target)
	}
	_, password, err := h.Passwd.User(ctx, s.Target)
	return password, err
}

// walk does all steps and settles the journal.
func (r Runner) walk(ctx context.Context, rec host.Record) Applied {
	done := Applied{From: rec.From, To: rec.To}
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
		if err := r.do(ctx, s); err != nil {
			return r.back(ctx, rec, done, s, fmt.Errorf("%s: %w", s, err))
		}
		done.Done++
		r.tell(s, false)
	}
	rec.Phase = host.Committed
	if err := r.Host.Journal.Save(rec); err != nil {
		return r.back(ctx, rec, done, host.Step{}, fmt.Errorf("writing the journal: %w", err))
	}
	done.End, done.Why = New, r.forget()
	return done
}

// reboot is the last step: what runs after it is confirmed by Recover.
func (r Runner) reboot(ctx context.Context, rec host.Record, done Applied) Applied {
	rec.Phase = host.Rebooting
	if err := r.Host.Journal.Save(rec); err != nil {
		return r.back(ctx, rec, done, host.Step{Verb: host.Reboot}, fmt.Errorf("writing the journal: %w", err))
	}
	if err := r.Host.Power.Reboot(ctx, "machine config "+rec.To); err != nil {
		return r.back(ctx, rec, done, host.Step{Verb: host.Reboot}, fmt.Errorf("rebooting: %w", err))
	}
	done.Done++
	done.End = Rebooting
	return done
}

// back records a failure and takes everything back.
func (r Runner) back(ctx context.Context, rec host.Record, done Applied, at host.Step, why error) Applied {
	undone := r.undo(ctx, rec, why)
	undone.Done, undone.Stopped = done.Done, &at
	return undone
}

// forget clears the journal first: a store without a journal is only old, a journal without its store is a dead end.
func (r Runner) forget() error {
	if err := r.Host.Journal.Clear(); err != nil {
		return fmt.Errorf("clearing the journal: %w", err)
	}
	if err := r.Host.Store.Sweep(); err != nil {
		return fmt.Errorf("sweeping the store: %w", err)
	}
	return nil
}

func (r Runner) tell(s host.Step, undone bool) {
	if r.Tell != nil {
		r.Tell(s, undone)
	}
}
