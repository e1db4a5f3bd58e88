package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
)

func diffCommand() *cobra.Command {
	var at place
	var output string
	cmd := &cobra.Command{
		Use: "diff [BASE [HEAD]]", Short: "Say what a change does to machines: contents, actions, reboots", GroupID: "offline",
		Long: `Say what going from BASE to HEAD does to the machines of each pool: decoded differences of files and units, and what each
costs a running node under the disruption policy (the one in HEAD's cluster/, else the default).

BASE and HEAD are directories or git revisions. Without HEAD the directory as it is now is compared; without BASE,
the last commit is the base. A revision is read at the place of the current directory in its repository (or of --repo).

Exit codes: 0 no rendered change, 1 differences, 2 invalid input.`,
		Example: `  # What does my working directory change, against the last commit?
  bunsen diff

  # What does a branch change?
  bunsen diff main my-branch

  # Two directories
  bunsen diff ./before ./after`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			base, head := "HEAD", at.repo
			if len(args) > 0 {
				base = args[0]
			}
			if len(args) > 1 {
				head = args[1]
			}
			if !slices.Contains([]string{"text", "json"}, output) {
				return invalid(fmt.Errorf("--output %q: want text or json", output))
			}
			c, err := compare(cmd.Context(), at, base, head)
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				enc.SetEscapeHTML(false)
				if err := enc.Encode(c); err != nil {
					return fmt.Errorf("printing the comparison: %w", err)
				}
			} else {
				fmt.Fprint(cmd.OutOrStdout(), c.Text(review.Style{Colour: colour()}))
			}
			if c.Changed() {
				return &exitError{code: exitDifferent}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&at.repo, "repo", ".", "a directory in the git repository")
	cmd.Flags().StringVar(&at.path, "path", "", "the folder below it that holds pools/")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// compare renders both sides; the policy is head's, since that is what will be in force when head is rolled out.
func compare(ctx context.Context, at place, base, head string) (review.Comparison, error) {
	var sides [2]review.Side
	var policies [2]policy.Policy
	for i, name := range []string{base, head} {
		tree, done, err := at.open(ctx, name)
		defer done()
		if err != nil {
			return review.Comparison{}, invalid(err)
		}
		res, r, err := rendered(tree, render.Defaults{})
		if err != nil && i == 0 {
			return review.Comparison{}, fmt.Errorf("rendering %s: %w\nname an earlier base, such as the last commit that was applied", name, err)
		}
		if err != nil {
			return review.Comparison{}, fmt.Errorf("rendering %s: %w", name, err)
		}
		sides[i] = r.Side(name)
		if policies[i], err = review.PolicyOf(res); err != nil {
			return review.Comparison{}, invalid(fmt.Errorf("reading the disruption policy of %s: %w", name, err))
		}
	}
	c := review.Compare(sides[0], sides[1], policies[1])
	c.Policy = review.ComparePolicies(policies[0], policies[1])
	return c, nil
}
