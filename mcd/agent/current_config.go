package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// currentConfig returns the config in force. The config in force is the config of the record on disk. Without a record,
// the config in force is the config that the Node names, without the secrets that the server withheld. If the machine
// has no record and the Node names no config, the machine has the empty config, whose name is "".
func (a Config) currentConfig(ctx context.Context, node report.Node) (plan.Config, error) {
	mc, err := apply.LoadRecord(a.Host.Files)
	switch {
	case err != nil:
		return plan.Config{}, err
	case mc != nil:
		c, err := a.resolved(plan.ParseConfig(*mc))
		if err != nil {
			return c, err
		}
		return a.secrets().InForce(ctx, c)
	case node.Current == "":
		return plan.Config{}, nil
	}
	return a.resolved(configAtFirstBoot(ctx, a, node.Current))
}

// configAtFirstBoot returns the config of a machine without a record, without the secrets that the server withheld.
func configAtFirstBoot(ctx context.Context, c Config, name string) (plan.Config, error) {
	mc, err := fetchConfig(ctx, c, name)
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
	if lacks, err := hasWithheldSecrets(c, name); err != nil || !lacks {
		return whole, err
	}
	accounts, err := apply.Accounts(ctx, c.Host)
	if err != nil {
		return plan.Config{}, err
	}
	seen, err := apply.Observe(ctx, c.Host, plan.ScopeOf(plan.DesiredOf(whole.Config, accounts)))
	if err != nil {
		return plan.Config{}, err
	}
	whole.Config = plan.AtFirstBoot(whole, accounts, seen)
	return whole, nil
}

// fetchConfig reads a config from the cluster. While the API server does not answer, fetchConfig reads the config from
// the task on disk.
func fetchConfig(ctx context.Context, c Config, name string) (mcfgv1.MachineConfig, error) {
	mc, err := readConfig(ctx, c, name)
	if !errors.Is(err, report.ErrUnreachable) {
		return mc, err
	}
	if t, lost := (state.Files{Host: c.Host}).Task(name); lost == nil && t != nil {
		return t.Config, nil
	}
	return mc, err
}

// secrets returns the secrets of the machine's configs.
func (a Config) secrets() secrets.Store {
	return secrets.Store{Host: a.Host, Source: a.Cluster, Log: a.Log}
}

// reportInitialAnnotations sets the annotations of the machine's first boot on a Node that does not name a current
// config yet.
func (a Config) reportInitialAnnotations(ctx context.Context, node report.Node) (reported bool, err error) {
	if node.Current != "" {
		return false, nil
	}
	mc, err := apply.LoadRecord(a.Host.Files)
	var seed map[string]string
	switch {
	case err != nil:
		return false, err
	case mc != nil && plan.NameOf(*mc) == node.Desired:
		return false, nil // The method confirm reports the current config after the uncordon.
	case mc != nil: // The Node was created again for the same machine.
		seed = report.CurrentAnnotations(plan.NameOf(*mc))
	default:
		if seed, err = readInitialAnnotations(a.Host.Files); err != nil {
			return false, err
		}
	}
	current := seed[v1alpha1.CurrentConfigAnnotation]
	if current == "" {
		return false, nil
	}
	if node.Desired == "" && seed[v1alpha1.DesiredConfigAnnotation] == "" {
		seed[v1alpha1.DesiredConfigAnnotation] = current
	}
	if revision := seed[v1alpha1.CurrentSecretsAnnotation]; revision == "" {
		delete(seed, v1alpha1.CurrentSecretsAnnotation)
	} else if node.Desired == "" && seed[v1alpha1.DesiredConfigAnnotation] == current {
		seed[v1alpha1.DesiredSecretsAnnotation] = revision
	}
	if node.Desired != "" {
		// The desired config that the controller wrote is newer than that of the first boot.
		delete(seed, v1alpha1.DesiredConfigAnnotation)
	}
	a.Log.Info("setting the Node's initial annotations from first boot", "config", current)
	return true, a.Cluster.SetAnnotations(ctx, seed)
}

// reportReady reports Done without a config, on a node that did not boot from the server and that the controller has
// not assigned a config yet. After this report, the rollout assigns the first config.
func (a Config) reportReady(ctx context.Context, node report.Node) error {
	if node.State == v1alpha1.StateDone && node.Reason == "" {
		return errWaiting
	}
	a.Log.Info("ready for a first config")
	return a.reportState(ctx, v1alpha1.StateDone, "")
}

// readInitialAnnotations reads the annotations that the server put into the machine's first config.
func readInitialAnnotations(files host.Files) (map[string]string, error) {
	text, err := files.Read(host.InitialAnnotationsPath)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the initial annotations: %w", err)
	}
	var raw map[string]string
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("reading the initial annotations %s: %w; restore the file, or remove it to wait for a "+
			"first config", host.InitialAnnotationsPath, err)
	}
	seed := map[string]string{
		v1alpha1.CurrentConfigAnnotation:    raw[v1alpha1.CurrentConfigAnnotation],
		v1alpha1.DesiredConfigAnnotation:    raw[v1alpha1.DesiredConfigAnnotation],
		v1alpha1.FirstPivotConfigAnnotation: raw[v1alpha1.FirstPivotConfigAnnotation],
		v1alpha1.CurrentSecretsAnnotation:   raw[v1alpha1.CurrentSecretsAnnotation],
		v1alpha1.WithheldAnnotation:         raw[v1alpha1.WithheldAnnotation],
	}
	maps.DeleteFunc(seed, func(_, value string) bool { return value == "" })
	return seed, nil
}

// A server may withhold the secrets of a machine's first config; the machine's initial annotations then name that
// config. Until there is a record of a config in force, the machine is in that config without the secrets (plan.Born).
// The machine gets the complete config, or any other config, by a normal update. As soon as there is a record, the
// annotation has no effect any more, even if it is restored.

// hasWithheldSecrets reports whether the machine first booted with this config without its secrets and has not been
// updated since.
func hasWithheldSecrets(c Config, config string) (bool, error) {
	if config == "" {
		return false, nil
	}
	if mc, err := apply.LoadRecord(c.Host.Files); err != nil || mc != nil {
		return false, err
	}
	seed, err := readInitialAnnotations(c.Host.Files)
	return seed[v1alpha1.WithheldAnnotation] == v1alpha1.ConfigName(config), err
}

// readConfig reads a config from the cluster. The parameter at is a result of v1alpha1.ConfigAt, and the result has the
// revision.
func readConfig(ctx context.Context, c Config, at string) (mcfgv1.MachineConfig, error) {
	name, revision := v1alpha1.SplitConfigAt(at)
	mc, err := c.Cluster.Config(ctx, name)
	mc.Annotations = maps.Clone(mc.Annotations)
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.CurrentSecretsAnnotation, revision)
	return mc, err
}
