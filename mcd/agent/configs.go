package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// configs reads the configs of one node: the one in force from its disk, others from the cluster, each with its secrets
// and with the remote files that the machine has.
type configs struct {
	cluster   Cluster
	host      host.Host
	files     state.Files
	fetch     *fetch.Syncer
	firstBoot *firstBoot
	log       *slog.Logger
	// for a config that cannot be read
	patience time.Duration
}

// inForce returns the config in force. It is the config of the record on disk. Without a record, it is the config that
// the Node names, without the secrets that the server withheld. If the machine has no record and the Node names no
// config, it is the empty config, whose name is "".
func (c configs) inForce(ctx context.Context, node report.Node) (plan.Config, error) {
	mc, err := apply.LoadRecord(c.host.Files)
	switch {
	case err != nil:
		return plan.Config{}, err
	case mc != nil:
		at, err := c.resolved(plan.ParseConfig(*mc))
		if err != nil {
			return at, err
		}
		return c.secrets().InForce(ctx, at)
	case node.Current == "":
		return plan.Config{}, nil
	}
	return c.resolved(c.atFirstBoot(ctx, node.Current))
}

// atFirstBoot returns the config of a machine without a record, without the secrets that the server withheld.
func (c configs) atFirstBoot(ctx context.Context, name string) (plan.Config, error) {
	mc, err := c.readOrKept(ctx, name)
	if err != nil {
		return plan.Config{}, fmt.Errorf("fetching the current config %s: %w", name, err)
	}
	whole, err := plan.ParseConfig(mc)
	if err == nil {
		whole, err = c.secrets().InForce(ctx, whole)
	}
	if err != nil {
		return plan.Config{}, err
	}
	if lacks, err := c.firstBoot.withheld(name); err != nil || !lacks {
		return whole, err
	}
	accounts, err := apply.Accounts(ctx, c.host)
	if err != nil {
		return plan.Config{}, err
	}
	seen, err := apply.Observe(ctx, c.host, plan.ScopeOf(plan.DesiredOf(whole.Config, accounts)))
	if err != nil {
		return plan.Config{}, err
	}
	whole.Config = plan.AtFirstBoot(whole, accounts, seen)
	return whole, nil
}

// readOrKept reads a config from the cluster or, while the API server does not answer, from the task on disk.
func (c configs) readOrKept(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	mc, err := c.read(ctx, name)
	if !errors.Is(err, report.ErrUnreachable) {
		return mc, err
	}
	if t, lost := c.files.Task(name); lost == nil && t != nil {
		return t.Config, nil
	}
	return mc, err
}

// read reads a config from the cluster, by the text of a v1alpha1.ConfigVersion. The result has the revision.
func (c configs) read(ctx context.Context, at string) (mcfgv1.MachineConfig, error) {
	want := v1alpha1.ParseConfigVersion(at)
	mc, err := c.cluster.Config(ctx, want.Config)
	mc.Annotations = maps.Clone(mc.Annotations)
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.CurrentSecretsAnnotation, want.Secrets)
	return mc, err
}

// task reads everything that the update to the desired config needs from the cluster, and what an earlier attempt has
// stored. If the API server stops answering during an update, it returns the results of the last read.
func (c configs) task(ctx context.Context, node report.Node) (state.Task, Outcome) {
	kept, err := c.files.Task(node.Desired)
	if err != nil {
		return state.Task{}, outcomeOf(err)
	}
	t := state.Task{Node: node.Watched()}
	if t.Requester = v1alpha1.ParseConfigRequest(node.Request,
		v1alpha1.ParseConfigVersion(node.Desired).Config); kept != nil {
		if node.Request == "" { // A Node that was read from disk does not name the requester.
			t.Requester = kept.Requester
		}
		t.Before, t.Attempt, t.Drain = kept.Before, kept.Attempt, kept.Drain
	}
	if t.Config, err = c.read(ctx, node.Desired); errors.Is(err, report.ErrUnreachable) && kept != nil {
		t.Config, err = kept.Config, nil
	}
	if err != nil {
		return t, unreadConfig(node.Desired, err, c.patience)
	}
	t.Config.ManagedFields = nil
	if t.Rules, err = c.cluster.Rules(ctx); errors.Is(err, report.ErrUnreachable) && kept != nil {
		t.Rules, err = kept.Rules, nil
	}
	if err != nil {
		return t, outcomeOf(fmt.Errorf("reading the disruption policy: %w; see kubectl get machineconfiguration "+
			"cluster -o yaml", err))
	}
	return t, Outcome{}
}

// unreadConfig returns the outcome of a desired config that the node cannot read from any server now, or that is not on
// the cluster.
func unreadConfig(at string, err error, patience time.Duration) Outcome {
	missing := apierrors.IsNotFound(err)
	if !missing && errors.Is(err, report.ErrUnreachable) {
		o := outcomeOf(fmt.Errorf("waiting for the config %s: %w", at, err))
		o.limit, o.waits, o.failure.Cause = patience, true, v1alpha1.FailureNoAccess
		return o
	}
	o := outcomeOf(fmt.Errorf("fetching the desired config %s: %w; see kubectl get machineconfig %s", at, err,
		v1alpha1.ParseConfigVersion(at).Config))
	if missing {
		o.failure.Cause = v1alpha1.FailureNoConfig
	}
	return o
}

// resolved names the remote files of a config as the machine names their contents. It passes an error on.
func (c configs) resolved(at plan.Config, err error) (plan.Config, error) {
	at.Config = c.fetch.Fetcher().Resolve(at.Config)
	return at, err
}

// secrets returns the secrets of the machine's configs.
func (c configs) secrets() secrets.Store {
	return secrets.Store{Host: c.host, Source: c.cluster, Log: c.log}
}
