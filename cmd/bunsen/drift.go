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
