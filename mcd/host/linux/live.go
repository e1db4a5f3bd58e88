package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Open opens the machine itself, whose root is mounted at a directory ("/" outside of a container). It speaks with
// systemd and logind over the system bus, and connects when it first needs them. The function closes what was opened.
func Open(_ context.Context, dir string) (host.Host, func(), error) {
	if os.Geteuid() != 0 {
		return host.Host{}, nil, errors.New("the daemon changes the whole machine and has to run as root; for a host without rights, use simulate")
	}
	root, err := OpenRoot(dir)
	if err != nil {
		return host.Host{}, nil, err
	}
	if err := root.Lock(); err != nil {
		root.Close() //nolint:errcheck,gosec // the first error is the one to tell
		return host.Host{}, nil, err
	}
	units := &LiveUnits{Enablement: Enablement{root}}
	closeAll := func() {
		units.close()
		root.Close() //nolint:errcheck,gosec // nothing was left unwritten
	}
	return host.Host{
		Files: root, Units: units, Passwd: newShadowUtils(root, dir), OS: PlainOS{}, Power: LivePower{}, Journal: Journal{root}, Store: Store{root},
	}, closeAll, nil
}

// LiveUnits enables units by their symlinks, and has systemd itself reload and restart them.
type LiveUnits struct {
	Enablement

	mu   sync.Mutex
	conn *dbus.Conn
}

// bus connects, or connects again after systemd or the bus was restarted.
func (u *LiveUnits) bus(ctx context.Context) (*dbus.Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil && u.conn.Connected() {
		return u.conn, nil
	}
	conn, err := dbus.NewSystemdConnectionContext(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	u.conn = conn
	return conn, nil
}

func (u *LiveUnits) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		u.conn.Close()
	}
}

// DaemonReload implements host.Units.
func (u *LiveUnits) DaemonReload(ctx context.Context) error {
	conn, err := u.bus(ctx)
	if err != nil {
		return err
	}
	return conn.ReloadContext(ctx)
}

// Reload implements host.Units.
func (u *LiveUnits) Reload(ctx context.Context, name string) error {
	conn, err := u.bus(ctx)
	if err != nil {
		return err
	}
	return await(ctx, name, func(done chan<- string) (int, error) {
		return conn.ReloadOrRestartUnitContext(ctx, name, "replace", done)
	})
}

// Restart implements host.Units.
func (u *LiveUnits) Restart(ctx context.Context, name string) error {
	conn, err := u.bus(ctx)
	if err != nil {
		return err
	}
	return await(ctx, name, func(done chan<- string) (int, error) {
		return conn.RestartUnitContext(ctx, name, "replace", done)
	})
}

// longestJob is how long a service may take to reload or start. A oneshot unit has no limit of its own, and systemd's
// answer is lost when it starts anew meanwhile: without a limit the node would be Working for ever.
const longestJob = 15 * time.Minute

// await starts a job and waits for its result.
func await(ctx context.Context, name string, start func(chan<- string) (int, error)) error {
	done := make(chan string, 1)
	if _, err := start(done); err != nil {
		return err
	}
	timer := time.NewTimer(longestJob)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("job for %s has not ended after %s: see systemctl list-jobs and journalctl -u %s", name, longestJob, name)
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("job for %s ended as %s: see journalctl -u %s", name, result, name)
		}
		return nil
	}
}

// LivePower is the machine's own kernel and logind.
type LivePower struct{}

// BootID implements host.Power.
func (LivePower) BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// Reboot implements host.Power. It calls logind itself, because go-systemd's Reboot drops the answer.
func (LivePower) Reboot(ctx context.Context, _ string) error {
	conn, err := godbus.ConnectSystemBus(godbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("connecting to the system bus: %w", err)
	}
	defer conn.Close() //nolint:errcheck // only asked once
	logind := conn.Object("org.freedesktop.login1", "/org/freedesktop/login1")
	if err := logind.CallWithContext(ctx, "org.freedesktop.login1.Manager.Reboot", 0, false).Err; err != nil {
		return fmt.Errorf("asking logind for a reboot: %w", err)
	}
	return nil
}

// NoOSSupport is why a real machine refuses changes of its OS.
const NoOSSupport = "the daemon does not change the OS of real machines yet, by rpm-ostree or otherwise"

// PlainOS is an OS that the daemon cannot change: it tells what runs.
type PlainOS struct{}

// Status implements host.OperatingSystem.
func (PlainOS) Status(context.Context) (host.OSStatus, error) {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return host.OSStatus{}, fmt.Errorf("reading the kernel's arguments: %w", err)
	}
	runs := host.OS{Kargs: host.JoinArgs(host.SplitArgs(string(text))), KernelType: "default"}
	return host.OSStatus{Booted: runs, Next: runs, Support: host.Support{Why: NoOSSupport}}, nil
}

// Stage implements host.OperatingSystem.
func (PlainOS) Stage(_ context.Context, step host.Step) error {
	return fmt.Errorf("%s: %w", step.Verb, host.ErrUnsupported)
}
