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
	"github.com/bunsen-os/bunsen/mcd/host/linux"
	"github.com/bunsen-os/bunsen/mcd/once"
)

func newFirstboot() *cobra.Command {
	var retry time.Duration
	var verbose bool
	cmd := &cobra.Command{
		Use:     "firstboot",
		Aliases: []string{"firstboot-complete-machineconfig"},
		Short:   "Bring a new machine's OS to its first config, before the kubelet joins",
		Long: `firstboot reads ` + once.EncapsulatedPath + `, which the Ignition server appends to
every config: the parts that Ignition cannot carry, which are OS image, kernel arguments and type, and extensions. Where
the running machine has them already, the file is removed, and the kubelet may start. Otherwise they are staged, the file
is renamed to ` + once.BackupSuffix + `, and the machine reboots into them; the next firstboot confirms what booted.

What fails is tried again, each minute for ever, so that a machine never joins its cluster as something else than its
pool's config says. An OS that was staged and did not boot costs a reboot each time, and so does one whose staging takes the
machine down, so the pause before the next one grows up to an hour, also over reboots. It is meant to be run by machine-config-daemon-firstboot.service.

Exit codes: 0 the machine's OS is as its config says, or it is rebooting; 1 failed (with --retry 0), or told to stop.`,
		Example: `  machine-config-daemon firstboot
  machine-config-daemon firstboot --retry 0`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return firstBoot(cmd.Context(), retry, (&options{verbose: verbose}).logger())
		},
	}
	cmd.Flags().DurationVar(&retry, "retry", time.Minute, "how long to wait after a failure; 0 tries once")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}

// firstBoot tries until it works. A systemd that restarts a oneshot would start what waits for it meanwhile, so this is
// no job for the unit.
func firstBoot(ctx context.Context, retry time.Duration, log *slog.Logger) error {
	h, closeHost, err := linux.Open(ctx, "/")
	if err != nil {
		return err
	}
	defer closeHost()
	return untilFirstBooted(ctx, h, retry, log)
}

func untilFirstBooted(ctx context.Context, h host.Host, retry time.Duration, log *slog.Logger) error {
	runner := apply.Runner{Host: h, Tell: func(s host.Step, undone bool) { log.Info("step", "step", s.String(), "undone", undone) }}
	rest := func(ctx context.Context, tries int) error {
		if retry <= 0 {
			return nil
		}
		pause := min(retry<<min(tries, 12), max(retry, longestRest))
		log.Error("what was staged did not come up, or staging it took the machine down: pausing before the next try", "tries", tries, "in", pause)
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
			return fmt.Errorf("told to stop: %w", errors.Join(stopped, err))
		}
	}
}

// longestRest before a try that is like others which brought nothing.
const longestRest = time.Hour

// sleep lets time pass; the error is the context's.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
