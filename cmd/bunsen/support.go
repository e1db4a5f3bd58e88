package main

import (
	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

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
