package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/machines"
	"github.com/bunsen-os/bunsen/mcs/join"
)

func pointerCommand() *cobra.Command {
	var p machines.Pointer
	cmd := &cobra.Command{
		Use: "pointer --pool NAME [--server URL]", Short: "Print the pointer config with which a new machine boots",
		GroupID: "machines",
		Long: `Print the pointer config of a pool: an Ignition config of about a kilobyte with the server's address,
its CA and a token. A new machine gets the pointer config as user data of a cloud, by PXE or from QEMU, and fetches
its first config with it.

Without --token, bunsen creates a token, as "bunsen token create" does; --node, --uses and --ttl limit this token.
bunsen reads the CA from the cluster (ConfigMap bunsen-system/machine-config-server-ca) unless --ca names a file, and
the server's URL if the cluster stores one. With --server, --ca and --token, bunsen needs no cluster. Pass a token on
standard input with --token -, because the list of processes shows the arguments of a program.

If the cluster's servers have the daemon, the pointer config also installs the daemon, so that Bunsen manages the
machine from its first boot. "bunsen install" sets the servers' flag --daemon. --daemon-url names another place, for
example a web server with the binary of a release; Ignition checks it against --daemon-sha512. The pool's config
overrides these files and units.

The default, version 3.1.0 of the config specification, works since Ignition 2.3. Versions 3.0.0 and 2.2.0 are for
older ones. They have no headers, so the token is in the URL, which such a machine writes to its log. The pointer
config contains the token: keep it secret.

Exit codes: 0 printed, 2 invalid input, 3 cluster unreachable, or permission denied.`,
		Example: `  bunsen pointer --pool worker --server https://api.example.com:22623 > worker.ign
  bunsen pointer --pool worker --server https://api.example.com:22623 --ttl 7d -o butane
  bunsen pointer --pool worker --node worker-07 --uses 3 --ttl 1h
  bunsen pointer --pool worker --daemon-url https://releases.example.com/v1/machine-config-daemon-linux-amd64 --daemon-sha512 $(sha512sum machine-config-daemon | cut -d' ' -f1)
  bunsen token create --pool master --tokens-file tokens.yaml | bunsen pointer --pool master --token - --ca ca.crt --server https://10.0.0.2:22623`,
		Args:    p.PoolOnly,
		PreRunE: p.NoneMade,
		RunE:    func(cmd *cobra.Command, _ []string) error { return machines.PermissionHint(p.Run(cmd)) },
	}
	p.Flags(cmd)
	cmd.Flags().StringVar(&p.Server, "server", "", "the server's URL for new machines, such as "+
		"https://api.example.com:22623; empty: read it from the cluster")
	cmd.Flags().StringVar(&p.Ca, "ca", "", "file with the certificates of the server's CAs, as PEM; empty: read them "+
		"from the cluster")
	cmd.Flags().BoolVar(&p.NoCA, "no-ca", false, "write no CA into the pointer config, because the machine's image "+
		"already trusts the server's certificate")
	cmd.Flags().StringVar(&p.Token, "token", "", "the token, or - for standard input, which no list of processes "+
		"shows; empty: create one")
	cmd.Flags().BoolVar(&p.NoToken, "no-token", false, "write no token into the pointer config, for a server that "+
		"runs with --open")
	p.Form.AddFlag(cmd, "", "ignition", "butane")
	cmd.Flags().StringVar(&p.Version, "version", string(join.DefaultPointerVersion), "version of the config "+
		"specification: "+machines.Versions(", "))
	cmd.Flags().BoolVar(&p.Zipped, "gzip", false, "let the machine request a compressed config from the server")
	p.Daemon.AddFlags(cmd)
	for _, made := range []string{"node", "uses", "ttl"} {
		cmd.MarkFlagsMutuallyExclusive("token", made)
		cmd.MarkFlagsMutuallyExclusive("no-token", made)
	}
	cmd.MarkFlagsMutuallyExclusive("token", "no-token")
	cmd.MarkFlagsMutuallyExclusive("ca", "no-ca")
	cli.CompleteFlag(cmd, "version", cobra.FixedCompletions(strings.Split(machines.Versions(" "), " "),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
