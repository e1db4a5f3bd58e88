package systemd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/coreos/go-systemd/v22/dbus"
)

// Units enables units by their symlinks, and lets systemd reload and restart them.
type Units struct {
	Enablement
	bus *bus
}

// NewUnits returns the units of the machine whose root is mounted at a directory. NewUnits connects to systemd at the
// first use.
func NewUnits(root *files.Root, dir string) *Units {
	return &Units{Enablement: NewEnablement(root), bus: newBus(dir)}
}

func newBus(dir string) *bus {
	return &bus{address: socket(filepath.Join(dir, "run/systemd/private")), timeouts: defaultTimeouts}
}

// Close ends the connection to systemd.
func (u *Units) Close() { u.bus.close() }

// DaemonReload implements host.Units.
func (u *Units) DaemonReload(ctx context.Context) error {
	err := u.bus.do(ctx, u.bus.timeouts.reload, func(ctx context.Context, l *conn) error {
		return l.ReloadContext(ctx)
	})
	if err != nil {
		return fmt.Errorf("having systemd read unit files again: %w", err)
	}
	return nil
}

// Reload implements host.Units. On a node without CRI-O it does not reload crio.service.
func (u *Units) Reload(ctx context.Context, name string) error {
	if err := u.run(ctx, name, (*dbus.Conn).ReloadOrRestartUnitContext); err != nil {
		if distribution.IsOptional(name) && !u.exists(ctx, name) {
			return nil
		}
		return fmt.Errorf("reloading %s: %w", name, err)
	}
	return nil
}

// Restart implements host.Units. Restart first resets systemd's start counter of the unit, whose limit is for failing
// services: an update may restart a service several times. A unit that is not loaded has no start counter.
func (u *Units) Restart(ctx context.Context, name string) error {
	u.forgetFailures(ctx, name)
	if err := u.run(ctx, name, (*dbus.Conn).RestartUnitContext); err != nil && !u.hasOther(ctx, name) {
		return fmt.Errorf("restarting %s: %w", name, err)
	}
	return nil
}

// Stop implements host.Units. systemd would list a unit that failed as failed until a user resets it, also without a
// file.
func (u *Units) Stop(ctx context.Context, name string) error {
	if err := u.run(ctx, name, (*dbus.Conn).StopUnitContext); err != nil && u.exists(ctx, name) {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	u.forgetFailures(ctx, name)
	return nil
}

// forgetFailures resets a unit's state and its start counter after failures. Whoever starts the unit next finds out
// what is wrong.
func (u *Units) forgetFailures(ctx context.Context, name string) {
	_ = u.bus.do(ctx, u.bus.timeouts.ask, func(ctx context.Context, l *conn) error {
		return l.ResetFailedUnitContext(ctx, name)
	}) //nolint:errcheck // see above
}

// hasOther reports whether a unit does not exist because the node has another unit in its place. A rule for k3s or RKE2
// restarts the unit of servers and the unit of agents, but a node has only one of the two.
func (u *Units) hasOther(ctx context.Context, name string) bool {
	others := distribution.OtherUnits(name)
	if len(others) == 0 {
		return false
	}
	return !u.exists(ctx, name) && slices.ContainsFunc(others, func(name string) bool { return u.exists(ctx, name) })
}

// exists reports whether systemd knows a unit, or whether that is unknown.
func (u *Units) exists(ctx context.Context, name string) bool {
	is, err := u.properties(ctx, name)
	return err != nil || word(is, "LoadState") != "not-found"
}

// Active returns a unit's state (active, failed, …), its sub-state (running, …) and its last result (success,
// exit-code, …). The result is "" for kinds of units without a result. A unit that does not exist is inactive, dead and
// "".
func (u *Units) Active(ctx context.Context, name string) (state, sub, result string, err error) {
	is, err := u.properties(ctx, name)
	if err != nil {
		return "", "", "", fmt.Errorf("asking for the state of %s: %w", name, err)
	}
	if word(is, "LoadState") != "not-found" {
		result = word(is, "Result")
	}
	return word(is, "ActiveState"), word(is, "SubState"), result, nil
}

// isActiveOrQueued reports whether a unit is active or has a job.
func (u *Units) isActiveOrQueued(ctx context.Context, name string) (bool, error) {
	is, err := u.properties(ctx, name)
	if err != nil {
		return false, fmt.Errorf("asking for the state of %s: %w", name, err)
	}
	job, _ := is["Job"].([]any) // the number of the job, 0 for none, and its object
	id := uint32(0)
	if len(job) > 0 {
		id, _ = job[0].(uint32)
	}
	return id != 0 || word(is, "ActiveState") == "active", nil
}

func (u *Units) properties(ctx context.Context, name string) (is map[string]any, err error) {
	err = u.bus.do(ctx, u.bus.timeouts.ask, func(ctx context.Context, l *conn) (err error) {
		is, err = l.GetAllPropertiesContext(ctx, name)
		return err
	})
	return is, err
}

// word returns a text property; "" if it does not exist.
func word(is map[string]any, name string) string {
	text, _ := is[name].(string)
	return text
}

// queue is a method of systemd that queues a job and sends its result to a channel.
type queue func(*dbus.Conn, context.Context, string, string, chan<- string) (int, error)

// errJobLost reports that the result of a job is unknown, because systemd closed the connection.
var errJobLost = errors.New("systemd closed the connection before the end of the job")

// run queues a job and waits for its result. If the result gets lost, run queues the job again: systemd merges it with
// the job that is still queued, and otherwise repeats it, which does no harm. If the caller's deadline passes, run
// cancels the job. If the caller cancels its context, the job continues.
func (u *Units) run(ctx context.Context, name string, start queue) error {
	for n := 1; ; n++ {
		err := u.runOnce(ctx, name, start)
		if n == maxCalls || !errors.Is(err, errJobLost) {
			return err
		}
	}
}

func (u *Units) runOnce(ctx context.Context, name string, start queue) error {
	var id int
	var on *conn
	result := make(chan string, 1)
	err := u.bus.do(ctx, u.bus.timeouts.ask, func(ctx context.Context, l *conn) (err error) {
		on = l
		id, err = start(l.Conn, ctx, name, "replace", result)
		return err
	})
	if err != nil {
		return err
	}
	limited, done := context.WithTimeout(ctx, u.bus.timeouts.job)
	defer done()
	began := time.Now()
	select {
	case how := <-result:
		if how == "done" {
			return nil
		}
		return fmt.Errorf("the job ended as %s: %w", how, u.unitProblem(ctx, name, how))
	case <-on.lost:
		return fault.NewUnknown(fmt.Errorf("%w: see systemctl status %s", errJobLost, name))
	case <-limited.Done():
	}
	if !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	ctx = context.WithoutCancel(ctx)
	return fmt.Errorf("the job has not ended after %s and was cancelled: %w",
		time.Since(began).Round(time.Millisecond), errors.Join(u.unitProblem(ctx, name, ""), u.cancel(ctx, id)))
}

// cancel removes a job from systemd's queue. Processes of the job continue. It is not an error if the job has already
// ended.
func (u *Units) cancel(ctx context.Context, id int) error {
	err := u.bus.do(ctx, u.bus.timeouts.ask, func(ctx context.Context, l *conn) error {
		systemd := l.calls.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
		return systemd.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.CancelJob", 0, uint32(id)).
			Err //nolint:gosec // systemd's job numbers are uint32
	})
	if err != nil && !isDBusError(err, "org.freedesktop.systemd1.NoSuchJob") {
		return fmt.Errorf("cancelling job %d: %w", id, err)
	}
	return nil
}

// unitProblem describes the state of a unit like systemctl status. unitProblem omits the log of the unit, which may
// have secrets.
func (u *Units) unitProblem(ctx context.Context, name, how string) error {
	is, err := u.properties(ctx, name)
	if err != nil {
		return fmt.Errorf("asking for its state: %w", err)
	}
	said := []string{"it is " + word(is, "ActiveState") + " (" + word(is, "SubState") + ")"}
	for _, p := range []struct{ name, means string }{{"Result", "result"}, {"ReloadResult", "result of the reload"}} {
		if r := word(is, p.name); r != "" && r != "success" {
			said = append(said, p.means+" "+r)
		}
	}
	if end := exitText(is); end != "" {
		said = append(said, end)
	}
	if how == "dependency" {
		said = append(said, u.failedNeeds(ctx, is)...)
	}
	return errors.New(strings.Join(said, ", ") + ": see systemctl status " + name + " and journalctl -u " + name)
}

// exitText describes how a service's main process failed; empty if it did not fail.
func exitText(is map[string]any) string {
	code, _ := is["ExecMainCode"].(int32)
	status, _ := is["ExecMainStatus"].(int32)
	const exited, killed, dumped = 1, 2, 3 // These constants are codes of siginfo_t, which systemd uses.
	switch {
	case code == exited && status != 0:
		return fmt.Sprintf("its main process exited with %d", status)
	case code == killed || code == dumped:
		return fmt.Sprintf("its main process was ended by signal %d", status)
	}
	return ""
}

// failedNeeds names the required units that prevent the start of a unit.
func (u *Units) failedNeeds(ctx context.Context, is map[string]any) (said []string) {
	for _, kind := range []string{"Requires", "BindsTo", "Requisite"} {
		names, _ := is[kind].([]string)
		for _, name := range names {
			state, _, result, err := u.Active(ctx, name)
			if err == nil && state == "failed" {
				said = append(said, "it needs "+name+" that is failed (result "+result+")")
			}
		}
	}
	return said
}
