package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/transpile"
)

func validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate [DIR]", Short: "Check a config repository: every problem, with file:line:col", GroupID: "offline",
		Example: `  # The directory that holds pools/
  bunsen validate

  # One folder of a larger repository
  bunsen validate clusters/prod`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, done, err := open(cmd.Context(), directory(args))
			defer done()
			if err != nil {
				return invalid(err)
			}
			res := (&transpile.Transpiler{}).Fragments(tree)
			out := cmd.OutOrStdout()
			for _, e := range res.Report {
				fmt.Fprintln(out, e)
			}
			if res.Report.Fatal() {
				return &exitError{code: exitInvalid}
			}
			r := review.Render(res, &render.Renderer{}, render.Defaults{})
			if r.Err != nil {
				return invalid(r.Err)
			}
			for _, p := range r.Pools {
				fmt.Fprintf(out, "pool %s: %s, %s\n", p.Rendered.Pool, documents(len(p.Rendered.Inputs)), p.Rendered.Name)
			}
			fmt.Fprintln(out, "valid")
			return nil
		},
	}
}

func documents(n int) string {
	if n == 1 {
		return "1 document"
	}
	return fmt.Sprintf("%d documents", n)
}
