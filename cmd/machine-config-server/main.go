package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // After a second signal, the server does not wait for --grace.
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "machine-config-server:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "machine-config-server",
		Short: "Serve each pool's rendered config as Ignition to machines that boot for the first time",
		Long: `machine-config-server serves the Ignition config of a pool at https://HOST:22623/config/POOL, in the version that the
machine requests (2.2, 3.0 to 3.5), and /healthz and /readyz.

A machine needs a token of its pool (bunsen token create), which its pointer config contains (bunsen pointer), or a
client certificate (--client-ca). Only tokens of one node get the secrets of a config. --open serves every client.

The server reads pools, rendered configs and tokens from the API server. While the API server is unreachable, the server uses
the last known ones, with --cache-dir also after a restart. Without a cluster it reads a folder (--from-dir) or a repository
(--from-git), and tokens from a file. It creates and renews its certificates in a Secret that all replicas share, or in
--cert-dir, and uses your own certificates as they are. It reads changed files again within a minute.`,
		Example: `  # In a cluster, with its service account; new machines join the cluster
  machine-config-server --hostnames api-int.example.com --join-server https://api-int.example.com:6443 \
    --cache-dir /var/cache/machine-config-server

  # Outside of the cluster, for the local network
  machine-config-server --kubeconfig ~/.kube/config --cert-dir ./certs --hostnames 192.0.2.10 --open --allow-from 192.0.2.0/24

  # Without a cluster, from a repository
  bunsen token create --offline --pool worker --ttl 24h >> tokens.yaml
  machine-config-server --from-git https://git.example.com/os.git --tokens-file tokens.yaml \
    --cache-dir ./cache --cert-dir ./certs --hostnames 192.0.2.10

  # The request of a machine
  curl --cacert certs/ca.crt -H "Authorization: Bearer $TOKEN" https://192.0.2.10:22623/config/worker`,
		Version:       version,
		Args:          func(cmd *cobra.Command, args []string) error { return seeHelp(cmd, cobra.NoArgs(cmd, args)) },
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return run(cmd.Context(), f)
		},
	}
	groups := f.groups()
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.flags)
	}
	cmd.SetUsageFunc(usage(groups))
	cmd.SetFlagErrorFunc(seeHelp)
	return cmd
}

// seeHelp appends to an error about the command line a sentence that says how to show the help.
func seeHelp(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\nSee: %s --help", err, cmd.CommandPath())
}
