package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

func holdCommand() *cobra.Command {
	var at, because, until string
	cmd := &cobra.Command{
		Use: "hold pool/NAME --at REVISION --because TEXT [--until TIME]", Short: "Hold a pool at the config of an " +
			"earlier commit until you release it",
		Long: `Hold a pool at the rendered config that a commit gave it, while the repository has newer commits. The pool's nodes keep this
config, or return to it as the rollout allows. New machines also get the held config. The held config is on the cluster, so a
hold works while the git server is down. bunsen history pool/NAME lists the commits. The pool records your user name on the
cluster and the text of --because, which bunsen status and bunsen why show. With --until, the controller releases the pool at
that time. For a held pool, the new commit, reason and end replace the old ones, and the nodes go to the new commit directly.`,
		Example: `  bunsen hold pool/worker --at 4f1c2ab1 --because "the new kernel loses packets" --until 3d
  bunsen hold pool/worker --at 4f1c2ab1 --because "the new kernel loses packets" --dry-run`,
	}
	cmd.Flags().StringVar(&at, "at", "", "hash of the commit, with at least 7 digits, or the revision as status "+
		"shows it")
	out := changesCluster(stopsFor(cmd, &because, &until), []string{kube.KindPool},
		func(ctx context.Context, c client.Client, cluster fleet.Cluster, pool kube.Subject) (kube.HoldOrder, error) {
			end, err := cli.ParseUntil(until, time.Now())
			if err != nil {
				return kube.HoldOrder{}, err
			}
			return kube.Hold(cluster, pool.Name, at, kube.HoldReason{
				Who: kube.WhoAmI(ctx, c), Because: because,
				Until: end,
			})
		})
	cli.CompleteFlag(out, "at", kube.Complete(2, offeredCommits))
	check := out.PreRunE
	out.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := kube.CheckRevision(at); err != nil {
			return cli.Invalid(err)
		}
		return check(cmd, args)
	}
	return out
}

// offeredCommits returns the commits of a pool's earlier rollouts, with their subjects.
func offeredCommits(ctx context.Context, c client.Client, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	cluster, err := kube.ReadObjects(ctx, c)
	if err != nil {
		return nil, err
	}
	about, err := kube.FindSubject(cluster, args[0], kube.KindPool)
	return inspect.RollbackOffers(cluster, about.Name), err
}

func releaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "release pool/NAME", Short: "End the hold of a pool, so that it follows its repository again",
		Long: `Release a pool from a hold: the controller renders the newest revision of its sources and rolls it out.`,
		Example: `  bunsen release pool/worker
  bunsen release pool/worker --dry-run`,
	}
	return changesCluster(cmd, []string{kube.KindPool}, func(ctx context.Context, c client.Client,
		cluster fleet.Cluster, pool kube.Subject,
	) (kube.HoldOrder, error) {
		return kube.Release(cluster, pool.Name, kube.WhoAmI(ctx, c))
	})
}
