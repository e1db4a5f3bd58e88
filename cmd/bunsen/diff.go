package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source/git"
)

func diffCommand() *cobra.Command {
	var c comparing
	var output, key string
	var exitCode bool
	cmd := &cobra.Command{
		Use: "diff [BASE [HEAD]]", Short: "Say what a change does to machines: contents, actions, reboots", GroupID: "offline",
		Long: `Say what going from BASE to HEAD does to the machines of each pool: decoded differences of files and units, and what each
costs a running node under the disruption policy (the one in HEAD's cluster/, else the default).

BASE and HEAD are directories or git revisions. Without HEAD the directory as it is now is compared; without BASE,
the last commit is the base. A revision is read at the place of the current directory in its repository (or of --repo).
main...topic compares what topic adds since it left main, as a pull request does; main topic
also shows what main got meanwhile, backwards.
With --cluster the base is what the cluster's nodes are told to run now, and the only argument is HEAD.

How long it takes is told where the number of nodes is known: from --cluster, or from --nodes.

Exit codes: 0 no change, 1 differences in rendered configs or in objects of cluster/, 2 invalid input, 3 cluster out of reach.`,
		Example: `  # What does my working directory change, against the last commit?
  bunsen diff

  # What does a branch change, on 40 workers of which 4 may be away at once?
  bunsen diff main...my-branch --nodes worker=40/4

  # What would change on the cluster if this directory were merged?
  bunsen diff --cluster

  # As a comment for a pull request, and as data (docs/review-json.md)
  bunsen diff main HEAD -o markdown
  bunsen diff main HEAD -o json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"text", "markdown", "json"}, output) {
				return invalid(fmt.Errorf("--output %q: want text, markdown or json", output))
			}
			base, head, err := c.sides(cmd.Context(), args)
			if err != nil {
				return invalid(err)
			}
			found, err := c.compare(cmd.Context(), base, head)
			if err != nil {
				return err
			}
			if err := c.show(cmd.OutOrStdout(), found, output, key); err != nil {
				return err
			}
			if found.Changed() && exitCode {
				return &exitError{code: exitDifferent}
			}
			return nil
		},
	}
	c.flags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, markdown or json")
	cmd.Flags().StringVar(&key, "key", "", keyHelp)
	cmd.Flags().BoolVar(&exitCode, "exit-code", true, "exit with 1 where there are differences")
	return cmd
}

// keyHelp explains the flag --key.
const keyHelp = "name of the cluster or environment, for Markdown: it heads the comment, and keeps several comments apart"

func (c *comparing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.at.repo, "repo", ".", "a directory in the git repository")
	f.StringVar(&c.at.path, "path", "", "the folder below it that holds pools/")
	f.StringVar(&c.policyFile, "policy", "", "a MachineConfiguration to judge by, instead of the one in cluster/")
	f.StringSliceVar(&c.nodes, "nodes", nil, "nodes of a pool, and how many may be away at once, else as the pool in cluster/ says: worker=40/4 (repeatable)")
	f.BoolVar(&c.running, "cluster", false, "compare with what the cluster's nodes are told to run now")
	f.StringVar(&c.source, "source", "", "with --cluster: the GitSource that follows this repository, where there are several; - for none of them")
	f.StringVar(&c.defaults.OSImageURL, "os-image", "", "the cluster's default OS image, as the controller's flag of that name")
	f.StringVar(&c.defaults.ExtensionsImage, "extensions-image", "", "the cluster's default extensions image")
	c.cluster.flags(cmd)
}

// nodesHint says how to learn the number of nodes, where a changed pool has none and a cluster could be asked. The cluster is not asked
// without --cluster: its nodes may run another commit than base.
func (c *comparing) nodesHint(found review.Comparison) string {
	unknown := slices.ContainsFunc(found.Pools, func(p review.PoolChange) bool {
		return p.From != "" && p.To != "" && p.From != p.To && p.Rollout == nil
	})
	if !unknown || c.running || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		return ""
	}
	return "Nodes are unknown: add --cluster to compare with your cluster and count its nodes, or --nodes POOL=COUNT.\n"
}

// sides are what the arguments name.
func (c *comparing) sides(ctx context.Context, args []string) (base, head string, err error) {
	base, head = "HEAD", c.at.repo
	if c.running {
		if len(args) > 1 {
			return "", "", errors.New("with --cluster the base is the cluster: name only the head")
		}
		args = append([]string{""}, args...)
	}
	if one, other, ok := strings.Cut(strings.Join(args, " "), "..."); ok && len(args) == 1 && !c.at.directory(args[0]) {
		head = cmp.Or(other, "HEAD")
		base, err = git.MergeBase(ctx, c.at.repo, cmp.Or(one, "HEAD"), head)
		return base, head, err
	}
	if len(args) > 0 {
		base = args[0]
	}
	if len(args) > 1 {
		head = args[1]
	}
	return base, head, nil
}

// show prints a comparison in one of the forms.
func (c *comparing) show(w io.Writer, found review.Comparison, output, key string) error {
	text := ""
	switch output {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(found); err != nil {
			return fmt.Errorf("printing the comparison: %w", err)
		}
		return nil
	case "markdown":
		text = found.Markdown(review.MarkdownOptions{Key: key})
	default:
		text = found.Text(review.Style{Colour: colour()}) + c.nodesHint(found)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("printing the comparison: %w", err)
	}
	return nil
}
