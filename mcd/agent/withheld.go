package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/state"

	"github.com/bunsen-os/bunsen/mcd/report"
)

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

// readConfig reads a config from the cluster. The parameter at is a result of v1alpha1.ConfigAt, and the result has the
// revision.
func readConfig(ctx context.Context, c Config, at string) (mcfgv1.MachineConfig, error) {
	name, revision := v1alpha1.SplitConfigAt(at)
	mc, err := c.Cluster.Config(ctx, name)
	mc.Annotations = maps.Clone(mc.Annotations)
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.CurrentSecretsAnnotation, revision)
	return mc, err
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

// clearWithheld removes the annotation about withheld secrets from the Node and from the machine's initial
// annotations. The agent calls it once a record exists.
func clearWithheld(ctx context.Context, c Config) error {
	text, err := c.Host.Files.Read(host.InitialAnnotationsPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var seed map[string]any
	if err != nil || json.Unmarshal(text, &seed) != nil {
		return err // readInitialAnnotations reports a damaged file.
	}
	if _, marked := seed[v1alpha1.WithheldAnnotation]; !marked {
		return nil
	}
	if err := c.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.WithheldAnnotation: ""}); err != nil {
		return fmt.Errorf("reporting that nothing is withheld any more: %w", err)
	}
	delete(seed, v1alpha1.WithheldAnnotation)
	is, err := c.Host.Files.Stat(host.InitialAnnotationsPath)
	if err == nil {
		text, err = json.Marshal(seed)
	}
	if err == nil {
		err = c.Host.Files.Write(host.InitialAnnotationsPath, is, text)
	}
	if err == nil {
		err = c.Host.Disk.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("removing the withheld annotation from %s: %w", host.InitialAnnotationsPath, err)
	}
	return nil
}
