package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/reconcile"
	"github.com/bunsen-os/bunsen/reconcile/notify"
)

type notifyOptions struct {
	kubeconfig, namespace, secretsNamespace, metrics, health string
	statusInterval                                           time.Duration
}

// notifyCommand returns the subcommand notify. It runs as a process with its own rights: only this process reads the
// tokens that write to git hosts and chats.
func notifyCommand() *cobra.Command {
	var o notifyOptions
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Report rollouts to git hosts and chats, as the cluster's Notifications define",
		Example: `  # Against the cluster of a kubeconfig
  machine-config-controller notify --kubeconfig ~/.kube/config`,
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runNotify(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: the pod's service account")
	f.StringVar(&o.namespace, "namespace", v1alpha1.ServerNamespace, "namespace of the notifier's Lease")
	f.StringVar(&o.secretsNamespace, "secrets-namespace", "bunsen-notifications",
		"namespace of the Secrets that Notifications name")
	f.StringVar(&o.metrics, "metrics", "0", "address for Prometheus metrics, such as 127.0.0.1:8798; 0: off")
	f.StringVar(&o.health, "health", "0", "address for /healthz and /readyz; 0: off")
	f.DurationVar(&o.statusInterval, "status-interval", time.Minute, "shortest time between two commit statuses of "+
		"the same name on one commit")
	return cmd
}

func runNotify(ctx context.Context, o notifyOptions) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
	rc, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	scheme, err := notify.Scheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme: scheme, Cache: reconcile.CacheOptions(), Metrics: metricsserver.Options{BindAddress: o.metrics},
		HealthProbeBindAddress: o.health,
	})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return fmt.Errorf("serving --health: %w", err)
		}
	}
	c := &notify.Controller{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Open: openGitHost,
		Namespace: o.secretsNamespace, Pace: o.statusInterval, Now: time.Now,
	}
	if err := c.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("registering the notifier: %w", err)
	}
	own := replica()
	beat := &notify.Heartbeat{
		Client: mgr.GetClient(), Namespace: o.namespace, Name: own.Name, Now: time.Now,
		Report: v1alpha1.ControllerReport{Version: version, Host: own.Host, PID: own.PID},
	}
	if own.Pod != "" {
		beat.Report.Pod, beat.Report.PID = cmp.Or(own.PodNamespace, o.namespace)+"/"+own.Pod, 0
	}
	if err := beat.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("registering the heartbeat: %w", err)
	}
	log.Info("the notifier starts", "version", version)
	return mgr.Start(ctx)
}

// openGitHost returns the client of the git host that a target names.
func openGitHost(t forge.Target, client *http.Client) (notify.Service, error) {
	switch t.Kind {
	case forge.GitHub:
		return forge.NewGitHub(t, client)
	case forge.GitLab:
		return forge.NewGitLab(t, client)
	default:
		return forge.NewGitea(t, client)
	}
}
