package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/inspect"
)

// steerer is what the verbs that change a cluster have in common.
type steerer struct {
	target
	dryRun bool
}

func (s *steerer) flags(cmd *cobra.Command, kinds ...string) {
	s.target.flags(cmd)
	cmd.Flags().BoolVar(&s.dryRun, "dry-run", false, "let the server check what would be changed, and change nothing")
	cmd.Args, cmd.GroupID, cmd.ValidArgsFunction = oneThing(kinds...), "act", s.completeThings(kinds...)
}

// steer reads the cluster, asks what is to be changed, and changes it.
func (s *steerer) steer(cmd *cobra.Command, arg string, kinds []string, decide func(context.Context, client.Client, inspect.Cluster, thing) (inspect.Order, error)) error {
	c, err := s.connect("table")
	if err != nil {
		return err
	}
	cluster, err := read(cmd.Context(), c)
	if err != nil {
		return err
	}
	about, err := named(cluster, arg, kinds...)
	if err != nil {
		return err
	}
	order, err := decide(cmd.Context(), c, cluster, about)
	if err != nil {
		return invalid(err)
	}
	return s.carryOut(cmd.Context(), cmd.OutOrStdout(), c, order)
}

// carryOut makes the changes in their order, and prints each with the command line that does the same. One that fails does
// not keep back those after it, for they are about other nodes.
func (s *steerer) carryOut(ctx context.Context, w io.Writer, c client.Client, order inspect.Order) error {
	var errs []error
	for _, change := range order.Changes {
		var o client.Object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: change.Name}}
		if change.OfPool() {
			o = &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: change.Name}}
		}
		options := []client.PatchOption{client.FieldOwner("bunsen")}
		did, line := change.Did, change.Kubectl()
		if s.dryRun {
			options = append(options, client.DryRunAll)
			did, line = did+" (dry run: nothing is changed)", line+" --dry-run=server"
		}
		if err := c.Patch(ctx, o, client.RawPatch(types.MergePatchType, change.Patch), options...); err != nil {
			errs = append(errs, unwritten(change, err))
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\n  %s\n", harmless(did), harmless(line)); err != nil {
			return fmt.Errorf("printing what was done: %w", err)
		}
	}
	for _, note := range order.Notes {
		if _, err := fmt.Fprintln(w, harmless(note)); err != nil {
			return fmt.Errorf("printing what was done: %w", err)
		}
	}
	return errors.Join(errs...)
}

// unwritten explains why a change failed.
func unwritten(change inspect.Change, err error) error {
	return unreachable(fmt.Errorf("changing %s/%s: %w", change.Resource, change.Name, err))
}

func pauseCommand() *cobra.Command {
	var s steerer
	var because string
	cmd := &cobra.Command{
		Use: "pause pool/NAME --because TEXT", Short: "Tell a pool's nodes nothing new until it is resumed",
		Long: `Pause a pool: no node of it is told any config, also not one that mends another, until it is resumed. Nodes that are at work
finish. Who did it and why is kept on the pool and shown by status and why: the user that the cluster knows you by, and the
text of --because.`,
		Example: `  bunsen pause pool/worker --because "factory freeze until Friday"
  bunsen pause pool/worker --because test --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if because == "" {
				return invalid(errors.New("pause needs a reason, which others see: --because TEXT"))
			}
			return s.steer(cmd, args[0], []string{aPool}, func(ctx context.Context, c client.Client, cluster inspect.Cluster, t thing) (inspect.Order, error) {
				pool, err := poolOf(cluster, t)
				if err != nil || pool.Spec.Paused {
					return inspect.Pause(pool, "", because), err
				}
				return inspect.Pause(pool, whoAmI(ctx, c), because), nil
			})
		},
	}
	s.flags(cmd, aPool)
	cmd.Flags().StringVar(&because, "because", "", "why, in a few words")
	return cmd
}

func poolOf(c inspect.Cluster, t thing) (*mcfgv1.MachineConfigPool, error) {
	for i := range c.Pools {
		if c.Pools[i].Name == t.name {
			return &c.Pools[i], nil
		}
	}
	return &mcfgv1.MachineConfigPool{}, fmt.Errorf("there is no pool %q; `bunsen get pools` lists them", t.name)
}

// whoAmI is the user that the cluster knows us by, else the one of this machine.
func whoAmI(ctx context.Context, c client.Client) string {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err == nil && review.Status.UserInfo.Username != "" {
		return review.Status.UserInfo.Username
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "somebody"
}

func resumeCommand() *cobra.Command {
	var s steerer
	var openFor span
	cmd := &cobra.Command{
		Use: "resume pool/NAME [--open-for 2h]", Short: "Let a paused pool go on, or one outside of its windows",
		Long: `Let a paused pool go on. With --open-for it also goes on outside of its maintenance windows for that time; a pool that is not
paused is then only opened; --open-for 0 takes that back. A node that was told a config finishes after that time.`,
		Example: `  bunsen resume pool/worker
  bunsen resume pool/worker --open-for 2h
  bunsen resume pool/worker --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var long *time.Duration
			if cmd.Flags().Changed("open-for") {
				long = (*time.Duration)(&openFor)
			}
			if long != nil && *long != 0 && *long < time.Minute {
				return invalid(fmt.Errorf("--open-for %s: want a minute or more, such as 2h, or 0 to take it back", *long))
			}
			return s.steer(cmd, args[0], []string{aPool}, func(_ context.Context, _ client.Client, cluster inspect.Cluster, t thing) (inspect.Order, error) {
				return inspect.Resume(cluster, t.name, long, time.Now())
			})
		},
	}
	s.flags(cmd, aPool)
	cmd.Flags().Var(&openFor, "open-for", "let it go on outside of its maintenance windows for that long, such as 30m, 2h or 1d; 0 takes it back")
	return cmd
}

func retryCommand() *cobra.Command {
	var s steerer
	kinds := []string{aPool, aNode}
	cmd := &cobra.Command{
		Use: "retry pool/NAME | node/NAME", Short: "Try again what failed",
		Long: `Try again what failed, after you have seen to the cause. For a pool: a rollout that was halted or reverted goes on with the same
config, and the nodes that failed it try it once more. For a node: it alone tries once more. What fails again halts again.`,
		Example: `  bunsen retry pool/worker
  bunsen retry node/worker-07
  bunsen retry node/worker-07 --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.steer(cmd, args[0], kinds, func(_ context.Context, _ client.Client, cluster inspect.Cluster, t thing) (inspect.Order, error) {
				if t.kind == aPool {
					return inspect.RetryPool(cluster, t.name, time.Now())
				}
				return inspect.RetryNode(cluster, t.name, time.Now())
			})
		},
	}
	s.flags(cmd, kinds...)
	return cmd
}
