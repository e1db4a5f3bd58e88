package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// Exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3 // apply
	exitBetween = 4 // apply
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

// usageError is a call that cannot be meant.
type usageError struct{ error }

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	error
}

// Unwrap lets errors.Is see the reason.
func (e *exitError) Unwrap() error { return e.error }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "machine-config-daemon",
		Short: "Bring this node to the config that its Node object asks for",
		Long: `machine-config-daemon watches its own Node. When the Node's annotation
machineconfiguration.openshift.io/desiredConfig names another rendered config than the one in force, it works out what
differs from what is on disk, asks for a drain where the cluster's policy wants one, applies the steps with a journal,
and reports. A step that fails takes all back. Machines without a cluster are brought to a config by apply; firstboot is
what a new machine runs before its kubelet; drift shows what somebody changed.

Exit codes: 0 ended as asked, 1 failed, 2 called wrongly; apply has more.`,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("say start, apply, firstboot, drift or simulate")}
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(entering(newStart()), entering(newApply()), entering(newFirstboot()), newDrift(), newSimulate(), &cobra.Command{
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

// options are the flags that both ways to run have.
type options struct {
	node, kubeconfig, root, metrics string
	verbose                         bool
}

func (o *options) add(cmd *cobra.Command, rootHelp, rootDefault string) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = ""
	}
	f := cmd.Flags()
	f.StringVar(&o.node, "node-name", hostname, "name of this node's Node object")
	f.StringVar(&o.kubeconfig, "kubeconfig", "/var/lib/kubelet/kubeconfig", "kubeconfig with the kubelet's identity, system:node:<name>")
	f.StringVar(&o.root, "root", rootDefault, rootHelp)
	f.StringVar(&o.metrics, "metrics", "", "loopback address at which metrics are served under /metrics; \"\" serves none")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
}

// connect reads the kubeconfig. Few requests are made; bursts of them are pods that a simulated host runs.
func (o *options) connect() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %q: %w; name one with --kubeconfig", o.kubeconfig, err)
	}
	config.UserAgent = "machine-config-daemon/" + versionText()
	config.QPS, config.Burst = 20, 50
	return config, nil
}

// logger writes lines of key=value to standard error.
func (o *options) logger() *slog.Logger {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if o.verbose { // what the client libraries log, they return as errors too
		klog.SetSlogLogger(log)
	} else {
		klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	}
	return log
}
