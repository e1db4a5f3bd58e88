package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli/nodes"
)

func driftAdoptCommand() *cobra.Command {
	var a nodes.Adoption
	cmd := &cobra.Command{
		Use: "adopt node/NAME PATH", Short: "Write a node's change as Butane, for a pull request",
		Long: `Write a Butane document with what the node has now: contents, mode and owner. Its name sorts late in the node's pool, so it
overrides the document that sets the path today. Move its lines to that document and delete it if you can (bunsen explain PATH
says where that is). bunsen changes nothing on the cluster or the node.

bunsen reads the contents from the daemon's pod on the node, or with --from from the output of this command on the node:
  machine-config-daemon drift export PATH

Exit codes: 0 written, 2 invalid input or no such drift, 3 cluster or node unreachable.`,
		Example: `  bunsen drift adopt node/worker-07 /etc/chrony.conf
  bunsen drift adopt node/worker-07 /etc/chrony.conf -o ~/os-config
  bunsen drift adopt node/worker-07 /etc/chrony.conf --from chrony.json -o ~/os-config`,
		Args: onePath("adopt"), ValidArgsFunction: nodes.CompleteDrift,
		RunE: func(cmd *cobra.Command, args []string) error {
			repository, note, err := a.Adopt(cmd.Context(), args)
			if err != nil {
				return err
			}
			if note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", note)
			}
			return a.Write(cmd.OutOrStdout(), repository)
		},
	}
	a.AddFlags(cmd)
	cmd.Flags().StringVar(&a.From, "from", "", "a file with what `machine-config-daemon drift export PATH` printed on the node")
	cmd.Flags().StringVarP(&a.Dir, "out", "o", "", "the repository to write to; empty: standard output")
	cmd.Flags().BoolVar(&a.Secret, "secret", false, "write contents that look secret, too")
	return cmd
}
