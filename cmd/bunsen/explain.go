package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/folders"
)

func explainCommand() *cobra.Command {
	var at folders.Repository
	var pool, revision string
	var out cli.Output
	cmd := &cobra.Command{
		Use: "explain PATH|UNIT|NAME", Short: "Show which lines and commits set something on a pool's nodes", GroupID: "offline",
		Long: `Show the value of a file, unit, drop-in, user, group, kernel argument, extension or the OS image of a pool. For each of its
attributes, show the line that set it, the commit and author of that line, and which earlier value it replaced.

Contents that look secret are hidden: bunsen shows a digest and "(hidden)".

Exit codes: 0 found, 2 invalid input, or nothing of that name.`,
		Example: `  bunsen explain /etc/chrony.conf --pool worker
  bunsen explain kubelet.service/20-limits.conf --pool worker
  bunsen explain karg nosmt --pool gpu
  bunsen explain user core --pool worker --revision v1.4.0`,
		Args: needsArgs(1, math.MaxInt, "explain needs a path, a unit, a user or a kernel argument, for example: bunsen explain /etc/chrony.conf"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			name := at.Repo
			if revision != "" {
				name, at.Revisions = revision, true
			}
			tree, done, err := at.Open(cmd.Context(), name)
			defer done()
			if err != nil {
				return cli.Invalid(err)
			}
			report, err := folders.Explained(cmd.Context(), tree, pool, strings.Join(args, " "))
			if err != nil {
				return err
			}
			report.Revision = revision
			if err := at.Blame(cmd.Context(), tree, &report); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "omitting the commits: %v\n", err)
			}
			if report.Shallow {
				fmt.Fprintln(cmd.ErrOrStderr(), "the repository is shallow: lines of its oldest commit may be older; git fetch --unshallow fetches the rest")
			}
			return out.Print(cmd.OutOrStdout(), safetext.Lines(report.Text()), report)
		},
	}
	out.AddFlag(cmd, "", "table", "json", "yaml")
	defer cli.CompleteFlag(cmd, "pool", folders.CompletePools)
	cmd.Flags().StringVar(&pool, "pool", "", "the pool; may be left out where there is one")
	cmd.Flags().StringVar(&revision, "revision", "", "a git revision, instead of the directory as it is")
	cmd.Flags().StringVar(&at.Repo, "repo", ".", "the directory, or a directory in the git repository")
	cmd.Flags().StringVar(&at.Path, "path", "", "the folder below it that holds pools/")
	return cmd
}
