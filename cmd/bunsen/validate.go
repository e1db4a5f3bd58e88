package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/report"
)

func validateCommand() *cobra.Command {
	var output string
	var largeFiles bool
	var cached repository.Cached
	cmd := &cobra.Command{
		Use: "validate [DIR]", Short: "Check a config repository: every problem, with file:line:col",
		GroupID: "offline",
		Long: `Check a config repository: every document, every overlay, and the rendered config of each pool. For each problem, bunsen prints
the file and line, what is wrong and how to fix it. Warnings do not make a repository invalid. bunsen refuses credentials in
clear text, and warns of files whose encryption differs from the rules in .sops.yaml.

Exit codes: 0 valid, 2 invalid.`,
		Example: `  # The directory that holds pools/
  bunsen validate

  # One folder of a larger repository
  bunsen validate clusters/prod

  # Annotations at the lines of a pull request, on GitHub, Gitea and Forgejo Actions
  bunsen validate -o github

  # For a code-scanning service, for GitLab's report of code quality, and as tests for Jenkins and others
  bunsen validate -o sarif > bunsen.sarif
  bunsen validate -o gitlab > gl-code-quality-report.json
  bunsen validate -o junit > bunsen.xml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := repository.DirArgument(args)
			if _, err := (report.Findings{}).Write(report.Format(output)); err != nil {
				return cli.Invalid(err)
			}
			tree, done, err := repository.OpenDir(cmd.Context(), dir)
			defer done()
			if err != nil {
				return cli.Invalid(err)
			}
			memory := new(review.Renderings)
			defer cached.Use(memory)()
			memory.AllowLargeFiles(largeFiles)
			res, rendering, err := memory.Render(tree, cmd.Context().Err)
			if err != nil {
				return cli.Invalid(fmt.Errorf("rendering the repository: %w", err))
			}
			checked := review.CheckTree(tree, res, rendering, review.SecretOwner{Ignored: repository.Ignores(dir)},
				memory.Transpiler.Store)
			checked.Report = append(checked.Report, repository.CheckFormat(dir)...)
			text, err := report.Findings{
				Directory: filepath.ToSlash(repository.BelowTop(dir)), Version: version, Entries: checked.Report,
				Pools: rendersTo(checked.Rendering),
			}.Write(report.Format(output))
			if err != nil {
				return cli.Invalid(err)
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
			if checked.Report.Fatal() {
				return &cli.ExitError{Code: cli.ExitInvalid}
			}
			return nil
		},
	}
	formats := strings.Fields(strings.Trim(fmt.Sprint(report.Formats), "[]"))
	cmd.Flags().StringVarP(&output, "output", "o", string(report.PlainText), "one of "+strings.Join(formats, " "))
	cli.CompleteFlag(cmd, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cached.AddFlag(cmd.Flags())
	cmd.Flags().BoolVar(&largeFiles, cli.LargeFilesFlag, false, cli.LargeFilesUsage)
	return cmd
}

func rendersTo(r review.Rendering) (pools []report.PoolFindings) {
	for _, p := range r.Pools {
		pools = append(pools, report.PoolFindings{
			Pool: p.Rendered.Pool, Rendered: p.Rendered.Name,
			Documents: len(p.Rendered.Inputs),
		})
	}
	return pools
}
