package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// What a first boot leaves behind.
const (
	encapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
	// ignitionPresetPath has what the config of the first boot enables and disables. Everything that asks for a preset later
	// would go by it, and a machine that was moved to a config would enable other units than one that booted with it.
	ignitionPresetPath = "/etc/systemd/system-preset/20-ignition.preset"
)

// begin is the first look at the machine after a start. What the first boot left behind is moved out of the way; units
// stay enabled as they are, by their links.
func (a *Agent) begin(ctx context.Context) error {
	text, err := a.Host.Files.Read(encapsulatedPath)
	if err == nil {
		err = a.Host.Files.Write(encapsulatedPath+".bak", host.Entry{Kind: host.File, Mode: 0o600}, text)
		if err == nil {
			err = a.memory.host.Disk.Flush(ctx)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("moving %s aside: %w", encapsulatedPath, err)
	}
	if err := a.memory.forget(ctx, encapsulatedPath, ignitionPresetPath); err != nil {
		return err
	}
	a.begun = true
	if a.Metrics != nil {
		a.Metrics.Boot(osOf(a.Host.Files))
	}
	return nil
}

// osOf reads what os-release says about the machine's OS; "" where it says nothing.
func osOf(files host.Files) (os, version string) {
	text, err := files.Read("/etc/os-release")
	if err != nil {
		text, err = files.Read("/usr/lib/os-release")
	}
	if err != nil {
		return "", ""
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		switch value = strings.Trim(value, `"'`); key {
		case "ID":
			os = value
		case "VERSION_ID":
			version = value
		}
	}
	return os, version
}
