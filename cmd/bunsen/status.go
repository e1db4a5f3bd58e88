package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

func statusCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show what needs you, and the state of sources, pools, servers and nodes",
		GroupID: "cluster",
		Long: `Show whether something needs you, and the state of the cluster:

  sources      and when the controller last listed the refs of each repository
  controllers  and which replica leads
  pools        and how far each rollout is
  nodes        that wait or failed, and why; bunsen get nodes lists all
  servers      what is wrong with them, and which config a new machine of a pool boots if that is not the pool's target

bunsen shows the age of outdated facts. A node whose kubelet or daemon does not report is UNKNOWN.

With --watch, bunsen draws a live screen until Ctrl-C, in the order of the console: what needs you, with the first commands to
type, what moves, and a line for each pool that is well. A rollout has a bar: # updated, > updating, ! failed, < rolled back, .
waiting, ? unready or unknown. Below are the parts of Bunsen, and the nodes that update now. bunsen watches the objects, reads the
heartbeats of controllers and servers every ten seconds, and those of daemons every thirty. If standard output is not a terminal,
each change is a line.

Exit codes, which are those of bunsen why for the worst pool or GitSource:
  0  nothing is wrong, or Bunsen continues without you
  2  invalid input
  3  cluster unreachable
  5  blocked: something needs you
  6  degraded: nodes failed, a rollout was halted or reverted, or a pool cannot be rendered`,
		Example: `  bunsen status
  bunsen status -w
  bunsen status -o json`,
		Args: cobra.NoArgs,
	}
	readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		cluster, err := q.readAll(ctx)
		if err != nil {
			return answer{}, err
		}
		f := fleet.New(cluster, q.now)
		s := inspect.StatusOf(f)
		kube.NewStepTimes(q.client).FillStatus(ctx, &s)
		return answer{inspect.OverviewOf(f, s).StatusText(), s, exitFor(s.Outcome)}, nil
	})
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !watch:
			return once(cmd, args)
		case cmd.Flag("output").Changed:
			return cli.Invalid(errors.New("--watch prints the screen: leave out --output"))
		}
		t := kube.TargetOf(cmd)
		c, err := t.Connect()
		if err != nil {
			return err
		}
		return t.Follow(cmd.Context(), c, kube.NewDisplay(cmd.OutOrStdout()))
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep the screen current until Ctrl-C; without a terminal, "+
		"print each change")
	return cmd
}
