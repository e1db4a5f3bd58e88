package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/agent/kube"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/linux"
)

func newStart() *cobra.Command {
	var o options
	var c checks
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Serve this machine",
		Long: `start runs the daemon on this machine, as root.

  taken in place       files, appended ones too, directories, links, units, drop-ins, masks, enablement, SSH keys, users,
                       groups and password hashes by the machine's own shadow-utils; by rpm-ostree or bootc
                       ` + osParts + `
  refused, with the    the OS parts on machines without either of them; FIPS mode; another uid or gid of an account that is
  reason               there
  left to new nodes    disks, filesystems, raid, luks, Ignition's own kernelArguments

A config with a refused part is refused whole: the Node says Unreconcilable and names the part. Parts that are the same in
the config in force, as on a machine that booted from the server, are no change and are not refused.

After a change that reboots or acts on services, the machine must be healthy within --health-timeout: the units of the
change, the kubelet, and after a reboot the API server, if they were before. Otherwise it goes back by itself, the Node says
Degraded with the reason, and the config is not tried again until another one is desired. While the API server does not
answer, the daemon finishes what it has begun and tells it later.`,
		Example: `  machine-config-daemon start --node-name $(hostname)
  machine-config-daemon start --root-mount /rootfs   # in a container that has the machine's root there`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return startHost(cmd.Context(), o, c) },
	}
	o.add(cmd, "the machine's root file system", "/")
	c.add(cmd)
	cmd.Flags().Lookup("metrics").DefValue = defaultMetrics
	o.metrics = defaultMetrics
	return cmd
}

// checks are the flags of the health gate.
type checks struct {
	off, kubelet                  bool
	endpoint                      string
	afterReboot, afterAct, settle time.Duration
}

func (c *checks) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.off, "no-health-gate", false, "take every config that was applied for a good one")
	f.DurationVar(&c.afterReboot, "health-timeout", agent.AfterReboot, "how long the machine may take to be healthy after a reboot, before it goes back to the config that it had")
	f.DurationVar(&c.afterAct, "health-timeout-rebootless", agent.AfterActions, "the same after services were reloaded or restarted")
	f.DurationVar(&c.settle, "health-settle", agent.Settle, "how long it must stay healthy")
	f.BoolVar(&c.kubelet, "kubelet-healthz-enabled", true, "a kubelet that was healthy before a change must be so after it")
	f.StringVar(&c.endpoint, "kubelet-healthz-endpoint", "http://localhost:10248/healthz", "where the kubelet says whether it is healthy")
}

// health is the gate on a machine; nil for none.
func (c *checks) health(h host.Host, cluster *kube.Later) *agent.Health {
	if c.off {
		return nil
	}
	health := &agent.Health{API: cluster.Heard, AfterReboot: c.afterReboot, AfterActions: c.afterAct, Settle: c.settle}
	if c.kubelet {
		health.Kubelet = kube.KubeletAt(c.endpoint)
	}
	if units, can := h.Units.(agent.Units); can {
		health.Units = units
	}
	return health
}

// aside is for what libraries log: what goes wrong in a call is in its error, and is told by whoever called.
type aside struct{ slog.Handler }

// Enabled implements slog.Handler.
func (a aside) Enabled(ctx context.Context, _ slog.Level) bool {
	return a.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (a aside) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return a.Handler.Handle(ctx, r)
}

// startHost runs until it is told to stop; an update that has begun is brought to its end first. After asking for a reboot it
// waits for the machine to end it.
func startHost(ctx context.Context, o options, c checks) error {
	log := o.logger()
	klog.SetSlogLogger(slog.New(aside{log.Handler()}))
	h, closeHost, err := linux.Open(ctx, o.root)
	if err != nil {
		return err
	}
	defer closeHost()
	set, err := o.serveMetrics(ctx, log)
	if err != nil {
		return err
	}
	// The kubeconfig may be missing or broken, by the very config that is to be judged: that is no reason not to start.
	cluster := kube.NewLater(o.node, o.connect)
	config := agent.Config{
		Node: o.node, Cluster: cluster, Host: h, Log: log, Health: c.health(h, cluster),
		Events: kube.NewRecorder(ctx, cluster, log), Metrics: set, Board: kube.NewBoard(ctx, cluster, log),
	}
	if root, can := h.Files.(*linux.Root); can {
		if watcher := watchFiles(root, log); watcher != nil {
			defer watcher.Close() //nolint:errcheck // the process ends
			config.Drift = watcher
		}
	}
	kube.Heartbeat(ctx, cluster, versionText(), log)
	err = agent.New(config).Run(ctx, cluster.Watch(ctx, log))
	if errors.Is(err, agent.ErrRebooting) {
		return awaitDown(ctx)
	}
	return err
}

// watchFiles returns a watcher of a machine's files, or nil where the kernel gives none: then the daemon sees drift at its
// periodic scan only, and the log says so.
func watchFiles(root *linux.Root, log *slog.Logger) *linux.Watcher {
	watcher, err := linux.NewWatcher(root)
	if err != nil {
		log.Warn("file changes are not watched, so drift is found by the periodic scan only", "err", err)
		return nil
	}
	return watcher
}

// osParts are what machines without an image-based OS refuse.
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
