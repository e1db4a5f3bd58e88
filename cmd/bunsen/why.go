package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/inspect"
)

func whyCommand() *cobra.Command {
	var t target
	var out output
	cmd := &cobra.Command{
		Use: "why node/NAME | pool/NAME | gitsource/NAME", Short: "Say why a node, a pool or a GitSource does not go on, and what helps", GroupID: "cluster",
		Long: `Say in one sentence why a node does not run what its pool should run, or why a pool is not done; then what it waits for: who
takes the places of the budget, the maintenance window, the gate, the soak time, the pool that comes first, the nodes that
failed and the commit that they failed, each pod of a drain and the PodDisruptionBudget that keeps it; and commands that help.
A GitSource says why its newest commit is not on the cluster. A name without its kind will do where only one thing has it.

Exit codes: 0 fine, or it goes on by itself; 5 blocked by a policy, a window, a pause, a budget, a node that is not well or,
for a node that did not fail itself, a halt: somebody has to see to it; 6 degraded: the rollout was halted or reverted, or
nodes failed; 2 invalid input; 3 cluster out of reach.`,
		Example: `  bunsen why node/worker-07
  bunsen why pool/worker
  bunsen why gitsource/config
  bunsen why worker -o json`,
		Args: oneThing(aNode, aPool, aSource),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			cluster, err := readAll(cmd.Context(), c)
			if err != nil {
				return err
			}
			cluster.Timestamps = out != "table"
			about, err := named(cluster, args[0], aNode, aPool, aSource)
			if err != nil {
				return err
			}
			now := time.Now()
			ask := map[string]func(inspect.Cluster, string, time.Time) (inspect.Why, error){aNode: inspect.WhyNode, aPool: inspect.WhyPool, aSource: inspect.WhySource}
			why, err := ask[about.kind](cluster, about.name, now)
			if err != nil {
				return invalid(err)
			}
			newStopwatch(c).why(cmd.Context(), &why)
			if err := out.print(cmd.OutOrStdout(), harmless(why.Text(now)), why); err != nil {
				return err
			}
			return exitFor(why.Outcome)
		},
	}
	cmd.ValidArgsFunction = t.completeThings(aNode, aPool, aSource)
	t.flags(cmd)
	out.flags(cmd)
	return cmd
}

// exitFor is the exit code of an outcome.
func exitFor(o inspect.Outcome) error {
	switch o {
	case inspect.Blocked:
		return &exitError{code: exitBlocked}
	case inspect.Degraded:
		return &exitError{code: exitDegraded}
	}
	return nil
}

func historyCommand() *cobra.Command {
	var t target
	var out output
	cmd := &cobra.Command{
		Use: "history pool/NAME", Short: "List the commits of a pool and what became of each", GroupID: "cluster",
		Long: `List what commits gave a pool to run, newest first by the time at which the rollout began: the commit or the change through the API, the
rendered config, and what became of it. A commit without a rollout has its own time; the newest commit comes first where it cannot be used. It is put together from the histories of the GitSources (the last 20
commits), the pool's record of its rollout, and the rendered configs that are still there. What none of them knows any more is
said, not guessed.`,
		Example: `  bunsen history pool/worker
  bunsen history pool/worker -o json`,
		Args: oneThing(aPool),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			cluster, err := read(cmd.Context(), c)
			if err != nil {
				return err
			}
			about, err := named(cluster, args[0], aPool)
			if err != nil {
				return err
			}
			now := time.Now()
			h, err := inspect.NewHistory(cluster, about.name, now)
			if err != nil {
				return invalid(err)
			}
			if err := out.print(cmd.OutOrStdout(), harmless(h.Text(now)), h); err != nil {
				return fmt.Errorf("printing the history: %w", err)
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = t.completeThings(aPool)
	t.flags(cmd)
	out.flags(cmd)
	return cmd
}
