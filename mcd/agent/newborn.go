package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/protocol"
	"github.com/bunsen-os/bunsen/mcd/record"
)

// newborn is a machine whose first config may have come without its secrets: then its seed says of which config. Until there
// is a record of a config in force, the machine is in that config as it was born with it (plan.Born), and it goes to the whole
// one, or to any other, by an update like every other. The record ends it for good: the mark in the seed counts no more, though
// it is put back.
type newborn struct{ Config }

// lacks tells that the machine was born with a config without its secrets, and was not brought to a whole one yet.
func (n newborn) lacks(config string) (bool, error) {
	if config == "" {
		return false, nil
	}
	if mc, err := record.In(n.Host.Files); err != nil || mc != nil {
		return false, err
	}
	seed, err := seedIn(n.Host.Files)
	return seed[v1alpha1.WithheldAnnotation] == config, err
}

// reason is why a node works that seems to be in the desired config; "" where it goes to another one.
func (n newborn) reason(node protocol.Assignment, t task) (string, error) {
	if node.Current != node.Desired {
		return "", nil
	}
	lacks, err := n.lacks(node.Current)
	if err != nil || !lacks {
		return "", err
	}
	return fmt.Sprintf("adding the secrets of %s, which the server withheld when this machine first booted", t.about()), nil
}

// first is the config that a machine without a record is in.
func (n newborn) first(ctx context.Context, name string) (plan.Named, error) {
	mc, err := n.fetch(ctx, name)
	if err != nil {
		return plan.Named{}, fmt.Errorf("fetching the current config %s: %w", name, err)
	}
	whole, err := record.Named(mc)
	if err != nil {
		return plan.Named{}, err
	}
	if lacks, err := n.lacks(name); err != nil || !lacks {
		return whole, err
	}
	accounts, err := apply.Accounts(ctx, n.Host)
	if err != nil {
		return plan.Named{}, err
	}
	seen, err := apply.Observe(ctx, n.Host, plan.ScopeOf(plan.Want(whole.Config, accounts)))
	if err != nil {
		return plan.Named{}, err
	}
	whole.Config = plan.Born(whole, accounts, seen)
	return whole, nil
}

// fetch gets a config from the cluster, or, while that does not answer, from the update under way.
func (n newborn) fetch(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	mc, err := n.Cluster.Config(ctx, name)
	if !errors.Is(err, protocol.ErrUnreachable) {
		return mc, err
	}
	if t, lost := (memory{n.Host}).task(name); lost == nil && t != nil {
		return t.Config, nil
	}
	return mc, err
}

// grown takes the mark off the Node and out of the seed, once a record is kept.
func (n newborn) grown(ctx context.Context) error {
	text, err := n.Host.Files.Read(host.SeedPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var seed map[string]any
	if err != nil || json.Unmarshal(text, &seed) != nil {
		return err // who needs the seed says that it is damaged
	}
	if _, marked := seed[v1alpha1.WithheldAnnotation]; !marked {
		return nil
	}
	if err := n.Cluster.Report(ctx, map[string]string{v1alpha1.WithheldAnnotation: ""}); err != nil {
		return fmt.Errorf("reporting that nothing is withheld any more: %w", err)
	}
	delete(seed, v1alpha1.WithheldAnnotation)
	is, err := n.Host.Files.Stat(host.SeedPath)
	if err == nil {
		text, err = json.Marshal(seed)
	}
	if err == nil {
		err = n.Host.Files.Write(host.SeedPath, is, text)
	}
	if err == nil {
		err = n.Host.Disk.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("noting in %s that nothing is withheld any more: %w", host.SeedPath, err)
	}
	return nil
}
