package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/simulate"
)

func newSimulate() *cobra.Command {
	var o options
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run a simulated host: real files below a directory, and a Node that stays Ready",
		Long: `simulate runs the daemon on a directory. Files, unit files and the symlinks that enable units are real, below --root. simulate
prints the reloads, restarts and reboots that a real machine would run. simulate reports the Node as Ready, as a kubelet does,
and the Node's pods as running. With --no-kubelet, another program has to report the Node, such as a real kubelet without
containers.`,
		Example: `  machine-config-daemon simulate --node-name worker-0 --kubeconfig worker-0.kubeconfig --root ./hosts/worker-0`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.root == "" {
				return &usageError{
					errors.New("--root is missing: name the directory that is the simulated host's disk"),
				}
			}
			return simulateHost(cmd.Context(), o, s)
		},
	}
	o.add(cmd, "directory that is the host's disk; simulate creates a missing directory", "")
	cmd.Flags().DurationVar(&s.downtime, "reboot-time", time.Second, "how long a simulated reboot takes")
	cmd.Flags().BoolVar(&s.noKubelet, "no-kubelet", false, "do not report the Node and its pods, because a separate "+
		"kubelet does")
	return cmd
}

// simulation has the parameters of a simulated host.
type simulation struct {
	downtime  time.Duration
	noKubelet bool
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("argument %q is one too many", args[0])}
	}
	return nil
}

// simulateHost runs the boots of the simulated host one after the other.
func simulateHost(ctx context.Context, o options, s simulation) error {
	log := o.logger()
	config, err := o.connect()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.root, 0o755); err != nil {
		return fmt.Errorf("making the simulated host's disk: %w", err)
	}
	cluster := kube.NewConnection(o.node, func() (*rest.Config, error) { return config, nil })
	if o.node == "" {
		if o.node, err = cluster.Name(); err != nil {
			return err
		}
	}
	h, root, err := linux.OpenSimulated(o.root, func(line string) { log.Info(line, "node", o.node) })
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // the process ends
	if err := root.Lock(); err != nil {
		return err
	}
	servers, err := o.findServers(h, log)
	if err != nil {
		return err
	}
	cluster.FindServers(servers)
	setReady := func(context.Context, bool) {}
	if !s.noKubelet {
		kubelet, err := simulate.New(config, simulate.Config{Node: o.node, BootID: h.Power.BootID, Log: log})
		if err != nil {
			return err
		}
		go kubelet.Run(ctx)
		setReady = kubelet.SetReady
	}
	events := kube.NewRecorder(ctx, cluster, log)
	agentConfig := agent.Config{
		Node: o.node, Cluster: cluster, Host: h, Log: log, Events: events, Status: kube.NewStatusPublisher(ctx, cluster,
			log),
		Trust: o.followTrust(ctx, h, cluster, log), Fetch: fetch.NewSyncer(fetcher(h, storedInCluster(cluster)), h.OS),
	}
	if watcher := watchFiles(root, log); watcher != nil {
		defer watcher.Close() //nolint:errcheck // the process ends
		agentConfig.Drift = watcher
	}
	images := containerRuntime(h, o.root, true, agentConfig.Fetch.Lock)
	cluster.Heartbeat(ctx, v1alpha1.DaemonReport{
		Version: versionText(), FetchesAhead: agentConfig.Fetch != nil,
		PinsImages: images != nil,
	}, nil, log)
	changed := pinImages(ctx, images, cluster, events, log)
	for {
		err := agent.New(agentConfig).Run(ctx, changed)
		if !errors.Is(err, agent.ErrRebooting) {
			return err
		}
		if !reboot(ctx, log.With("node", o.node), setReady, s.downtime) {
			return nil
		}
	}
}

// reboot waits for the time that a simulated reboot takes. If the process ends meanwhile, reboot returns false.
func reboot(ctx context.Context, log *slog.Logger, setReady func(context.Context, bool), downtime time.Duration) bool {
	setReady(ctx, false)
	timer := time.NewTimer(downtime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	setReady(ctx, true)
	log.Info("simulated: booted")
	return true
}
