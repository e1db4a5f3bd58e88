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
	_ "time/tzdata"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // The CA certificates are for a machine or an image that has none.
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// version is set by the linker.
var version = "dev"

type options struct {
	kubeconfig, namespace, secretsNamespace, storeDir string
	metrics, health, webhook                          string
	leaderElect                                       bool
	defaults                                          render.Defaults
	node                                              string
	verbose                                           bool
	content                                           contentFlags
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "machine-config-controller",
		Short: "Follow git repositories, render every pool's config, and roll each config out node by node",
		Example: `  # Against the cluster of a kubeconfig; apply the kinds and rights first: kubectl apply -k config/
  machine-config-controller --kubeconfig ~/.kube/config

  # In a pod, as one of several replicas
  machine-config-controller --leader-elect`,
		Version: version, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.defaults.Check(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	cmd.AddCommand(notifyCommand())
	cmd.CompletionOptions.DisableDefaultCmd = true
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: the pod's service account")
	f.StringVar(&o.namespace, "namespace", "bunsen-system", "namespace of the controller's Leases")
	f.StringVar(&o.secretsNamespace, "secrets-namespace", "bunsen-sources",
		"namespace of the Secrets that GitSources name")
	f.StringVar(&o.storeDir, "store", "", "directory for fetched trees, writable only for the controller's user; you "+
		"can delete this directory; empty: bunsen/store in the user's cache directory ($XDG_CACHE_HOME or ~/.cache)")
	f.StringVar(&o.metrics, "metrics", "0", "address for Prometheus metrics, such as 127.0.0.1:8797; 0: off")
	f.StringVar(&o.health, "health", "0", "address for /healthz (the process answers) and /readyz (the API server "+
		"answers and the caches have synced); 0: off")
	f.StringVar(&o.webhook, "webhook", "0", "address for the webhook requests of git hosts (POST /hook/NAME for a "+
		"GitSource with spec.webhook), such as :9292; 0: off")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "act only while this replica holds the Lease; set this flag if "+
		"several replicas run")
	f.StringVar(&o.defaults.OSImageURL, "os-image", "", "OS image for pools whose MachineConfigs set none, with its "+
		"digest; empty: nodes keep their OS images")
	f.StringVar(&o.content.registry, "content-registry", "", "repository such as "+
		"registry.example.com/bunsen/content, which gets the large files of repositories; empty: such a file is an "+
		"error")
	f.StringVar(&o.content.credentials, "content-registry-credentials", "", "file with credentials to pull, push and "+
		"delete there, as docker login writes it")
	f.StringVar(&o.content.ca, "content-registry-ca", "", "file with the CA of that registry, in PEM; empty: the CAs "+
		"of the system")
	f.StringVar(&o.defaults.ExtensionsImage, "extensions-image", "",
		"extensions image for pools whose MachineConfigs set none, with its digest")
	f.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "node on which this process runs, which gets its config "+
		"last; by default $NODE_NAME (the downward API's spec.nodeName)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log every reconciliation, not only those with changes")
	return cmd
}

func run(ctx context.Context, o options) error {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
	rc, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	scheme, err := reconcile.Scheme()
	if err != nil {
		return err
	}
	open, trees, err := opener(o.storeDir)
	if err != nil {
		return err
	}
	defer func() { _ = trees.Close() }() // Close releases the lock, which the end of the process also releases.
	wait := reconcile.OperatorWait{Health: o.health, Replica: replica(), Every: 30 * time.Second}
	if err := reconcile.WaitForOperator(ctx, rc, wait); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme: scheme, Cache: reconcile.CacheOptions(),
		LeaderElection: o.leaderElect, LeaderElectionID: "machine-config-controller",
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       metricsserver.Options{BindAddress: o.metrics}, HealthProbeBindAddress: o.health,
	})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	// The check of /healthz only needs an answer of the process, because a restart would not help during an outage of
	// the API server. Register adds the check of /readyz.
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("serving --health: %w", err)
	}
	cfg := reconcile.Config{
		Namespace: o.namespace, SecretsNamespace: o.secretsNamespace, Version: version, Open: open, Now: time.Now,
		Node: o.node, Replica: replica(), Webhook: o.webhook,
		Defaults: o.defaults, Judge: judge,
	}
	if cfg.ContentRegistry, err = o.content.open(); err != nil {
		return err
	}
	if err := errors.Join(reconcile.Register(mgr, cfg), pools.RegisterLabelKeys(mgr, o.namespace)); err != nil {
		return err
	}
	log.Info("machine-config-controller starts", "version", version)
	return mgr.Start(ctx)
}

// replica identifies this controller: by its pod, or by the host and the process.
func replica() health.Replica {
	r := health.Replica{
		Name: os.Getenv("POD_NAME"), Pod: os.Getenv("POD_NAME"), PodUID: types.UID(os.Getenv("POD_UID")),
		PodNamespace: os.Getenv("POD_NAMESPACE"),
		PID:          os.Getpid(),
	}
	if r.Name != "" {
		return r
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	r.Name, r.Host = host, host
	return r
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		rc, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("reading the pod's service account: %w; outside of a pod, name a cluster with "+
				"--kubeconfig", err)
		}
		return unhurried(rc), nil
	}
	rc, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %q: %w", kubeconfig, err)
	}
	return unhurried(rc), nil
}

// unhurried removes the client's own limit of 5 requests a second. With this limit, the start of a rollout to thousands
// of nodes would take a quarter of an hour. The API server limits requests with API Priority and Fairness, and the
// controllers limit their concurrent writes.
func unhurried(rc *rest.Config) *rest.Config {
	rc.QPS, rc.Burst = 1000, 2000
	return rc
}

// judge gives the verdicts of `bunsen status`, for the BunsenStatus and the metrics.
func judge(o health.Objects, now time.Time) []v1alpha1.Verdict {
	return inspect.Verdicts(fleet.New(fleet.Cluster{
		Sources: o.Sources, Pools: o.Pools, Nodes: o.Nodes, Policies: o.Policies,
		Rendered: fleet.RenderedRows(o.Configs), Leases: o.Leases, Daemons: o.Daemons,
		Secrets: fleet.Secrets{Revisions: o.Secrets}, Timestamps: true,
	}, now))
}
