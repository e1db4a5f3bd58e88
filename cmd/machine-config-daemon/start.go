package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host/linux"
)

func newStart() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Serve this machine",
		Long: `start runs the daemon on this machine, as root: with systemd over D-Bus, reboots through logind, and the OS through
rpm-ostree where it is there.`,
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
		<-ctx.Done()
		return nil
	}
	return err
}
