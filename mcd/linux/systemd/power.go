package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Power reboots the machine with its own kernel and logind.
type Power struct {
	// bootID is the path of the kernel's boot ID.
	bootID string
	// address is the address of the system bus.
	address  string
	timeouts timeouts
	// staged is the file with which OSTree marks a staged deployment that is written at the shutdown.
	staged string
	units  *Units
}

// NewPower returns the Power of the machine whose root is mounted at a directory.
func NewPower(dir string, units *Units) Power {
	return Power{
		bootID:   filepath.Join(dir, "proc/sys/kernel/random/boot_id"),
		address:  socket(filepath.Join(dir, "run/dbus/system_bus_socket")),
		timeouts: defaultTimeouts, staged: filepath.Join(dir, "run/ostree/staged-deployment"), units: units,
	}
}

// BootID implements host.Power. If the machine's /proc is not mounted below its root, BootID reads the /proc of this
// process, which has the same ID.
func (p Power) BootID() (string, error) {
	text, err := os.ReadFile(p.bootID)
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile("/proc/sys/kernel/random/boot_id")
	}
	return strings.TrimSpace(string(text)), err
}

// Reboot implements host.Power. Reboot uses logind, which waits for programs that delay the reboot. If a program blocks
// the reboot, Reboot does not force it: the error names the program, and the caller retries later. Reboot does not use
// the library go-systemd, whose Reboot drops the answer.
//
// A machine that goes down stops the bus, logind and this process in any order, so the answer of logind may never
// come. Whatever the error is, a machine that goes down has accepted the reboot.
func (p Power) Reboot(ctx context.Context, why string) error {
	if err := p.finalize(ctx); err != nil {
		return err
	}
	err := p.requestReboot(ctx, why)
	if err == nil {
		return nil
	}
	if down, lookErr := p.GoingDown(ctx); lookErr == nil && down {
		return nil
	}
	return fmt.Errorf("asking logind for a reboot: %w", err)
}

// GoingDown implements host.Power. GoingDown asks systemd through its private socket, which answers until the end of
// the shutdown. A job for shutdown.target is a part of every way to stop a machine. Before logind queues that job, it
// waits for programs that delay the shutdown, so GoingDown asks logind too.
func (p Power) GoingDown(ctx context.Context) (bool, error) {
	queued, errSystemd := p.units.isActiveOrQueued(ctx, "shutdown.target")
	if errSystemd == nil && queued {
		return true, nil
	}
	preparing, errLogind := p.preparingForShutdown(ctx)
	if errLogind == nil && preparing {
		return true, nil
	}
	return false, errors.Join(errSystemd, errLogind)
}

// preparingForShutdown asks logind whether it has accepted a shutdown or a reboot.
func (p Power) preparingForShutdown(ctx context.Context) (preparing bool, err error) {
	ctx, done := context.WithTimeout(ctx, p.timeouts.ask)
	defer done()
	err = p.withLogind(ctx, func(logind manager) error {
		const get = "org.freedesktop.DBus.Properties.Get"
		return logind.object.CallWithContext(ctx, get, 0, logindManager, "PreparingForShutdown").Store(&preparing)
	})
	if err != nil {
		return false, fmt.Errorf("asking logind whether it shuts down: %w", timeoutError(ctx, err, p.timeouts.ask))
	}
	return preparing, nil
}

// finalize ensures that the shutdown writes a staged deployment. ostree-finalize-staged.service writes a staged
// deployment when the service stops, so it must be active before the shutdown. A path unit of OSTree starts the
// service, but early in a boot or right after the staging it may be too late. In this case, the machine would boot the
// old deployment without an error. If OSTree has no such service, nothing has to be written at the shutdown.
func (p Power) finalize(ctx context.Context) error {
	_, err := os.Lstat(p.staged)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = p.units.run(ctx, "ostree-finalize-staged.service", (*dbus.Conn).StartUnitContext)
	}
	if err != nil && !isDBusError(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return fmt.Errorf("having the staged deployment written at the shutdown: %w", err)
	}
	return nil
}

// requestReboot requests the reboot. The error is one that fault.IsUnknown reports if the answer to any call is
// missing.
func (p Power) requestReboot(ctx context.Context, why string) error {
	ctx, done := context.WithTimeout(ctx, p.timeouts.ask)
	defer done()
	return timeoutError(ctx, p.withLogind(ctx, func(logind manager) error { return logind.reboot(why) }),
		p.timeouts.ask)
}

// withLogind calls logind over a connection to the system bus. Without a connection, it calls nothing.
func (p Power) withLogind(ctx context.Context, call func(manager) error) error {
	conn, err := dial(ctx, p.address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // only asked once
	if err := conn.Hello(); err != nil {
		return lostAnswer(err)
	}
	return call(manager{conn.Object("org.freedesktop.login1", "/org/freedesktop/login1"), ctx})
}

// manager is logind's manager object.
type manager struct {
	object godbus.BusObject
	ctx    context.Context
}

// logindManager is the interface of the manager object.
const logindManager = "org.freedesktop.login1.Manager"

func (m manager) call(method string, args ...any) *godbus.Call {
	return m.object.CallWithContext(m.ctx, logindManager+"."+method, 0, args...)
}

func (m manager) do(method string, args ...any) error { return lostAnswer(m.call(method, args...).Err) }

func (m manager) reboot(why string) error {
	if err := m.blocked(); err != nil {
		return err
	}
	if err := m.do("SetWallMessage", why, true); err != nil {
		return fmt.Errorf("setting the message to users who are logged in: %w", err)
	}
	// Without this flag, logind lets root ignore every blocker. Even with this flag, logind ignores blockers of root,
	// so blocked has checked them before. The flag is for blockers that start after that check.
	const checkInhibitorsOfRootToo = uint64(1)
	err := m.do("RebootWithFlags", checkInhibitorsOfRootToo)
	if isDBusError(err, "org.freedesktop.DBus.Error.UnknownMethod") {
		err = m.do("Reboot", false)
	}
	if isDBusError(err, "org.freedesktop.DBus.Error.AccessDenied") {
		return errors.Join(m.blocked(), err)
	}
	return err
}

// inhibitor is an inhibitor lock of logind.
type inhibitor struct {
	// What lists the inhibited actions, joined by colons. Who names the holder of the lock, and Why the reason, both
	// for users. Mode is block, delay or a weak form.
	What, Who, Why, Mode string
	// UID and PID are the user and the process that hold the lock.
	UID, PID uint32
}

// blocked returns an error that names every program that blocks a reboot; nil if there is none.
func (m manager) blocked() error {
	var held []inhibitor
	if err := lostAnswer(m.call("ListInhibitors").Store(&held)); err != nil {
		return fmt.Errorf("asking who blocks it: %w", err)
	}
	var who []string
	for _, i := range held {
		if i.Mode == "block" && slices.Contains(strings.Split(i.What, ":"), "shutdown") {
			who = append(who, fmt.Sprintf("%s (%q, uid %d, pid %d)", i.Who, i.Why, i.UID, i.PID))
		}
	}
	if len(who) == 0 {
		return nil
	}
	return errors.New("it is blocked by " + strings.Join(who, " and by ") + "; it is asked for again later, and goes " +
		"ahead when that is gone: see systemd-inhibit --list")
}

// isDBusError reports whether a D-Bus error has this name.
func isDBusError(err error, name string) bool { return nameOf(err) == name }
