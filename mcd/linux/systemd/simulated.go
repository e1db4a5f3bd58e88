package systemd

import (
	"context"
	"fmt"
)

// SimulatedUnits enables units for real, and prints the services that it would start.
type SimulatedUnits struct {
	Enablement
	// Say is called with one line for each action that a real machine would do.
	Say func(line string)
}

// DaemonReload implements host.Units.
func (u SimulatedUnits) DaemonReload(context.Context) error {
	u.Say("simulated: daemon-reload")
	return nil
}

// Reload implements host.Units.
func (u SimulatedUnits) Reload(_ context.Context, name string) error { return u.act("reload", name) }

// Restart implements host.Units.
func (u SimulatedUnits) Restart(_ context.Context, name string) error { return u.act("restart", name) }

// act calls Say, even for a service without a unit file: a simulated host has no packages, so most unit files do not
// exist.
func (u SimulatedUnits) act(verb, name string) error {
	file, err := u.find(name)
	if err != nil {
		return err
	}
	if file.masked {
		return fmt.Errorf("unit %s is masked", name)
	}
	u.Say("simulated: " + verb + " " + name)
	return nil
}
