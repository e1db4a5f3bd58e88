package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

func whyCommand() *cobra.Command {
	kinds := []string{kube.KindNode, kube.KindPool, kube.KindSource}
	cmd := &cobra.Command{
		Use: "why [node/NAME | pool/NAME | gitsource/NAME]",
		Short: "Explain why a node, a pool or a GitSource waits, " +
			"and what to do", GroupID: "cluster",
		Long: `Explain in one sentence why a node does not run the config of its pool, or why a pool is not updated. Then list the details:

  the budget of the pool, and the nodes that use it
  the maintenance window, the gate, the soak time, and the pool that has to finish first
  the nodes that failed, and the commit that failed on them
  each pod that a drain waits for, and the PodDisruptionBudget that protects it
  commands that help

For a GitSource, explain why its newest commit is not on the cluster. You can omit the kind, such as node/, if only one object
has the name. Without an argument, explain each pool and GitSource that is not fine, and each reason once. Then name those
that are held, paused or suspended, because new commits do not reach them.

Exit codes:
  0  nothing is wrong, or Bunsen continues without you, for example when a window opens or a pause ends
  2  invalid input
  3  cluster unreachable
  5  blocked: you have to act on a policy, a pause without an end, a budget or an unhealthy node; also a node that
     waits because the rollout halted on another node
  6  degraded: nodes failed, a rollout was halted or reverted, or a pool cannot be rendered`,
		Example: `  bunsen why
  bunsen why node/worker-07
  bunsen why pool/worker
  bunsen why gitsource/config
  bunsen why worker -o json`,
		ValidArgsFunction: kube.CompleteSubjects(kinds...),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return kube.OneSubject(kinds...)(cmd, args)
		},
	}
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		cluster, err := q.readAll(ctx)
		if err != nil {
			return answer{}, err
		}
		if len(q.args) == 0 {
			return q.whyAll(ctx, cluster), nil
		}
		about, err := kube.FindSubject(cluster, q.args[0], kinds...)
		if err != nil {
			return answer{}, err
		}
		ask := map[string]func(fleet.Cluster, string, time.Time) (inspect.Why, error){
			kube.KindNode: inspect.WhyNode,
			kube.KindPool: inspect.WhyPool, kube.KindSource: inspect.WhySource,
		}
		why, err := ask[about.Kind](cluster, about.Name, q.now)
		if err != nil {
			return answer{}, cli.Invalid(err)
		}
		kube.NewStepTimes(q.client).FillWhy(ctx, &why)
		return answer{why.Text(q.now), why, exitFor(why.Outcome)}, nil
	})
}

// whyAll explains each pool and GitSource that is not fine. The exit code is that of the worst.
func (q query) whyAll(ctx context.Context, cluster fleet.Cluster) answer {
	overview := inspect.NewOverview(cluster, q.now)
	steps := kube.NewStepTimes(q.client)
	for i := range overview.Whys {
		steps.FillWhy(ctx, &overview.Whys[i])
	}
	return answer{overview.Text(q.now), overview.All(), exitFor(overview.Outcome)}
}

// exitFor returns the exit code for an outcome, for bunsen why and bunsen status.
func exitFor(o inspect.Outcome) error {
	switch o {
	case inspect.Blocked, inspect.Unknown:
		return &cli.ExitError{Code: cli.ExitBlocked}
	case inspect.Degraded:
		return &cli.ExitError{Code: cli.ExitDegraded}
	}
	return nil
}

func historyCommand() *cobra.Command {
	var since cli.Span
	cmd := &cobra.Command{
		Use: "history [pool/NAME]", Short: "List the rollouts of a pool, or of all, and how each ended",
		GroupID: "cluster",
		Long: `List the rollouts of a pool, newest first, as the controller recorded them when they ended: the commit, the hold, the retry,
the change through the API or the new secrets that began each, the rendered config, and the outcome. Commits that were refused,
not rendered, overtaken by a newer one, or without effect stand between them, at the time when the controller looked at
them.

Without a pool, bunsen lists what happened to all pools, and leaves out commits without an effect.`,
		Example: `  bunsen history --since 1d
  bunsen history pool/worker
  bunsen history pool/worker -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return kube.OneSubject(kube.KindPool)(cmd, args)
		},
		ValidArgsFunction: kube.CompleteSubjects(kube.KindPool),
	}
	cmd.Flags().Var(&since, "since", "only what happened in this time, such as 12h or 2d")
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		if since < 0 {
			return answer{}, cli.Invalid(fmt.Errorf("--since %s: want a time such as 12h or 2d", &since))
		}
		cluster, err := kube.Read(ctx, q.client)
		if err != nil {
			return answer{}, err
		}
		var from time.Time
		if since > 0 {
			from = q.now.Add(-time.Duration(since))
		}
		if len(q.args) == 0 {
			f := fleet.New(cluster, q.now)
			events := history.Events(f, history.All(f), from)
			return answer{text: history.EventsText(events, from, q.now), data: events}, nil
		}
		about, err := kube.FindSubject(cluster, q.args[0], kube.KindPool)
		if err != nil {
			return answer{}, err
		}
		h, err := history.New(cluster, about.Name, q.now)
		if err != nil {
			return answer{}, cli.Invalid(err)
		}
		if !from.IsZero() {
			h.Rows = slices.DeleteFunc(h.Rows, func(r history.Row) bool {
				at := cmp.Or(r.Ended, r.At)
				return at == nil || at.Before(from)
			})
			if len(h.Rows) == 0 {
				return answer{text: history.EventsText(nil, from, q.now), data: h}, nil
			}
		}
		return answer{text: h.Text(q.now), data: h}, nil
	})
}
