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
	// OnWarning is called with an error that stops no update.
	OnWarning func(err error)
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
	steps := stepper{host: r.Host, contents: contents}
	if err := steps.keep(ctx, p.Steps); err != nil {
		return Applied{End: Old}, errors.Join(err, r.Host.Store.Sweep())
	}
	rec := host.Record{From: p.From, To: p.To, Steps: p.Steps, Phase: host.Applying, BootID: boot, Drained: p.Drain}
	if err := r.Host.Journal.Save(rec); err != nil {
		return Applied{End: Old}, fmt.Errorf("writing the journal: %w", err)
	}
	u := &update{Runner: r, rec: rec}
	return u.apply(ctx, steps), nil
}

// update is the update in the journal. Its record is what the journal has, or is about to have.
type update struct {
	Runner
	rec host.Record
	// failed is the step that failed; nil if no step did, or if an earlier process applied the steps.
	failed *host.Step
}

// apply applies all steps and completes the journal.
func (u *update) apply(ctx context.Context, steps stepper) Applied {
	u.begin()
	defer u.end()
	u.Host.Disk.Batch()
	for _, s := range u.rec.Steps {
		if s.IsAction() && !u.rec.Acted {
			u.relabel(ctx) // before programs read what is new
			u.rec.Acted = true
			if err := u.save(); err != nil {
				return u.fail(ctx, s, err)
			}
		}
		if s.Verb == host.Reboot {
			u.end()
			return u.rebootIntoNew(ctx, s)
		}
		if err := steps.do(ctx, s, s.Before.Entry); err != nil {
			return u.fail(ctx, s, fmt.Errorf("%s: %w", s, u.explain(s, err)))
		}
		u.tell(s, false)
	}
	u.end()
	u.relabel(ctx)
	if err := u.flush(ctx); err != nil {
		return u.fail(ctx, host.Step{}, err)
	}
	if u.HealthCheck != nil && u.rec.Acted {
		u.rec.Phase = host.CheckingHealth
		if err := u.save(); err != nil {
			return u.fail(ctx, host.Step{}, err)
		}
		if ended, decided := u.checkHealth(ctx); decided {
			return ended
		}
		if err := u.commit(); err != nil {
			return u.fail(ctx, host.Step{}, err)
		}
		return u.inNew()
	}
	if err := u.commit(); err != nil {
		u.rec.Phase = "" // The write of the journal failed, so the state of the journal is unknown.
		return u.fail(ctx, host.Step{}, err)
	}
	return u.inNew()
}

// fail rolls the update back after a step that failed.
func (u *update) fail(ctx context.Context, s host.Step, why error) Applied {
	u.failed = &s
	return u.rollBack(ctx, why)
}

// explain adds to the error of a step what the machine says about its path.
func (u *update) explain(s host.Step, err error) error {
	for _, b := range Blockers(u.Host, plan.Plan{Steps: []host.Step{s}}, nil) {
		return fmt.Errorf("%w (%s)", err, b)
	}
	return err
}

// rebootIntoNew requests the reboot, which is the last step. After the reboot, Recover compares the booted OS with the
// staged OS.
func (u *update) rebootIntoNew(ctx context.Context, last host.Step) Applied {
	if err := u.flush(ctx); err != nil {
		return u.fail(ctx, last, err)
	}
	u.rec.Phase = host.Rebooting
	if err := u.save(); err != nil {
		return u.fail(ctx, last, err)
	}
	err := u.reboot(ctx, "machine config "+u.rec.To)
	if err == nil || fault.IsUnknown(err) {
		return u.goingDown(err)
	}
	return u.fail(ctx, last, fmt.Errorf("rebooting: %w", err))
}

// rebootAgain requests the reboot that an earlier process, or an earlier call, may have requested already. A machine
// that goes down is not asked twice, and a machine of which this is unknown is not asked at all.
func (u *update) rebootAgain(ctx context.Context, why string) error {
	down, err := u.Host.Power.GoingDown(ctx)
	switch {
	case err != nil:
		return fault.NewUnknown(fmt.Errorf("finding out whether the machine is already rebooting: %w", err))
	case down:
		return nil
	}
	return u.reboot(ctx, why)
}

// reboot requests a reboot, if MayReboot allows it. No other function does.
func (u *update) reboot(ctx context.Context, why string) error {
	if u.rec.Drained && u.MayReboot != nil {
		if err := u.MayReboot(ctx); err != nil {
			return err
		}
	}
	return u.Host.Power.Reboot(ctx, why)
}

// checkHealth runs the health check. If the machine is healthy, the caller commits the update. Otherwise decided is
// true: the update was rolled back, or the check has no result yet.
func (u *update) checkHealth(ctx context.Context) (ended Applied, decided bool) {
	if u.HealthCheck == nil {
		return Applied{}, false
	}
	err := u.HealthCheck(ctx, u.rec)
	switch {
	case err == nil:
		return Applied{}, false
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return u.ended(HealthUnknown, err), true
	}
	return u.rollBack(ctx, fmt.Errorf("%w: %w", ErrUnhealthy, err)), true
}

// commit puts the new config in force: it removes the journal. Without a journal, no rollback is possible.
func (u *update) commit() error {
	if err := u.Host.Journal.Clear(); err != nil {
		return fmt.Errorf("clearing the journal: %w", err)
	}
	return nil
}

// inNew returns the state of a machine with the new config in force.
func (u *update) inNew() Applied { return u.ended(New, u.sweep()) }

// goingDown returns the state of a machine that reboots into the new config, or may do so.
func (u *update) goingDown(err error) Applied {
	if err != nil {
		return u.ended(RebootUnknown, fmt.Errorf("rebooting: %w", err))
	}
	return u.ended(Rebooting, nil)
}

// ended returns the state of the machine.
func (u *update) ended(end End, why error) Applied {
	return Applied{End: end, FailedStep: u.failed, From: u.rec.From, To: u.rec.To, Why: why}
}

// save writes the record to the journal.
func (u *update) save() error {
	if err := u.Host.Journal.Save(u.rec); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

func (u *update) flush(ctx context.Context) error {
	if err := u.Host.Disk.Flush(ctx); err != nil {
		return fmt.Errorf("making the changes durable: %w", err)
	}
	return nil
}

// relabel gives new paths the labels of the machine's policy. It does not stop an update: a program that cannot read a
// file for its label fails the health check.
func (u *update) relabel(ctx context.Context) {
	if u.Host.Relabel == nil {
		return
	}
	if err := u.Host.Relabel(ctx); err != nil && u.OnWarning != nil {
		u.OnWarning(fmt.Errorf("restoring the labels of new files: %w", err))
	}
}

// sweep empties the store. It runs after the journal is removed, because a rollback needs the journal and the stored
// contents.
func (u *update) sweep() error {
	if err := u.Host.Store.Sweep(); err != nil {
		return fmt.Errorf("sweeping the store: %w", err)
	}
	return nil
}

func (u *update) begin() {
	if u.OnBegin != nil {
		u.OnBegin(len(u.rec.Steps))
	}
}

func (u *update) end() {
	if u.OnEnd != nil {
		u.OnEnd()
	}
}

func (u *update) tell(s host.Step, undone bool) {
	if u.OnStep != nil {
		u.OnStep(s, undone)
	}
}

// stepper makes single steps on a host. What they write comes from the contents of the plan or, in a rollback, from the
// store.
type stepper struct {
	host     host.Host
	contents map[host.Digest][]byte
}

// do makes one step. The parameter is has the present entry at the step's path, if the step has a path.
func (t stepper) do(ctx context.Context, s host.Step, is host.Entry) error {
	switch s.Verb {
	case host.Enable:
		return t.host.Units.Enable(ctx, s.Target)
	case host.Disable:
		return t.host.Units.Disable(ctx, s.Target)
	case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
		return t.host.OS.Stage(ctx, s)
	case host.SetUser, host.DropUser:
		password, err := t.read(s.After.User.Password)
		if err != nil {
			return err
		}
		return t.host.Passwd.SetUser(ctx, s.Target, s.After.User, password)
	case host.SetGroup, host.DropGroup:
		return t.host.Passwd.SetGroup(ctx, s.Target, s.After.Group)
	case host.MergeKeys:
		if t.host.MergeKeys == nil {
			return nil
		}
		return t.host.MergeKeys(ctx, s.Target)
	case host.UpdateTrust:
		return t.host.Trust.Update(ctx, s.Target)
	case host.DaemonReload:
		return t.host.Units.DaemonReload(ctx)
	case host.Reload:
		return t.host.Units.Reload(ctx, s.Target)
	case host.Restart:
		return t.host.Units.Restart(ctx, s.Target)
	case host.Stop:
		return t.host.Units.Stop(ctx, s.Target)
	}
	if s.IsPath() {
		return t.place(s, is)
	}
	return fmt.Errorf("no step has the verb %q", s.Verb)
}

// place sets a path to the step's value. To replace a directory by a file, or a file by a directory, place first
// removes the old entry. A rollback works after the removal, and also after both changes.
func (t stepper) place(s host.Step, is host.Entry) error {
	files, want := t.host.Files, s.After.Entry
	// A hard link is created even if the entry is equal, because the target of the link may be another file by now; a
	// link that stays, because an earlier step removes it.
	if is == want && want.Kind != host.Hard && s.Before != s.After {
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
	if downloaded, err := t.isDownloaded(want.Digest); err != nil {
		return err
	} else if downloaded {
		return t.host.Contents.Write(s.Target, want)
	}
	contents, err := t.read(want.Digest)
	if err != nil {
		return err
	}
	return files.Write(s.Target, want, contents)
}

// keep stores all data that the steps replace, so that a rollback needs nothing else, and checks that the steps have
// all contents.
func (t stepper) keep(ctx context.Context, steps []host.Step) error {
	var old []host.Old
	kept := map[host.Digest]bool{"": true, host.DigestOf(nil): true}
	for _, s := range steps {
		if !utf8.ValidString(s.Before.Entry.Target) {
			return fmt.Errorf("keeping %s: it is a link whose target is not text, which the journal cannot "+
				"hold: move it away", s.Target)
		}
		d := digest(s.Before)
		switch {
		case s.IsPath() && s.Before.Entry.Kind == host.File:
			downloaded, err := t.isDownloaded(d)
			if err != nil {
				return err
			}
			old = append(old, host.Old{Path: s.Target, Digest: d, Downloaded: downloaded})
		case !kept[d]:
			password, err := replaced(ctx, t.host, s)
			if err != nil {
				return fmt.Errorf("keeping the password of %s: %w", s.Target, err)
			}
			old = append(old, host.Old{Digest: d, Contents: password})
		}
		kept[d] = true
	}
	for _, s := range steps {
		d := digest(s.After)
		if kept[d] || t.contents[d] != nil {
			continue
		}
		if downloaded, err := t.isDownloaded(d); err != nil || !downloaded {
			return errors.Join(err, fmt.Errorf("%s: its contents are missing", s))
		}
	}
	if err := t.host.Store.Keep(old); err != nil {
		return fmt.Errorf("keeping what is replaced: %w", err)
	}
	return nil
}

// isDownloaded reports whether the host's content store has contents.
func (t stepper) isDownloaded(d host.Digest) (bool, error) {
	if t.host.Contents == nil || d == "" || d == host.DigestOf(nil) {
		return false, nil
	}
	_, has, err := t.host.Contents.Size(d)
	var at *fs.PathError
	if errors.As(err, &at) { // The path has the digest, and the contents may be a secret.
		err = at.Err
	}
	if err != nil {
		return false, fmt.Errorf("looking for downloaded contents: %w", err)
	}
	return has, nil
}

// read returns contents: those of the plan or, in a rollback and for files that are moved or restored, those of the
// store.
func (t stepper) read(d host.Digest) ([]byte, error) {
	if now, ok := t.contents[d]; ok {
		return now, nil
	}
	if d == "" || d == host.DigestOf(nil) {
		return nil, nil
	}
	kept, err := t.host.Store.Get(d)
	if err != nil {
		// without the digest, because the contents may be secret
		return nil, fmt.Errorf("reading kept contents: %w", err)
	}
	return kept, nil
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

// FailedStepText lists the commands that show why a step failed.
func FailedStepText(s *host.Step) string {
	switch {
	case s == nil:
		return "see the daemon's log"
	case s.Verb == host.Reload, s.Verb == host.Restart, s.Verb == host.Stop, s.Verb == host.Enable,
		s.Verb == host.Disable:
		return fmt.Sprintf("see journalctl -u %s and systemctl cat %s on the node", s.Target, s.Target)
	case s.Verb == host.DaemonReload:
		return "see journalctl -b _PID=1 on the node"
	case s.Verb == host.Reboot:
		return "see systemctl list-jobs and systemd-inhibit on the node"
	case s.IsPath():
		return fmt.Sprintf("see ls -ld %s, df and mount on the node", s.Target)
	case s.Verb == host.SetUser, s.Verb == host.DropUser, s.Verb == host.SetGroup, s.Verb == host.DropGroup:
		return fmt.Sprintf("see getent passwd, getent group and journalctl for %s on the node", s.Target)
	}
	return "see rpm-ostree status or bootc status, and journalctl -u rpm-ostreed, on the node"
}
