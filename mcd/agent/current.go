package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/protocol"
	"github.com/bunsen-os/bunsen/mcd/record"
)

// current is the config in force: what the record on disk says, else the Node, which was told the seed that the machine was
// born with, less what was withheld of it. A machine with neither has the empty config, whose name is "".
func (a Config) current(ctx context.Context, node protocol.Assignment) (plan.Named, error) {
	mc, err := record.In(a.Host.Files)
	switch {
	case err != nil:
		return plan.Named{}, err
	case mc != nil:
		return record.Named(*mc)
	case node.Current == "":
		return plan.Named{}, nil
	}
	return newborn{a}.first(ctx, node.Current)
}

// seed tells the Node what the machine was born with, once: when the Node says nothing about a current config yet.
func (a Config) seed(ctx context.Context, node protocol.Assignment) (told bool, err error) {
	if node.Current != "" {
		return false, nil
	}
	mc, err := record.In(a.Host.Files)
	var seed map[string]string
	switch {
	case err != nil:
		return false, err
	case mc != nil && mc.Name == node.Desired:
		return false, nil // it is told when the node is open again
	case mc != nil: // the Node is a new one; the machine is not
		seed = map[string]string{v1alpha1.CurrentConfigAnnotation: mc.Name}
	default:
		if seed, err = seedIn(a.Host.Files); err != nil {
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
	if node.Desired != "" {
		delete(seed, v1alpha1.DesiredConfigAnnotation) // the controller's word is newer
	}
	delete(seed, v1alpha1.StateAnnotation) // it is Done when it is seen to be
	a.Log.Info("setting the Node's initial annotations from first boot", "config", current)
	return true, a.Cluster.Report(ctx, seed)
}

// introduce tells that a daemon is here, on a node that did not boot from the server and was told nothing yet: Done
// without a config. The roll-out gives it its first one when it is this node's turn.
func (a Config) introduce(ctx context.Context, node protocol.Assignment) error {
	if node.State == v1alpha1.StateDone && node.Reason == "" {
		return errLater
	}
	a.Log.Info("ready for a first config")
	return a.report(ctx, v1alpha1.StateDone, "")
}

// seedIn reads the annotations that the server put into the machine's first config.
func seedIn(files host.Files) (map[string]string, error) {
	text, err := files.Read(host.SeedPath)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the seed: %w", err)
	}
	var raw map[string]string
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("reading the seed %s: %w; restore it, or remove it: then the node waits for a first config", host.SeedPath, err)
	}
	seed := map[string]string{}
	for key, value := range raw {
		if strings.HasPrefix(key, "machineconfiguration.openshift.io/") || key == v1alpha1.WithheldAnnotation {
			seed[key] = value
		}
	}
	return seed, nil
}
