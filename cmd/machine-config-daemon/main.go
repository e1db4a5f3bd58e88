package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/state"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

// The exit codes of machine-config-daemon.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitRefused is the exit code of the command apply if the machine refuses the config.
	exitRefused = 3
	// exitBetween is the exit code of the command apply if the machine is between two configs.
	exitBetween = 4
)

// version is set by the linker for releases.
var version string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "machine-config-daemon: %v\nSee machine-config-daemon --help.\n", err)
		return exitUsage
	}
	var exit *exitError
	code := exitFailed
	if errors.As(err, &exit) {
		code = exit.code
	}
	fmt.Fprintf(os.Stderr, "machine-config-daemon: %v\n", err)
	return code
}

// usageError is an error in the command line.
type usageError struct{ error }

// exitError is an error with its own exit code.
type exitError struct {
	code int
	error
}

// Unwrap returns the reason, for errors.Is.
func (e *exitError) Unwrap() error { return e.error }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "machine-config-daemon",
		Short: "Apply the config that the Node object of this machine names",
		Long: `machine-config-daemon watches the Node object of its machine. The annotation machineconfiguration.openshift.io/desiredConfig
names the rendered config that the node should run. If the node runs another config, the daemon compares both configs with the
disk, and requests a drain if the disruption policy demands one. Then the daemon applies the steps with a journal and reports
the result. If a step fails, the daemon rolls back all steps.

  start      runs the daemon
  apply      applies a config to a machine without a cluster
  firstboot  sets up the OS of a new machine before the kubelet starts
  drift      shows where the machine differs from its config
  update     replaces this program by the one that the config names

Exit codes: 0 success, 1 failed, 2 wrong arguments; the command apply has further exit codes.`,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("machine-config-daemon needs a command: start, apply, firstboot, drift, " +
				"update, copy or simulate")}
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(entering(newStart()), entering(newApply()), entering(newFirstboot()), newDrift(), newUpdate(),
		newCopy(), newSimulate(), &cobra.Command{
			Use: "version", Short: "Print the version", Args: cobra.NoArgs,
			Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), versionText()) },
		})
	return root
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// options are the flags that the commands start and simulate share.
type options struct {
	node, kubeconfig, root, metrics string
	servers                         []string
	serverCA                        string
	trustInterval                   time.Duration
	verbose                         bool
}

func (o *options) add(cmd *cobra.Command, rootHelp, rootDefault string) {
	f := cmd.Flags()
	f.StringVar(&o.node, "node-name", "", "name of this machine's Node object, which the kubeconfig must confirm; "+
		"empty: the name in the kubeconfig's credentials")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig with the kubelet's identity, system:node:<name>; empty: "+
		"the daemon finds it on this machine")
	f.StringArrayVar(&o.servers, "server", nil, "`URL` of a machine-config-server, https://HOST:PORT, may be "+
		"repeated; replaces the URLs in "+publishedIn)
	f.StringVar(&o.serverCA, "server-ca", "", "`file` with the CA of the machine-config-servers; replaces the CA in "+
		publishedIn)
	f.DurationVar(&o.trustInterval, "trust-interval", trust.DefaultInterval, "average time between two requests "+
		"of the daemon for certificates and the pull secret")
	f.StringVar(&o.root, "root", rootDefault, rootHelp)
	f.StringVar(&o.metrics, "metrics", "", "loopback address at which the daemon serves /metrics; \"\" serves no "+
		"metrics")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
}

// publishedIn is the object with the addresses of the machine-config-servers.
const publishedIn = "ConfigMap " + v1alpha1.ServerNamespace + "/" + v1alpha1.ServerConfigMap

// findServers returns the configuration for finding the machine-config-servers, according to the flags. The daemon
// stores their addresses on the host.
func (o *options) findServers(h host.Host, log *slog.Logger) (kube.ServerOptions, error) {
	for _, url := range o.servers {
		if err := kube.CheckServerURL(url); err != nil {
			return kube.ServerOptions{}, &usageError{fmt.Errorf("--server: %w", err)}
		}
	}
	out := kube.ServerOptions{
		URLs: o.servers, Log: log,
		Load: func() ([]byte, error) { return state.LoadServers(h.Files) },
		Save: func(ctx context.Context, text []byte) error { return state.SaveServers(ctx, h, text) },
	}
	if o.serverCA != "" {
		out.CA = func() ([]byte, error) { return os.ReadFile(o.serverCA) }
	}
	return out, nil
}

// followTrust starts and returns the Syncer that keeps the files beside the config as the servers send them. The Syncer
// asks the servers until the context ends.
func (o *options) followTrust(ctx context.Context, h host.Host, cluster *kube.Connection,
	log *slog.Logger,
) *trust.Syncer {
	s := trust.NewSyncer(h, cluster, o.trustInterval, log)
	go s.Run(ctx)
	return s
}

// connect reads the kubeconfig. The limit of requests is low, because only the pods of a simulated host cause many
// requests at once.
func (o *options) connect() (*rest.Config, error) {
	config, err := readKubeconfig(o.kubeconfig, loadKubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "machine-config-daemon/" + versionText()
	config.QPS, config.Burst = 20, 50
	return config, nil
}

// logger returns a logger that writes lines of key=value to standard error.
func (o *options) logger() *slog.Logger {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if o.verbose { // The client libraries also return the problems that they log, as errors.
		klog.SetSlogLogger(log)
	} else {
		klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	}
	return log
}

// entering adds a flag to a command that runs in a container. The flag is the mount point of the machine's root. The
// process enters that root before it does anything else.
func entering(cmd *cobra.Command) *cobra.Command {
	var mount string
	var pod bool
	cmd.Flags().StringVar(&mount, "root-mount", "/", "directory of this container at which the machine's root is "+
		"mounted; the process enters this directory and continues there")
	// The process adds this flag to its own arguments after it has entered the machine's root.
	cmd.Flags().BoolVar(&pod, podFlag, false, "the process runs in a pod")
	if err := cmd.Flags().MarkHidden(podFlag); err != nil {
		panic(err) // The code above has defined the flag, so there is no error.
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := linux.Enter(mount, "--root-mount=/", "--"+podFlag); err != nil {
			return err
		}
		pod = pod || filepath.Clean(mount) != "/" // The root of the container may already be the machine's root.
		return run(cmd, args)
	}
	return cmd
}

// podFlag marks a process that has entered the machine's root from a container.
const podFlag = "in-pod"
