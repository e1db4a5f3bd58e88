package linux

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// LiveUnits enables units by their symlinks, and has systemd itself reload and restart them.
type LiveUnits struct {
	Enablement
	bus *bus
}

// DaemonReload implements host.Units.
func (u *LiveUnits) DaemonReload(ctx context.Context) error {
	err := u.bus.do(ctx, u.bus.patience.reload, func(ctx context.Context, l *line) error { return l.ReloadContext(ctx) })
	if err != nil {
		return fmt.Errorf("having systemd read unit files again: %w", err)
	}
	return nil
}

// Reload implements host.Units.
func (u *LiveUnits) Reload(ctx context.Context, name string) error {
	if err := u.run(ctx, name, (*dbus.Conn).ReloadOrRestartUnitContext); err != nil {
		return fmt.Errorf("reloading %s: %w", name, err)
	}
	return nil
}

// Restart implements host.Units. An update may restart a service several times, so systemd first forgets how often it was
// started: its limit is for services that fail. A unit that is not loaded has nothing to forget.
func (u *LiveUnits) Restart(ctx context.Context, name string) error {
	_ = u.bus.do(ctx, u.bus.patience.ask, func(ctx context.Context, l *line) error { return l.ResetFailedUnitContext(ctx, name) }) //nolint:errcheck // the restart reports what is wrong
	if err := u.run(ctx, name, (*dbus.Conn).RestartUnitContext); err != nil {
		return fmt.Errorf("restarting %s: %w", name, err)
	}
	return nil
}

// Active tells a unit's state (active, failed, …), its sub-state (running, …) and how it last ended (success, exit-code,
// …; "" for a unit of a kind that does not end). A unit that is not there is inactive, dead and "".
func (u *LiveUnits) Active(ctx context.Context, name string) (state, sub, result string, err error) {
	is, err := u.properties(ctx, name)
	if err != nil {
		return "", "", "", fmt.Errorf("asking for the state of %s: %w", name, err)
	}
	if word(is, "LoadState") != "not-found" {
		result = word(is, "Result")
	}
	return word(is, "ActiveState"), word(is, "SubState"), result, nil
}

func (u *LiveUnits) properties(ctx context.Context, name string) (is map[string]any, err error) {
	err = u.bus.do(ctx, u.bus.patience.ask, func(ctx context.Context, l *line) (err error) {
		is, err = l.GetAllPropertiesContext(ctx, name)
		return err
	})
	return is, err
}

// word is a property that is text; "" where there is none.
func word(is map[string]any, name string) string {
	text, _ := is[name].(string)
	return text
}

// queue is a method that queues a job, and has its result sent.
type queue func(*dbus.Conn, context.Context, string, string, chan<- string) (int, error)

// run queues a job and waits for its result. The caller's deadline is a limit for the job too; a caller who gives up for
// another reason leaves the job alone.
func (u *LiveUnits) run(ctx context.Context, name string, start queue) error {
	var id int
	var on *line
	result := make(chan string, 1)
	err := u.bus.do(ctx, u.bus.patience.ask, func(ctx context.Context, l *line) (err error) {
		on = l
		id, err = start(l.Conn, ctx, name, "replace", result)
		return err
	})
	if err != nil {
		return err
	}
	limited, done := context.WithTimeout(ctx, u.bus.patience.job)
	defer done()
	began := time.Now()
	select {
	case how := <-result:
		if how == "done" {
			return nil
		}
		return fmt.Errorf("the job ended as %s: %w", how, u.why(ctx, name, how))
	case <-on.lost:
		return errors.New("systemd closed the connection before it told how the job ended: see systemctl status " + name)
	case <-limited.Done():
	}
	if !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	ctx = context.WithoutCancel(ctx)
	return fmt.Errorf("the job has not ended after %s and was cancelled: %w",
		time.Since(began).Round(time.Millisecond), errors.Join(u.why(ctx, name, ""), u.cancel(ctx, id)))
}

// cancel takes a job out of systemd's queue. What was started for it goes on; one that has ended meanwhile is no error.
func (u *LiveUnits) cancel(ctx context.Context, id int) error {
	err := u.bus.do(ctx, u.bus.patience.ask, func(ctx context.Context, l *line) error {
		systemd := l.calls.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
		return systemd.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.CancelJob", 0, uint32(id)).Err //nolint:gosec // systemd's job numbers are uint32
	})
	if err != nil && !isDBusError(err, "org.freedesktop.systemd1.NoSuchJob") {
		return fmt.Errorf("cancelling job %d: %w", id, err)
	}
	return nil
}

// why says of a unit what systemctl status would, without a word of what the unit itself said: that may be secret.
func (u *LiveUnits) why(ctx context.Context, name, how string) error {
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
	if end := ending(is); end != "" {
		said = append(said, end)
	}
	if how == "dependency" {
		said = append(said, u.failedNeeds(ctx, is)...)
	}
	return errors.New(strings.Join(said, ", ") + ": see systemctl status " + name + " and journalctl -u " + name)
}

// ending says how a service's main process ended, where it did so badly.
func ending(is map[string]any) string {
	code, _ := is["ExecMainCode"].(int32)
	status, _ := is["ExecMainStatus"].(int32)
	const exited, killed, dumped = 1, 2, 3 // of siginfo_t, as systemd has them
	switch {
	case code == exited && status != 0:
		return fmt.Sprintf("its main process exited with %d", status)
	case code == killed || code == dumped:
		return fmt.Sprintf("its main process was ended by signal %d", status)
	}
	return ""
}

// failedNeeds names those of the units that a unit needs which keep it from starting.
func (u *LiveUnits) failedNeeds(ctx context.Context, is map[string]any) (said []string) {
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
