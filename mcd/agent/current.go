package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// current is the config in force: what the record on disk says, else the Node, else the seed that the machine was born
// with. A machine with none of them has the empty config, whose name is "".
func (a Config) current(ctx context.Context, node Assignment) (plan.Named, error) {
	mc, err := recordIn(a.Host.Files)
	if err != nil {
		return plan.Named{}, err
	}
	if mc == nil && node.Current == "" {
		return plan.Named{}, nil
	}
	if mc == nil {
		fetched, err := a.Cluster.Config(ctx, node.Current)
		if err != nil {
			return plan.Named{}, fmt.Errorf("fetching the current config %s: %w", node.Current, err)
		}
		mc = &fetched
	}
	return parse(*mc)
}

func parse(mc mcfgv1.MachineConfig) (plan.Named, error) {
	c, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return plan.Named{}, fmt.Errorf("reading config %s: %w", mc.Name, err)
	}
	return plan.Named{Name: mc.Name, Config: c}, nil
}

// recordIn reads the config that is in force from disk; nil for none.
func recordIn(files host.Files) (*mcfgv1.MachineConfig, error) {
	text, err := files.Read(host.RecordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	var mc mcfgv1.MachineConfig
	if err := json.Unmarshal(text, &mc); err != nil {
		return nil, fmt.Errorf("reading the record %s: %w; restore it, or remove it to take the Node's word", host.RecordPath, err)
	}
	return &mc, nil
}

// recordOf is what the record of a config contains: name and spec.
func recordOf(mc mcfgv1.MachineConfig) ([]byte, error) {
	text, err := json.Marshal(mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: mc.Name},
		Spec:       mc.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the record of %s: %w", mc.Name, err)
	}
	return text, nil
}

// seed tells the Node what the machine was born with, once: when the Node says nothing about a current config yet.
func (a Config) seed(ctx context.Context, node Assignment) (told bool, err error) {
	if node.Current != "" {
		return false, nil
	}
	seed, err := seedIn(a.Host.Files)
	if err != nil {
		return false, err
	}
	if mc, err := recordIn(a.Host.Files); err != nil {
		return false, err
	} else if mc != nil && mc.Name == node.Desired {
		return false, nil // it is told when the node is open again
	} else if mc != nil {
		seed = map[string]string{v1alpha1.CurrentConfigAnnotation: mc.Name}
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
	a.Log.Info("telling the Node what the machine was born with", "config", current)
	return true, a.Cluster.Report(ctx, seed)
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
		return nil, fmt.Errorf("reading the seed %s: %w", host.SeedPath, err)
	}
	seed := map[string]string{}
	for key, value := range raw {
		if strings.HasPrefix(key, "machineconfiguration.openshift.io/") {
			seed[key] = value
		}
	}
	return seed, nil
}

// keepRecord writes the record of a config that is in force by the Node's word alone, as on a machine that was just born.
func (a *Agent) keepRecord(ctx context.Context, name string) error {
	if mc, err := recordIn(a.Host.Files); err != nil || mc != nil {
		return err
	}
	mc, err := a.Cluster.Config(ctx, name)
	if err != nil {
		return fmt.Errorf("fetching the current config %s: %w", name, err)
	}
	text, err := recordOf(mc)
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, a.Host, plan.ScopeOf())
	if err != nil {
		return err
	}
	p := plan.Diff(observed, plan.WithRecord(observed, text), plan.Ask{From: name, To: name})
	done, err := a.runner.Run(ctx, p, map[host.Digest][]byte{host.DigestOf(text): text})
	return errors.Join(err, done.Why)
}
