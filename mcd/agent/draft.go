package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/protocol"
	"github.com/bunsen-os/bunsen/mcd/record"
	"github.com/bunsen-os/bunsen/policy"
)

// kubeconfigPath is what a kubelet bootstraps with: for root only, whatever a config's author forgot.
const kubeconfigPath = "/etc/kubernetes/kubeconfig"

// draft works out what has to be done.
type draft struct{ *Agent }

// way reads both configs and the cluster's rules. Where the API server stops answering in the middle of an update, what it
// said before counts.
func (d draft) way(ctx context.Context, node protocol.Assignment) (plan.Way, task, error) {
	t, err := d.task(ctx, node)
	if err != nil {
		return plan.Way{}, t, err
	}
	to, err := record.Named(t.Config)
	if err == nil {
		err = errors.Join(machineconfig.Check(to.Config)...)
	}
	if err != nil {
		return plan.Way{}, t, &refusedError{t.about(), policy.Unreadable(err)}
	}
	from, err := d.current(ctx, node)
	if err != nil {
		return plan.Way{}, t, err
	}
	accounts, err := apply.Accounts(ctx, d.Host)
	if err != nil {
		return plan.Way{}, t, err
	}
	return plan.NewWay(from, to, t.Rules, accounts), t, nil
}

// task asks the cluster for all that the update needs.
func (d draft) task(ctx context.Context, node protocol.Assignment) (task, error) {
	kept, err := d.memory.task(node.Desired)
	if err != nil {
		return task{}, err
	}
	t := task{Node: node.Asks()}
	if t.Asked = v1alpha1.ParseConfigRequest(node.Request, node.Desired); kept != nil {
		if node.Request == "" { // what is kept of a Node has no request
			t.Asked = kept.Asked
		}
		t.Before, t.Attempt = kept.Before, kept.Attempt
	}
	if t.Config, err = d.Cluster.Config(ctx, node.Desired); errors.Is(err, protocol.ErrUnreachable) && kept != nil {
		t.Config, err = kept.Config, nil
	}
	if apierrors.IsNotFound(err) {
		return t, &missingConfigError{node.Desired, err}
	}
	if err != nil {
		return t, fmt.Errorf("fetching the desired config %s: %w; see kubectl get machineconfig %s", node.Desired, err, node.Desired)
	}
	t.Config.ManagedFields = nil
	if t.Rules, err = d.Cluster.Rules(ctx); errors.Is(err, protocol.ErrUnreachable) && kept != nil {
		t.Rules, err = kept.Rules, nil
	}
	if err != nil {
		return t, fmt.Errorf("reading the disruption policy: %w; see kubectl get machineconfiguration cluster -o yaml", err)
	}
	return t, nil
}

// plan works out the steps from what is on disk, and every reason not to do them.
func (d draft) plan(ctx context.Context, way plan.Way, t task) (plan.Plan, map[host.Digest][]byte, error) {
	text, err := record.Of(t.Config)
	if err != nil {
		return plan.Plan{}, nil, err
	}
	observed, err := apply.Observe(ctx, d.Host, way.Scope())
	if err != nil {
		return plan.Plan{}, nil, err
	}
	force, forced, err := d.memory.force()
	if err != nil {
		return plan.Plan{}, nil, err
	}
	p, contents := way.Plan(observed, text)
	if forced || p.Stages() && !p.Reboots() {
		// Nobody knows what a forced update repairs, and what is staged runs only after a reboot: a machine that lost a part
		// of its OS gets it back here, though the configs do not differ in it.
		p, contents = way.Rebooting().Plan(observed, text)
	}
	if len(p.Refusals) > 0 {
		return p, nil, &refusedError{t.about(), p.Refusals}
	}
	if err := d.closeKubeconfig(&p, way); err != nil {
		return p, nil, err
	}
	if forced { // it counts once; taken back like everything else, when the update fails
		p.Steps = slices.Insert(p.Steps, 0, plan.Step{Verb: host.Remove, Target: host.ForcePath, Before: host.Value{Entry: force}})
		return p, contents, nil
	}
	p, err = lookout{d.Agent}.before(ctx, way, observed, p)
	return p, contents, err
}

// closeKubeconfig makes the kubelet's first kubeconfig readable by root only, as the original does with every update; a node
// that has none, or whose config says how it shall be, is left alone.
func (d draft) closeKubeconfig(p *plan.Plan, way plan.Way) error {
	is, err := d.Host.Files.Stat(kubeconfigPath)
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
	p.Steps = slices.Insert(p.Steps, at, plan.Step{Verb: host.Write, Target: kubeconfigPath, Before: host.Value{Entry: is}, After: host.Value{Entry: after}})
	return nil
}

// keepRecord writes the record of a config that is in force by the Node's word alone, as on a machine that was just born.
func (d draft) keepRecord(ctx context.Context, name string) error {
	if mc, err := record.In(d.Host.Files); err != nil || mc != nil {
		return err
	}
	mc, err := d.Cluster.Config(ctx, name)
	if err != nil {
		return fmt.Errorf("fetching the current config %s: %w", name, err)
	}
	text, err := record.Of(mc)
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, d.Host, plan.ScopeOf())
	if err != nil {
		return err
	}
	p := plan.Diff(observed, plan.WithRecord(observed, text), plan.Ask{From: name, To: name})
	done, err := d.runner.Run(ctx, p, map[host.Digest][]byte{host.DigestOf(text): text})
	return errors.Join(err, done.Why)
}
