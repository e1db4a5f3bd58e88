package drift

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
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
	if reason := seen.Reason(v1alpha1.ParseConfigVersion(way.From).Config); reason != "" &&
		!(p.Reboots() && seen.canBeOverwritten()) {
		c.Event(report.EventPreflightFailed, "%s", reason)
		if node, err := c.Cluster.Node(ctx); err == nil {
			return p, false, c.report(ctx, node, seen)
		}
		return p, false, seen.found(reason)
	}
	return seen.WithoutTolerated(p, way.Old, way.New), false, nil
}

// AfterBoot returns what differs from a config in a way that the policy neither tolerates nor repairs, and the plan
// without the steps that would undo differences which it tolerates. The transition is from the config to itself. An OS
// brings only defaults of /etc.
func (c Scanner) AfterBoot(ctx context.Context, at plan.Config, way plan.Transition,
	p plan.Plan,
) (_ plan.Plan, differ []string, _ error) {
	seen, err := c.run(ctx, at, nil)
	if err != nil {
		return p, nil, err
	}
	for _, v := range seen.Results {
		elsewhere := v.isPath() && !strings.HasPrefix(v.Step.Target, "/etc/")
		if v.Obstacle.Why == "" && v.Action == v1alpha1.DriftDegrade && !elsewhere {
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

// driftScan is the result of one drift scan: the differences, and the action for each.
type driftScan struct {
	Decision
	// config is the name of the config in force, without the revision of its secrets.
	config string
	// files are the files that differ, and expected are their contents by the config, by path.
	files    map[string]Observed
	expected map[string][]byte
	// added are the results that the previous scan did not contain.
	added []Result
}

// run compares the machine with its config, decides what to do, and saves the result. A path that already has
// the content and mode of the next config has not drifted.
func (c Scanner) run(ctx context.Context, at plan.Config, next *plan.Desired) (driftScan, error) {
	accounts, err := apply.Accounts(ctx, c.Host)
	if err != nil {
		return driftScan{}, err
	}
	wanted, err := plan.KeysInForce(plan.DesiredOf(at.Config, accounts), c.Host.Files.Stat)
	if err != nil {
		return driftScan{}, fmt.Errorf("finding the files with SSH keys: %w", err)
	}
	here, err := apply.Place(c.Host, plan.Transition{From: at.Name, Old: wanted, New: wanted})
	if err != nil {
		return driftScan{}, err
	}
	f := Facts{Config: at, Wanted: here.New}
	if next == nil {
		next = &f.Wanted
	}
	c.watchPaths(ctx, f.Wanted) // The paths are watched before they are observed, so that the scan misses no change.
	scope := plan.ScopeOf(f.Wanted)
	// A file may have changed during the observation, so the scan tries once more.
	if f.Observed, err = apply.Observe(ctx, c.Host, scope); err != nil {
		f.Observed, err = apply.Observe(ctx, c.Host, scope)
	}
	if err != nil {
		return driftScan{}, err
	}
	f.Items = Items(f.Observed, f.Wanted, *next)
	known, err := loadDrift(c.Host.Files)
	if err != nil {
		return driftScan{}, err
	}
	before, config := known, v1alpha1.ParseConfigVersion(at.Name).Config
	known = c.withRules(ctx, config, known)
	f.Policy, f.Rules, f.Memory = known.Policy, known.Rules, known.Memory
	var expected map[string][]byte
	f.Files, expected = c.readDrifted(f)
	s := driftScan{Decision: Decide(f, time.Now()), config: config, files: f.Files, expected: expected}
	for _, v := range s.Results {
		if before.Memory.Things[v.Name].Since.IsZero() && v.Action != v1alpha1.DriftIgnore {
			s.added = append(s.added, v)
		}
	}
	known.Memory = s.Memory
	known.Accessed = known.Accessed || c.Watcher != nil && c.Watcher.Accessed()
	before.Diffs = c.announceDiffs(before, s)
	known.Diffs = c.writeDiffs(ctx, s, before.Diffs)
	known.Report, _ = s.Report(config)
	if err := c.save(before, known); err != nil {
		if len(s.Repair.Steps) > 0 {
			// The state must be saved first, because a repair that is not counted could repeat for ever.
			return driftScan{}, err
		}
		c.Log.Warn("cannot save the drift state", "err", err)
	}
	return s, nil
}

// writeDiffs writes the redacted difference of each reported path and removes outdated files. The files are only for
// users, so writeDiffs logs a failed write and continues.
func (c Scanner) writeDiffs(ctx context.Context, s driftScan, before []string) (written []string) {
	c.Host.Disk.Batch() // A batch needs only one flush for all files.
	defer func() {
		if err := c.Host.Disk.Flush(ctx); err != nil {
			c.Log.Warn("writing differences for people", "err", err)
		}
	}()
	for _, v := range s.Results {
		if !hasDiff(v) {
			continue
		}
		text := []byte(Diff(v, s.config, s.expected[v.Name], s.files[v.Name].Contents))
		if is, err := c.Host.Files.Read(diffPath(v.Name)); err == nil && bytes.Equal(is, text) {
			written = append(written, v.Name)
			continue
		}
		if err := c.writeFile(diffPath(v.Name), text); err != nil {
			c.Log.Warn("writing a difference for people", "path", v.Name, "err", err)
			continue
		}
		written = append(written, v.Name)
	}
	for _, p := range before {
		if slices.Contains(written, p) {
			continue
		}
		if err := c.Host.Files.Remove(diffPath(p)); err != nil {
			c.Log.Warn("removing a difference that is no more", "path", p, "err", err)
		}
	}
	return written
}

// announceDiffs saves the paths of the differences that are written next, so that a later scan removes them also if the
// daemon stops before it saves the rest. It returns all paths with a difference in Dir.
func (c Scanner) announceDiffs(before driftState, s driftScan) []string {
	now := before
	now.Diffs = slices.Clone(before.Diffs)
	for _, v := range s.Results {
		if hasDiff(v) && !slices.Contains(now.Diffs, v.Name) {
			now.Diffs = append(now.Diffs, v.Name)
		}
	}
	if err := c.save(before, now); err != nil {
		c.Log.Warn("cannot save the drift state", "err", err)
	}
	return now.Diffs
}

// watchPaths watches the paths of a config and the links that enable its units. If the config has users or groups,
// watchPaths also watches the account files.
func (c Scanner) watchPaths(ctx context.Context, want plan.Desired) {
	if c.Watcher == nil {
		return
	}
	paths := append(slices.Collect(maps.Keys(want.Paths)), host.ForcePath, host.RecordPath)
	paths = append(paths, c.Also...)
	for name, u := range want.Units {
		if u.Enabled == nil {
			continue
		}
		is, err := c.Host.Units.Status(ctx, name)
		if err != nil { // apply.Observe reports this error.
			continue
		}
		paths = append(append(paths, plan.UnitPath(name)), unitLinks(name, is.Install)...)
	}
	if len(want.Users)+len(want.Groups) > 0 {
		paths = append(paths, host.PasswdPath, host.GroupPath, host.ShadowPath)
	}
	if err := c.Watcher.Watch(paths); err != nil {
		c.Log.Warn("some paths are not watched; the periodic scan finds their changes", "err", err)
	}
}

// linkDirs are the suffixes of the directories in which systemd expects a unit's links, by the [Install] key that
// requires the link.
var linkDirs = map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires", "UpheldBy": ".upholds"}

// unitLinks returns the paths of the links that enable a unit, from its [Install] section.
func unitLinks(name, install string) (links []string) {
	linked := name
	for line := range strings.Lines(install) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "DefaultInstance" {
			linked = strings.Replace(name, "@.", "@"+value+".", 1)
		}
	}
	for line := range strings.Lines(install) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if dir, pulled := linkDirs[key]; pulled {
			links = append(links, path.Join(host.UnitDir, value+dir, linked))
		} else if key == "Alias" {
			links = append(links, path.Join(host.UnitDir, value))
		}
	}
	return links
}

// withRules returns the stored state with the cluster's drift policy and disruption policy. While the API server does
// not answer, the last known policies stay in use.
func (c Scanner) withRules(ctx context.Context, config string, known driftState) driftState {
	p, err := c.Cluster.DriftRules(ctx, v1alpha1.RenderedPool(config))
	if !errors.Is(err, report.ErrUnreachable) {
		known.Policy = p
		// Ignoring an unreadable policy is safe: more drift degrades the node, and less drift is repaired.
		if err != nil {
			c.Log.Warn("cannot read every drift policy; the others stay in use", "err", err)
		}
	}
	rules, err := c.Cluster.Rules(ctx)
	if err == nil {
		known.Rules = rules.Policy
	} else if !errors.Is(err, report.ErrUnreachable) { // The cause of this error is not on this node.
		c.Log.Warn("cannot read the disruption policy; repairs use the last known one", "err", err)
	}
	return known
}

// readDrifted reads the files that differ, and returns what the config wants them to have. The next scan handles a file
// that is removed meanwhile.
func (c Scanner) readDrifted(f Facts) (files map[string]Observed, expected map[string][]byte) {
	files, expected = map[string]Observed{}, map[string][]byte{}
	want := plan.Target(f.Observed, f.Wanted, f.Wanted)
	maps.Copy(want.Contents, f.Wanted.Contents)
	for _, it := range f.Items {
		if !path.IsAbs(it.Name) {
			continue
		}
		var is Observed
		if c.Watcher != nil {
			is.Modified = c.Watcher.Modified(it.Name)
		}
		if it.Step.Before.Entry.Kind == host.File {
			contents, err := c.Host.Files.Read(it.Name)
			is.Contents, is.Unread = contents, err != nil
		}
		files[it.Name], expected[it.Name] = is, want.Contents[it.Step.After.Entry.Digest]
	}
	return files, expected
}

// repair applies the steps of the decision. It uses its own runner without a health check: a failed
// repair must not reject the config in force.
func (c Scanner) repair(ctx context.Context, s driftScan) error {
	for _, step := range s.Repair.Steps {
		c.Log.Info("repairing drift", "config", s.config, "step", step.String())
	}
	runner := apply.Runner{
		Host: c.Host, OnStep: c.OnStep, OnWarning: func(err error) { c.Log.Warn(err.Error()) },
	}
	done, err := runner.Run(context.WithoutCancel(ctx), s.Repair, s.Contents)
	if err == nil && done.End != apply.New {
		err = done.Why
	}
	if err != nil {
		return fmt.Errorf("repairing drift from %s: %w", s.config, err)
	}
	return nil
}

// driftedSince returns the time of the oldest difference that is not ignored; zero if there is none.
func (s driftScan) driftedSince() (at time.Time) {
	for _, v := range s.Results {
		if v.Action != v1alpha1.DriftIgnore && (at.IsZero() || v.Since.Before(at)) {
			at = v.Since
		}
	}
	return at
}

// FoundError is the error for a machine that differs from its config in a way that the policy does not tolerate.
type FoundError struct {
	reason string
	// Problem is what somebody changed, in a sentence without advice; "" if only the error has it.
	Problem string
}

// Error says what differs, and what to do.
func (e *FoundError) Error() string { return e.reason }

// found returns the error with that reason.
func (s driftScan) found(reason string) *FoundError {
	report, _ := s.Report(s.config)
	return &FoundError{reason, report.ByHand()}
}

// report reports the differences: on the Node, as an event and as a metric. If a report does not reach the API
// server, the next scan repeats the report. The error is the reason for the state Degraded.
func (c Scanner) report(ctx context.Context, node report.Node, s driftScan) error {
	text := ""
	if report, ok := s.Report(s.config); ok {
		var err error
		if text, err = Encode(report); err != nil {
			return fmt.Errorf("writing the report of drift: %w", err)
		}
	}
	if len(s.added) > 0 {
		what := Summary(s.config, s.added)
		c.Log.Warn("drift", "what", what)
		c.Event(report.EventDriftDetected, "%s", what)
	}
	c.DriftedSince(s.driftedSince())
	var untold error
	if text != node.Drift {
		if text == "" {
			c.Log.Info("the drift has ended", "config", s.config)
		}
		if err := c.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.DriftAnnotation: text}); err != nil &&
			!errors.Is(err, report.ErrUnreachable) {
			untold = fmt.Errorf("reporting drift: %w", err)
		}
	}
	if reason := s.Reason(s.config); reason != "" {
		return errors.Join(s.found(reason), untold)
	}
	return untold
}
