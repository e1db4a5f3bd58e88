package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/systemd"
	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lostanswer"
)

// lostVariable says which call of the role lost gets no answer, and lostLog is where that role writes its end.
const (
	lostVariable = "BUNSEN_LAB_LOST"
	lostLog      = "/var/log/lost-answer"
)

// lostAnswers has a real host reboot again and again, by its own systemd and logind. A proxy in front of its system bus
// loses the answer to another call each time. The host boots once each time, and no lost answer counts as a refusal.
func lostAnswers(t *testing.T, h *lab.Host) {
	for k := 1; ; k++ {
		before, next := bootID(t, h), h.Boots()+1
		if out, err := inside(t, h, "lost", "--setenv="+lostVariable+"="+strconv.Itoa(k)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		h.AwaitBoot(t.Context(), next)
		end := strings.TrimSpace(h.Do("cat", lostLog))
		if bootID(t, h) == before || h.Boots() != next || !strings.HasSuffix(end, "<nil>") {
			t.Fatalf("without an answer to call %d: %d boots, not %d: %s", k, h.Boots(), next, end)
		}
		t.Logf("without an answer to call %d: %s", k, end)
		if calls, _, _ := strings.Cut(end, " "); calls == strconv.Itoa(k-1) {
			return
		}
	}
}

// rebootWithLostAnswer requests a reboot as the daemon does, and looks before it requests the reboot again.
func rebootWithLostAnswer(ctx context.Context) error {
	signal.Ignore(syscall.SIGTERM) // The shutdown must not end it before it has written what it saw.
	k, err := strconv.Atoi(os.Getenv(lostVariable))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/run", "lost-")
	if err != nil {
		return err
	}
	const bus, private = "run/dbus/system_bus_socket", "run/systemd/private"
	for _, socket := range []string{bus, private} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, socket)), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/"+private, filepath.Join(dir, private)); err != nil {
		return err
	}
	proxy, err := lostanswer.ListenBus(filepath.Join(dir, bus), "/"+bus, func(n int, _ string) bool { return n == k })
	if err != nil {
		return err
	}
	defer proxy.Close()
	root, err := files.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	units := systemd.NewUnits(root, dir)
	defer units.Close()
	err = rebootOnce(ctx, systemd.NewPower(dir, units))
	calls := proxy.Calls()
	return os.WriteFile(lostLog, fmt.Appendf(nil, "%d calls %v: %v\n", len(calls), calls, err), 0o600)
}

// rebootOnce requests the reboot until the machine goes down, and returns the first answer that is a refusal.
func rebootOnce(ctx context.Context, p systemd.Power) error {
	var errs []error
	for range 4 {
		err := p.Reboot(ctx, rebootText)
		if err == nil {
			return nil
		}
		if errs = append(errs, err); !fault.IsUnknown(err) {
			break
		}
		if down, err := p.GoingDown(ctx); err == nil && down {
			return nil
		}
	}
	return errors.Join(errs...)
}
