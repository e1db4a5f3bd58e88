package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

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
)

// updater brings the node to its desired config, one attempt at a time.
type updater struct {
	cluster Cluster
	host    host.Host
	files   state.Files
	configs configs
	fetch   *fetch.Syncer
	drift   *driftCheck
	drains  *drains
	health  *healthChecker
	runner  apply.Runner
	report  *nodeReport
	log     *slog.Logger
	// notedBoot is the boot after which noteUnits has emitted its events; "" for none.
	notedBoot string
	// alive is called while a download takes long; nil if nobody asks.
	alive func()
}

// update is one attempt to bring the node to its desired config.
type update struct {
	node report.Node
	task state.Task
	// way is the transition between the two configs, and plan has its steps on the machine as it is. contents are what
	// the steps write.
	way      plan.Transition
	plan     plan.Plan
	contents map[host.Digest][]byte
	// wasBlocked is true if the attempt before this one was blocked.
	wasBlocked bool
}

// run brings the node as close to the desired config as is possible now. If a report does not reach the API server, the
// update continues. If a request to the controller does not reach it, the update stops.
func (u *updater) run(ctx context.Context, node report.Node) Outcome {
	up, o := u.prepare(ctx, node)
	if o.ends() {
		return o
	}
	up.wasBlocked = u.report.phase.Phase() == report.Blocked
	u.report.plan(up.plan)
	for _, step := range []func(context.Context, update) Outcome{
		u.reportStart, u.fetchContents, u.findBlockers, u.drain,
	} {
		if o := step(ctx, up); o.ends() {
			return o
		}
	}
	if up.plan.Drain {
		up.task.Drain = node.DesiredDrain
	}
	up.task.Before = u.health.observeBefore(ctx, up.plan.Steps, u.report.node != nil)
	up.task.Attempt++
	up.task.Staged = up.plan.StagesTree()
	if err := u.files.Save(ctx, state.TaskPath, up.task); err != nil {
		u.report.markFailed(node.Desired)
		return outcomeOf(err)
	}
	return u.apply(ctx, up)
}

// prepare reads the current and the desired config and plans the steps between them.
func (u *updater) prepare(ctx context.Context, node report.Node) (update, Outcome) {
	t, o := u.configs.task(ctx, node)
	if o.ends() {
		return update{}, o
	}
	way, o := u.transition(ctx, node, t)
	if o.ends() {
		return update{}, o
	}
	p, contents, o := u.planSteps(ctx, way, t)
	return update{node: node, task: t, way: way, plan: p, contents: contents}, o
}

// transition returns the way from the config in force to that of the task.
func (u *updater) transition(ctx context.Context, node report.Node, t state.Task) (plan.Transition, Outcome) {
	to, err := u.configs.resolved(plan.ParseConfig(t.Config))
	if err == nil {
		err = machineconfig.Check(to.Config).Err()
	}
	if err == nil {
		_, err = secrets.PathsOf(to)
	}
	if err != nil {
		return plan.Transition{}, refusedFor(t.ConfigText(), disruption.Unreadable(err))
	}
	from, err := u.configs.inForce(ctx, node)
	if err == nil {
		to, err = u.configs.secrets().Desired(ctx, to, from.Name)
	}
	if err != nil {
		return plan.Transition{}, outcomeOf(err)
	}
	accounts, err := apply.Accounts(ctx, u.host)
	if err != nil {
		return plan.Transition{}, outcomeOf(err)
	}
	way, err := apply.Place(u.host, plan.NewTransition(from, to, t.Rules, accounts))
	return way, outcomeOf(err)
}

// planSteps returns the steps from the present state to the desired config. The outcome has every reason not to apply
// them.
func (u *updater) planSteps(ctx context.Context, way plan.Transition,
	t state.Task,
) (p plan.Plan, contents map[host.Digest][]byte, o Outcome) {
	text, err := plan.RecordOf(t.Config)
	if err != nil {
		return p, nil, outcomeOf(err)
	}
	observed, err := apply.Observe(ctx, u.host, way.Scope())
	if err != nil {
		return p, nil, outcomeOf(err)
	}
	force, forced, err := u.files.ForceFile()
	if err != nil {
		return p, nil, outcomeOf(err)
	}
	p, contents = way.Plan(observed, text)
	if forced || p.Stages() && !p.Reboots() {
		// A forced update may repair anything, and a staged OS runs only after a reboot. If the machine has lost a
		// part of its OS, the update restores that part, even if both configs have the same OS.
		p, contents = way.WithReboot().Plan(observed, text)
	}
	if len(p.Refusals) > 0 {
		return p, nil, refusedFor(t.ConfigText(), p.Refusals)
	}
	p.Unread = apply.UnreadKeys(ctx, u.host, p, way)
	if p, err = u.restrictKubeconfig(p, way); err != nil {
		return p, nil, outcomeOf(err)
	}
	if forced { // The plan removes the force file, so that it works only once. A rollback restores it like other files.
		p.Steps = slices.Insert(p.Steps, 0, plan.Step{
			Verb: host.Remove, Target: host.ForcePath,
			Before: host.Value{Entry: force},
		})
		return p, contents, Outcome{}
	}
	p, o = u.drift.beforeUpdate(ctx, way, observed, p)
	return p, contents, o
}

// kubeconfigPath is the bootstrap kubeconfig of the kubelet. Only root may read the kubeconfig, even if a config does
// not set its mode.
const kubeconfigPath = "/etc/kubernetes/kubeconfig"

// restrictKubeconfig adds a step that makes the kubelet's bootstrap kubeconfig readable by root only, as the
// machine-config-operator does with every update. It changes nothing if the node does not have the file, or if the
// config sets its mode.
func (u *updater) restrictKubeconfig(p plan.Plan, way plan.Transition) (plan.Plan, error) {
	if _, said := way.New.Paths[kubeconfigPath]; said || len(p.Steps) == 0 {
		return p, nil
	}
	// The config before may have the file: then the plan removes it, or puts the machine's own in its place.
	if at := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.Target == kubeconfigPath }); at >= 0 {
		if p.Steps = slices.Clone(p.Steps); p.Steps[at].After.Entry.Kind == host.File {
			p.Steps[at].After.Entry.Mode = 0o600
		}
		return p, nil
	}
	is, err := u.host.Files.Stat(kubeconfigPath)
	if err != nil {
		return p, fmt.Errorf("looking at %s: %w", kubeconfigPath, err)
	}
	if is.Kind != host.File || is.Mode == 0o600 {
		return p, nil
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
	return p, nil
}

// reportStart reports the start of the update, and the config in force if an earlier process did not.
func (u *updater) reportStart(ctx context.Context, up update) Outcome {
	if err := u.reportWorking(ctx, up); err != nil {
		return outcomeOf(err)
	}
	u.report.markCurrent(up.plan.From)
	if up.plan.From == "" || up.node.Current == up.plan.From {
		return Outcome{}
	}
	err := u.report.postpone(u.report.reportChanges(ctx, report.CurrentAnnotations(up.plan.From)))
	if err != nil {
		return outcomeOf(fmt.Errorf("reporting the config in force: %w", err))
	}
	return Outcome{}
}

// reportWorking reports the start of an update, unless the Node already shows it or the daemon retries the config.
func (u *updater) reportWorking(ctx context.Context, up update) error {
	waited := u.report.endWait() // The Node may still have the reason of the wait.
	if u.report.retries(up.node.Desired) || up.node.State == v1alpha1.StateWorking && !waited {
		return nil
	}
	u.log.Info("updating", "config", up.task.ConfigText(), "disruption", up.plan.Disruption.String(), "steps",
		len(up.plan.Steps))
	reason, err := u.workingReason(up)
	if err != nil {
		return err
	}
	u.report.set(v1alpha1.StateWorking, reason)
	return u.report.postpone(u.report.reportState(ctx, v1alpha1.StateWorking, reason))
}

// workingReason returns why a node is Working although it seems to have its desired config; "" if the node updates to
// another config.
func (u *updater) workingReason(up update) (string, error) {
	if up.node.Current != up.node.Desired {
		return "", nil
	}
	lacks, err := u.configs.firstBoot.withheld(up.node.Current)
	if err != nil || !lacks {
		return "", err
	}
	return fmt.Sprintf("adding the secrets of %s, which the server withheld when this machine first booted",
		up.task.ConfigText()), nil
}

// fetchContents downloads the remote files and the OS image that the desired config needs and the machine lacks. After
// it stored any files, the sync begins again. If another config is desired meanwhile, the download ends.
func (u *updater) fetchContents(ctx context.Context, up update) Outcome {
	from, err := u.configs.inForce(ctx, up.node)
	if err != nil {
		return outcomeOf(err)
	}
	to, err := plan.ParseConfig(up.task.Config)
	if err != nil {
		return outcomeOf(err)
	}
	u.fetch.Stop()
	way := fetch.Way{From: from, To: to}
	progress := func(text string) error {
		if now, err := u.cluster.Node(ctx); err == nil && now.Desired != up.node.Desired {
			return fetch.ErrStop
		}
		if u.alive != nil {
			u.alive()
		}
		return u.report.postpone(u.report.reportWaiting(ctx, text))
	}
	changed, err := u.fetch.FetchFiles(ctx, way, progress)
	if err == nil && changed {
		return Outcome{kind: again}
	}
	if err == nil {
		err = u.fetch.FetchImage(ctx, way, progress)
	}
	if errors.Is(err, fetch.ErrStop) {
		return Outcome{kind: again}
	}
	if err == nil && up.node.Fetched != "" { // An earlier report is outdated.
		err = u.report.postpone(u.report.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: ""}))
	}
	return outcomeOf(err)
}

// findBlockers looks for what would stop the update half-way, or undo it at its reboot.
func (u *updater) findBlockers(ctx context.Context, up update) Outcome {
	found := up.plan.Counting(apply.Blockers(u.host, up.plan, up.contents))
	isInMemory := func(b host.Blocker) bool { return b.Kind == host.InMemory }
	if slices.ContainsFunc(found, isInMemory) {
		rules, err := u.cluster.DriftRules(ctx, v1alpha1.RenderedPool(up.plan.To))
		if errors.Is(err, report.ErrUnreachable) {
			return outcomeOf(fmt.Errorf("reading the drift policy: %w", err))
		} // A rule that cannot be read excuses no path; the scan for drift reports it.
		found = slices.DeleteFunc(found, func(b host.Blocker) bool {
			// Otherwise the daemon repairs, reports or ignores the loss.
			return isInMemory(b) && rules.ActionFor(up.way.New.Spelling(b.Path)) != v1alpha1.DriftDegrade
		})
	}
	if len(found) > 0 {
		u.report.markFailed(up.node.Desired)
		return blockedBy(up.task.ConfigText(), found)
	}
	if up.wasBlocked && u.report.retries(up.node.Desired) {
		u.report.clearFailed() // The reason on the Node no longer holds, and a drain may take long.
		return outcomeOf(u.reportWorking(ctx, up))
	}
	return Outcome{}
}

// drain stores the task, so that an outage does not end the update, and requests the drain. It proceeds once the node
// is drained, or if the update needs no drain.
func (u *updater) drain(ctx context.Context, up update) Outcome {
	if !up.plan.Drain {
		return Outcome{}
	}
	if err := u.files.Save(ctx, state.TaskPath, up.task); err != nil {
		u.report.markFailed(up.node.Desired)
		return outcomeOf(err)
	}
	o := u.drains.drain(ctx, up.node, up.task.ConfigText(), up.task.Drain)
	if !o.ends() {
		return o
	}
	if o.kind == undrained && !u.report.retries(up.node.Desired) {
		u.report.markFailed(up.node.Desired)
		u.report.event(report.EventFailedToDrain, "%v", o.Err)
	}
	u.report.enter(report.Draining)
	if !u.report.retries(up.node.Desired) {
		u.report.publish()
	}
	return o
}

// apply applies the steps, after the task was stored. A failure of the steps is a failure of the config, and the node
// reports it until it has another config.
func (u *updater) apply(ctx context.Context, up update) Outcome {
	name, about := plan.NameOf(up.task.Config), up.task.ConfigText()
	if up.plan.Reboots() {
		rebooting := map[string]string{v1alpha1.PostConfigActionAnnotation: "Rebooting"}
		if err := u.report.postpone(u.report.reportChanges(ctx, rebooting)); err != nil {
			return outcomeOf(err)
		}
	}
	u.announce(up.plan, about)
	u.report.enter(report.Applying)
	if !u.report.retries(name) { // A retry does not publish the same status again.
		u.report.publish()
	}
	u.report.markFailed(name) // The config counts as failed until it is confirmed.
	u.health.start(up.task.LastAttempt())
	stopNotice := context.AfterFunc(ctx, func() {
		u.log.Warn("asked to stop; finishing the steps first", "config", name)
		u.report.event(report.EventGotSigterm, "asked to stop during the update to %s; finishing the steps first",
			about)
	})
	end, err := u.runner.Run(context.WithoutCancel(ctx), up.plan, up.contents)
	stopNotice()
	if err != nil {
		return failedUpdate(blocked, about, fmt.Errorf("%w; nothing has changed yet: see df and mount on the node",
			err))
	}
	return u.ended(ctx, up, end)
}

// ended reports how the steps ended.
func (u *updater) ended(ctx context.Context, up update, end apply.Applied) Outcome {
	name, about := plan.NameOf(up.task.Config), up.task.ConfigText()
	switch end.End {
	case apply.New:
		u.report.enter(report.Confirming) // If another config is desired by now, a new update starts after this phase.
		u.report.countUpdate(name, nil)
		if len(up.plan.Steps) > 0 {
			u.report.event(report.EventSkipReboot, "in %s without a reboot", about)
		}
		return Outcome{kind: again}
	case apply.HealthUnknown:
		return unknownHealth(ctx, end)
	case apply.Rebooting:
		u.log.Info("rebooting", "config", name)
		return u.report.reportReboot(ctx, end)
	case apply.RebootUnknown:
		return u.report.rebootUnanswered(end)
	}
	if end.End == apply.Old && errors.As(end.Why, new(*undrainedError)) {
		u.report.clearFailed()
		u.report.enter(report.RolledBack)
		return Outcome{kind: again}
	}
	u.report.countUpdate(name, end.Why)
	u.reportFailedStep(end)
	if end.End == apply.RollbackFailed {
		return partialRollback(end)
	}
	if v, err := u.files.Rejection(); err == nil && v.IsFinal() && v.Config == name {
		u.report.event(report.EventRejected, "%s", v.Why)
		return rejectedBy(*v)
	}
	return failedUpdate(rolledBack, about, fmt.Errorf("%w; the node is back in %s and retries: %s, or fix or revert "+
		"the commit", end.Why, report.RollbackTarget(up.plan.From, up.plan.To), apply.FailedStepText(end.FailedStep)))
}

// announce emits the events about an update that is about to start.
func (u *updater) announce(p plan.Plan, about string) {
	for _, note := range p.Notes {
		u.report.event(report.EventUnitNotEnabled, "%s", note)
	}
	for _, note := range p.Unread {
		u.report.event(report.EventKeysNotRead, "%s", note)
	}
	if p.Stages() {
		u.report.event(report.EventOSUpdateStarted, "staging the OS for %s", about)
		if short := apply.BootShortage(u.host, p.Steps); short != "" {
			u.report.event(report.EventOSUpdateStarted, "the new OS may not boot: %s", short)
		}
	}
	for _, s := range p.Steps {
		if s.Verb == host.SetImage {
			u.report.event(report.EventInClusterUpgrade, "updating from OS image %s to %s", s.Before.Word, s.After.Word)
		}
	}
	if p.Reboots() {
		u.report.event(report.EventReboot, "the node will reboot into %s", about)
	}
}

// reportFailedStep reports the step that failed, as an event or in the metrics.
func (u *updater) reportFailedStep(end apply.Applied) {
	s, metrics := end.FailedStep, u.report.metrics
	if s == nil {
		return
	}
	switch s.Verb {
	case host.Reload:
		u.report.event(report.EventFailedServiceReload, "%v", end.Why)
	case host.Restart, host.Stop:
		u.report.event(report.EventFailedServiceRestart, "%v", end.Why)
	case host.Reboot:
		if metrics != nil {
			metrics.Reboot(end.Why)
		}
	case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
		if metrics != nil {
			metrics.Pivot(end.Why)
		}
	}
}

// beforeUpdate handles drift at the start of an update. It returns the plan without the steps that would undo drift
// that the policy ignores. The outcome is the reason not to start the update; after a repair, the sync begins again.
func (d *driftCheck) beforeUpdate(ctx context.Context, way plan.Transition, observed host.State,
	p plan.Plan,
) (plan.Plan, Outcome) {
	if way.From == "" || len(drift.Items(observed, way.Old, way.New)) == 0 {
		return p, Outcome{}
	}
	at, err := d.configs.inForce(ctx, report.Node{Current: way.From})
	if err != nil {
		return p, outcomeOf(err)
	}
	p, repaired, err := d.scanner().BeforeUpdate(ctx, at, way, p)
	if repaired {
		return p, Outcome{kind: again}
	}
	return p, outcomeOf(err)
}

// confirm reports that the desired config is in force, after the machine was compared with it and the node was
// uncordoned.
func (u *updater) confirm(ctx context.Context, node report.Node) Outcome {
	u.report.enter(report.Confirming)
	if err := u.writeFirstRecord(ctx, node.Desired); err != nil {
		return outcomeOf(err)
	}
	u.keepContents(ctx, node)
	err := u.drift.check(ctx, node)
	if errors.Is(err, report.ErrUnreachable) {
		return outcomeOf(err)
	}
	first := u.drift.first()
	if err != nil {
		if first {
			u.report.event(report.EventDiskStateFailed, "%v", err)
		}
		return failing(drifted, err).because(v1alpha1.FailureDrift)
	}
	if o := u.drains.uncordon(ctx, node); o.ends() {
		if o.kind == waiting {
			u.report.publish()
		}
		return o
	}
	if err := u.configs.firstBoot.clearWithheld(ctx); err != nil {
		return outcomeOf(err)
	}
	if err := u.reportDone(ctx, node); err != nil {
		return outcomeOf(err)
	}
	u.followNext(ctx, node)
	return outcomeOf(errors.Join(u.configs.secrets().Confirm(ctx, node.Desired), u.files.Remove(ctx,
		state.RejectionPath, state.TaskPath)))
}

// writeFirstRecord writes the record of the current config if only the Node names that config, as on a machine that
// has just joined.
func (u *updater) writeFirstRecord(ctx context.Context, name string) error {
	if mc, err := apply.LoadRecord(u.host.Files); err != nil || mc != nil {
		return err
	}
	mc, err := u.configs.read(ctx, name)
	if err != nil {
		return fmt.Errorf("fetching the current config %s: %w", name, err)
	}
	text, err := plan.RecordOf(mc)
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, u.host, plan.ScopeOf())
	if err != nil {
		return err
	}
	p := plan.Diff(observed, plan.WithRecord(observed, text), plan.DiffOptions{From: name, To: name})
	end, err := u.runner.Run(ctx, p, map[host.Digest][]byte{host.DigestOf(text): text})
	return errors.Join(err, end.Why)
}

// keepContents stores the remote files of the config in force. A failure delays nothing.
func (u *updater) keepContents(ctx context.Context, node report.Node) {
	at, err := u.configs.inForce(ctx, node)
	if err == nil {
		err = u.fetch.Fetcher().Keep(at)
	}
	if err != nil {
		u.log.Warn("keeping the contents of remote files", "err", err)
	}
}

// reportDone reports the state Done, and that the config is the current one.
func (u *updater) reportDone(ctx context.Context, node report.Node) error {
	end := report.CurrentAnnotations(node.Desired)
	maps.Copy(end, map[string]string{
		v1alpha1.StateAnnotation: v1alpha1.StateDone, v1alpha1.ReasonAnnotation: "",
		v1alpha1.PostConfigActionAnnotation: "", v1alpha1.FailureAnnotation: "",
	})
	if err := u.report.reportChanges(ctx, end); err != nil {
		return fmt.Errorf("reporting the config in force: %w", err)
	}
	if u.report.metrics != nil {
		u.report.metrics.State(v1alpha1.StateDone, "")
	}
	if node.State != v1alpha1.StateDone || node.Current != node.Desired {
		u.log.Info("done", "config", node.Desired)
		u.report.event(report.EventNodeDone, "the node is in %s", node.Desired)
	}
	u.drains.uncordoned()
	u.report.clearFailed()
	u.report.enter(report.Idle)
	u.report.markCurrent(node.Desired)
	u.report.set(v1alpha1.StateDone, "")
	u.report.publish()
	return nil
}

// followNext downloads the content of the config that the node gets next, in the background, and reports whether the
// machine has it. A failure delays nothing else, and is tried again.
func (u *updater) followNext(ctx context.Context, node report.Node) {
	if u.fetch == nil {
		return
	}
	next := node.Next
	if next == v1alpha1.ParseConfigVersion(node.Desired).Config {
		next = ""
	}
	was := fetch.LastReport(node.Fetched)
	is := u.fetch.Report(ctx, next, was, func() (fetch.Way, error) {
		mc, err := u.configs.read(ctx, next)
		if err != nil {
			return fetch.Way{}, fmt.Errorf("reading the config: %w", err)
		}
		to, err := plan.ParseConfig(mc)
		if err != nil { // The node refuses the config when it is assigned, and says why.
			to = plan.Config{Name: next}
		}
		from, err := u.configs.inForce(ctx, node)
		return fetch.Way{From: from, To: to}, err
	})
	if err := u.report.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: is.String()}); err != nil {
		u.log.Warn("reporting the content of the next config", "config", next, "err", err)
		u.fetch.TryAgain()
	} else if is.Problem != "" && (is.Config != was.Config || was.Problem == "") {
		u.report.event(report.EventFetchFailed, "content of %s: %s", is.Config, is.Problem)
	}
}
