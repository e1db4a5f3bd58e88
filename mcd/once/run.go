package once

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/state"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Request is the requested change of a machine.
type Request struct {
	// To is the config, as Read returns it.
	To mcfgv1.MachineConfig
	// If Force is true, Run overwrites drift from the config in force, and reboots.
	Force bool
	// If AsFirstBoot is true, Run assumes that parts that only a first boot sets up, such as disks, already have the
	// state of the config.
	AsFirstBoot bool
	// If SkipReboot is true, Run leaves a required reboot to the user.
	SkipReboot bool
	// Fetcher brings the remote files of the config onto the machine; nil if the machine has no content store.
	Fetcher *fetch.Fetcher
}

// Plan is the planned change.
type Plan struct {
	// Plan has the steps, or the refusals.
	Plan plan.Plan
	// Contents are the contents that the steps write, by digest.
	Contents map[host.Digest][]byte
	// RebootDue is true if the change needs a reboot that is left to the user.
	RebootDue bool
}

// DriftError reports that the machine differs from the config in force, so that an update could overwrite unknown
// changes.
type DriftError struct {
	// Config is the config in force.
	Config string
	// Found describes the differences, without contents.
	Found []string
}

func drifted(config string, items []drift.Item) *DriftError {
	e := &DriftError{Config: config}
	for _, it := range items {
		e.Found = append(e.Found, it.String())
	}
	return e
}

// Error lists all differences, and says what to do.
func (e *DriftError) Error() string {
	return fmt.Sprintf("unexpected on-disk state validating against %s: %s; fix it, or overwrite it with --force",
		e.Config, strings.Join(e.Found, "; "))
}

// NewPlan plans the change to a config: from the config of the record, or from no config. NewPlan changes nothing. The
// error is a *DriftError if the machine differs from the record.
func NewPlan(ctx context.Context, h host.Host, ask Request) (Plan, error) {
	from, err := inForce(h.Files)
	if err != nil {
		return Plan{}, err
	}
	delete(ask.To.Annotations, v1alpha1.CurrentSecretsAnnotation) // Only the daemon knows the revision.
	to, err := plan.ParseConfig(ask.To)
	if err != nil {
		return Plan{}, err
	}
	if needs, err := secrets.PathsOf(to); err != nil || len(needs) > 0 {
		return Plan{}, errors.Join(err, noSecrets(to.Name, needs))
	}
	from.Config, to.Config = ask.Fetcher.Resolve(from.Config), ask.Fetcher.Resolve(to.Config)
	text, err := plan.RecordOf(ask.To)
	if err != nil {
		return Plan{}, err
	}
	way, observed, err := observe(ctx, h, from, to)
	if err != nil {
		return Plan{}, err
	}
	if !ask.AsFirstBoot {
		way.Refusals = append(way.Refusals, firstBootParts(from.Config, to.Config)...)
	}
	if items := drift.Items(observed, way.Old, way.New); from.Name != "" && len(items) > 0 && !ask.Force {
		return Plan{}, drifted(from.Name, items)
	}
	d := stepsOf(h, way, observed, text, ask)
	if len(d.Plan.Refusals) == 0 {
		d.Plan.Unread = apply.UnreadKeys(ctx, h, d.Plan, way)
	}
	return d, nil
}

// stepsOf returns the plan of a transition. The plan has no drain, because there is no controller that could drain the
// node. The parameter text is the record.
func stepsOf(h host.Host, way plan.Transition, observed host.State, text []byte, ask Request) Plan {
	d := Plan{}
	d.Plan, d.Contents = way.Plan(observed, text)
	if ask.Force && len(d.Plan.Steps) > 0 || d.Plan.Stages() && !d.Plan.Reboots() {
		d.Plan, d.Contents = way.WithReboot().Plan(observed, text)
	}
	d.Plan.Drain = false
	d.Plan = d.Plan.Blocked(apply.Blockers(h, d.Plan, d.Contents))
	if len(d.Plan.Refusals) == 0 && ask.SkipReboot && d.Plan.Reboots() {
		d.Plan.Steps, d.RebootDue = d.Plan.Steps[:len(d.Plan.Steps)-1], true
	}
	return d
}

// noSecrets returns the error for a config with secrets; nil for a config without.
func noSecrets(config string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s refers to secrets or has encrypted files (%s). Only the daemon of a cluster's node "+
		"gets their contents: write plain contents into the config",
		apply.ErrRefused, config, strings.Join(paths, ", "))
}

// inForce returns the config of the record, with the contents of secrets that the daemon has stored. If there is no
// record, inForce returns the empty config without a name.
func inForce(files host.Files) (plan.Config, error) {
	mc, err := apply.LoadRecord(files)
	if err != nil || mc == nil {
		return plan.Config{}, err
	}
	c, err := plan.ParseConfig(*mc)
	if err != nil {
		return c, err
	}
	paths, err := secrets.PathsOf(c)
	if err != nil || c.Name == mc.Name { // without a revision, the machine has none of these files
		return c, err
	}
	text, err := files.Read(secrets.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("reading %s: %w", secrets.Path, err)
	}
	contents, known := secrets.ParseCopy(text).Known(c.Name, paths)
	if !known {
		return c, noSecrets(c.Name, paths)
	}
	return secrets.Resolve(c, contents)
}

// observe reads the parts of the machine that a change between two configs may affect.
func observe(ctx context.Context, h host.Host, from, to plan.Config) (plan.Transition, host.State, error) {
	accounts, err := apply.Accounts(ctx, h)
	if err != nil {
		return plan.Transition{}, host.State{}, err
	}
	way, err := apply.Place(h, plan.NewTransition(from, to, plan.Rules{Policy: disruption.Default()}, accounts))
	if err != nil {
		return plan.Transition{}, host.State{}, err
	}
	observed, err := apply.Observe(ctx, h, way.Scope())
	return way, observed, err
}

// firstBootParts refuses new disks and other parts of a first boot, because without a cluster no new machine would set
// them up. Parts that the config in force also has are accepted, and removed parts stay on the machine.
func firstBootParts(from, to machineconfig.Config) []disruption.Refusal {
	var refusals []disruption.Refusal
	asked := disruption.NewNodesOnly(machineconfig.Config{}, to)
	for _, r := range disruption.NewNodesOnly(from, to) {
		if !slices.ContainsFunc(asked, func(a disruption.Refusal) bool { return a.Field == r.Field }) {
			continue
		}
		r.Why = "only the first boot of a machine applies this part: remove it from the config, or reinstall the " +
			"machine. If the machine already has it, use --as-born"
		refusals = append(refusals, r)
	}
	return refusals
}

// Empty reports whether the plan has no steps and no refusals.
func (d Plan) Empty() bool { return d.Plan.Empty() }

// Steps returns the steps for users. Steps omits the daemon's own files, unless there are no other steps.
func (d Plan) Steps() []host.Step {
	own := path.Dir(host.RecordPath) + "/"
	return slices.DeleteFunc(slices.Clone(d.Plan.Steps), func(s host.Step) bool {
		return strings.HasPrefix(s.Target, own) || s.Target+"/" == own
	})
}

// String returns the plan as a deterministic text: names, steps or refusals, and the disruption.
func (d Plan) String() string {
	shown := d.Plan
	shown.Steps = d.Steps()
	text := shown.String()
	if d.RebootDue {
		text += "a reboot is left to you\n"
	}
	return text
}

// Result is the result of Run.
type Result struct {
	apply.Applied
	// Earlier is the result of an earlier update that a crash or a reboot interrupted. Earlier.End is Nothing if there
	// was no interrupted update.
	Earlier apply.Applied
	// Plan is the executed or planned change. Plan is the zero Plan if the earlier update has not ended yet.
	Plan Plan
}

// ErrUnfinished reports that an earlier update has to end before another one can start.
var ErrUnfinished = errors.New("an earlier update has not ended")

// Run applies a config to a machine. Run finishes an interrupted update, plans the change, calls show with the plan,
// and applies the steps with a journal and a rollback. If dry is true, Run changes nothing. An error means that no step
// was started; the Result has the outcome of the steps. The error is ErrGivenUp if the config interrupted the machine,
// or did not boot, too often.
func Run(ctx context.Context, r apply.Runner, ask Request, dry bool, show func(Plan)) (Result, error) {
	result := Result{Earlier: apply.Applied{End: apply.Nothing}}
	left, err := r.Host.Journal.Load()
	if err != nil {
		return result, fmt.Errorf("reading the journal: %w", err)
	}
	if left != nil {
		if result.Earlier, err = earlier(ctx, r, ask, *left, dry); err != nil {
			return result, err
		}
		switch result.Earlier.End {
		case apply.Rebooting, apply.RebootUnknown, apply.RollbackFailed, apply.HealthUnknown:
			result.Applied = result.Earlier
			return result, nil
		}
	}
	if !dry {
		if err := checkAttempts(r.Host.Files, ask.To.Name, ask.Force); err != nil {
			return result, err
		}
	}
	if result.Plan, err = planWithContents(ctx, r.Host, ask, dry); err != nil {
		return result, err
	}
	show(result.Plan)
	p := result.Plan.Plan
	switch {
	case len(p.Refusals) > 0:
		return result, Refused(p.Refusals)
	case dry:
		result.Applied = apply.Applied{End: apply.Nothing, From: p.From, To: p.To}
		return result, nil
	case len(p.Steps) == 0:
		result.Applied = apply.Applied{End: apply.Nothing, From: p.From, To: p.To}
		return result, confirm(r.Host.Files, ask) // An update with a reboot ends here, in the run after the boot.
	}
	result.Applied, err = r.Run(context.WithoutCancel(ctx), p, result.Plan.Contents)
	if err == nil && result.End == apply.New {
		err = confirm(r.Host.Files, ask)
	}
	return result, err
}

// checkAttempts returns ErrGivenUp if too many attempts to apply the config failed. If forced is true, checkAttempts
// clears the count instead.
func checkAttempts(files host.Files, config string, forced bool) error {
	count, err := loadAttempts(files, runAttempts, config)
	if err != nil || !count.IsExhausted() {
		return err
	}
	if forced {
		return clearAttempts(files, runAttempts)
	}
	var why []string
	if count.Interrupted > 0 {
		why = append(why, fmt.Sprintf("%d times, %v", count.Interrupted, apply.ErrInterrupted))
	}
	if count.NotBooted > 0 {
		why = append(why, fmt.Sprintf("%d times, %v", count.NotBooted, apply.ErrNotBooted))
	}
	return fmt.Errorf("%w: %s: %s; see journalctl --list-boots and journalctl -b -1 -e, change the config, or retry "+
		"it with --force", ErrGivenUp, config, strings.Join(why, ", and "))
}

// planWithContents is NewPlan after the download of the remote files. A dry run and a refused config download nothing.
func planWithContents(ctx context.Context, h host.Host, ask Request, dry bool) (Plan, error) {
	p, err := NewPlan(ctx, h, ask)
	if err != nil || dry || len(p.Plan.Refusals) > 0 {
		return p, err
	}
	if err := fetchContents(ctx, h, ask); err != nil {
		return p, err
	}
	return NewPlan(ctx, h, ask) // Now the contents have digests.
}

// confirm removes what a rollback to an earlier config needed. For a config that is confirmed already, confirm only
// clears the count of attempts.
func confirm(files host.Files, ask Request) error {
	to, err := plan.ParseConfig(ask.To)
	if err != nil {
		return err
	}
	if err := ask.Fetcher.Confirm(to.Name, to.Config); err != nil {
		return err
	}
	return clearAttempts(files, runAttempts)
}

// fetchContents downloads the remote files of the requested config, and stores those of the config in force.
func fetchContents(ctx context.Context, h host.Host, ask Request) error {
	from, err := inForce(h.Files)
	if err != nil {
		return err
	}
	to, err := plan.ParseConfig(ask.To)
	if err != nil {
		return err
	}
	if _, err := ask.Fetcher.Adopt(from.Config); err != nil {
		return err
	}
	_, err = ask.Fetcher.Fetch(ctx, to.Config, func(fetch.Progress) error { return nil })
	return err
}

// earlier finishes the update of a journal, and counts it if it failed.
func earlier(ctx context.Context, r apply.Runner, ask Request, left host.Record, dry bool) (apply.Applied, error) {
	var none apply.Applied
	if dry {
		return none, fmt.Errorf("%w: that to %s, which is in its phase %s; run it without --dry-run, which ends "+
			"it first", ErrUnfinished, left.To, left.Phase)
	}
	if ask.SkipReboot && (left.Phase == host.Rebooting || left.Phase == host.RollbackReboot) {
		return none, fmt.Errorf("%w: that to %s waits for the machine to start: start it, or run this on it without "+
			"--skip-reboot", ErrUnfinished, left.To)
	}
	r.OnRejected = countAttempt(r.Host.Files, runAttempts)
	return r.Recover(context.WithoutCancel(ctx))
}

// The files that count the attempts of FirstBoot and of Run.
const (
	firstBootAttempts = host.StateDir + "/firstboot.json"
	runAttempts       = host.StateDir + "/once.json"
)

// ErrGivenUp reports that too many attempts to apply a config were interrupted or did not boot.
var ErrGivenUp = errors.New("the daemon stops retrying the config")

// loadAttempts reads the count of a config.
func loadAttempts(files host.Files, at, config string) (state.Attempts, error) {
	text, err := files.Read(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state.Attempts{}, fmt.Errorf("reading the count of attempts: %w", err)
	}
	return state.ParseAttempts(text, config), nil
}

// countAttempt returns a function that counts a rolled back attempt in a file. The function is for
// apply.Runner.OnRejected.
func countAttempt(files host.Files, at string) func(host.Record, error) error {
	return func(rec host.Record, _ error) error {
		count, err := loadAttempts(files, at, rec.To)
		if err != nil {
			return err
		}
		text, err := count.Add(rec.Cause).Encode(rec.To)
		if err != nil {
			return err
		}
		dir, err := files.Stat(host.StateDir)
		if err == nil && dir.Kind == host.Absent {
			err = files.Mkdir(host.StateDir, host.Entry{Kind: host.Dir, Mode: 0o700})
		}
		if err != nil {
			return err
		}
		return files.Write(at, host.Entry{Kind: host.File, Mode: 0o600}, text)
	}
}

// clearAttempts removes a count.
func clearAttempts(files host.Files, at string) error {
	if is, err := files.Stat(at); err != nil || is.Kind == host.Absent {
		return err
	}
	return files.Remove(at)
}
