package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect"
)

func rollbackCommand() *cobra.Command {
	var ask inspect.RollbackRequest
	cmd := &cobra.Command{
		Use: "rollback pool/NAME [--to COMMIT]", Short: "Print which commits to revert, so that a pool returns to an " +
			"earlier config", GroupID: "act",
		Long: `Print the commits to revert, so that a pool returns to an earlier rendered config, and the command of git that reverts them.
bunsen changes nothing: type the command in a clone of the repository. The nodes return when you push or merge its commits.

Without --to, bunsen selects the last config with which the whole pool was healthy. If the newest config is healthy, bunsen
selects the healthy config before it. Configs that failed on nodes, and those from which an earlier rollback returned, are left
out.

Exit codes: 0 printed, 2 invalid input or nothing to return to, 3 cluster unreachable.`,
		Example: `  # Print how to return to the last config with which the whole pool was healthy
  bunsen rollback pool/worker

  # Print how to return to the config of one commit
  bunsen rollback pool/worker --to 4f1c2ab1`,
		Args: kube.OneSubject(kube.KindPool), ValidArgsFunction: kube.CompleteSubjects(kube.KindPool),
		PreRunE: func(*cobra.Command, []string) error {
			if err := inspect.CheckRollback(ask.To); err != nil {
				return cli.Invalid(err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&ask.To, "to", "", "commit to return to: at least 7 digits of its hash")
	f.StringVar(&ask.Source, "source", "", "the GitSource whose commits to revert, if several feed the pool")
	cli.CompleteFlag(cmd, "to", kube.Complete(2, offeredCommits))
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		cluster, err := kube.Read(ctx, q.client)
		if err != nil {
			return answer{}, err
		}
		about, err := kube.FindSubject(cluster, q.args[0], kube.KindPool)
		if err != nil {
			return answer{}, err
		}
		ask.Pool, ask.Now = about.Name, q.now
		r, err := inspect.NewRollback(cluster, ask)
		if err != nil {
			return answer{}, cli.Invalid(err)
		}
		return answer{text: r.Text(), data: r}, nil
	})
}
