package drift

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// Cluster is the part of the cluster that a scan uses.
type Cluster interface {
	// Node reads the Node.
	Node(ctx context.Context) (report.Node, error)
	// SetAnnotations sets annotations on the Node.
	SetAnnotations(ctx context.Context, annotations map[string]string) error
	// Rules reads the disruption policy.
	Rules(ctx context.Context) (plan.Rules, error)
	// DriftRules reads the drift policy for the nodes of a pool.
	DriftRules(ctx context.Context, pool string) (Policy, error)
}

// Watcher reports that another program may have changed files of the config on this machine, and whether a user logged
// in. Watcher does not report what has changed: a drift scan finds that.
type Watcher interface {
	// Watch replaces the watched paths. Watch also watches for paths, and directories above them, that do not exist
	// yet. A second call with the same paths does nothing. After an error, some of the paths are not watched.
	Watch(paths []string) error
	// Disturbed returns a channel with at most one signal. The watcher sends a signal when a watched path or its
	// directory changes, when the kernel has dropped change events, and when Accessed becomes true.
	Disturbed() <-chan struct{}
	// Accessed reports whether a user was logged in over SSH when the watcher started, or has logged in since.
	Accessed() bool
	// Modified returns when a path was last modified; zero if the path does not exist.
	Modified(path string) time.Time
}

// Scanner scans one machine for drift. Watcher may be nil; the other fields must be set.
type Scanner struct {
	// Host is the machine.
	Host host.Host
	// Cluster reads the policies, and writes drift reports to the Node.
	Cluster Cluster
	// Watcher watches the paths of the config in force, and the paths of Also.
	Watcher Watcher
	// Also are files beside the config. A scan does not compare the files of Also.
	Also []string
	// Log gets one line for each repair.
	Log *slog.Logger
	// OnStep is called after each step of a repair.
	OnStep func(step host.Step, undone bool)
	// Event emits an event about the Node.
	Event func(reason report.EventReason, format string, args ...any)
	// DriftedSince is called with the time at which the drift began; the zero time means that there is no drift.
	DriftedSince func(at time.Time)
}

// Check compares the machine with the config in force and follows the cluster's DriftPolicy. Check returns nil if
// nothing differs or the policy ignores all differences. The error is the reason for the state Degraded.
func (c Scanner) Check(ctx context.Context, at plan.Config, node report.Node) error {
	seen, err := c.run(ctx, at, nil)
	if err != nil {
		return err
	}
	if len(seen.Repair.Steps) > 0 {
		if err := c.repair(ctx, seen); err != nil {
			return errors.Join(err, c.report(ctx, node, seen))
		}
		fresh := seen.added
		if seen, err = c.run(ctx, at, nil); err != nil {
			return err
		}
		seen.added = append(fresh, seen.added...)
	}
	return c.report(ctx, node, seen)
}

// HasLogin reports whether this daemon or an earlier one found a user who was logged in over SSH.
func (c Scanner) HasLogin() (bool, error) {
	if c.Watcher != nil && c.Watcher.Accessed() {
		return true, nil
	}
	known, err := loadDrift(c.Host.Files)
	return known.Accessed, err
}

// BeforeUpdate handles drift at the start of an update from a config. BeforeUpdate returns the plan without the steps
// that would undo drift that the policy ignores. After a repair, repaired is true and the caller plans again. The error
// is the reason not to start the update.
func (c Scanner) BeforeUpdate(ctx context.Context, at plan.Config, way plan.Transition,
	p plan.Plan,
) (_ plan.Plan, repaired bool, _ error) {
	seen, err := c.run(ctx, at, &way.New)
	if err != nil {
		return p, false, err
	}
	if len(seen.Repair.Steps) > 0 {
		err := c.repair(ctx, seen)
		return p, err == nil, err
	}
	if reason := seen.Reason(v1alpha1.ConfigName(way.From)); reason != "" && !(p.Reboots() && seen.canBeOverwritten()) {
		c.Event(report.EventPreflightFailed, "%s", reason)
		if node, err := c.Cluster.Node(ctx); err == nil {
			return p, false, c.report(ctx, node, seen)
		}
		return p, false, &FoundError{reason}
	}
	return seen.WithoutTolerated(p, way.Old, way.New), false, nil
}

// AfterBoot returns what differs from a config in a way that the policy does not tolerate, and the plan without the
// steps that would undo differences which it tolerates. The transition is from the config to itself.
func (c Scanner) AfterBoot(ctx context.Context, at plan.Config, way plan.Transition,
	p plan.Plan,
) (_ plan.Plan, differ []string, _ error) {
	seen, err := c.run(ctx, at, nil)
	if err != nil {
		return p, nil, err
	}
	for _, v := range seen.Results {
		if v.Obstacle.Why == "" && (v.Action == v1alpha1.DriftDegrade || v.Action == v1alpha1.DriftRepair) {
			differ = append(differ, v.Name)
		}
	}
	return seen.WithoutTolerated(p, way.Old, way.New), differ, nil
}

// canBeOverwritten reports whether the policy repairs every item that degrades the node. An update that reboots may
// then overwrite these items.
func (s driftScan) canBeOverwritten() bool {
	for _, v := range s.Results {
		if v.Action == v1alpha1.DriftDegrade && v.Why == "" {
			return false
		}
	}
	return true
}
