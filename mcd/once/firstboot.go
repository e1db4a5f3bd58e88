package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/record"
	"github.com/bunsen-os/bunsen/policy"
)

// EncapsulatedPath is the MachineConfig that the server appends to what Ignition writes, with its Ignition emptied: OS
// image, kernel arguments and type, extensions, which Ignition cannot carry. It is gone, or has BackupSuffix, when the
// machine's OS is so.
const (
	EncapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
	BackupSuffix     = ".bak"
)

// fipsPath says 1 where the running kernel is in FIPS mode.
const fipsPath = "/proc/sys/crypto/fips_enabled"

// FirstBoot brings a new machine's OS to its first config, before it joins its cluster. End is Nothing where that was so
// already, or where there is nothing to read; Rebooting where it is staged; New once it runs. It can be killed at any line
// and is called again until it ends in one of them. A journal of another update is left to the daemon. Errors, refusals
// among them, begin nothing and are tried again. Before a config is staged that some tries did not bring, which is counted
// on disk, rest is asked to let time pass: a reboot that came up without it is such a try, and so is a machine that went down
// while it was staged, but for the first time. Its error ends the call. No rest is none.
func FirstBoot(ctx context.Context, r apply.Runner, rest func(ctx context.Context, tries int) error) (apply.Applied, error) {
	left, err := r.Host.Journal.Load()
	if err != nil {
		return apply.Applied{}, fmt.Errorf("reading the journal: %w", err)
	}
	switch {
	case left != nil && !isFirstBoot(*left):
		return apply.Applied{End: apply.Nothing}, nil
	case left != nil:
		return recovered(ctx, r)
	}
	mc, kept, err := encapsulated(r.Host.Files)
	if err == nil && mc == nil {
		err = forgetTries(r.Host.Files, firstBootTries)
	}
	if err != nil || mc == nil {
		return apply.Applied{End: apply.Nothing}, err
	}
	p, err := firstBootPlan(ctx, r.Host, *mc)
	if err != nil {
		return apply.Applied{}, err
	}
	vain, err := triesOf(r.Host.Files, firstBootTries, mc.Name)
	if err != nil {
		return apply.Applied{}, err
	}
	if n := vain.fruitless(); p.Stages() && n > 0 && rest != nil {
		if err := rest(ctx, n); err != nil {
			return apply.Applied{}, err
		}
		return FirstBoot(ctx, r, nil) // the file or the OS may be another by now
	}
	p.Steps = append(p.Steps, host.Step{Verb: host.Remove, Target: EncapsulatedPath, Before: host.Value{Entry: kept}})
	if !p.Stages() {
		done, err := r.Run(context.WithoutCancel(ctx), p, nil)
		if done.End == apply.New {
			done.End = apply.Nothing // it was so
		}
		return done, err
	}
	backup, err := r.Host.Files.Stat(EncapsulatedPath + BackupSuffix)
	if err != nil {
		return apply.Applied{}, fmt.Errorf("looking at %s: %w", EncapsulatedPath+BackupSuffix, err)
	}
	if backup != kept {
		p.Steps = append(p.Steps, host.Step{Verb: host.Write, Target: EncapsulatedPath + BackupSuffix, Before: host.Value{Entry: backup}, After: host.Value{Entry: kept}})
	}
	p.Steps = append(p.Steps, host.Step{Verb: host.Reboot})
	return r.Run(context.WithoutCancel(ctx), p, nil)
}

// recovered ends what an earlier FirstBoot has begun, and counts it where it was in vain.
func recovered(ctx context.Context, r apply.Runner) (apply.Applied, error) {
	var uncounted error
	r.Rejected = func(rec host.Record, why error) error {
		uncounted = count(r.Host.Files, firstBootTries)(rec, why)
		return nil // no reason not to go back
	}
	done, err := r.Recover(context.WithoutCancel(ctx))
	if uncounted != nil {
		done.Why = errors.Join(done.Why, fmt.Errorf("counting the tries that were in vain: %w", uncounted))
	}
	if err != nil || done.End != apply.New {
		return done, err
	}
	return done, forgetTries(r.Host.Files, firstBootTries)
}

// isFirstBoot tells a journal of FirstBoot from the daemon's.
func isFirstBoot(rec host.Record) bool {
	return slices.ContainsFunc(rec.Steps, func(s host.Step) bool { return s.Target == EncapsulatedPath && s.Verb == host.Remove })
}

// encapsulated reads what the server appended; nil where there is nothing, which is so after it has been applied.
func encapsulated(files host.Files) (*mcfgv1.MachineConfig, host.Entry, error) {
	is, err := files.Stat(EncapsulatedPath)
	if err != nil {
		return nil, is, fmt.Errorf("looking at %s: %w", EncapsulatedPath, err)
	}
	text, err := files.Read(EncapsulatedPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, is, nil
	}
	var mc mcfgv1.MachineConfig
	if err == nil {
		err = json.Unmarshal(text, &mc)
	}
	if err == nil && mc.Name == "" {
		err = errors.New("it has no metadata.name")
	}
	if err != nil {
		return nil, is, fmt.Errorf("reading %s: %w; restore it from what the server serves, or remove it if the machine's OS is as its pool wants", EncapsulatedPath, err)
	}
	mc.Spec.Config = runtime.RawExtension{} // Ignition has done its part
	return &mc, is, nil
}

// firstBootPlan stages what differs between what runs and the config. No record is written: this is not all of the config,
// and the daemon writes the whole one when the node has joined.
func firstBootPlan(ctx context.Context, h host.Host, mc mcfgv1.MachineConfig) (plan.Plan, error) {
	to, err := record.Named(mc)
	if err == nil {
		err = errors.Join(machineconfig.Check(to.Config)...)
	}
	if err != nil {
		return plan.Plan{}, err
	}
	fips := to.Config.FIPS
	to.Config.FIPS = false // asked for by itself: the machine was installed with it or not
	way, observed, err := survey(ctx, h, plan.Named{}, to)
	if err != nil {
		return plan.Plan{}, err
	}
	target := plan.Target(observed, way.Old, way.New)
	if !observed.Support.Kargs && hasArguments(observed.OS.Kargs, target.OS.Kargs) {
		target.OS.Kargs = observed.OS.Kargs // Ignition or the installer has set them, in an order of its own
	}
	p := plan.Diff(observed, target, plan.Ask{To: way.To, Problems: way.Refusals})
	if fips {
		if on, err := h.Files.Read(fipsPath); err != nil || strings.TrimSpace(string(on)) != "1" {
			p.Refusals = append(p.Refusals, policy.OnNode(policy.CheckSystem, "fips", "the machine runs without FIPS mode, which is chosen when it is installed: install it with fips=1, or take fips out of its configs"))
		}
	}
	if len(p.Refusals) > 0 {
		return p, Refused(p.Refusals)
	}
	if p.Stages() {
		p.Disruption = policy.Reboot
	}
	return p, nil
}

// hasArguments reports whether a kernel that runs with one list of arguments has all of another.
func hasArguments(running, wanted string) bool {
	all := host.SplitArgs(running)
	return !slices.ContainsFunc(host.SplitArgs(wanted), func(a string) bool { return !slices.Contains(all, a) })
}

// Refused is the error of a plan that is refused: it wraps apply.ErrRefused and lists every reason.
func Refused(refusals []policy.Refusal) error {
	var why []string
	for _, r := range refusals {
		why = append(why, strings.TrimLeft(r.Field+": "+r.Why, ": "))
	}
	return fmt.Errorf("%w: %s", apply.ErrRefused, strings.Join(why, "; "))
}
