package once

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/record"
	"github.com/bunsen-os/bunsen/policy"
)

// Ask is what somebody wants of a machine.
type Ask struct {
	// To is the config, as Read gives it.
	To mcfgv1.MachineConfig
	// Force overwrites what differs on disk from the config in force, and reboots.
	Force bool
	// Born: what only a first boot sets up, such as disks, is taken to be as the config says.
	Born bool
	// Stay leaves a reboot that is due to somebody else.
	Stay bool
}

// Draft is what is to be done, before anybody did it.
type Draft struct {
	// Plan has the steps, or the refusals.
	Plan plan.Plan
	// Contents are what the steps write, by digest.
	Contents map[host.Digest][]byte
	// Due: the change takes a reboot, which is left to somebody else.
	Due bool
}

// DriftError tells that a machine's disk is not as the config in force says, so that nobody knows what an update would
// overwrite.
type DriftError struct {
	// Config in force.
	Config string
	// Found are sentences without contents.
	Found []string
}

func drifted(config string, items []drift.Item) *DriftError {
	e := &DriftError{Config: config}
	for _, it := range items {
		e.Found = append(e.Found, it.String())
	}
	return e
}

// Error lists everything, and says what to do.
func (e *DriftError) Error() string {
	return fmt.Sprintf("unexpected on-disk state validating against %s: %s; put it right, or overwrite it with --force", e.Config, strings.Join(e.Found, "; "))
}

// Drafted works out what brings a machine from the config that its record names, or from nothing, to another. It changes
// nothing. The error is a *DriftError where the disk is not as the record says.
func Drafted(ctx context.Context, h host.Host, ask Ask) (Draft, error) {
	from, err := inForce(h.Files)
	if err != nil {
		return Draft{}, err
	}
	to, err := record.Named(ask.To)
	if err != nil {
		return Draft{}, err
	}
	text, err := record.Of(ask.To)
	if err != nil {
		return Draft{}, err
	}
	way, observed, err := survey(ctx, h, from, to)
	if err != nil {
		return Draft{}, err
	}
	if !ask.Born {
		way.Refusals = append(way.Refusals, firstBootParts(from.Config, to.Config)...)
	}
	if items := drift.Items(observed, way.Old, way.New); from.Name != "" && len(items) > 0 && !ask.Force {
		return Draft{}, drifted(from.Name, items)
	}
	d := Draft{}
	d.Plan, d.Contents = way.Plan(observed, text)
	if ask.Force && len(d.Plan.Steps) > 0 || d.Plan.Stages() && !d.Plan.Reboots() {
		d.Plan, d.Contents = way.Rebooting().Plan(observed, text)
	}
	d.Plan.Drain = false // there is nobody to do it, and nothing to be moved to
	if len(d.Plan.Refusals) == 0 && ask.Stay && d.Plan.Reboots() {
		d.Plan.Steps, d.Due = d.Plan.Steps[:len(d.Plan.Steps)-1], true
	}
	return d, nil
}

// inForce is the config of the record; the empty one, without a name, where there is none.
func inForce(files host.Files) (plan.Named, error) {
	mc, err := record.In(files)
	if err != nil || mc == nil {
		return plan.Named{}, err
	}
	return record.Named(*mc)
}

// survey looks at all of the machine that a way between two configs is about.
func survey(ctx context.Context, h host.Host, from, to plan.Named) (plan.Way, host.State, error) {
	accounts, err := apply.Accounts(ctx, h)
	if err != nil {
		return plan.Way{}, host.State{}, err
	}
	way := plan.NewWay(from, to, plan.Rules{Policy: policy.Default()}, accounts)
	observed, err := apply.Observe(ctx, h, way.Scope())
	return way, observed, err
}

// firstBootParts are refused where no cluster makes new nodes: whoever asks for a disk here would wait for it in vain. What
// the config in force has too is as it is, and what the new one drops stays.
func firstBootParts(from, to machineconfig.Config) []policy.Refusal {
	var refusals []policy.Refusal
	asked := policy.NewNodesOnly(machineconfig.Config{}, to)
	for _, r := range policy.NewNodesOnly(from, to) {
		if !slices.ContainsFunc(asked, func(a policy.Refusal) bool { return a.Field == r.Field }) {
			continue
		}
		r.Why = "only a machine's first boot sets this up: take it out of the config, install the machine anew, or say --as-born if it is so already"
		refusals = append(refusals, r)
	}
	return refusals
}

// Empty tells that there is nothing to do.
func (d Draft) Empty() bool { return d.Plan.Empty() }

// Steps are the ones that people want to read of: not the daemon's own bookkeeping, unless that is all.
func (d Draft) Steps() []host.Step {
	own := path.Dir(host.RecordPath) + "/"
	return slices.DeleteFunc(slices.Clone(d.Plan.Steps), func(s host.Step) bool {
		return strings.HasPrefix(s.Target, own) || s.Target+"/" == own
	})
}

// String is the plan as text, the same for the same plan: names, steps or refusals, and what the change costs.
func (d Draft) String() string {
	shown := d.Plan
	shown.Steps = d.Steps()
	text := shown.String()
	if d.Due {
		text += "a reboot is left to you\n"
	}
	return text
}

// Result is how Do ended.
type Result struct {
	apply.Applied
	// Earlier is how an earlier update ended that a crash or a reboot had left; End is Nothing where there was none.
	Earlier apply.Applied
	// Draft of what was done, or would be; the zero Draft where the earlier update has to end first.
	Draft Draft
}

// ErrUnfinished tells that an earlier update has to end before another can begin.
var ErrUnfinished = errors.New("an earlier update has not ended")

// Do brings a machine to a config: it ends what a crash or a reboot left, drafts, lets show see the draft, and does the
// steps, with a journal and a way back. With dry set, it changes nothing. The error says that nothing was begun; how the
// steps ended is in the Result. A config that took the machine down, or did not boot, too often is ErrGivenUp.
func Do(ctx context.Context, r apply.Runner, ask Ask, dry bool, show func(Draft)) (Result, error) {
	result := Result{Earlier: apply.Applied{End: apply.Nothing}}
	left, err := r.Host.Journal.Load()
	if err != nil {
		return result, fmt.Errorf("reading the journal: %w", err)
	}
	if left != nil {
		if result.Earlier, err = earlier(ctx, r, ask, *left, dry); err != nil {
			return result, err
		}
		if end := result.Earlier.End; end == apply.Rebooting || end == apply.Between || end == apply.Unjudged {
			result.Applied = result.Earlier
			return result, nil
		}
	}
	if !dry {
		if err := givenUp(r.Host.Files, ask.To.Name, ask.Force); err != nil {
			return result, err
		}
	}
	if result.Draft, err = Drafted(ctx, r.Host, ask); err != nil {
		return result, err
	}
	show(result.Draft)
	p := result.Draft.Plan
	switch {
	case len(p.Refusals) > 0:
		return result, Refused(p.Refusals)
	case dry:
		result.Applied = apply.Applied{End: apply.Nothing, From: p.From, To: p.To}
		return result, nil
	case len(p.Steps) == 0:
		result.Applied = apply.Applied{End: apply.Nothing, From: p.From, To: p.To}
		return result, forgetTries(r.Host.Files, doTries)
	}
	result.Applied, err = r.Run(context.WithoutCancel(ctx), p, result.Draft.Contents)
	if err == nil && result.End == apply.New {
		err = forgetTries(r.Host.Files, doTries)
	}
	return result, err
}

// earlier ends the update that a journal is about, and counts it where it was in vain.
func earlier(ctx context.Context, r apply.Runner, ask Ask, left host.Record, dry bool) (apply.Applied, error) {
	var none apply.Applied
	if dry {
		return none, fmt.Errorf("%w: that to %s, which is in its phase %s; run it without --dry-run, which ends it first", ErrUnfinished, left.To, left.Phase)
	}
	if ask.Stay && (left.Phase == host.Rebooting || left.Phase == host.Returning) {
		return none, fmt.Errorf("%w: that to %s waits for the machine to start: start it, or run this on it without --skip-reboot", ErrUnfinished, left.To)
	}
	r.Rejected = count(r.Host.Files, doTries)
	return r.Recover(context.WithoutCancel(ctx))
}
