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
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// EncapsulatedPath is the MachineConfig that the server adds to the first config, without its Ignition: the OS image,
// kernel arguments, kernel type and extensions, which Ignition does not support. Once the machine's OS has these
// settings, the file is removed or renamed with BackupSuffix.
const (
	EncapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
	BackupSuffix     = ".bak"
)

// fipsPath has a 1 if the kernel runs in FIPS mode.
const fipsPath = "/proc/sys/crypto/fips_enabled"

// FirstBoot brings the OS of a new machine to its first config, before the machine joins its cluster. The process can
// be killed at any line. The caller calls FirstBoot again until Applied.End is one of these:
//
//	Nothing    the OS had the config already, there is no config to read, or the journal is about another update, which the daemon ends
//	Rebooting  the OS is staged
//	New        the OS runs
//
// An error or a refusal starts nothing, and the caller retries. A file on disk counts the failed attempts: the machine
// rebooted without the staged OS, or went down while the OS was staged. The first interruption does not count. Before
// the attempt after a failed one, FirstBoot calls the function rest with the number of failed attempts. If rest returns
// an error, FirstBoot ends. If rest is nil, there is no pause.
func FirstBoot(ctx context.Context, r apply.Runner,
	rest func(ctx context.Context, tries int) error,
) (apply.Applied, error) {
	left, err := r.Host.Journal.Load()
	switch {
	case err != nil:
		return apply.Applied{}, fmt.Errorf("reading the journal: %w", err)
	case left != nil && !isFirstBoot(*left):
		return apply.Applied{End: apply.Nothing}, nil
	case left != nil:
		return recovered(ctx, r)
	}
	mc, kept, err := encapsulated(r.Host.Files)
	if err == nil && mc == nil {
		err = clearAttempts(r.Host.Files, firstBootAttempts)
	}
	if err != nil || mc == nil {
		return apply.Applied{End: apply.Nothing}, err
	}
	p, err := firstBootPlan(ctx, r.Host, *mc)
	if err != nil {
		return apply.Applied{}, err
	}
	earlier, err := loadAttempts(r.Host.Files, firstBootAttempts, mc.Name)
	if err != nil {
		return apply.Applied{}, err
	}
	if n := earlier.Fruitless(); p.Stages() && n > 0 && rest != nil {
		if err := rest(ctx, n); err != nil {
			return apply.Applied{}, err
		}
		// FirstBoot starts again, because the file or the OS may have changed during the pause.
		return FirstBoot(ctx, r, nil)
	}
	return applyFirstBoot(ctx, r, p, kept)
}

// applyFirstBoot applies the plan of a first boot and removes the server's file, whose entry is the parameter kept. If
// the plan stages an OS, applyFirstBoot backs the file up and reboots.
func applyFirstBoot(ctx context.Context, r apply.Runner, p plan.Plan, kept host.Entry) (apply.Applied, error) {
	p.Steps = append(p.Steps, host.Step{Verb: host.Remove, Target: EncapsulatedPath, Before: host.Value{Entry: kept}})
	if !p.Stages() {
		done, err := r.Run(context.WithoutCancel(ctx), p, nil)
		if done.End == apply.New {
			done.End = apply.Nothing // The OS had the config already.
		}
		return done, err
	}
	backup, err := r.Host.Files.Stat(EncapsulatedPath + BackupSuffix)
	if err != nil {
		return apply.Applied{}, fmt.Errorf("reading %s: %w", EncapsulatedPath+BackupSuffix, err)
	}
	if backup != kept {
		p.Steps = append(p.Steps, host.Step{
			Verb: host.Write, Target: EncapsulatedPath + BackupSuffix,
			Before: host.Value{Entry: backup}, After: host.Value{Entry: kept},
		})
	}
	p.Steps = append(p.Steps, host.Step{Verb: host.Reboot})
	return r.Run(context.WithoutCancel(ctx), p, nil)
}

// recovered finishes or rolls back the update of an earlier FirstBoot. recovered counts a failed attempt.
func recovered(ctx context.Context, r apply.Runner) (apply.Applied, error) {
	var uncounted error
	r.OnRejected = func(rec host.Record, why error) error {
		uncounted = countAttempt(r.Host.Files, firstBootAttempts)(rec, why)
		return nil // An error in counting does not stop the rollback.
	}
	done, err := r.Recover(context.WithoutCancel(ctx))
	if uncounted != nil {
		done.Why = errors.Join(done.Why, fmt.Errorf("counting the attempts: %w", uncounted))
	}
	if err != nil || done.End != apply.New {
		return done, err
	}
	return done, clearAttempts(r.Host.Files, firstBootAttempts)
}

// isFirstBoot reports whether FirstBoot wrote a journal; otherwise the daemon wrote it.
func isFirstBoot(rec host.Record) bool {
	return slices.ContainsFunc(rec.Steps, func(s host.Step) bool {
		return s.Target == EncapsulatedPath && s.Verb == host.Remove
	})
}

// encapsulated reads the MachineConfig of the server. encapsulated returns nil if the file does not exist, for example
// after the config was applied.
func encapsulated(files host.Files) (*mcfgv1.MachineConfig, host.Entry, error) {
	is, err := files.Stat(EncapsulatedPath)
	if err != nil {
		return nil, is, fmt.Errorf("reading %s: %w", EncapsulatedPath, err)
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
		return nil, is, fmt.Errorf("reading %s: %w; restore it from what the server serves, or remove it if the "+
			"machine's OS is as its pool wants", EncapsulatedPath, err)
	}
	mc.Spec.Config = runtime.RawExtension{} // The Ignition config is empty, because Ignition has applied it.
	return &mc, is, nil
}

// firstBootPlan returns the steps that stage the differing parts of the OS. firstBootPlan writes no record: the daemon
// writes the record of the complete config after the node has joined.
func firstBootPlan(ctx context.Context, h host.Host, mc mcfgv1.MachineConfig) (plan.Plan, error) {
	to, err := plan.ParseConfig(mc)
	if err == nil {
		err = machineconfig.Check(to.Config).Err()
	}
	if err != nil {
		return plan.Plan{}, err
	}
	fips := to.Config.FIPS
	to.Config.FIPS = false // FIPS is checked below, because only the installation can set it.
	way, observed, err := observe(ctx, h, plan.Config{}, to)
	if err != nil {
		return plan.Plan{}, err
	}
	target := plan.Target(observed, way.Old, way.New)
	if !observed.Support.Kargs && hasArguments(observed.OS.Kargs, target.OS.Kargs) {
		// The machine has all arguments: Ignition or the installer has set them in another order.
		target.OS.Kargs = observed.OS.Kargs
	}
	p := plan.Diff(observed, target, plan.DiffOptions{To: way.To, Problems: way.Refusals})
	if fips {
		if on, err := h.Files.Read(fipsPath); err != nil || strings.TrimSpace(string(on)) != "1" {
			p.Refusals = append(p.Refusals,
				disruption.OnNode(disruption.CheckSystem, "fips", "the machine runs without FIPS "+
					"mode, which is chosen when it is installed: install it with fips=1, or take fips out of its "+
					"configs"))
		}
	}
	if len(p.Refusals) > 0 {
		return p, Refused(p.Refusals)
	}
	if p.Stages() {
		p.Disruption = disruption.Reboot
	}
	return p, nil
}

// hasArguments reports whether the running kernel has all wanted arguments.
func hasArguments(running, wanted string) bool {
	all := host.SplitArgs(running)
	return !slices.ContainsFunc(host.SplitArgs(wanted), func(a string) bool { return !slices.Contains(all, a) })
}

// Refused returns the error of a refused plan: it wraps apply.ErrRefused and lists every reason.
func Refused(refusals []disruption.Refusal) error {
	var why []string
	for _, r := range refusals {
		why = append(why, strings.TrimLeft(r.Field+": "+r.Why, ": "))
	}
	return fmt.Errorf("%w: %s", apply.ErrRefused, strings.Join(why, "; "))
}
