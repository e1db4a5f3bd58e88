package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	mcshttp "github.com/bunsen-os/bunsen/mcs/http"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "machine-config-server:", err)
		os.Exit(1)
	}
}

// flags are what the command line says.
type flags struct {
	kubeconfig string
	listen     string
	certDir    string
	hostnames  []string
}

func command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "machine-config-server",
		Short: "Serve each pool's rendered config as Ignition to machines that boot for the first time",
		Long: `machine-config-server answers https://HOST:22623/config/POOL with the Ignition config of that pool, in the
version that the machine asks for (3.0 to 3.5), and /healthz and /readyz.

It reads pools and rendered configs from the API server and goes on serving the last known ones while that is
away. Without certificates in --cert-dir it makes a CA (ca.crt: give it to new machines) and a certificate of it, and
renews both. A directory with tls.crt and tls.key but no ca.key is used as it is; files that change are taken up
within a minute. Anybody who can reach the port can read the configs: keep it from pods and foreign networks.`,
		Example: `  # In a cluster, with its service account
  machine-config-server --cert-dir /etc/mcs --hostnames api-int.example.com

  # Beside a cluster, for one's own network
  machine-config-server --kubeconfig ~/.kube/config --cert-dir ./certs --hostnames 192.0.2.10

  # What a machine asks
  curl --cacert certs/ca.crt -H 'Accept: application/vnd.coreos.ignition+json;version=3.5.0' \
    https://192.0.2.10:22623/config/worker`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: the pod's service account)")
	cmd.Flags().StringVar(&f.listen, "listen", "0.0.0.0:22623", "address and port to serve HTTPS on")
	cmd.Flags().StringVar(&f.certDir, "cert-dir", "/etc/bunsen/machine-config-server", "directory of ca.crt, ca.key, tls.crt and tls.key")
	cmd.Flags().StringSliceVar(&f.hostnames, "hostnames", nil, "names and addresses that machines ask for; loopback and this host's name are added")
	return cmd
}

// run constructs the parts and runs them until the context ends.
func run(ctx context.Context, f flags) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(log.Handler())) // for client-go
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the API server (give --kubeconfig outside of a cluster): %w", err)
	}
	shelf := mcshttp.NewShelf()
	cluster, err := mcshttp.NewCluster(config, shelf, log)
	if err != nil {
		return err
	}
	certificates, err := mcshttp.OpenCertificates(f.certDir, f.hostnames, log)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("opening --listen %s: %w", f.listen, err)
	}
	log.Info("listening", "address", listener.Addr().String(), "version", version)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return cluster.Run(ctx) })
	group.Go(func() error { certificates.Run(ctx); return nil })
	group.Go(func() error {
		server := mcshttp.Server{Handler: mcshttp.Routes(shelf, log), TLS: certificates.TLS(), Log: log}
		return server.Serve(ctx, listener)
	})
	return group.Wait()
}
