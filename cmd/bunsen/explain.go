package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review/lineage"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

func explainCommand() *cobra.Command {
	var at place
	var pool, revision string
	var out output
	cmd := &cobra.Command{
		Use: "explain PATH|UNIT|NAME", Short: "Say which lines of which commits put something on a pool's nodes", GroupID: "offline",
		Long: `Say of a file, unit, drop-in, user, group, kernel argument, extension or the OS image of a pool: its value, and for each of
its attributes the line that wrote it, the commit and author of that line, and whose value it replaced.

Contents that look secret are not shown: a digest and "(hidden)" stand there.

Exit codes: 0 found, 2 invalid input, or nothing of that name.`,
		Example: `  bunsen explain /etc/chrony.conf --pool worker
  bunsen explain kubelet.service/20-limits.conf --pool worker
  bunsen explain karg nosmt --pool gpu
  bunsen explain user core --pool worker --revision v1.4.0`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("explain what? Name a path, a unit, a user, a kernel argument (karg nosmt)")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			name := at.repo
			if revision != "" {
				name, at.revisions = revision, true
			}
			tree, done, err := at.open(cmd.Context(), name)
			defer done()
			if err != nil {
				return invalid(err)
			}
			report, err := explained(cmd.Context(), tree, pool, strings.Join(args, " "))
			if err != nil {
				return err
			}
			report.Revision = revision
			if err := at.blame(cmd.Context(), tree, &report); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "commits are not shown: %v\n", err)
			}
			if report.Shallow {
				fmt.Fprintln(cmd.ErrOrStderr(), "the repository is shallow: what its oldest commit is said to have written may be older; git fetch --unshallow gets the rest")
			}
			return out.print(cmd.OutOrStdout(), harmless(report.Text()), report)
		},
	}
	out.flags(cmd)
	cmd.Flags().StringVar(&pool, "pool", "", "the pool; may be left out where there is one")
	cmd.Flags().StringVar(&revision, "revision", "", "a git revision, instead of the directory as it is")
	cmd.Flags().StringVar(&at.repo, "repo", ".", "the directory, or a directory in the git repository")
	cmd.Flags().StringVar(&at.path, "path", "", "the folder below it that holds pools/")
	return cmd
}

// explained renders a tree and finds what the question names.
func explained(ctx context.Context, tree source.Tree, pool, question string) (lineage.Report, error) {
	r, err := renderWith(ctx, remembering(render.Defaults{}), tree)
	if err != nil {
		return lineage.Report{}, err
	}
	pools, err := choose(r.rendering.Pools, pool, "an explanation")
	if err != nil {
		return lineage.Report{}, invalid(err)
	}
	of := pools[0]
	layers, err := lineage.LayersOfPool(r.result, of.Rendered.Pool)
	if err != nil {
		return lineage.Report{}, invalid(err)
	}
	items, err := lineage.New(layers, lineage.Options{Pool: of.Rendered.Pool, Mask: of.Secrets.Mask}).Find(question)
	if err != nil {
		return lineage.Report{}, invalid(err)
	}
	return lineage.Report{Version: lineage.Version, Pool: of.Rendered.Pool, Rendered: of.Rendered.Name, Items: items}, nil
}

// blame adds to each value the commit that last changed its lines.
func (p place) blame(ctx context.Context, tree source.Tree, report *lineage.Report) error {
	history, err := git.OpenHistory(ctx, git.At{Repository: p.repo, Revision: tree.Commit.Hash, Path: p.folder()})
	if err != nil {
		return err
	}
	report.Shallow = history.Shallow()
	r := lineage.Repository{
		Read: func(file string) ([]byte, error) { return fs.ReadFile(tree.FS, file) },
		Blame: func(file string, lines []int) (map[int]lineage.Commit, error) {
			q := git.Question{File: file, Lines: lines}
			if tree.Commit.Hash == "" { // the directory as it is may be ahead of the last commit
				text, err := fs.ReadFile(tree.FS, file)
				if err != nil {
					return nil, fmt.Errorf("reading %s: %w", file, err)
				}
				q.Text = text
			}
			found, err := history.Blame(ctx, q)
			if err != nil {
				return nil, err
			}
			out := map[int]lineage.Commit{}
			for line, b := range found {
				out[line] = lineage.Commit{Hash: b.Commit.Hash, Author: b.Commit.Author, Date: b.Commit.Time, Subject: b.Commit.Subject}
			}
			return out, nil
		},
	}
	for i := range report.Items {
		if err := report.Items[i].Annotate(r); err != nil {
			return err
		}
	}
	return nil
}
