package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/inspect"
)

func statusCommand() *cobra.Command {
	var t target
	var out output
	var watch bool
	cmd := &cobra.Command{
		Use: "status", Short: "One screen: sources, controllers, pools, servers, nodes, and why each node waits", GroupID: "cluster",
		Long: `Show sources, and when the controller last looked at their repositories; the machine-config-controllers, and which of them leads;
pools; nodes, and why each node waits; and the machine-config-servers: who gets configs from them, what is wrong with them, and
which config new machines of a pool boot where that is not the pool's target. Facts that are old are shown with their age: a
node whose kubelet or daemon does not report is UNKNOWN.

With --watch it is a live screen until Ctrl-C: each pool with a bar (# updated, > at work, ! failed, < went back, . waiting, ? unready or unknown), its
step, what blocks it, what it waits for, what comes next and what to type, and the nodes in flight. It is fed by watches; heartbeats of
controllers and servers are read every ten seconds, those of daemons every thirty.
Where standard output is no terminal, each change is a line.`,
		Example: `  bunsen status
  bunsen status -w
  bunsen status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && out != "table" {
				return invalid(errors.New("--watch prints the screen: leave out --output"))
			}
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			if watch {
				return t.follow(cmd.Context(), c, newDisplay(cmd.OutOrStdout()))
			}
			cluster, err := readAll(cmd.Context(), c)
			if err != nil {
				return err
			}
			cluster.Timestamps = out != "table"
			s := inspect.NewStatus(cluster, time.Now())
			newStopwatch(c).status(cmd.Context(), &s)
			return out.print(cmd.OutOrStdout(), harmless(s.Text()), s)
		},
	}
	t.flags(cmd)
	out.flags(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep the screen current until Ctrl-C; without a terminal, print each change")
	return cmd
}
