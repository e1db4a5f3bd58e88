package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

func traceCommand() *cobra.Command {
	var repo string
	cmd := &cobra.Command{
		Use: "trace node/NAME | pool/NAME | rendered-POOL-HASH | MACHINECONFIG [ITEM]",
		Short: "Trace a node or config back to its " +
			"commit and lines", GroupID: "cluster",
		Long: `Trace a node or a rendered config back to the commit, or to the change through the API, that requested the config. bunsen also
prints the commit that first produced the content, the documents, and for each file, unit and user the commit that
changed it last and the line that sets it. For a MachineConfig that is not rendered, bunsen prints where it comes from
and which rendered configs contain it. A name without a kind is that of a config, or else of a node or a pool.
With an item, such as a path or the name of a unit, bunsen prints only that one. What was changed by hand on a node is marked.

bunsen computes the lines again from the commit in the source's repository, with the controller's functions. If the URL of the
source is a path on this machine, bunsen reads that path. Otherwise name a clone with --repo.`,
		Example: `  bunsen trace node/worker-07
  bunsen trace node/worker-07 /etc/motd
  bunsen trace rendered-worker-77b0c... --repo ~/os-config`,
		Args: needsArgs(1, 2, "trace needs one node (node/NAME), rendered config or other MachineConfig, for "+
			"example: bunsen trace node/worker-07"),
	}
	cmd.ValidArgsFunction = kube.CompleteSubjects(kube.KindNode, kube.KindPool)
	cmd.Flags().StringVar(&repo, "repo", "", "a clone of the source's repository")
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		found, err := kube.Trace(ctx, q.client, q.args[0])
		if err != nil {
			return answer{}, err
		}
		if found.Input != nil && len(q.args) > 1 {
			return answer{}, cli.Invalid(fmt.Errorf("tracing %s: it is not rendered, and bunsen traces it as a whole: "+
				"leave out %q", q.args[0], q.args[1]))
		}
		if found.Input != nil {
			return answer{text: found.Input.Text(), data: found.Input}, nil
		}
		if err := found.Items(ctx, repo); err != nil {
			found.Trace.Note = "Omitting the lines: " + err.Error()
		}
		if err := found.Changes(ctx, q.client, q.now); err != nil {
			found.Trace.Note = strings.TrimPrefix(found.Trace.Note+"\nWho changed the items last is not known: "+
				err.Error(), "\n")
		}
		if len(q.args) > 1 {
			if err := found.Trace.Only(q.args[1]); err != nil {
				return answer{}, cli.Invalid(err)
			}
		}
		return answer{text: found.Trace.Text(), data: found.Trace}, nil
	})
}
