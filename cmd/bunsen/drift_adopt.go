package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

func driftAdoptCommand() *cobra.Command {
	var a kube.Adoption
	cmd := &cobra.Command{
		Use: "adopt node/NAME PATH", Short: "Write a node's change as Butane, for a pull request",
		Long: `Write a Butane document with the present contents, mode and owner of a path on a node. The name of the document sorts late in
the node's pool, so the document overrides the one that sets the path today. If you can, move its lines to the earlier document,
which bunsen explain PATH names, and delete the new one. bunsen changes nothing on the cluster or the node.

bunsen reads the contents from the daemon's pod on the node, or, with --from, from the output of this command on the node:
  machine-config-daemon drift export PATH

Exit codes: 0 written, 2 invalid input or no such drift, 3 cluster or node unreachable.`,
		Example: `  bunsen drift adopt node/worker-07 /etc/chrony.conf
  bunsen drift adopt node/worker-07 /etc/chrony.conf -o ~/os-config
  bunsen drift adopt node/worker-07 /etc/chrony.conf --from chrony.json -o ~/os-config`,
		Args: onePath("adopt"), ValidArgsFunction: kube.CompleteDrift,
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
	cmd.Flags().StringVar(&a.From, "from", "", "a file with the output of `machine-config-daemon drift export PATH` "+
		"on the node")
	cmd.Flags().StringVarP(&a.Dir, "out", "o", "", "the repository to write to; empty: standard output")
	cmd.Flags().BoolVar(&a.Secret, "secret", false, "also write contents that are secret")
	return cmd
}
