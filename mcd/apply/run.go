package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Applied is the state of the machine after Run or Recover.
type Applied struct {
	// End says which config the machine has now.
	End End
	// Done counts the applied steps.
	Done int
	// FailedStep is the step that failed; nil if no step failed.
	FailedStep *host.Step
	// From and To are the configs' names.
	From, To string
	// Why is the reason why the machine is not in the new config or its health is unknown; otherwise nil.
	Why error
}

// End says in which config an update ended.
type End string

// The values of End.
const (
	// Nothing means that no update was under way.
	Nothing End = "nothing"
	// Old means that the machine is in its state before the update.
	Old End = "old"
	// New means that the new config is in force.
	New End = "new"
	// Rebooting means that the machine reboots into the new config or, if Why is set, into the old config.
	Rebooting End = "rebooting"
	// RebootUnknown means that the machine may be rebooting, for the reason in Why: the answer to the request is lost.
	// The journal stays. Recover looks at the machine, and requests the reboot again if the machine does not go down.
	RebootUnknown End = "reboot-unknown"
	// HealthUnknown means that the new config is in place, but the context ended before the health check had a result.
	// Recover repeats the check.
	HealthUnknown End = "unjudged"
	// RollbackFailed means that the machine has parts of both configs. The journal stays, and Recover retries.
	RollbackFailed End = "between"
)

// ErrRefused reports that the daemon did not start a plan, because the plan has refusals.
var ErrRefused = errors.New("plan has refusals")

// Runner applies plans. Host must be set; the others may be nil.
type Runner struct {
	// Host is the machine that the steps change.
	Host host.Host
	// OnStep is called after each step; undone is true if the step was rolled back.
	OnStep func(step host.Step, undone bool)
	// OnBegin is called before the steps of an update, and before those of its rollback, with their number.
	OnBegin func(steps int)
	// OnEnd is called after the last of these steps, also if one failed, and maybe again without a step since then.
	OnEnd func()
	// HealthCheck checks the machine when the new config is in place: after the reboot if the update reboots, or after
	// the last step if the update acted on units. HealthCheck blocks until it has a result. After an error, the Runner
	// rolls everything back, with a reboot if the update had one. If the error wraps context.Canceled, or the context
	// has ended, there is no rollback and the next Recover repeats the check.
	HealthCheck func(ctx context.Context, rec host.Record) error
	// OnRejected is called after a rollback because of ErrNotBooted, ErrUnhealthy or ErrInterrupted, before the
	// journal is removed. A crash can cause a second call. If OnRejected returns an error, the journal stays.
	OnRejected func(rec host.Record, why error) error
	// MayReboot is asked directly before each reboot of an update for which the node was drained, into the new config
	// or back. An error says why the machine must not reboot now.
	MayReboot func(ctx context.Context) error
}

// Run applies the plan's steps. If a step fails, Run rolls all steps back, and Applied.Why is the reason. Run returns
// an error only if it did not start. The map contents needs every digest that the plan writes. A journal must not
// exist, so call Recover first. The caller drains the node first if the plan requires it.
func (r Runner) Run(ctx context.Context, p plan.Plan, contents map[host.Digest][]byte) (Applied, error) {
	if len(p.Refusals) > 0 {
		return Applied{End: Old}, fmt.Errorf("%w: %s: %s", ErrRefused, p.Refusals[0].Field, p.Refusals[0].Why)
	}
	boot, err := r.Host.Power.BootID()
	if err != nil {
		return Applied{End: Old}, fmt.Errorf("reading the boot id: %w", err)
	}
	given, err := r.keep(ctx, p.Steps, contents)
	if err != nil {
		return Applied{End: Old}, errors.Join(err, r.Host.Store.Sweep())
	}
	rec := host.Record{From: p.From, To: p.To, Steps: p.Steps, Phase: host.Applying, BootID: boot, Drained: p.Drain}
	if err := r.Host.Journal.Save(rec); err != nil {
		return Applied{End: Old}, fmt.Errorf("writing the journal: %w", err)
	}
	return applySteps(ctx, r, rec, given), nil
}

// applySteps applies all steps and completes the journal.
func applySteps(ctx context.Context, r Runner, rec host.Record, given source) Applied {
	done := Applied{From: rec.From, To: rec.To}
	r.begin(len(rec.Steps))
	defer r.end()
	r.Host.Disk.Batch()
	for _, s := range rec.Steps {
		if s.IsAction() && !rec.Acted {
			rec.Acted = true
			if err := r.Host.Journal.Save(rec); err != nil {
				return rollBackAfter(ctx, r, rec, done.failedAt(s), fmt.Errorf("writing the journal: %w", err))
			}
		}
		if s.Verb == host.Reboot {
			r.end()
			return rebootInto(ctx, r, rec, done)
		}
		if err := r.do(ctx, s, s.Before.Entry, given); err != nil {
			return rollBackAfter(ctx, r, rec, done.failedAt(s), fmt.Errorf("%s: %w", s, r.explain(s, err)))
		}
		done.Done++
		r.tell(s, false)
	}
	r.end()
	if err := r.Host.Disk.Flush(ctx); err != nil {
		return rollBackAfter(ctx, r, rec, done.failedAt(host.Step{}), fmt.Errorf("making the changes durable: %w", err))
	}
	if r.HealthCheck == nil || !rec.Acted {
		return commitOrRollBack(ctx, r, rec, done)
	}
	rec.Phase = host.CheckingHealth
	if err := r.Host.Journal.Save(rec); err != nil {
		return rollBackAfter(ctx, r, rec, done.failedAt(host.Step{}), fmt.Errorf("writing the journal: %w", err))
	}
	ended, err := checkHealth(ctx, r, rec, done)
	if err != nil {
		return rollBackAfter(ctx, r, rec, done.failedAt(host.Step{}), err)
	}
	return ended
}

// explain adds to the error of a step what the machine says about its path.
func (r Runner) explain(s host.Step, err error) error {
	for _, b := range Blockers(r.Host, plan.Plan{Steps: []host.Step{s}}, nil) {
		return fmt.Errorf("%w (%s)", err, b)
	}
	return err
}

// commitOrRollBack commits the update. If the commit fails, commitOrRollBack rolls the update back.
func commitOrRollBack(ctx context.Context, r Runner, rec host.Record, done Applied) Applied {
	if err := commit(r, &done); err != nil {
		rec.Phase = "" // The write of the journal failed, so the state of the journal is unknown.
		return rollBackAfter(ctx, r, rec, done.failedAt(host.Step{}), err)
	}
	return done
}

// rebootInto requests the reboot, which is the last step. After the reboot, Recover compares the booted OS with the
// staged OS.
func rebootInto(ctx context.Context, r Runner, rec host.Record, done Applied) Applied {
	at := host.Step{Verb: host.Reboot}
	if err := r.Host.Disk.Flush(ctx); err != nil {
		return rollBackAfter(ctx, r, rec, done.failedAt(at), fmt.Errorf("making the changes durable: %w", err))
	}
	rec.Phase = host.Rebooting
	if err := r.Host.Journal.Save(rec); err != nil {
		return rollBackAfter(ctx, r, rec, done.failedAt(at), fmt.Errorf("writing the journal: %w", err))
	}
	err := r.reboot(ctx, rec, "machine config "+rec.To)
	switch {
	case fault.IsUnknown(err):
		done.End, done.Why = RebootUnknown, fmt.Errorf("rebooting: %w", err)
	case err != nil:
		return rollBackAfter(ctx, r, rec, done.failedAt(at), fmt.Errorf("rebooting: %w", err))
	default:
		done.Done++
		done.End = Rebooting
	}
	return done
}

// rebootAgain requests the reboot that an earlier process, or an earlier call, may have requested already. A machine
// that goes down is not asked twice, and a machine of which this is unknown is not asked at all.
func (r Runner) rebootAgain(ctx context.Context, rec host.Record, why string) error {
	down, err := r.Host.Power.GoingDown(ctx)
	switch {
	case err != nil:
		return fault.NewUnknown(fmt.Errorf("finding out whether the machine is already rebooting: %w", err))
	case down:
		return nil
	}
	return r.reboot(ctx, rec, why)
}

// reboot requests a reboot, if MayReboot allows it. No other function does.
func (r Runner) reboot(ctx context.Context, rec host.Record, why string) error {
	if rec.Drained && r.MayReboot != nil {
		if err := r.MayReboot(ctx); err != nil {
			return err
		}
	}
	return r.Host.Power.Reboot(ctx, why)
}

// checkHealth runs the health check, then commits or rolls back. checkHealth returns an error only if the commit fails.
func checkHealth(ctx context.Context, r Runner, rec host.Record, done Applied) (Applied, error) {
	if r.HealthCheck != nil {
		err := r.HealthCheck(ctx, rec)
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, context.Canceled):
			done.End, done.Why = HealthUnknown, err
			return done, nil
		default:
			ended := rollBack(ctx, r, rec, fmt.Errorf("%w: %w", ErrUnhealthy, err))
			ended.Done = done.Done
			return ended, nil
		}
	}
	err := commit(r, &done)
	return done, err
}

// commit puts the new config in force. commit removes the journal. Without a journal, no rollback is possible.
func commit(r Runner, done *Applied) error {
	if err := r.Host.Journal.Clear(); err != nil {
		return fmt.Errorf("clearing the journal: %w", err)
	}
	done.End, done.Why = New, r.sweep()
	return nil
}

// sweep empties the store. sweep runs after the journal is removed, because a rollback needs the journal and the stored
// contents.
func (r Runner) sweep() error {
	if err := r.Host.Store.Sweep(); err != nil {
		return fmt.Errorf("sweeping the store: %w", err)
	}
	return nil
}

// rollBackAfter rolls the update back. The result includes the applied steps and the step that failed.
func rollBackAfter(ctx context.Context, r Runner, rec host.Record, done Applied, why error) Applied {
	undone := rollBack(ctx, r, rec, why)
	undone.Done, undone.FailedStep = done.Done, done.FailedStep
	return undone
}

// failedAt returns the result with the step that failed; the zero Step means that no step failed.
func (a Applied) failedAt(s host.Step) Applied {
	a.FailedStep = &s
	return a
}

func (r Runner) begin(steps int) {
	if r.OnBegin != nil {
		r.OnBegin(steps)
	}
}

func (r Runner) end() {
	if r.OnEnd != nil {
		r.OnEnd()
	}
}

func (r Runner) tell(s host.Step, undone bool) {
	if r.OnStep != nil {
		r.OnStep(s, undone)
	}
}

// do applies one step. The parameter is has the present entry at the step's path, if the step has a path. The parameter
// from has the contents to write.
func (r Runner) do(ctx context.Context, s host.Step, is host.Entry, from source) error {
	switch s.Verb {
	case host.Enable:
		return r.Host.Units.Enable(ctx, s.Target)
	case host.Disable:
		return r.Host.Units.Disable(ctx, s.Target)
	case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
		return r.Host.OS.Stage(ctx, s)
	case host.SetUser, host.DropUser:
		password, err := from(s.After.User.Password)
		if err != nil {
			return err
		}
		return r.Host.Passwd.SetUser(ctx, s.Target, s.After.User, password)
	case host.SetGroup, host.DropGroup:
		return r.Host.Passwd.SetGroup(ctx, s.Target, s.After.Group)
	case host.MergeKeys:
		if r.Host.MergeKeys == nil {
			return nil
		}
		return r.Host.MergeKeys(ctx, s.Target)
	case host.UpdateTrust:
		return r.Host.Trust.Update(ctx, s.Target)
	case host.DaemonReload:
		return r.Host.Units.DaemonReload(ctx)
	case host.Reload:
		return r.Host.Units.Reload(ctx, s.Target)
	case host.Restart:
		return r.Host.Units.Restart(ctx, s.Target)
	}
	if s.IsPath() {
		return r.place(s, is, from)
	}
	return fmt.Errorf("no step has the verb %q", s.Verb)
}

// place sets a path to the step's value. To replace a directory by a file, or a file by a directory, place first
// removes the old entry. A rollback works after the removal, and also after both changes.
func (r Runner) place(s host.Step, is host.Entry, from source) error {
	files, want := r.Host.Files, s.After.Entry
	// A hard link is created even if the entry is equal, because the target of the link may be another file by now.
	if is == want && want.Kind != host.Hard {
		return nil
	}
	if is.Kind == host.Other {
		return errors.New("it is a device, pipe or socket, which no config made: move it away")
	}
	if want.Kind == host.Absent {
		err := files.Remove(s.Target)
		if is.Kind == host.Dir && errors.Is(err, host.ErrNotEmpty) {
			return nil // A user has put files into the directory, so it stays.
		}
		return err
	}
	if is.Kind != host.Absent && (is.Kind == host.Dir) != (want.Kind == host.Dir) {
		if err := files.Remove(s.Target); err != nil {
			return err
		}
	}
	switch want.Kind {
	case host.Dir:
		return files.Mkdir(s.Target, want)
	case host.Link, host.Hard:
		return files.Link(s.Target, want)
	}
	if downloaded, err := r.isDownloaded(want.Digest); err != nil {
		return err
	} else if downloaded {
		return r.Host.Contents.Write(s.Target, want)
	}
	contents, err := from(want.Digest)
	if err != nil {
		return err
	}
	return files.Write(s.Target, want, contents)
}

// source is a function that returns the contents that a step writes, by their digest.
type source func(host.Digest) ([]byte, error)

// keep stores all data that the steps replace, so that a rollback needs nothing else. The returned source reads from
// the contents of the plan, or from the store for files that are moved or restored.
func (r Runner) keep(ctx context.Context, steps []host.Step, contents map[host.Digest][]byte) (source, error) {
	var old []host.Old
	kept := map[host.Digest]bool{"": true, host.DigestOf(nil): true}
	for _, s := range steps {
		if !utf8.ValidString(s.Before.Entry.Target) {
			return nil, fmt.Errorf("keeping %s: it is a link whose target is not text, which the journal cannot "+
				"hold: move it away", s.Target)
		}
		d := digest(s.Before)
		switch {
		case s.IsPath() && s.Before.Entry.Kind == host.File:
			downloaded, err := r.isDownloaded(d)
			if err != nil {
				return nil, err
			}
			old = append(old, host.Old{Path: s.Target, Digest: d, Downloaded: downloaded})
		case !kept[d]:
			password, err := replaced(ctx, r.Host, s)
			if err != nil {
				return nil, fmt.Errorf("keeping the password of %s: %w", s.Target, err)
			}
			old = append(old, host.Old{Digest: d, Contents: password})
		}
		kept[d] = true
	}
	for _, s := range steps {
		d := digest(s.After)
		if kept[d] || contents[d] != nil {
			continue
		}
		if downloaded, err := r.isDownloaded(d); err != nil || !downloaded {
			return nil, errors.Join(err, fmt.Errorf("%s: its contents are missing", s))
		}
	}
	if err := r.Host.Store.Keep(old); err != nil {
		return nil, fmt.Errorf("keeping what is replaced: %w", err)
	}
	return func(d host.Digest) ([]byte, error) {
		if now, ok := contents[d]; ok {
			return now, nil
		}
		return r.stored(d)
	}, nil
}

// isDownloaded reports whether the host's content store has contents.
func (r Runner) isDownloaded(d host.Digest) (bool, error) {
	if r.Host.Contents == nil || d == "" || d == host.DigestOf(nil) {
		return false, nil
	}
	_, has, err := r.Host.Contents.Size(d)
	var at *fs.PathError
	if errors.As(err, &at) { // The path has the digest, and the contents may be a secret.
		err = at.Err
	}
	if err != nil {
		return false, fmt.Errorf("looking for downloaded contents: %w", err)
	}
	return has, nil
}

// stored returns the contents for the rollback from the store.
func (r Runner) stored(d host.Digest) ([]byte, error) {
	if d == "" || d == host.DigestOf(nil) {
		return nil, nil
	}
	contents, err := r.Host.Store.Get(d)
	if err != nil {
		// without the digest, because the contents may be secret
		return nil, fmt.Errorf("reading kept contents: %w", err)
	}
	return contents, nil
}

// digest returns the digest of the stored data of a value: a file's contents, or the hash of a user's password. digest
// returns "" if there is no such data.
func digest(v host.Value) host.Digest {
	if v.User.There {
		return v.User.Password
	}
	return v.Entry.Digest
}

// replaced reads the password hash of a user whom a step changes.
func replaced(ctx context.Context, h host.Host, s host.Step) ([]byte, error) {
	_, password, err := h.Passwd.User(ctx, s.Target)
	if err == nil && host.DigestOf(password) != digest(s.Before) {
		err = errors.New("it has changed since the observation")
	}
	return password, err
}
