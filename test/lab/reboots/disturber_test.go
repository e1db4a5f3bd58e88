package reboots

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/test/lab"
)

// disturbances stop the daemon of a host, or what it talks to.
var disturbances = map[string]func(*disturber){
	// As systemctl kill, or a shutdown that begins by itself.
	"SIGTERM": func(d *disturber) { d.signal(daemon, syscall.SIGTERM) },
	"SIGKILL": func(d *disturber) { d.signal(daemon, syscall.SIGKILL) },
	"restart": func(d *disturber) { d.systemctl("restart", daemon) },
	"stop":    func(d *disturber) { d.systemctl("stop", daemon); d.systemctl("start", daemon) },
	// Every connection to logind ends before its answer. logind survives the bus, and does not find the next one.
	"no bus": func(d *disturber) {
		d.signal("dbus-daemon", syscall.SIGKILL)
		d.systemctl("restart", "systemd-logind")
	},
	"no logind": func(d *disturber) { d.signal("systemd-logind", syscall.SIGKILL) },
	"nothing":   func(*disturber) {},
}

// disturber does one thing to a host, some time after its update has entered a phase.
type disturber struct {
	h     *lab.Host
	what  string
	phase host.Phase
	after time.Duration
}

// String says what happens when.
func (d *disturber) String() string {
	return fmt.Sprintf("%q %s after the phase %q began", d.what, d.after, d.phase)
}

// run waits for the moment, and reports whether it came before the end of the update.
func (d *disturber) run(ctx context.Context) bool {
	journal := filepath.Join(d.h.Root, host.StateDir, "journal.json")
	want := fmt.Sprintf("%q:%q", "Phase", d.phase)
	for tick := time.NewTicker(time.Millisecond); ; {
		text, err := os.ReadFile(journal)
		if err == nil && strings.Contains(string(text), want) {
			break
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d.after):
		disturbances[d.what](d)
		return true
	}
}

// systemctl asks the host's systemd, and waits for no job. The host may be down by then.
func (d *disturber) systemctl(args ...string) {
	_, _ = d.h.Exec(context.Background(), append([]string{"systemctl", "--no-block"}, args...)...)
}

// signal sends a signal to the host's processes that run a program. Processes may have ended already.
func (d *disturber) signal(program string, sig syscall.Signal) {
	leader, errLeader := spaceOf(d.h.Leader())
	entries, err := os.ReadDir("/proc")
	if err != nil || errLeader != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || filepath.Base(exe) != program {
			continue
		}
		if space, err := spaceOf(pid); err == nil && space == leader {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// spaceOf is the PID namespace of a process.
func spaceOf(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)) }
