package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host/linux"
)

func newStart() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Serve this machine",
		Long: `start runs the daemon on this machine, as root. It is NOT PROVEN on a live system yet: try it on machines that you can lose.

  supported, tested on rooted directories   files, appended ones too, directories, links, units, drop-ins, enablement by
                                            symlinks, SSH keys, the journal and the way back; users, groups and
                                            password hashes by the machine's own shadow-utils
  written, not proven on a live system      daemon-reload, reload and restart by systemd over D-Bus; reboot by logind
  not there: refused, with the reason       ` + osParts + `,
                                            by rpm-ostree or otherwise; hard links, FIPS mode, another uid or gid of an
                                            account that is there
  left to new nodes                         disks, filesystems, raid, luks, Ignition's own kernelArguments
  not there                                 a look-out for drift between updates; SELinux labels, ACLs and extended attributes
                                            of files that are replaced or come back

A config with a refused part is refused whole: the Node says Unreconcilable and names the part. Parts that are the same in
the config in force, as on a machine that booted from the server, are no change and are not refused.`,
		Example: `  machine-config-daemon start --node-name $(hostname)
  machine-config-daemon start --root /rootfs --kubeconfig /rootfs/var/lib/kubelet/kubeconfig`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return startHost(cmd.Context(), o) },
	}
	o.add(cmd, "the machine's root file system", "/")
	return cmd
}

// startHost runs until it is told to stop. After asking for a reboot it waits for the machine to end it.
func startHost(ctx context.Context, o options) error {
	log := o.logger()
	config, err := o.connect()
	if err != nil {
		return err
	}
	h, closeHost, err := linux.Open(ctx, o.root)
	if err != nil {
		return err
	}
	defer closeHost()
	kube, err := agent.NewKube(config, o.node)
	if err != nil {
		return err
	}
	err = agent.New(agent.Config{Node: o.node, Cluster: kube, Host: h, Log: log}).Run(ctx, kube.Watch(ctx, log))
	if errors.Is(err, agent.ErrRebooting) {
		return awaitDown(ctx)
	}
	return err
}

// osParts are what PlainOS refuses.
const osParts = "OS image, kernel arguments, kernel type, extensions"

// longestShutdown is how long a machine that accepted to reboot may take to end this process.
const longestShutdown = 15 * time.Minute

// awaitDown waits to be ended by the reboot. If that does not come, the process fails, and whoever starts it again has
// the reboot asked for again.
func awaitDown(ctx context.Context) error {
	timer := time.NewTimer(longestShutdown)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-timer.C:
		return fmt.Errorf("the machine accepted to reboot %s ago and is still up: see systemctl list-jobs and systemd-inhibit", longestShutdown)
	}
}
