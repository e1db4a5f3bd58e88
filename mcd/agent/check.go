package agent

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

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

// HealthChecker is the health check of an apply.Runner.
type HealthChecker struct {
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

// NewHealthChecker returns a Checker. Without options, every config is healthy. readNode reads the Node from the API
// server.
func NewHealthChecker(o *HealthOptions, files state.Files, log *slog.Logger,
	readNode func(ctx context.Context) error,
) *HealthChecker {
	return &HealthChecker{options: o, files: files, log: log, readNode: readNode, stop: context.Background()}
}

// StopWith makes a check end without a result when the context ends.
func (c *HealthChecker) StopWith(ctx context.Context) { c.stop = ctx }

// Start records that this process starts an attempt.
func (c *HealthChecker) Start(a state.Attempt) { c.started = a }

// Check waits until the health of the machine with the new config of a journal is known. An error rejects the config.
func (c *HealthChecker) Check(ctx context.Context, rec host.Record) error {
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
func (c *HealthChecker) waitForResult(ctx context.Context, rec host.Record, t *state.Task) (*health.Failure, error) {
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

// ObserveBefore records which parts of the machine are healthy before an update, for the health check after the update.
func (c *HealthChecker) ObserveBefore(ctx context.Context, steps []host.Step, api bool) (b health.Before) {
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
func (c *HealthChecker) observe(ctx context.Context, rec host.Record, before health.Before,
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
func (c *HealthChecker) unitStates(ctx context.Context, names []string) (units []health.Unit) {
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

// RebootText returns the reason of a reboot, as users who are logged in see it.
func (c *HealthChecker) RebootText(rec host.Record) string {
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
