package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// update brings the node as close to the desired config as is possible now. If a report does not reach the API server,
// update continues. If a request to the controller does not reach it, update stops.
func (a *Agent) update(ctx context.Context, node report.Node) error {
	way, t, err := readConfigs(ctx, a, node)
	if err != nil {
		return err
	}
	p, contents, err := planUpdate(ctx, a, way, t)
	if err != nil {
		return err
	}
	wasBlocked := a.Phase() == report.Blocked
	a.enter(report.Planned)
	a.status.Planned, a.status.Drains, a.status.Reboots = true, p.Drain, p.Reboots()
	if err := reportWorking(ctx, a, node, t, p); err != nil {
		return err
	}
	a.status.Node.Current = p.From
	// The config of the record is in force, but an earlier process did not report it.
	if p.From != "" && node.Current != p.From {
		if err := a.postpone(a.reportChanges(ctx, report.CurrentAnnotations(p.From))); err != nil {
			return fmt.Errorf("reporting the config in force: %w", err)
		}
	}
	if err := fetchContents(ctx, a, node, t); err != nil {
		return err
	}
	found, err := blockers(ctx, a, p, contents)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		a.failed = node.Desired
		return &updateError{about: t.ConfigText(), problem: &blockedError{blockers: found}}
	}
	if wasBlocked && a.failed == node.Desired {
		a.failed = "" // The reason on the Node no longer holds, and a drain may take long.
		if err := reportWorking(ctx, a, node, t, p); err != nil {
			return err
		}
	}
	if p.Drain {
		if err := awaitDrain(ctx, a, node, t); err != nil {
			return err
		}
		t.Drain = node.DesiredDrain
	}
	t.Before = a.check.ObserveBefore(ctx, p.Steps, a.node != nil)
	t.Attempt++
	t.Staged = p.Stages()
	if err := a.files.Save(ctx, state.TaskPath, t); err != nil {
		a.failed = node.Desired
		return err
	}
	return a.apply(ctx, t, p, contents)
}

// readConfigs reads the current config, the desired config and the cluster's rules. If the API server stops answering
// during an update, readConfigs returns the results of the last read.
func readConfigs(ctx context.Context, a *Agent, node report.Node) (plan.Transition, state.Task, error) {
	t, err := readTask(ctx, a, node)
	if err != nil {
		return plan.Transition{}, t, err
	}
	to, err := a.resolved(plan.ParseConfig(t.Config))
	if err == nil {
		err = machineconfig.Check(to.Config).Err()
	}
	if err == nil {
		_, err = secrets.PathsOf(to)
	}
	if err != nil {
		return plan.Transition{}, t, &refusedError{t.ConfigText(), disruption.Unreadable(err)}
	}
	from, err := a.currentConfig(ctx, node)
	if err == nil {
		to, err = a.secrets().Desired(ctx, to, from.Name)
	}
	if err != nil {
		return plan.Transition{}, t, err
	}
	accounts, err := apply.Accounts(ctx, a.Host)
	if err != nil {
		return plan.Transition{}, t, err
	}
	way, err := apply.Place(a.Host, plan.NewTransition(from, to, t.Rules, accounts))
	return way, t, err
}

// readTask reads everything that the update needs from the cluster.
func readTask(ctx context.Context, a *Agent, node report.Node) (state.Task, error) {
	kept, err := a.files.Task(node.Desired)
	if err != nil {
		return state.Task{}, err
	}
	t := state.Task{Node: node.Watched()}
	if t.Requester = v1alpha1.ParseConfigRequest(node.Request, v1alpha1.ConfigName(node.Desired)); kept != nil {
		if node.Request == "" { // A Node that was read from disk does not name the requester.
			t.Requester = kept.Requester
		}
		t.Before, t.Attempt, t.Drain = kept.Before, kept.Attempt, kept.Drain
	}
	if t.Config, err = readConfig(ctx, a.Config, node.Desired); errors.Is(err, report.ErrUnreachable) && kept != nil {
		t.Config, err = kept.Config, nil
	}
	if apierrors.IsNotFound(err) {
		return t, &missingConfigError{node.Desired, err}
	}
	if errors.Is(err, report.ErrUnreachable) {
		return t, &unreadConfigError{node.Desired, err}
	}
	if err != nil {
		return t, fmt.Errorf("fetching the desired config %s: %w; see kubectl get machineconfig %s", node.Desired, err,
			v1alpha1.ConfigName(node.Desired))
	}
	t.Config.ManagedFields = nil
	if t.Rules, err = a.Cluster.Rules(ctx); errors.Is(err, report.ErrUnreachable) && kept != nil {
		t.Rules, err = kept.Rules, nil
	}
	if err != nil {
		return t, fmt.Errorf("reading the disruption policy: %w; see kubectl get machineconfiguration cluster -o yaml",
			err)
	}
	return t, nil
}

// planUpdate returns the steps from the present state to the desired config. The error lists every reason not to apply
// the steps.
func planUpdate(ctx context.Context, a *Agent, way plan.Transition,
	t state.Task,
) (plan.Plan, map[host.Digest][]byte, error) {
	text, err := plan.RecordOf(t.Config)
	if err != nil {
		return plan.Plan{}, nil, err
	}
	observed, err := apply.Observe(ctx, a.Host, way.Scope())
	if err != nil {
		return plan.Plan{}, nil, err
	}
	force, forced, err := a.files.ForceFile()
	if err != nil {
		return plan.Plan{}, nil, err
	}
	p, contents := way.Plan(observed, text)
	if forced || p.Stages() && !p.Reboots() {
		// A forced update may repair anything, and a staged OS runs only after a reboot. If the machine has lost a
		// part of its OS, the update restores that part, even if both configs have the same OS.
		p, contents = way.WithReboot().Plan(observed, text)
	}
	if len(p.Refusals) > 0 {
		return p, nil, &refusedError{t.ConfigText(), p.Refusals}
	}
	if err := restrictKubeconfig(a, &p, way); err != nil {
		return p, nil, err
	}
	if forced { // The plan removes the force file, so that it works only once. A rollback restores it like other files.
		p.Steps = slices.Insert(p.Steps, 0, plan.Step{
			Verb: host.Remove, Target: host.ForcePath,
			Before: host.Value{Entry: force},
		})
		return p, contents, nil
	}
	p, err = checkDriftBeforeUpdate(ctx, a, way, observed, p)
	return p, contents, err
}

// restrictKubeconfig makes the kubelet's bootstrap kubeconfig readable by root only, as the machine-config-operator
// does with every update. restrictKubeconfig changes nothing if the node does not have the file, or if the config sets
// its mode.
func restrictKubeconfig(a *Agent, p *plan.Plan, way plan.Transition) error {
	is, err := a.Host.Files.Stat(kubeconfigPath)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", kubeconfigPath, err)
	}
	if _, said := way.New.Paths[kubeconfigPath]; said || is.Kind != host.File || is.Mode == 0o600 || len(p.Steps) == 0 {
		return nil
	}
	after := is
	after.Mode = 0o600
	at := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.IsAction() || s.Verb == host.WriteRecord })
	if at < 0 {
		at = len(p.Steps)
	}
	p.Steps = slices.Insert(p.Steps, at, plan.Step{
		Verb: host.Write, Target: kubeconfigPath,
		Before: host.Value{Entry: is}, After: host.Value{Entry: after},
	})
	return nil
}

// checkDriftBeforeUpdate handles drift at the start of an update. checkDriftBeforeUpdate returns the plan without the
// steps that would undo drift that the policy ignores. The error is the reason not to start the update. After a repair,
// the error is errResync.
func checkDriftBeforeUpdate(ctx context.Context, a *Agent, way plan.Transition, observed host.State,
	p plan.Plan,
) (plan.Plan, error) {
	if way.From == "" || len(drift.Items(observed, way.Old, way.New)) == 0 {
		return p, nil
	}
	at, err := a.currentConfig(ctx, report.Node{Current: way.From})
	if err != nil {
		return p, err
	}
	p, repaired, err := scanner(a).BeforeUpdate(ctx, at, way, p)
	if repaired {
		return p, errResync
	}
	return p, err
}

// fetchContents downloads the remote files that the desired config needs and the machine lacks. It returns errResync
// after it stored any. If another config is desired meanwhile, the download ends.
func fetchContents(ctx context.Context, a *Agent, node report.Node, t state.Task) error {
	from, err := a.currentConfig(ctx, node)
	if err != nil {
		return err
	}
	to, err := plan.ParseConfig(t.Config)
	if err != nil {
		return err
	}
	a.Fetch.Stop()
	changed, err := fetch.Fetch(ctx, a.Fetch.Fetcher(), fetch.Way{From: from, To: to},
		func(text string) error {
			if now, err := a.Cluster.Node(ctx); err == nil && now.Desired != node.Desired {
				return fetch.ErrStopSync
			}
			if a.Reported != nil {
				a.Reported()
			}
			return a.postpone(reportWaiting(ctx, a, text))
		})
	if errors.Is(err, fetch.ErrStopSync) || err == nil && changed {
		return errResync
	}
	if err == nil {
		err = a.Fetch.FetchImage(ctx, fetch.Way{From: from, To: to})
	}
	if err == nil && node.Fetched != "" { // An earlier report is outdated.
		err = a.postpone(a.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: ""}))
	}
	return err
}

// blockers returns what would stop the update half-way, or undo it at its reboot.
func blockers(ctx context.Context, a *Agent, p plan.Plan, contents map[host.Digest][]byte) ([]host.Blocker, error) {
	var rules drift.Policy
	found := p.Counting(apply.Blockers(a.Host, p, contents))
	if slices.ContainsFunc(found, func(b host.Blocker) bool { return b.Kind == host.InMemory }) {
		var err error
		rules, err = a.Cluster.DriftRules(ctx, v1alpha1.RenderedPool(p.To))
		if errors.Is(err, report.ErrUnreachable) {
			return nil, fmt.Errorf("reading the drift policy: %w", err)
		} // A rule that cannot be read excuses no path; the scan for drift reports it.
	}
	return slices.DeleteFunc(found, func(b host.Blocker) bool {
		// Otherwise the daemon repairs, reports or ignores the loss.
		return b.Kind == host.InMemory && rules.ActionFor(b.Path) != v1alpha1.DriftDegrade
	}), nil
}

// reportWorking reports the start of an update, unless the Node already shows it or the daemon retries the config.
func reportWorking(ctx context.Context, a *Agent, node report.Node, t state.Task, p plan.Plan) error {
	waited := a.node != nil && !a.outage.Since.IsZero() // The Node may still have the reason of the wait.
	if waited {
		a.outage.MarkReachable(a.Log)
	}
	if a.failed == node.Desired || node.State == v1alpha1.StateWorking && !waited {
		return nil
	}
	a.Log.Info("updating", "config", t.ConfigText(), "disruption", p.Disruption.String(), "steps", len(p.Steps))
	reason, err := workingReason(a.Config, node, t)
	if err != nil {
		return err
	}
	setStatus(a, v1alpha1.StateWorking, reason)
	return a.postpone(a.reportState(ctx, v1alpha1.StateWorking, reason))
}

// workingReason returns why a node is Working although it seems to have its desired config. workingReason returns "" if
// the node updates to another config.
func workingReason(c Config, node report.Node, t state.Task) (string, error) {
	if node.Current != node.Desired {
		return "", nil
	}
	lacks, err := hasWithheldSecrets(c, node.Current)
	if err != nil || !lacks {
		return "", err
	}
	return fmt.Sprintf("adding the secrets of %s, which the server withheld when this machine first booted",
		t.ConfigText()), nil
}

// awaitDrain stores the task, so that an outage does not end the update, and requests the drain. awaitDrain returns nil
// once the node is drained.
func awaitDrain(ctx context.Context, a *Agent, node report.Node, t state.Task) error {
	if err := a.files.Save(ctx, state.TaskPath, t); err != nil {
		a.failed = node.Desired
		return err
	}
	err := requestDrain(ctx, a, node, t.ConfigText(), t.Drain)
	if err == nil {
		return nil
	}
	if errors.Is(err, errDrainStuck) && a.failed != node.Desired {
		a.failed = node.Desired
		a.event(report.EventFailedToDrain, "%v", err)
	}
	a.enter(report.Draining)
	if a.failed != node.Desired {
		publishStatus(a)
	}
	return err
}

// apply applies the steps. A failure in apply is a failure of the config, and the node reports this failure until it
// has another config.
func (a *Agent) apply(ctx context.Context, t state.Task, p plan.Plan, contents map[host.Digest][]byte) error {
	name, about := plan.NameOf(t.Config), t.ConfigText()
	if p.Reboots() {
		if err := a.postpone(a.reportChanges(ctx,
			map[string]string{v1alpha1.PostConfigActionAnnotation: "Rebooting"})); err != nil {
			return err
		}
	}
	a.announceUpdate(p, about)
	a.enter(report.Applying)
	if a.failed != name { // A retry does not publish the same status again.
		publishStatus(a)
	}
	a.failed = name // The config counts as failed until it is confirmed.
	a.check.Start(t.LastAttempt())
	stopNotice := context.AfterFunc(ctx, func() {
		a.Log.Warn("asked to stop; finishing the steps first", "config", name)
		a.event(report.EventGotSigterm, "asked to stop during the update to %s; finishing the steps first", about)
	})
	done, err := a.runner.Run(context.WithoutCancel(ctx), p, contents)
	stopNotice()
	if err != nil {
		return &updateError{about: about, problem: &blockedError{stopped: err}}
	}
	switch done.End {
	case apply.New:
		a.enter(report.Confirming) // If another config is desired by now, a new update starts after this phase.
		a.recordUpdate(name, nil)
		if len(p.Steps) > 0 {
			a.event(report.EventSkipReboot, "in %s without a reboot", about)
		}
		return errResync
	case apply.HealthUnknown:
		return healthUnknown(ctx, done)
	case apply.Rebooting:
		a.enter(report.Rebooting)
		a.Log.Info("rebooting", "config", name)
		return reportReboot(ctx, a, done)
	case apply.RebootUnknown:
		return newRebootUnknownError(a, done)
	}
	if done.End == apply.Old && errors.Is(done.Why, errUndrained) {
		a.failed = ""
		a.enter(report.RolledBack)
		return errResync
	}
	a.recordUpdate(name, done.Why)
	a.reportFailedStep(done)
	if done.End == apply.RollbackFailed {
		return partialRollbackError(done)
	}
	if v, err := a.files.Rejection(); err == nil && v.IsFinal() && v.Config == name {
		a.event(report.EventRejected, "%s", v.Why)
		return &rejectedError{*v}
	}
	return &rolledBackError{&updateError{about: about, problem: fmt.Errorf("%w; the node is back in %s and retries: "+
		"%s, or fix or revert the commit", done.Why, report.RollbackTarget(p.From, p.To),
		apply.FailedStepText(done.FailedStep))}}
}

// writeAfterBoot writes the config once more, with another reboot, if the machine booted a newly staged OS and then
// differs from the config. A system with OSTree keeps a file of /etc only if it differs from the default of the image
// before, so a file of the config that was this default has the content of the new default. writeAfterBoot returns nil
// if the machine has the config, or if it has booted since the second writing, which then did not help.
func (a *Agent) writeAfterBoot(ctx context.Context, node report.Node) error {
	t, err := a.files.Task(node.Desired)
	if err != nil || t == nil || !t.Staged {
		return err
	}
	boot, err := a.Host.Power.BootID()
	if err != nil || t.Rewritten != "" && t.Rewritten != boot {
		return err
	}
	at, err := a.currentConfig(ctx, node)
	if err != nil {
		return err
	}
	text, err := plan.RecordOf(t.Config)
	if err != nil {
		return err
	}
	accounts, err := apply.Accounts(ctx, a.Host)
	if err != nil {
		return err
	}
	way, err := apply.Place(a.Host, plan.NewTransition(at, at, t.Rules, accounts).WithReboot())
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, a.Host, way.Scope())
	if err != nil {
		return err
	}
	p, contents := way.Plan(observed, text)
	p, differ, err := scanner(a).AfterBoot(ctx, at, way, p)
	if err != nil || len(differ) == 0 || len(p.Refusals) > 0 {
		return err
	}
	a.event(report.EventReboot, "the OS that booted has other contents of %s; writing the config once more",
		strings.Join(differ, ", "))
	a.enter(report.Confirming)
	a.enter(report.Planned)
	t.Rewritten = boot
	t.Attempt++
	if err := a.files.Save(ctx, state.TaskPath, t); err != nil {
		return err
	}
	return a.apply(ctx, *t, p, contents)
}

// announceUpdate emits the events about an update that is about to start.
func (c Config) announceUpdate(p plan.Plan, about string) {
	for _, note := range p.Notes {
		c.event(report.EventUnitNotEnabled, "%s", note)
	}
	if p.Stages() {
		c.event(report.EventOSUpdateStarted, "staging the OS for %s", about)
		if short := apply.BootShortage(c.Host, p.Steps); short != "" {
			c.event(report.EventOSUpdateStarted, "the new OS may not boot: %s", short)
		}
	}
	for _, s := range p.Steps {
		if s.Verb == host.SetImage {
			c.event(report.EventInClusterUpgrade, "updating from OS image %s to %s", s.Before.Word, s.After.Word)
		}
	}
	if p.Reboots() {
		c.event(report.EventReboot, "the node will reboot into %s", about)
	}
}

// reportFailedStep reports the step that failed, as an event or in the metrics.
func (c Config) reportFailedStep(done apply.Applied) {
	s := done.FailedStep
	if s == nil {
		return
	}
	switch s.Verb {
	case host.Reload:
		c.event(report.EventFailedServiceReload, "%v", done.Why)
	case host.Restart:
		c.event(report.EventFailedServiceRestart, "%v", done.Why)
	case host.Reboot:
		if c.Metrics != nil {
			c.Metrics.Reboot(done.Why)
		}
	case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
		if c.Metrics != nil {
			c.Metrics.Pivot(done.Why)
		}
	}
}
