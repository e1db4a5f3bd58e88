package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// The default limits of the health check.
const (
	// AfterReboot is how long a machine may take to be healthy after a reboot.
	AfterReboot = 5 * time.Minute
	// AfterActions is how long a machine may take to be healthy after services were reloaded or restarted.
	AfterActions = time.Minute
	// Settle is how long the machine must stay healthy.
	Settle = 10 * time.Second
	// pollInterval is the pause between two observations of a health check. The daemon polls only during a health
	// check.
	pollInterval = time.Second
	// callLimit is how long one call of a health check may take.
	callLimit = 5 * time.Second
)

// HealthUnits reports the state of systemd units.
type HealthUnits interface {
	// Active returns ActiveState, SubState and Result of a unit. A unit that does not exist is inactive.
	Active(ctx context.Context, name string) (state, sub, result string, err error)
}

// HealthOptions configures the health check after an update. The check skips parts that are nil. Durations of 0 have
// their default values.
type HealthOptions struct {
	// Units of the machine.
	Units HealthUnits
	// Kubelet returns nil if the kubelet is healthy.
	Kubelet func(ctx context.Context) error
	// API classifies the error of a call to the API server. If API is nil, the API server is not checked.
	API func(err error) health.API
	// AfterReboot, AfterActions and Settle replace the constants with these names.
	AfterReboot, AfterActions, Settle time.Duration
}

// healthChecker is the health check of an apply.Runner.
type healthChecker struct {
	options *HealthOptions
	files   state.Files
	log     *slog.Logger
	// readNode reads the Node from the API server.
	readNode func(ctx context.Context) error
	// When the context stop ends, the check ends without a result, and the daemon checks again after its next start.
	stop context.Context
	// started is the last attempt that this process started. counted is the attempt whose health check this process
	// counted last.
	started, counted state.Attempt
}

// newHealthChecker returns a health check. Without options, every config is healthy. The function readNode reads the
// Node from the API server.
func newHealthChecker(o *HealthOptions, files state.Files, log *slog.Logger,
	readNode func(ctx context.Context) error,
) *healthChecker {
	return &healthChecker{options: o, files: files, log: log, readNode: readNode, stop: context.Background()}
}

// stopWith makes a check end without a result when the context ends.
func (c *healthChecker) stopWith(ctx context.Context) { c.stop = ctx }

// start records that this process starts an attempt.
func (c *healthChecker) start(a state.Attempt) { c.started = a }

// check waits until the health of the machine with the new config of a journal is known. An error rejects the config.
func (c *healthChecker) check(ctx context.Context, rec host.Record) error {
	if c.options == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stop, cancel)()
	t, err := c.files.Task(rec.To)
	if err != nil { // The config is not the cause of an error in reading the disk.
		c.log.Warn("cannot read what was healthy before the update; checking only its units", "err", err)
	}
	if ill := c.countCheck(ctx, t); ill != nil {
		return c.reject(ctx, rec, ill)
	}
	ill, unknown := c.waitForResult(ctx, rec, t)
	switch {
	case unknown != nil:
		c.uncountCheck(ctx, t)
		return unknown
	case ill != nil:
		return c.reject(ctx, rec, ill)
	}
	return nil
}

// waitForResult observes the machine until its health is known; nil means healthy. If the context ends before a result,
// waitForResult returns the error of the context.
func (c *healthChecker) waitForResult(ctx context.Context, rec host.Record, t *state.Task) (*health.Failure, error) {
	o := c.options
	var before health.Before
	if t != nil {
		before = t.Before
	}
	before.API = before.API && health.Reboots(rec)
	watch := o.limits(health.Reboots(rec))
	c.log.Info("checking whether the machine is healthy", "config", rec.To, "settles", watch.Settle, "within",
		watch.Limit,
		"units", checkedUnits(rec, before), "kubelet", before.Kubelet && o.Kubelet != nil, "api", before.API &&
			o.API != nil)
	for answered := false; ; {
		seen := c.observe(ctx, rec, before, answered)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		answered = answered || seen.API == health.Answers
		done, ill := watch.Observe(time.Now(), seen)
		if done && ill == nil && seen.API == health.RefusedElsewhere {
			c.log.Warn("the API server refuses connections or fails; assuming an outage that the config did not cause",
				"err",
				seen.APIWhy)
		}
		if done {
			return ill, nil
		}
		if !sleep(ctx, pollInterval) {
			return nil, ctx.Err()
		}
	}
}

// limits returns the limits of the check after an update.
func (o *HealthOptions) limits(rebooted bool) health.Watch {
	w := health.Watch{Limit: cmp.Or(o.AfterActions, AfterActions), Settle: cmp.Or(o.Settle, Settle)}
	if rebooted {
		w.Limit = o.RebootLimit()
	}
	return w
}

// RebootLimit returns how long the machine may take to be healthy after a reboot.
func (o *HealthOptions) RebootLimit() time.Duration {
	if o == nil {
		return AfterReboot
	}
	return cmp.Or(o.AfterReboot, AfterReboot)
}

// observeBefore records which parts of the machine are healthy before an update, for the health check after the update.
func (c *healthChecker) observeBefore(ctx context.Context, steps []host.Step, api bool) (b health.Before) {
	if c.options == nil {
		return b
	}
	b.API = api
	if c.options.Kubelet != nil {
		err := call(ctx, c.options.Kubelet)
		if b.Kubelet = err == nil; err != nil {
			c.log.Warn("the kubelet is not healthy before the update; not checking it afterwards", "err", err)
		}
	}
	for _, u := range c.unitStates(ctx, health.UnitsOf(host.Record{Steps: steps})) {
		if why := u.Problem(); why != "" {
			b.Failed = append(b.Failed, u.Name)
			c.log.Warn("a unit is not healthy before the update; not checking it afterwards", "unit", u.Name, "why",
				why)
		}
	}
	return b
}

// call calls a function with the time limit of a health check.
func call(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return question(ctx)
}

// observe observes the machine once. observe does not call the API server again if the server has already answered.
func (c *healthChecker) observe(ctx context.Context, rec host.Record, before health.Before,
	answered bool,
) (s health.Observation) {
	s.Units = c.unitStates(ctx, checkedUnits(rec, before))
	if c.options.Kubelet != nil && before.Kubelet {
		if err := call(ctx, c.options.Kubelet); err != nil {
			s.Kubelet = err.Error()
		}
	}
	switch {
	case c.options.API == nil || !before.API:
	case answered:
		s.API = health.Answers
	default:
		err := call(ctx, c.readNode)
		if s.API = c.options.API(err); err != nil {
			s.APIWhy = err.Error()
		}
	}
	return s
}

// checkedUnits returns the units that must be healthy.
func checkedUnits(rec host.Record, before health.Before) []string {
	return slices.DeleteFunc(health.UnitsOf(rec), func(name string) bool {
		return slices.Contains(before.Failed, name)
	})
}

// unitStates returns the states of units.
func (c *healthChecker) unitStates(ctx context.Context, names []string) (units []health.Unit) {
	if c.options.Units == nil {
		return nil
	}
	for _, name := range names {
		u := health.Unit{Name: name}
		err := call(ctx, func(ctx context.Context) (err error) {
			u.State, u.Sub, u.Result, err = c.options.Units.Active(ctx, name)
			return err
		})
		if err != nil {
			u.Unknown = "asking systemd: " + err.Error()
		}
		units = append(units, u)
	}
	return units
}

// rebootText returns the reason of a reboot, as users who are logged in see it.
func (c *healthChecker) rebootText(rec host.Record) string {
	if rec.Phase == host.RollbackReboot {
		return "rolling back to machine config " + report.RollbackTarget(rec.From, rec.To) +
			", because the update to " + rec.To + " failed"
	}
	if t, err := c.files.Task(rec.To); err == nil && t != nil {
		return "machine config " + t.ConfigText()
	}
	return "machine config " + rec.To
}

// sleep waits for a duration and returns false when the context ended.
func sleep(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// reject stores the rejection before the rollback, so that a crash does not lose the reason.
func (c *healthChecker) reject(ctx context.Context, rec host.Record, ill *health.Failure) error {
	v := c.newRejection(rec, fmt.Sprintf("%s; %s", ill.Error(), failedUnitsText(ill.Units)))
	v.Unconfirmed = ill.Unconfirmed
	if err := c.files.Save(ctx, state.RejectionPath, v); err != nil {
		return errors.Join(ill, err)
	}
	c.log.Warn("rolling back", "config", rec.From, "from", rec.To, "why", ill.Error())
	return ill
}

// newRejection returns a final rejection of a journal's config.
func (c *healthChecker) newRejection(rec host.Record, why string) state.Rejection {
	v := state.Rejection{Config: rec.To, Time: time.Now().UTC().Truncate(time.Second), Attempt: rec.BootID}
	about := rec.To
	if t, err := c.files.Task(rec.To); err == nil && t != nil {
		about, v.Attempt = t.ConfigText(), strconv.Itoa(t.Attempt)
		v.Retry, v.RetryKnown = t.Node.Retry, true
	}
	if rec.Cause != host.Interrupted {
		why = "the machine is not healthy with it: " + why
	}
	v.Problem = fmt.Sprintf("%s; the node is back in %s", why, report.RollbackTarget(rec.From, rec.To))
	v.Why = fmt.Sprintf("updating to %s: %s; %s", about, v.Problem, retryText)
	return v
}

// rolledBack is called after a rollback. It stores the rejection, if the health check did not, and removes the force
// file, which works once. If a power cut may be the cause, it counts the attempt first.
func (c *healthChecker) rolledBack(rec host.Record, why error) error {
	ctx := context.Background()
	if ignored, err := c.isNotCounted(rec); err != nil || ignored {
		return err
	}
	v, err := c.files.Rejection()
	if err != nil {
		return err
	}
	if v == nil || v.Config != rec.To {
		v = &state.Rejection{Retries: true}
	}
	now := c.newRejection(rec, strings.TrimPrefix(why.Error(), apply.ErrUnhealthy.Error()+": "))
	if v.Retries && v.Attempt != now.Attempt {
		now.Attempts = v.Add(rec.Cause)
		now.Retries = rec.Cause != host.Unhealthy && !now.IsExhausted()
		if rec.Cause == host.Interrupted {
			counted := c.newRejection(rec, fmt.Sprintf("%d times, %v; see journalctl --list-boots and journalctl -b "+
				"-1 -e on the node", now.Interrupted, why))
			now.Why, now.Problem = counted.Why, counted.Problem
		}
		v = &now
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("storing the rejection: %w", err)
	}
	if err := c.files.Write(ctx, state.RejectionPath, text); err != nil {
		return err
	}
	return c.files.Remove(ctx, host.ForcePath)
}

// isNotCounted reports whether an interruption does not count against a config. isNotCounted does not count if there
// was no update, or if this process started the attempt and could not store the reason for the rollback.
func (c *healthChecker) isNotCounted(rec host.Record) (bool, error) {
	if rec.Cause != host.Interrupted {
		return false, nil
	}
	t, err := c.files.Task(rec.To)
	return t == nil || c.started == t.LastAttempt(), err
}

// countCheck counts a health check durably, once for each process. countCheck returns a failed check if the machine or
// the daemon went down during state.MaxHealthChecks checks. Without this count, such a config would never be
// rejected.
func (c *healthChecker) countCheck(ctx context.Context, t *state.Task) *health.Failure {
	if t == nil || c.counted == t.LastAttempt() {
		return nil
	}
	if t.Checks >= state.MaxHealthChecks {
		return &health.Failure{Problems: []string{fmt.Sprintf("the machine or the daemon went down during the health "+
			"check %d times", t.Checks)}}
	}
	c.counted = t.LastAttempt()
	t.Checks++
	c.saveCheckCount(ctx, t)
	return nil
}

// uncountCheck removes a health check from the count if the daemon was stopped during the check.
func (c *healthChecker) uncountCheck(ctx context.Context, t *state.Task) {
	if t != nil && c.counted == t.LastAttempt() {
		c.counted = state.Attempt{}
		t.Checks--
		c.saveCheckCount(context.WithoutCancel(ctx), t)
	}
}

// saveCheckCount stores the number of health checks.
func (c *healthChecker) saveCheckCount(ctx context.Context, t *state.Task) {
	if err := c.files.Save(ctx, state.TaskPath, t); err != nil {
		c.log.Warn("cannot save the number of health checks", "err", err)
	}
}

// failedUnitsText lists the commands that show why units failed.
func failedUnitsText(units []string) string {
	if len(units) == 0 {
		return "see journalctl -b -1 on the node"
	}
	return "see journalctl -u " + strings.Join(units, " -u ") + " on the node"
}

// retryText explains how a user retries a rejected config.
const retryText = "the daemon does not retry the config until the controller assigns another one. Fix or revert the " +
	"commit; or retry with `bunsen retry` or `touch " + host.ForcePath + "` on the node"
