package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

func explainCommand() *cobra.Command {
	var at repository.Repository
	var revision string
	var question repository.Question
	var out cli.Output
	cmd := &cobra.Command{
		Use: "explain PATH|UNIT|NAME", Short: "Show which lines and commits set a file, unit or other item on a " +
			"pool's nodes", GroupID: "offline",
		Long: `Show the value of a file, unit, drop-in, user, group, kernel argument, extension or the OS image of a pool. For each attribute
of this item, show the line that set it, the line's commit and author, and the earlier value that the line replaced.

bunsen hides what documents declare as secret: it shows a digest and "(hidden)".

Exit codes: 0 found, 2 invalid input, or no item of this name.`,
		Example: `  bunsen explain /etc/chrony.conf --pool worker
  bunsen explain kubelet.service/20-limits.conf --pool worker
  bunsen explain karg nosmt --pool gpu
  bunsen explain /etc/hostname --node worker-1
  bunsen explain user core --pool worker --revision v1.4.0`,
		Args: needsArgs(1, math.MaxInt, "explain needs a path, a unit, a user or a kernel argument, for example: "+
			"bunsen explain /etc/chrony.conf"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			question.Item = strings.Join(args, " ")
			name := at.Repo
			if revision != "" {
				name, at.Revisions = revision, true
			}
			tree, done, err := at.Open(cmd.Context(), name)
			defer done()
			if err != nil {
				return cli.Invalid(err)
			}
			report, err := repository.Explained(cmd.Context(), tree, question)
			if err != nil {
				return err
			}
			report.Revision = revision
			if err := at.Blame(cmd.Context(), tree, &report); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "omitting the commits of lines: %v\n", err)
			}
			if report.Shallow {
				fmt.Fprintln(cmd.ErrOrStderr(), "the repository is shallow: lines of its oldest commit may be older; "+
					"git fetch --unshallow fetches the rest")
			}
			return out.Print(cmd.OutOrStdout(), safetext.Lines(report.Text()), report)
		},
	}
	question.Cached.AddFlag(cmd.Flags())
	out.AddFlag(cmd, "", "table", "json", "yaml")
	defer cli.CompleteFlag(cmd, "pool", repository.CompletePools)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion,
		cobra.ShellCompDirective,
	) {
		const quiet = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 {
			return nil, quiet
		}
		name := at.Repo
		if revision != "" {
			name, at.Revisions = revision, true
		}
		tree, done, err := at.Open(cmd.Context(), name)
		defer done()
		if err != nil {
			return nil, quiet
		}
		names, err := repository.ItemNames(cmd.Context(), tree, question)
		if err != nil {
			return nil, quiet // A shell shows no error, and the command itself reports it.
		}
		return names, quiet
	}
	cmd.Flags().StringVar(&question.Pool, "pool", "", "the pool; optional if the repository has only one")
	cmd.Flags().StringVar(&question.Node, "node", "", "the node, for a pool whose nodes have configs of their own")
	cmd.Flags().StringVar(&revision, "revision", "", "a git revision to read, instead of the present files")
	cmd.Flags().StringVar(&at.Repo, "repo", ".", "a directory, or a directory in a git repository")
	cmd.Flags().StringVar(&at.Path, "path", "", "the folder below --repo that holds pools/")
	return cmd
}
