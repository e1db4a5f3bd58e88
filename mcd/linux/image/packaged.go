package image

import (
	"context"
	"fmt"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// Packaged is an OS that the daemon does not change. Packaged only reports the running OS.
type Packaged struct {
	// Why is the reason, as the end of a sentence with "because".
	Why string
}

// Status implements host.OperatingSystem.
func (o Packaged) Status(context.Context) (host.OSStatus, error) {
	kargs, err := machine.RunningKargs()
	if err != nil {
		return host.OSStatus{}, err
	}
	runs := host.OS{Kargs: kargs, KernelType: "default"}
	return host.OSStatus{Booted: runs, Next: runs, Support: host.Support{Why: o.Why}}, nil
}

// Stage implements host.OperatingSystem.
func (o Packaged) Stage(_ context.Context, step host.Step) error { return refused(step, o.Why) }

// refused returns the error of a step that this machine does not support.
func refused(step host.Step, why string) error {
	return fmt.Errorf("%s: %w: %s", step.Verb, host.ErrUnsupported, why)
}
