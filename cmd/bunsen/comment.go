package main

import (
	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"

	"github.com/bunsen-os/bunsen/internal/forge"
)

func commentCommand() *cobra.Command {
	var c repository.DiffOptions
	var by forge.Target
	var key string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "comment [BASE [HEAD]]", Short: "Post one comment and a status to a pull request, with the effect of " +
			"the change on nodes", GroupID: "offline",
		Long: `Compare two revisions as bunsen diff does, and post the result to the pull request of the CI job. The result is one comment,
which later runs edit, and the commit status ` + repository.StatusContext + `. GitHub Actions, GitLab CI and Gitea or Forgejo
Actions provide all settings; outside of their jobs, set --host, --api, --project, --pull and --commit. The token
comes from BUNSEN_TOKEN, GITHUB_TOKEN, GITLAB_TOKEN, GITEA_TOKEN or FORGEJO_TOKEN.

An invalid head gets a comment with its problems, and the status "failure". A change that itself allows contents that no
reviewer can read, and has them, gets its plan and the status "failure" (docs/secrets-checks.md). If the job of a fork may not write, bunsen prints
the comment instead of posting it. With --dry-run, bunsen sends nothing: standard output is exactly the comment, and standard
error names the pull request. A dry run with a token reads the comments, and reports whether it would create or edit one.

HEAD is the pull request's last commit, or a merge of it; bunsen posts nothing about another commit.
BASE and HEAD are revisions. To compare a directory, write a path, such as ./before. See docs/ci.md.
Exit codes: 0 posted, 2 invalid input, 3 service unreachable.`,
		Example: `  # In a job of a pull request: HEAD is the merge commit, and its first parent is the base branch
  bunsen comment HEAD^1 HEAD

  # Only print the comment; this needs no token
  bunsen comment main HEAD --dry-run --host github --api https://api.github.com \
    --project infra/os-config --pull 7 --commit "$(git rev-parse HEAD)"

  # Without a CI job
  BUNSEN_TOKEN=... bunsen comment main HEAD --host gitlab --api https://gitlab.example.com/api/v4 \
    --project infra/os-config --pull 7 --commit "$(git rev-parse HEAD)"`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := repository.PullRequestTarget(by, dryRun)
			if err != nil {
				return cli.Invalid(err)
			}
			if len(args) == 0 && target.Base != "" && !c.Running {
				args = []string{target.Base, "HEAD"}
			}
			base, head, err := c.Arguments(cmd.Context(), args)
			if err != nil {
				return cli.Invalid(err)
			}
			if err := c.CheckHead(cmd.Context(), head, target); err != nil {
				return cli.Invalid(err)
			}
			c.At.Revisions = true
			found, err := c.Compare(cmd.Context(), base, head)
			body, status, failed := repository.PullRequestMessage(repository.NameCommits(found, target), err, key)
			status.URL = target.Run
			post := repository.Post{Target: target, Body: body, Status: status}
			if err := post.Publish(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), dryRun); err != nil {
				return err
			}
			return failed
		},
	}
	c.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&key, "key", "", repository.KeyHelp)
	f.BoolVar(&dryRun, "dry-run", false, "print the comment and its destination, and send nothing; a dry run needs "+
		"no token")
	repository.AddPullRequestFlags(f, &by)
	cli.CompleteFlag(cmd, "host", cobra.FixedCompletions([]string{"github", "gitlab", "gitea"},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
