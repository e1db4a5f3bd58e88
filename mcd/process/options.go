package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/state"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

// UsageError is an error in the command line.
type UsageError struct{ Err error }

// Error returns the reason.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *UsageError) Unwrap() error { return e.Err }

// NoArgs returns a UsageError for any argument.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &UsageError{fmt.Errorf("argument %q is one too many", args[0])}
	}
	return nil
}

// Version returns the version of this program: what the linker set for a release, or else what the go command recorded.
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Options are the flags.
type Options struct {
	Node, Kubeconfig, Root string
	Servers                []string
	ServerCA               string
	TrustInterval          time.Duration
	Verbose                bool
	// of this program; not a flag
	Version string
}

// Add adds the flags to a command.
func (o *Options) Add(cmd *cobra.Command, rootHelp, rootDefault string) {
	f := cmd.Flags()
	f.StringVar(&o.Node, "node-name", "", "name of this machine's Node object, which the kubeconfig must confirm; "+
		"empty: the name in the kubeconfig's credentials")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig with the kubelet's identity, system:node:<name>; empty: "+
		"the daemon finds it on this machine")
	f.StringArrayVar(&o.Servers, "server", nil, "`URL` of a machine-config-server, https://HOST:PORT, may be "+
		"repeated; replaces the URLs in "+PublishedIn)
	f.StringVar(&o.ServerCA, "server-ca", "", "`file` with the CA of the machine-config-servers; replaces the CA in "+
		PublishedIn)
	f.DurationVar(&o.TrustInterval, "trust-interval", trust.DefaultInterval, "average time between two requests "+
		"of the daemon for certificates and the pull secret")
	f.StringVar(&o.Root, "root", rootDefault, rootHelp)
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "log more")
}

// PublishedIn is the object with the addresses of the machine-config-servers.
const PublishedIn = "ConfigMap " + v1alpha1.ServerNamespace + "/" + v1alpha1.ServerConfigMap

// FindServers returns the configuration for finding the machine-config-servers, according to the flags. The daemon
// stores their addresses on the host.
func (o *Options) FindServers(h host.Host, log *slog.Logger) (kube.ServerOptions, error) {
	for _, url := range o.Servers {
		if err := kube.CheckServerURL(url); err != nil {
			return kube.ServerOptions{}, &UsageError{fmt.Errorf("--server: %w", err)}
		}
	}
	out := kube.ServerOptions{
		URLs: o.Servers, Log: log,
		Load: func() ([]byte, error) { return state.LoadServers(h.Files) },
		Save: func(ctx context.Context, text []byte) error { return state.SaveServers(ctx, h, text) },
	}
	if o.ServerCA != "" {
		out.CA = func() ([]byte, error) { return os.ReadFile(o.ServerCA) }
	}
	return out, nil
}

// Connect reads the kubeconfig. The limit of requests is low, because only the pods of a simulated host cause many
// requests at once.
func (o *Options) Connect() (*rest.Config, error) {
	config, err := readKubeconfig(o.Kubeconfig, loadKubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent(o.Version)
	config.QPS, config.Burst = 20, 50
	return config, nil
}

func userAgent(version string) string { return "machine-config-daemon/" + version }

// Logger returns a logger that writes lines of key=value to standard error.
func Logger(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if verbose { // The client libraries also return the problems that they log, as errors.
		klog.SetSlogLogger(log)
	} else {
		klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	}
	return log
}
