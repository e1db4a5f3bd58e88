package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// kubeconfigPath is the bootstrap kubeconfig of the kubelet. Only root may read the kubeconfig, even if a config does
// not set its mode.
const kubeconfigPath = "/etc/kubernetes/kubeconfig"

// readConfigs reads the current config, the desired config and the cluster's rules. If the API server stops answering
// during an update, readConfigs returns the results of the last read.
func readConfigs(ctx context.Context, a *Agent, node report.Node) (plan.Transition, state.Task, error) {
	t, err := readTask(ctx, a, node)
	if err != nil {
		return plan.Transition{}, t, err
	}
	to, err := a.resolved(plan.ParseConfig(t.Config))
	if err == nil {
		err = errors.Join(machineconfig.Check(to.Config)...)
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

// writeFirstRecord writes the record of the current config if only the Node names that config, as on a machine that
// has just joined.
func writeFirstRecord(ctx context.Context, a *Agent, name string) error {
	if mc, err := apply.LoadRecord(a.Host.Files); err != nil || mc != nil {
		return err
	}
	mc, err := readConfig(ctx, a.Config, name)
	if err != nil {
		return fmt.Errorf("fetching the current config %s: %w", name, err)
	}
	text, err := plan.RecordOf(mc)
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, a.Host, plan.ScopeOf())
	if err != nil {
		return err
	}
	p := plan.Diff(observed, plan.WithRecord(observed, text), plan.DiffOptions{From: name, To: name})
	done, err := a.runner.Run(ctx, p, map[host.Digest][]byte{host.DigestOf(text): text})
	return errors.Join(err, done.Why)
}
