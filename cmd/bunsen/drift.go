package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

func driftCommand() *cobra.Command {
	var exitCode bool
	cmd := &cobra.Command{
		Use: "drift [NODE]", Short: "List configuration drift on nodes", GroupID: "cluster",
		Long: `List the differences between nodes and their configs: files, links, directories, units, users, kernel arguments. The daemons
report these differences on their Nodes, without contents. A DriftPolicy decides what the daemon does: ACTION is Degrade, Repair
or Report. Ignored differences are not listed.

If the daemon or the kubelet of a node does not report, bunsen lists the node as not known.

Exit codes: 0 no drift, 1 drift, 2 invalid input, 3 cluster unreachable, 5 no node reports drift but some nodes do not report.`,
		Example: `  bunsen drift
  bunsen drift worker-07 -o json
  bunsen drift show node/worker-07 /etc/chrony.conf
  bunsen drift adopt node/worker-07 /etc/chrony.conf -o ~/os-config`,
		Args: needsArgs(0, 1, "drift accepts at most one node, and without a node lists all nodes; "+
			"`bunsen drift show node/NAME PATH` shows one difference"),
		ValidArgsFunction: kube.CompleteDrift,
	}
	cmd.Flags().BoolVar(&exitCode, "exit-code", true,
		"exit with 1 if there is drift, and with 5 if nodes do not report")
	cmd.AddCommand(driftShowCommand(), driftAdoptCommand())
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		d, err := kube.ReadDrift(ctx, q.client, q.args)
		a := answer{text: d.Text(q.now), data: d}
		switch {
		case d.Any() && exitCode:
			a.exit = &cli.ExitError{Code: cli.ExitDifferent}
		case len(d.Unknown) > 0 && exitCode:
			a.exit = &cli.ExitError{Code: cli.ExitBlocked}
		}
		return a, err
	})
}

// onePath checks the arguments of a verb that works on one difference on one node.
func onePath(verb string) cobra.PositionalArgs {
	return needsArgs(2, 2, fmt.Sprintf("drift %[1]s needs a node and a path that differs there, for example: bunsen "+
		"drift %[1]s node/worker-07 /etc/chrony.conf", verb))
}

func driftShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show node/NAME PATH", Short: "Show one difference between a node and its config, with the lines " +
			"that differ",
		Long: `Show one difference between a node and its config. You see the lines that differ only if you may run a command in the daemon's
pod on the node; secret contents stay hidden. If the daemon runs as a service of the node, bunsen prints the command to run on
the node.

Exit codes: 0 shown, 2 invalid input or no such drift, 3 cluster unreachable.`,
		Example: `  bunsen drift show node/worker-07 /etc/chrony.conf
  bunsen drift show node/worker-07 chronyd.service -o yaml`,
		Args: onePath("show"), ValidArgsFunction: kube.CompleteDrift,
	}
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		row, err := kube.FindDrift(ctx, q.client, q.args)
		if err != nil {
			return answer{}, err
		}
		shown := kube.ShownDrift{DriftRow: row}
		if row.Actual != nil && strings.HasPrefix(row.Name, "/") {
			shown.Diff, shown.Note = q.Target.DriftDiff(ctx, q.client, row)
		}
		return answer{text: shown.Text(q.now), data: shown}, nil
	})
}

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
