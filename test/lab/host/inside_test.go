package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/linux/systemd"
)

// roles are what this binary does inside of a host instead of being a suite of tests. They return what the process
// says.
var roles = map[string]func(context.Context) error{
	// reboot asks as the daemon does.
	"reboot": func(ctx context.Context) error {
		h, closeHost, err := linux.OpenHost(ctx, "/")
		if err != nil {
			return err
		}
		defer closeHost()
		return h.Power.Reboot(ctx, rebootText)
	},
	// lost reboots behind a proxy that loses an answer.
	"lost": rebootWithLostAnswer,
	// pod is a daemon in a container of its own: it writes a unit, has it started and sees it run.
	"pod": func(ctx context.Context) error {
		h, closeHost, err := linux.OpenHost(ctx, os.Getenv(rootVariable))
		if err != nil {
			return err
		}
		defer closeHost()
		text := "[Service]\nExecStart=/bin/sleep infinity\n"
		if err := h.Files.Write("/etc/systemd/system/pod.service", host.Entry{Mode: 0o644}, []byte(text)); err != nil {
			return err
		}
		if err := errors.Join(h.Units.DaemonReload(ctx), h.Units.Restart(ctx, "pod.service")); err != nil {
			return err
		}
		units, _ := h.Units.(*systemd.Units)
		state, sub, result, err := units.Active(ctx, "pod.service")
		id, errID := h.Power.BootID()
		fmt.Println(state, sub, result, id)
		return errors.Join(err, errID)
	},
	// racer is a user who exchanges directories for links while the daemon writes.
	"racer": func(context.Context) error { return hosttest.Racer(os.Getenv(hosttest.RacerHome)) },
	// delay holds a delay inhibitor, and works for a while when the machine is about to go down.
	"delay": func(ctx context.Context) error {
		bus, err := godbus.ConnectSystemBus(godbus.WithContext(ctx))
		if err != nil {
			return err
		}
		defer bus.Close()
		err = bus.AddMatchSignal(godbus.WithMatchInterface("org.freedesktop.login1.Manager"),
			godbus.WithMatchMember("PrepareForShutdown"))
		if err != nil {
			return err
		}
		signals := make(chan *godbus.Signal, 8)
		bus.Signal(signals)
		var held godbus.UnixFD
		logind := bus.Object("org.freedesktop.login1", "/org/freedesktop/login1")
		if err := logind.CallWithContext(ctx, "org.freedesktop.login1.Manager.Inhibit", 0, "shutdown", "database",
			"flush", "delay").Store(&held); err != nil {
			return err
		}
		if err := os.WriteFile("/run/holding", []byte("yes\n"), 0o600); err != nil {
			return err
		}
		for s := range signals {
			if s.Name == "org.freedesktop.login1.Manager.PrepareForShutdown" {
				// Slower than any reboot that does not wait.
				script := "sleep 1; echo flushed >/var/log/database"
				return errors.Join(command(ctx, script), os.NewFile(uintptr(held), "inhibitor").Close())
			}
		}
		return errors.New("the bus went away first")
	},
}

// rootVariable says where a pod has the host's root.
const rootVariable = "BUNSEN_LAB_ROOT"

// rebootText is what those who are logged in are told.
const rebootText = "machine config rendered-b, of commit 0123abc"

// play does what the variable says, instead of tests.
func play(role string) int {
	f, ok := roles[role]
	if !ok {
		fmt.Fprintf(os.Stderr, "there is no role %q\n", role)
		return 2
	}
	if err := f(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
