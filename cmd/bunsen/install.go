package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli/install"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

func installCommand() *cobra.Command {
	i := install.Installation{Poll: time.Second}
	cmd := &cobra.Command{
		Use: "install (--registry REPOSITORY --tag TAG | --images FILE)", Short: "Install Bunsen on a cluster, or " +
			"upgrade it", GroupID: "install",
		Aliases: []string{"upgrade"},
		Long: `Install the kinds, the rights, the controller, the server and the daemon. First bunsen checks the cluster: its version, your
rights, and that the Machine Config Operator does not lead its pools. If a check fails, bunsen changes nothing. After the
checks, bunsen applies the objects that kubectl apply -k config/default applies, and waits until all parts are ready. Run bunsen
install again to upgrade, or to change an option. bunsen adapts the number of replicas to the number of control-plane nodes.

Exit codes: 0 installed, 2 wrong options or a cluster that is not ready, 3 cluster unreachable, 4 not all parts were ready in time.`,
		Example: `  bunsen install --registry registry.example.com/bunsen --tag v1.2.3
  bunsen install --images dist/images.json --hostnames api-int.example.com --join-server https://api-int.example.com:6443

  # Only the objects, for kubectl or a repository
  bunsen install --images dist/images.json --print > bunsen.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return i.Run(cmd) },
	}
	i.Flags(cmd)
	return cmd
}

func checkCommand() *cobra.Command {
	k := install.Check{Version: version}
	cmd := &cobra.Command{
		Use: "check", Short: "Show whether the parts of Bunsen work on a cluster", GroupID: "install",
		Long: `Show each part of an installation: how many of its pods are ready, which versions run, and why pods are not ready. Programs of
two adjacent minor versions work together, for example during an upgrade.

Exit codes: 0 everything works, 2 invalid input, 3 cluster unreachable, 6 a part does not work.`,
		Example: `  bunsen check
  bunsen check -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return k.Run(cmd) },
	}
	k.AddFlags(cmd)
	k.Out.AddFlag(cmd, "", "table", "json", "yaml")
	return cmd
}

func uninstallCommand() *cobra.Command {
	r := install.Removal{Poll: time.Second}
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Remove Bunsen from a cluster; nodes keep running", GroupID: "install",
		Long: `Delete the daemon, the controller, the server, their rights and the admission policies. Nodes keep their configs and continue to
run. The CRDs with all pools and configs stay, unless --everything is set. bunsen prints which objects remain. Before it deletes
anything, bunsen waits for nodes that are being updated. If these nodes need longer than --timeout, bunsen removes nothing.

Exit codes: 0 removed, 2 invalid input, 3 cluster unreachable, 4 nodes are still being updated.`,
		Example: `  bunsen uninstall --dry-run
  bunsen uninstall`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.Run(cmd) },
	}
	r.Flags(cmd)
	return cmd
}

func supportBundleCommand() *cobra.Command {
	k := kube.Collection{Version: version}
	cmd := &cobra.Command{
		Use: "support-bundle", Short: "Collect what maintainers need to find a fault, without secrets",
		GroupID: "install",
		Long: `Write one tar.gz with the state of Bunsen on a cluster. The archive has the output of bunsen status and bunsen why, the objects
of Bunsen, Nodes, events, Leases, and the logs of Bunsen's pods.

The bundle never has Secrets, or the contents of files and units. It has their sizes. bunsen does not
search objects and logs for other secrets, so read the files before you send them. The file left-out.txt lists what the bundle
does not have, for example because you may not read an object.

Exit codes: 0 written, 2 invalid input or the file exists, 3 cluster unreachable.`,
		Example: `  bunsen support-bundle
  bunsen support-bundle --output - | tar -tz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return k.Run(cmd) },
	}
	k.Flags(cmd)
	return cmd
}
