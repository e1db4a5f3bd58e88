package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// The files that a first boot leaves.
const (
	encapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
	// ignitionPresetPath is the preset file with the units that the first config enables and disables. The file must
	// not stay, because it would override later presets. With it, an updated machine would enable other units than a
	// machine that first booted with the same config.
	ignitionPresetPath = "/etc/systemd/system-preset/20-ignition.preset"
)

// start runs once after the daemon starts. start moves the files of the first boot away and reports which OS runs.
// Units stay enabled by their links.
func (a *Agent) start(ctx context.Context) error {
	text, err := a.Host.Files.Read(encapsulatedPath)
	if err == nil {
		err = a.Host.Files.Write(encapsulatedPath+".bak", host.Entry{Kind: host.File, Mode: 0o600}, text)
		if err == nil {
			err = a.files.Host.Disk.Flush(ctx)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("moving %s aside: %w", encapsulatedPath, err)
	}
	if err := a.files.Remove(ctx, encapsulatedPath, ignitionPresetPath); err != nil {
		return err
	}
	a.started = true
	if a.Metrics != nil {
		release := apply.Release(a.Host.Files)
		a.Metrics.Boot(release["ID"], release["VERSION_ID"])
	}
	return nil
}
