package ostree

import (
	"context"
	"fmt"
	"os"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Packaged is an OS that the daemon does not change. It only reports the running OS.
type Packaged struct {
	// Why is the reason, as the end of a sentence with "because".
	Why string
}

// Status implements host.OperatingSystem.
func (o Packaged) Status(context.Context) (host.OSStatus, error) {
	kargs, err := runningKargs()
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

// runningKargs are the arguments of the kernel that runs, without those of the boot loader.
func runningKargs() (string, error) {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "", fmt.Errorf("reading the kernel's arguments: %w", err)
	}
	return ownKargs(string(text)), nil
}
