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
