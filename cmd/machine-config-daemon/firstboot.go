package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/once"
	"github.com/bunsen-os/bunsen/mcd/process"
)

func newFirstboot() *cobra.Command {
	var retry time.Duration
	var verbose bool
	cmd := &cobra.Command{
		Use:     "firstboot",
		Aliases: []string{"firstboot-complete-machineconfig"},
		Short:   "Set up a new machine's OS as its first config says, before the kubelet joins",
		Long: `firstboot reads ` + once.EncapsulatedPath +
			`, which the Ignition server appends to every config. This file has the parts of the
config that Ignition cannot express: OS image, kernel arguments, kernel type and extensions.

If the running OS already has what that file asks for, firstboot removes the file, and the kubelet can start. Otherwise firstboot stages the OS changes, renames the file to ` + once.BackupSuffix + `, and reboots the machine. The next firstboot confirms the OS that booted.

firstboot tries again every minute until it succeeds, so a machine never joins its cluster with another OS than its config has.
If the staged OS does not boot, each attempt costs a reboot, and the pause between attempts grows up to an hour, also across
reboots. The unit machine-config-daemon-firstboot.service runs firstboot.

Exit codes: 0 the machine has the OS of its config, or it is rebooting; 1 failed (with --retry 0), or stopped by a signal.`,
		Example: `  machine-config-daemon firstboot
  machine-config-daemon firstboot --retry 0`,
		Args: process.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return firstBoot(cmd.Context(), retry, process.Logger(verbose))
		},
	}
	cmd.Flags().DurationVar(&retry, "retry", time.Minute, "how long to wait after a failure; 0 tries once")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}

// firstBoot retries until it succeeds. systemd cannot restart the unit instead: while it restarts a unit of the type
// oneshot, it starts the units that wait for that unit.
func firstBoot(ctx context.Context, retry time.Duration, log *slog.Logger) error {
	h, closeHost, err := linux.OpenHost(ctx, "/")
	if err != nil {
		return err
	}
	defer closeHost()
	return untilFirstBooted(ctx, h, retry, log)
}

func untilFirstBooted(ctx context.Context, h host.Host, retry time.Duration, log *slog.Logger) error {
	runner := apply.Runner{Host: h, OnStep: func(s host.Step, undone bool) {
		log.Info("step", "step", s.String(), "undone", undone)
	}}
	rest := func(ctx context.Context, tries int) error {
		if retry <= 0 {
			return nil
		}
		pause := min(retry<<min(tries, 12), max(retry, longestRest))
		log.Error("what was staged did not come up, or staging it took the machine down: pausing before the next try",
			"tries", tries, "in", pause)
		return sleep(ctx, pause)
	}
	for {
		done, err := once.FirstBoot(ctx, runner, rest)
		if err == nil {
			err = endError(done)
		}
		switch {
		case done.End == apply.Rebooting && err != nil:
			log.Error("first boot failed, rebooting into what was there before", "config", done.To, "err", err)
			return awaitDown(ctx)
		case done.End == apply.Rebooting:
			log.Info("rebooting", "config", done.To)
			return awaitDown(ctx)
		case done.End == apply.RebootUnknown && retry > 0:
			log.Warn("looking again whether the machine reboots", "in", min(retry, lookAgain), "err", done.Why)
			if sleep(ctx, min(retry, lookAgain)) != nil {
				return nil // The next boot, or the next start in this boot, continues.
			}
			continue
		case err == nil && done.To == "":
			log.Debug("no first config waits here")
			return nil
		case err == nil:
			log.Info("the OS is as the first config says", "config", done.To)
			return nil
		case retry <= 0:
			return err
		}
		log.Error("first boot failed, trying again", "in", retry, "err", err)
		if stopped := sleep(ctx, retry); stopped != nil {
			return fmt.Errorf("stopping: %w", errors.Join(stopped, err))
		}
	}
}

// lookAgain is the time between two looks at a machine that may be rebooting.
const lookAgain = 5 * time.Second

// longestRest is the maximum pause before the next retry, if the same failure repeats.
const longestRest = time.Hour

// sleep waits for a duration. If the context ends before, sleep returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
