package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/metrics"
	"github.com/bunsen-os/bunsen/mcd/process"
)

func newStart() *cobra.Command {
	o := process.Options{Version: versionText()}
	var c checks
	var metricsAddress string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Serve this machine",
		Long: `start runs the daemon on this machine, as root.

  applied in place     files, also appended ones, directories, links, units, drop-ins, masks, enablement, SSH keys, users,
                       groups and password hashes by the machine's own shadow-utils; by rpm-ostree or bootc
                       ` + osParts + `
  refused, with the    the OS parts on machines without either of them; FIPS mode; another uid or gid of an account that is
  reason               there
  left to new nodes    disks, filesystems, raid, luks, Ignition's own kernelArguments

The daemon refuses a whole config with a refused part: the Node reports Unreconcilable and names the part. The daemon accepts
such a part if the current config also has it, for example on a machine that booted from the server.

After a change that reboots the machine or acts on services, the machine must be healthy within --health-timeout. The daemon
checks the units of the change, the kubelet, and after a reboot the API server, if they were healthy before the change. If such
a check fails, the daemon rolls back, and the Node reports Degraded with the reason. The daemon applies a rejected config again
only after another config was desired. While the API server does not answer, the daemon finishes the update, and reports the
result later.

The daemon reads its config from a machine-config-server, with the kubelet's client certificate, and finds the servers
in ` + process.PublishedIn + `. If no server sends the config, the daemon reads it through the API server, if nodes have the right to read configs there.

The daemon uses the kubelet's identity. Without --kubeconfig, it uses the first of these files that exists:
` + process.KubeconfigHelp(),
		Example: `  machine-config-daemon start
  machine-config-daemon start --root-mount /rootfs   # in a container that has the machine's root there`,
		Args: process.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			form := linux.Service
			if inPod, err := cmd.Flags().GetBool(podFlag); err == nil && inPod {
				form = linux.Pod
			}
			return startHost(cmd.Context(), o, c, form, metricsAddress)
		},
	}
	o.Add(cmd, "the machine's root file system", "/")
	c.add(cmd)
	cmd.Flags().StringVar(&metricsAddress, "metrics", defaultMetrics, "loopback address at which the daemon serves "+
		"/metrics; \"\" serves no metrics")
	return cmd
}

// checks are the flags of the health check.
type checks struct {
	off, kubelet                  bool
	endpoint                      string
	afterReboot, afterAct, settle time.Duration
}

func (c *checks) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.off, "no-health-gate", false, "do not check the machine's health after a change")
	f.DurationVar(&c.afterReboot, "health-timeout", agent.AfterReboot, "how long the machine may take to be "+
		"healthy after a reboot, before the daemon rolls back")
	f.DurationVar(&c.afterAct, "health-timeout-rebootless", agent.AfterActions,
		"how long the machine may take to be healthy after the daemon reloaded or restarted services")
	f.DurationVar(&c.settle, "health-settle", agent.Settle, "how long the machine must stay healthy after "+
		"a change")
	f.BoolVar(&c.kubelet, "kubelet-healthz-enabled", true, "roll back if the kubelet was healthy before a change and "+
		"is not healthy after it")
	f.StringVar(&c.endpoint, "kubelet-healthz-endpoint", "http://localhost:10248/healthz",
		"URL at which the kubelet reports whether it is healthy")
}

// health returns the health check of a machine, or nil.
func (c *checks) health(h host.Host, cluster *kube.Connection) *agent.HealthOptions {
	if c.off {
		return nil
	}
	health := &agent.HealthOptions{
		API: cluster.APIHealth, AfterReboot: c.afterReboot, AfterActions: c.afterAct,
		Settle: c.settle,
	}
	if c.kubelet {
		health.Kubelet = kube.KubeletHealth(c.endpoint)
	}
	if units, can := h.Units.(agent.HealthUnits); can {
		health.Units = units
	}
	return health
}

// aside is the log handler for libraries. aside writes the messages of libraries at the level debug, because the
// libraries also return their problems as errors, which the caller logs.
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

// startHost runs the daemon until a signal stops the process. Before startHost returns, it finishes an update that has
// begun. After startHost has requested a reboot, it waits until the reboot ends the process.
func startHost(ctx context.Context, o process.Options, c checks, form linux.Form, metricsAddress string) error {
	log := process.Logger(o.Verbose)
	klog.SetSlogLogger(slog.New(aside{log.Handler()}))
	ctx, end := context.WithCancel(ctx)
	defer end()
	if form == linux.Service {
		go awaitReplaced(ctx, replacedEvery, log, end)
	}
	return linux.Serve(ctx, linux.Serving{Dir: o.Root, Form: form, Log: log},
		func(ctx context.Context, h host.Host) error {
			return serveHost(ctx, h, o, c, form, metricsAddress)
		})
}

// serveHost serves the machine until the context ends.
func serveHost(ctx context.Context, h host.Host, o process.Options, c checks, form linux.Form,
	metricsAddress string,
) error {
	log := process.Logger(o.Verbose)
	// The config under test may have broken or removed the kubeconfig. The daemon starts even then.
	servers, err := o.FindServers(h, log)
	if err != nil {
		return err
	}
	cluster := kube.NewConnection(o.Node, o.Connect)
	cluster.FindServers(servers)
	ready := &readiness{lastAnswer: cluster.LastAnswer, now: time.Now}
	set, err := serveMetrics(ctx, metricsAddress, log, ready.check)
	if err != nil {
		return err
	}
	attached := o.Attach(ctx, h, cluster, v1alpha1.DaemonReport{Form: string(form)}, false,
		func(ctx context.Context) *v1alpha1.EtcdReport { return kube.AskEtcd(ctx, h.Files.Read) }, log)
	defer attached.Close()
	config := attached.Config
	config.Health, config.Metrics = c.health(h, cluster), set
	config.Reported = func() { ready.reported.Store(true) }
	err = agent.New(config).Run(ctx, attached.Changed)
	if errors.Is(err, agent.ErrRebooting) {
		return awaitDown(ctx)
	}
	return err
}

// osParts are the parts of a config that machines without an image-based OS refuse.
const osParts = "OS image, kernel arguments, kernel type, extensions"

// longestShutdown is how long the machine may take to end this process after it accepted a reboot.
const longestShutdown = 15 * time.Minute

// awaitDown waits until the reboot ends the process. If the reboot takes too long, awaitDown returns an error. After
// its restart, the daemon requests the reboot again.
func awaitDown(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(longestShutdown):
		return fmt.Errorf("the machine accepted to reboot %s ago and is still up: see systemctl list-jobs and "+
			"systemd-inhibit", longestShutdown)
	}
}

// defaultMetrics is the default address for metrics. The daemon of the Machine Config Operator uses the same address.
const defaultMetrics = "127.0.0.1:8797"

// serveMetrics serves the metrics and the answers to probes until the context ends. With --metrics "", serveMetrics
// serves nothing. If the address is in use, serveMetrics logs this and tries again later, because another daemon on the
// machine may end soon.
func serveMetrics(ctx context.Context, address string, log *slog.Logger,
	ready func() error,
) (*metrics.Set, error) {
	set := metrics.New(time.Now)
	if address == "" {
		return set, nil
	}
	l, err := metrics.Listen(address)
	var taken *net.OpError
	switch {
	case errors.As(err, &taken):
		log.Error("metrics are not served yet", "err", err)
	case err != nil:
		return nil, &usageError{Err: err}
	}
	go func() {
		for l == nil && sleep(ctx, metricsRetry) == nil {
			l, _ = metrics.Listen(address)
		}
		if l == nil {
			return
		}
		if err := set.Serve(ctx, l, ready); err != nil {
			log.Error("metrics are not served any more", "err", err)
		}
	}()
	return set, nil
}

// metricsRetry is the pause before the daemon listens again for metrics.
const metricsRetry = 10 * time.Second

// readiness decides whether the daemon works. The kubelet probes the daemon, so that an upgrade of the daemon stops if
// the new daemon does not work.
type readiness struct {
	// reported is true once the daemon has reported the state of its node.
	reported atomic.Bool
	// lastAnswer returns when the API server last answered.
	lastAnswer func() time.Time
	now        func() time.Time
}

// check returns an error that says why the daemon does not work. check tolerates an outage of the API server for the
// same time as the readers of the daemon's heartbeat.
func (r *readiness) check() error {
	if !r.reported.Load() {
		return errors.New("the daemon has not reported the state of its node yet")
	}
	if age := r.now().Sub(r.lastAnswer()); age > v1alpha1.DaemonSilentAfter {
		return fmt.Errorf("the API server has not answered for %s", age.Round(time.Second))
	}
	return nil
}
