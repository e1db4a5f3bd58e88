package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// The files that a first boot leaves.
const (
	encapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
	// ignitionPresetPath is the preset file with the units that the first config enables and disables. The file must
	// not stay, because it would override later presets. With it, an updated machine would enable other units than a
	// machine that first booted with the same config.
	ignitionPresetPath = "/etc/systemd/system-preset/20-ignition.preset"
)

// firstBoot is what the first boot of a machine has left on it: files of Ignition, and the annotations that the server
// put into the first config.
//
// A server may withhold the secrets of that config; the annotations then name it. Until there is a record of a config
// in force, the machine is in that config without the secrets (plan.AtFirstBoot). It gets the complete config, or any
// other, by a normal update. As soon as there is a record, the annotation has no effect any more, even if it is
// restored.
type firstBoot struct {
	files   state.Files
	cluster Cluster
	log     *slog.Logger
	// cleaned is true after this process has moved the files of Ignition away.
	cleaned bool
}

// clean moves the files of Ignition away, once for each process. Units stay enabled by their links.
func (b *firstBoot) clean(ctx context.Context) (first bool, _ error) {
	if b.cleaned {
		return false, nil
	}
	h := b.files.Host
	text, err := h.Files.Read(encapsulatedPath)
	if err == nil {
		err = h.Files.Write(encapsulatedPath+".bak", host.Entry{Kind: host.File, Mode: 0o600}, text)
		if err == nil {
			err = h.Disk.Flush(ctx)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("moving %s aside: %w", encapsulatedPath, err)
	}
	if err := b.files.Remove(ctx, encapsulatedPath, ignitionPresetPath); err != nil {
		return false, err
	}
	b.cleaned = true
	return true, nil
}

// report sets the annotations of the first boot on a Node that does not name a current config yet.
func (b *firstBoot) report(ctx context.Context, node report.Node) (reported bool, err error) {
	if node.Current != "" {
		return false, nil
	}
	mc, err := apply.LoadRecord(b.files.Host.Files)
	var seed map[string]string
	switch {
	case err != nil:
		return false, err
	case mc != nil && plan.NameOf(*mc) == node.Desired:
		return false, nil // The method confirm reports the current config after the uncordon.
	case mc != nil: // The Node was created again for the same machine.
		seed = report.CurrentAnnotations(plan.NameOf(*mc))
	default:
		if seed, err = b.annotations(); err != nil {
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
	b.log.Info("setting the Node's initial annotations from first boot", "config", current)
	return true, b.cluster.SetAnnotations(ctx, seed)
}

// annotations reads the annotations that the server put into the machine's first config.
func (b *firstBoot) annotations() (map[string]string, error) {
	text, err := b.files.Host.Files.Read(host.InitialAnnotationsPath)
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

// configured reports whether the machine first booted with a config of the server. A damaged file counts as one.
func (b *firstBoot) configured() bool {
	seed, err := b.annotations()
	return err != nil || seed[v1alpha1.CurrentConfigAnnotation] != ""
}

// withheld reports whether the machine first booted with this config without its secrets and has not been updated
// since.
func (b *firstBoot) withheld(config string) (bool, error) {
	if config == "" {
		return false, nil
	}
	if mc, err := apply.LoadRecord(b.files.Host.Files); err != nil || mc != nil {
		return false, err
	}
	seed, err := b.annotations()
	return seed[v1alpha1.WithheldAnnotation] == v1alpha1.ParseConfigVersion(config).Config, err
}

// clearWithheld removes the annotation about withheld secrets from the Node and from the machine's initial annotations.
// The agent calls it once a record exists.
func (b *firstBoot) clearWithheld(ctx context.Context) error {
	h := b.files.Host
	text, err := h.Files.Read(host.InitialAnnotationsPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var seed map[string]any
	if err != nil || json.Unmarshal(text, &seed) != nil {
		return err // The method annotations reports a damaged file.
	}
	if _, marked := seed[v1alpha1.WithheldAnnotation]; !marked {
		return nil
	}
	if err := b.cluster.SetAnnotations(ctx, map[string]string{v1alpha1.WithheldAnnotation: ""}); err != nil {
		return fmt.Errorf("reporting that nothing is withheld any more: %w", err)
	}
	delete(seed, v1alpha1.WithheldAnnotation)
	is, err := h.Files.Stat(host.InitialAnnotationsPath)
	if err == nil {
		text, err = json.Marshal(seed)
	}
	if err == nil {
		err = h.Files.Write(host.InitialAnnotationsPath, is, text)
	}
	if err == nil {
		err = h.Disk.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("removing the withheld annotation from %s: %w", host.InitialAnnotationsPath, err)
	}
	return nil
}
