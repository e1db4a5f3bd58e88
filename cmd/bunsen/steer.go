package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// steerCodes are the exit codes of the verbs that change a cluster.
const steerCodes = `

Exit codes: 0 done, or in force already, 2 invalid input: nothing is changed, 3 the cluster is unreachable or refuses the change.`

// changesCluster completes a verb that changes a cluster with the flags, the connection, the argument with the object,
// and the exit codes. The function decide returns the changes.
func changesCluster(cmd *cobra.Command, kinds []string, decide func(context.Context, client.Client, fleet.Cluster,
	kube.Subject) (kube.HoldOrder, error),
) *cobra.Command {
	var t kube.Target
	var dryRun bool
	t.AddFlags(cmd)
	cmd.Long += steerCodes
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the API server check the change, and change nothing")
	cmd.Args, cmd.GroupID, cmd.ValidArgsFunction = kube.OneSubject(kinds...), "act", kube.CompleteSubjects(kinds...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := t.Connect()
		if err != nil {
			return err
		}
		cluster, err := kube.Read(cmd.Context(), c)
		if err != nil {
			return err
		}
		about, err := kube.FindSubject(cluster, args[0], kinds...)
		if err != nil {
			return err
		}
		order, err := decide(cmd.Context(), c, cluster, about)
		if err != nil {
			return cli.Invalid(err)
		}
		return kube.Applier{Client: c, Out: cmd.OutOrStdout(), DryRun: dryRun}.Apply(cmd.Context(), order)
	}
	return cmd
}

func pauseCommand() *cobra.Command {
	var because, until string
	cmd := &cobra.Command{
		Use: "pause pool/NAME --because TEXT [--until TIME]", Short: "Stop assigning configs in a pool until you " +
			"resume it",
		Long: `Pause a pool: the controller assigns no config to its nodes until you resume it, not even a fix. Nodes that have started an
update finish it. The pool records your user name on the cluster and the text of --because, which bunsen status and bunsen why show. With --until, the controller resumes the pool at that time. For a pool that is paused, the new reason and the new end replace the old ones.`,
		Example: `  bunsen pause pool/worker --because "factory freeze" --until 2026-12-01T08:00:00Z
  bunsen pause pool/worker --because "somebody works on the switches" --until 2h
  bunsen pause pool/worker --because test --dry-run`,
	}
	return changesCluster(stopsFor(cmd, &because, &until), []string{kube.KindPool},
		func(ctx context.Context, c client.Client, cluster fleet.Cluster, pool kube.Subject) (kube.HoldOrder, error) {
			end, err := cli.ParseUntil(until, time.Now())
			if err != nil {
				return kube.HoldOrder{}, err
			}
			return kube.Pause(cluster, pool.Name,
				kube.HoldReason{Who: kube.WhoAmI(ctx, c), Because: because, Until: end})
		})
}

// stopsFor adds the flags of a verb that stops a pool or a source: the reason, which is required, and the end.
func stopsFor(cmd *cobra.Command, because, until *string) *cobra.Command {
	cmd.Flags().StringVar(because, "because", "", "the reason, in a few words")
	cmd.Flags().StringVar(until, "until", "", "when the pause, hold or suspension ends by itself: a time such as "+
		"2026-12-01T08:00:00Z, or a duration such as 2h or 3d")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if *because == "" {
			return cli.Invalid(fmt.Errorf("%s needs a reason, which other users see: --because TEXT", cmd.Name()))
		}
		if _, err := cli.ParseUntil(*until, time.Now()); err != nil {
			return cli.Invalid(err)
		}
		return nil
	}
	return cmd
}

func suspendCommand() *cobra.Command {
	var because, until string
	cmd := &cobra.Command{
		Use: "suspend gitsource/NAME --because TEXT [--until TIME]", Short: "Stop following a repository until you " +
			"resume it",
		Long: `Suspend a GitSource: new commits have no effect, and the controller does not restore objects that users change on the cluster.
The applied revision stays, and rollouts of this revision continue; to stop a rollout, pause the pool. The GitSource records
your user name on the cluster and the text of --because, which bunsen status and bunsen why show. With
--until, the controller follows the repository again at that time. For a suspended GitSource, the new reason and the new end
replace the old ones.`,
		Example: `  bunsen suspend gitsource/config --because "the git server moves" --until 4h
  bunsen suspend gitsource/config --because "debugging on the cluster" --dry-run`,
	}
	return changesCluster(stopsFor(cmd, &because, &until), []string{kube.KindSource},
		func(ctx context.Context, c client.Client, cluster fleet.Cluster, src kube.Subject) (kube.HoldOrder, error) {
			now := time.Now()
			end, err := cli.ParseUntil(until, now)
			if err != nil {
				return kube.HoldOrder{}, err
			}
			return kube.Suspend(cluster, src.Name, kube.HoldReason{
				Who: kube.WhoAmI(ctx, c), Because: because,
				Until: end,
			}, now)
		})
}

func resumeCommand() *cobra.Command {
	var openFor cli.Span
	cmd := &cobra.Command{
		Use: "resume pool/NAME [--open-for 2h] | gitsource/NAME", Short: "Resume a paused pool or a suspended " +
			"GitSource, or open a pool outside its maintenance windows",
		Long: `Resume a paused pool or a suspended GitSource. With --open-for, the controller also assigns configs outside the pool's
maintenance windows for that time. --open-for also works for pools that are not paused, and replaces an earlier opening. With --open-for 0, the windows apply
again. A node that has started an update finishes it even if the windows apply again.`,
		Example: `  bunsen resume pool/worker
  bunsen resume pool/worker --open-for 2h
  bunsen resume gitsource/config
  bunsen resume pool/worker --dry-run`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckOpening(time.Duration(openFor)); err != nil && cmd.Flags().Changed("open-for") {
				return cli.Invalid(err)
			}
			return nil
		},
	}
	cmd.Flags().Var(&openFor, "open-for", "assign configs outside the maintenance windows for this time, such as "+
		"30m, 2h or 1d; 0 lets the windows apply again")
	return changesCluster(cmd, []string{kube.KindPool, kube.KindSource}, func(_ context.Context, _ client.Client,
		cluster fleet.Cluster, pool kube.Subject,
	) (kube.HoldOrder, error) {
		if pool.Kind == kube.KindSource {
			if cmd.Flags().Changed("open-for") {
				return kube.HoldOrder{}, errors.New("--open-for is for pools: a GitSource has no maintenance windows")
			}
			return kube.ResumeSource(cluster, pool.Name, time.Now())
		}
		var open *time.Duration
		if cmd.Flags().Changed("open-for") {
			open = (*time.Duration)(&openFor)
		}
		return kube.Resume(fleet.New(cluster, time.Now()), pool.Name, open)
	})
}

func retryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry pool/NAME | node/NAME", Short: "Retry a failed config",
		Long: `Retry a failed config after you have fixed the cause. For a pool: a halted or reverted rollout continues with the same config,
and its failed nodes try it again. For a node: only that node tries the config again. If a node fails again, the rollout halts
again.`,
		Example: `  bunsen retry pool/worker
  bunsen retry node/worker-07
  bunsen retry node/worker-07 --dry-run`,
	}
	return changesCluster(cmd, []string{kube.KindPool, kube.KindNode}, func(ctx context.Context, c client.Client,
		cluster fleet.Cluster, about kube.Subject,
	) (kube.HoldOrder, error) {
		if about.Kind == kube.KindPool {
			return kube.RetryPool(fleet.New(cluster, time.Now()), about.Name, kube.WhoAmI(ctx, c))
		}
		return kube.RetryNode(fleet.New(cluster, time.Now()), about.Name)
	})
}
