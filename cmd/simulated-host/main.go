package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/process"
	"github.com/bunsen-os/bunsen/mcd/simulate"
)

// version is set by the linker for releases.
var version string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(*process.UsageError)):
		fmt.Fprintf(os.Stderr, "simulated-host: %v\nSee simulated-host --help.\n", err)
		return 2
	}
	fmt.Fprintf(os.Stderr, "simulated-host: %v\n", err)
	return 1
}

func newRoot() *cobra.Command {
	o := process.Options{Version: process.Version(version)}
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulated-host",
		Short: "Run a simulated host: real files below a directory, and a Node that stays Ready",
		Long: `simulated-host runs the code of machine-config-daemon on a directory. Files, unit files and the symlinks that enable units
are real, below --root. It prints the reloads, restarts and reboots that a real machine would run. It reports the Node as Ready,
as a kubelet does, and the Node's pods as running. With --no-kubelet, another program has to report the Node, such as a real
kubelet without containers.

Exit codes: 0 success, 1 failed, 2 wrong arguments.`,
		Example:       `  simulated-host --node-name worker-0 --kubeconfig worker-0.kubeconfig --root ./hosts/worker-0`,
		Args:          process.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Root == "" {
				return &process.UsageError{
					Err: errors.New("--root is missing: name the directory that is the simulated host's disk"),
				}
			}
			return simulateHost(cmd.Context(), o, s)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &process.UsageError{Err: err} })
	o.Add(cmd, "directory that is the host's disk; a missing one is created", "")
	cmd.Flags().DurationVar(&s.downtime, "reboot-time", time.Second, "how long a simulated reboot takes")
	cmd.Flags().BoolVar(&s.noKubelet, "no-kubelet", false, "do not report the Node and its pods, because a separate "+
		"kubelet does")
	cmd.Flags().DurationVar(&s.patience, "config-patience", 10*time.Minute, "how long the host waits for a config "+
		"that it cannot read before its update fails")
	return cmd
}

// simulation has the parameters of a simulated host.
type simulation struct {
	downtime  time.Duration
	noKubelet bool
	patience  time.Duration
}

// simulateHost runs the boots of the simulated host one after the other.
func simulateHost(ctx context.Context, o process.Options, s simulation) error {
	log := process.Logger(o.Verbose)
	config, err := o.Connect()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Root, 0o755); err != nil {
		return fmt.Errorf("making the simulated host's disk: %w", err)
	}
	cluster := kube.NewConnection(o.Node, func() (*rest.Config, error) { return config, nil })
	if o.Node == "" {
		if o.Node, err = cluster.Name(); err != nil {
			return err
		}
	}
	h, root, err := linux.OpenSimulated(o.Root, func(line string) { log.Info(line, "node", o.Node) })
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // the process ends
	if err := root.Lock(); err != nil {
		return err
	}
	servers, err := o.FindServers(h, log)
	if err != nil {
		return err
	}
	cluster.FindServers(servers)
	setReady := func(context.Context, bool) {}
	if !s.noKubelet {
		kubelet, err := simulate.New(config, simulate.Config{Node: o.Node, BootID: h.Power.BootID, Log: log})
		if err != nil {
			return err
		}
		go kubelet.Run(ctx)
		setReady = kubelet.SetReady
	}
	attached := o.Attach(ctx, h, cluster, v1alpha1.DaemonReport{}, true, nil, log)
	defer attached.Close()
	attached.Config.ConfigPatience = s.patience
	for {
		err := agent.New(attached.Config).Run(ctx, attached.Changed)
		if !errors.Is(err, agent.ErrRebooting) {
			return err
		}
		if !reboot(ctx, log.With("node", o.Node), setReady, s.downtime) {
			return nil
		}
	}
}

// reboot waits for the time that a simulated reboot takes. If the process ends meanwhile, reboot returns false.
func reboot(ctx context.Context, log *slog.Logger, setReady func(context.Context, bool), downtime time.Duration) bool {
	setReady(ctx, false)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(downtime):
	}
	setReady(ctx, true)
	log.Info("simulated: booted")
	return true
}
