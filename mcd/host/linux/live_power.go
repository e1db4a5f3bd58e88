package linux

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

// LivePower is the machine's own kernel and logind.
type LivePower struct {
	// bootID is where the kernel tells it.
	bootID string
	// address of the system bus.
	address  string
	patience patience
	// staged is where OSTree says that a deployment waits for the shutdown to be written.
	staged string
	units  *LiveUnits
}

func newLivePower(dir string, units *LiveUnits) LivePower {
	return LivePower{
		bootID: filepath.Join(dir, "proc/sys/kernel/random/boot_id"), address: socket(filepath.Join(dir, "run/dbus/system_bus_socket")),
		patience: usual, staged: filepath.Join(dir, "run/ostree/staged-deployment"), units: units,
	}
}

// BootID implements host.Power. Where the machine's /proc is not mounted below its root, this process's own has the same.
func (p LivePower) BootID() (string, error) {
	text, err := os.ReadFile(p.bootID)
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile("/proc/sys/kernel/random/boot_id")
	}
	return strings.TrimSpace(string(text)), err
}

// Reboot implements host.Power. It goes through logind, which waits for those who asked for a delay. Where somebody blocks
// the reboot it is not forced: the error says who, and the caller asks again later. It is called without go-systemd,
// whose Reboot drops the answer.
func (p LivePower) Reboot(ctx context.Context, why string) error {
	if err := p.finalize(ctx); err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, p.patience.ask)
	defer done()
	err := p.reboot(ctx, why)
	if err != nil {
		return fmt.Errorf("asking logind for a reboot: %w", silence(ctx, err, p.patience.ask))
	}
	return nil
}

// finalize makes sure that the shutdown writes a staged deployment: the stop of ostree-finalize-staged.service does, so it has
// to be active by then. OSTree has a path unit start it, which systemd may not have got to yet, early in a boot or right
// after the staging; the machine would then boot the old deployment without a word. An OSTree without that unit writes
// nothing at the shutdown.
func (p LivePower) finalize(ctx context.Context) error {
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

func (p LivePower) reboot(ctx context.Context, why string) error {
	conn, err := dial(ctx, p.address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // only asked once
	if err := conn.Hello(); err != nil {
		return err
	}
	logind := manager{conn.Object("org.freedesktop.login1", "/org/freedesktop/login1"), ctx}
	if err := logind.blocked(); err != nil {
		return err
	}
	if err := logind.call("SetWallMessage", why, true).Err; err != nil {
		return fmt.Errorf("setting the message to whoever is logged in: %w", err)
	}
	// Without the flag logind lets root pass everybody who blocks, and with it still those who are root, too: so they were
	// asked for first, and the flag is for whoever came in between.
	const checkInhibitorsOfRootToo = uint64(1)
	err = logind.call("RebootWithFlags", checkInhibitorsOfRootToo).Err
	if isDBusError(err, "org.freedesktop.DBus.Error.UnknownMethod") {
		err = logind.call("Reboot", false).Err
	}
	if isDBusError(err, "org.freedesktop.login1.OperationInProgress") {
		var down bool
		if logind.object.StoreProperty("org.freedesktop.login1.Manager.PreparingForShutdown", &down) == nil && down {
			return nil // it has accepted to go down already
		}
	}
	if isDBusError(err, "org.freedesktop.DBus.Error.AccessDenied") {
		return errors.Join(logind.blocked(), err)
	}
	return err
}

// manager is logind's.
type manager struct {
	object godbus.BusObject
	ctx    context.Context
}

func (m manager) call(method string, args ...any) *godbus.Call {
	return m.object.CallWithContext(m.ctx, "org.freedesktop.login1.Manager."+method, 0, args...)
}

// inhibitor is one that somebody holds.
type inhibitor struct {
	// What is inhibited, joined by colons; Who holds it and Why, in words for people; Mode is block, delay or a weak form.
	What, Who, Why, Mode string
	// UID and PID of the holder.
	UID, PID uint32
}

// blocked is an error that names everybody who blocks a reboot; nil for nobody.
func (m manager) blocked() error {
	var held []inhibitor
	if err := m.call("ListInhibitors").Store(&held); err != nil {
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
	return errors.New("it is blocked by " + strings.Join(who, " and by ") + "; it is asked for again later, and goes ahead when that is gone: see systemd-inhibit --list")
}

// isDBusError tells an error that a peer answered with, by its name.
func isDBusError(err error, name string) bool {
	var answer godbus.Error
	return errors.As(err, &answer) && answer.Name == name
}
