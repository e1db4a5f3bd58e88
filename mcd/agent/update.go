package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/policy"
)

// pass looks at everything and does the one thing that is next.
func (a *Agent) pass(ctx context.Context) (desired string, err error) {
	unsettled := a.settle(ctx) // needs no cluster, so it comes first
	node, err := a.Cluster.Assignment(ctx)
	if err != nil || unsettled != nil {
		if err != nil {
			err = fmt.Errorf("reading the Node: %w", err)
		}
		return node.Desired, errors.Join(unsettled, err)
	}
	if told, err := a.seed(ctx, node); err != nil {
		return node.Desired, err
	} else if told {
		return node.Desired, errAgain
	}
	if node.Desired == "" {
		return "", a.introduce(ctx, node)
	}
	mc, err := recordIn(a.Host.Files)
	if err != nil {
		return node.Desired, err
	}
	if mc != nil && mc.Name == node.Desired || mc == nil && node.Current == node.Desired {
		return node.Desired, a.confirm(ctx, node)
	}
	if node.Desired == a.rejected {
		return node.Desired, a.why
	}
	a.rejected, a.why = "", nil
	return node.Desired, a.update(ctx, node)
}

// introduce tells that a daemon is here, on a node that did not boot from the server and was told nothing yet: Done
// without a config. The roll-out gives it its first one when it is this node's turn.
func (a *Agent) introduce(ctx context.Context, node Assignment) error {
	if node.State == v1alpha1.StateDone && node.Reason == "" {
		return errLater
	}
	a.Log.Info("ready for a first config")
	return a.report(ctx, v1alpha1.StateDone, "")
}

// settle finishes what a crash or a reboot left.
func (a *Agent) settle(ctx context.Context) error {
	end, err := a.runner.Recover(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return err
	case end.End == apply.Rebooting:
		a.phase = Rebooting
		return ErrRebooting
	case end.End == apply.New:
		a.phase = Rebooting // or a crash at the very end; either way it is confirmed now
		a.Log.Info("the new config is in force", "config", end.To)
	case end.End == apply.Old:
		a.Log.Warn("went back", "config", end.From, "from", end.To, "why", end.Why)
		if errors.Is(end.Why, apply.ErrNotBooted) {
			a.rejected, a.why = end.To, fmt.Errorf("updating to %s: %w; it is tried again when another config is desired, or when the daemon restarts", end.To, end.Why)
		}
	case end.End == apply.Between:
		return fmt.Errorf("going back to %s: %w", end.From, end.Why)
	}
	return nil
}

// confirm tells that the desired config is in force, after the node was opened again.
func (a *Agent) confirm(ctx context.Context, node Assignment) error {
	a.enter(Confirming)
	if err := a.keepRecord(ctx, node.Desired); err != nil {
		return err
	}
	verb, _, _ := strings.Cut(node.DesiredDrain, "-")
	open := v1alpha1.UncordonVerb + "-" + node.Desired
	switch {
	case verb == v1alpha1.DrainVerb || verb == v1alpha1.UncordonVerb && node.DesiredDrain != open && node.DesiredDrain != node.LastAppliedDrain:
		a.Log.Info("asking to open the node again", "config", node.Desired)
		return errors.Join(annotate(ctx, a.Cluster, map[string]string{v1alpha1.DesiredDrainAnnotation: open}), errLater)
	case verb == v1alpha1.UncordonVerb && node.DesiredDrain != node.LastAppliedDrain:
		return errLater
	}
	if err := annotate(ctx, a.Cluster, map[string]string{
		v1alpha1.CurrentConfigAnnotation: node.Desired, v1alpha1.StateAnnotation: v1alpha1.StateDone,
		v1alpha1.ReasonAnnotation: "", v1alpha1.PostConfigActionAnnotation: "",
	}); err != nil {
		return fmt.Errorf("reporting the config in force: %w", err)
	}
	if node.State != v1alpha1.StateDone || node.Current != node.Desired {
		a.Log.Info("done", "config", node.Desired)
	}
	a.failed, a.rejected, a.why = "", "", nil
	a.enter(Idle)
	return nil
}

// update brings the node to the desired config, as far as it can get now.
func (a *Agent) update(ctx context.Context, node Assignment) error {
	p, contents, err := a.plan(ctx, node)
	if err != nil {
		return err
	}
	a.enter(Planned)
	if a.failed != node.Desired && node.State != v1alpha1.StateWorking {
		a.Log.Info("updating", "config", node.Desired, "disruption", p.Disruption.String(), "steps", len(p.Steps))
		if err := a.report(ctx, v1alpha1.StateWorking, ""); err != nil {
			return err
		}
	}
	if p.From != "" && node.Current != p.From { // what is on disk is in force, and was not told before it died
		if err := annotate(ctx, a.Cluster, map[string]string{v1alpha1.CurrentConfigAnnotation: p.From}); err != nil {
			return fmt.Errorf("reporting the config in force: %w", err)
		}
	}
	if p.Drain {
		if err := a.drain(ctx, node); err != nil {
			return err
		}
	}
	return a.apply(ctx, node, p, contents)
}

// apply does the steps. From here on, what goes wrong is the config's failure: the node says so until it has another.
func (a *Agent) apply(ctx context.Context, node Assignment, p plan.Plan, contents map[host.Digest][]byte) error {
	if p.Reboots() {
		if err := annotate(ctx, a.Cluster, map[string]string{v1alpha1.PostConfigActionAnnotation: "Rebooting"}); err != nil {
			return err
		}
	}
	a.enter(Applying)
	a.failed = node.Desired // until it is confirmed
	done, err := a.runner.Run(context.WithoutCancel(ctx), p, contents)
	if err != nil {
		return fmt.Errorf("updating to %s: %w", node.Desired, err)
	}
	switch done.End {
	case apply.New:
		a.enter(Confirming)
		return errAgain
	case apply.Rebooting:
		a.enter(Rebooting)
		a.Log.Info("rebooting", "config", node.Desired)
		return ErrRebooting
	case apply.Old:
		return fmt.Errorf("updating to %s: %w; the node is back in %s", node.Desired, done.Why, orNothing(p.From))
	}
	return fmt.Errorf("updating to %s: %w; the node is between configs, going back is tried again", node.Desired, done.Why)
}

func orNothing(name string) string {
	if name == "" {
		return "its first state"
	}
	return name
}

// plan works out the steps from what is on disk, and every reason not to do them.
func (a Config) plan(ctx context.Context, node Assignment) (plan.Plan, map[host.Digest][]byte, error) {
	way, mc, err := a.way(ctx, node)
	if err != nil {
		return plan.Plan{}, nil, err
	}
	record, err := recordOf(mc)
	if err != nil {
		return plan.Plan{}, nil, err
	}
	observed, err := apply.Observe(ctx, a.Host, way.Scope())
	if err != nil {
		return plan.Plan{}, nil, err
	}
	force, err := a.Host.Files.Stat(host.ForcePath)
	if err != nil {
		return plan.Plan{}, nil, fmt.Errorf("looking for %s: %w", host.ForcePath, err)
	}
	p, contents := way.Plan(observed, record)
	if force.Kind != host.Absent || p.Stages() && !p.Reboots() {
		// Nobody knows what a forced update repairs, and what is staged runs only after a reboot: a machine that lost a part
		// of its OS gets it back here, though the configs do not differ in it.
		p, contents = way.Rebooting().Plan(observed, record)
	}
	if len(p.Refusals) > 0 {
		return p, nil, &refusedError{p.Refusals}
	}
	if force.Kind != host.Absent { // it counts once; taken back like everything else, when the update fails
		p.Steps = slices.Insert(p.Steps, 0, plan.Step{Verb: host.Remove, Target: host.ForcePath, Before: host.Value{Entry: force}})
	}
	if drift := plan.Drift(observed, way.Old, way.New); way.From != "" && len(drift) > 0 && force.Kind == host.Absent {
		return p, nil, fmt.Errorf("unexpected on-disk state validating against %s: %s; put it right, or touch %s to overwrite it",
			way.From, strings.Join(drift, "; "), host.ForcePath)
	}
	return p, contents, nil
}

// way reads both configs and the cluster's rules.
func (a Config) way(ctx context.Context, node Assignment) (plan.Way, mcfgv1.MachineConfig, error) {
	mc, err := a.Cluster.Config(ctx, node.Desired)
	if err != nil {
		return plan.Way{}, mc, fmt.Errorf("fetching the desired config %s: %w", node.Desired, err)
	}
	to, err := parse(mc)
	if err == nil {
		err = errors.Join(machineconfig.Check(to.Config)...)
	}
	if err != nil {
		return plan.Way{}, mc, &refusedError{[]policy.Refusal{{Field: node.Desired, Why: err.Error()}}}
	}
	from, err := a.current(ctx, node)
	if err != nil {
		return plan.Way{}, mc, err
	}
	rules, err := a.Cluster.Rules(ctx)
	if err != nil {
		return plan.Way{}, mc, fmt.Errorf("reading the disruption policy: %w", err)
	}
	accounts, err := apply.Accounts(ctx, a.Host)
	if err != nil {
		return plan.Way{}, mc, err
	}
	return plan.NewWay(from, to, rules, accounts), mc, nil
}

// drain asks for the node to be drained for the desired config; nil once that is acknowledged.
func (a *Agent) drain(ctx context.Context, node Assignment) error {
	want := v1alpha1.DrainVerb + "-" + node.Desired
	if node.DesiredDrain == want && node.LastAppliedDrain == want {
		a.drainSince = time.Time{}
		return nil
	}
	a.enter(Draining)
	if node.DesiredDrain != want || a.drainSince.IsZero() {
		a.drainSince = time.Now()
	}
	if node.DesiredDrain != want {
		a.Log.Info("asking for a drain", "config", node.Desired)
		if err := annotate(ctx, a.Cluster, map[string]string{v1alpha1.DesiredDrainAnnotation: want}); err != nil {
			return fmt.Errorf("asking for a drain: %w", err)
		}
	}
	if waited := time.Since(a.drainSince); waited > drainLimit {
		a.failed = node.Desired
		return fmt.Errorf("updating to %s: the node is not drained after %s; see the Node's drain status for the pods that stay", node.Desired, waited.Round(time.Minute))
	}
	return errLater
}

// Phases lists all phases, for tests and docs.
func Phases() []Phase { return slices.Sorted(maps.Keys(Transitions)) }
