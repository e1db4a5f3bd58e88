package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/cli/rollback"
)

func rollbackCommand() *cobra.Command {
	var o rollback.Options
	var ask rollback.Ask
	cmd := &cobra.Command{
		Use: "rollback pool/NAME [--to COMMIT]", Short: "Prepare the commit that returns a pool to an earlier " +
			"config, and a pull request", GroupID: "act",
		Long: `Prepare the commit that returns a pool to an earlier rendered config. bunsen reads the cluster and changes nothing there: the nodes
return when you merge the commit, as with every commit.

Without --to, bunsen selects the last config with which the whole pool was healthy. If the newest config is healthy, bunsen
selects the healthy config before it. bunsen restores the files that later commits changed and that reach the pool; files that
do not reach the pool stay. If later commits changed a file again, bunsen lists these commits and changes nothing.

The commit of the rollback is on a new branch bunsen/rollback-POOL-HASH of a clone. The clone is the one of --repo, or the
current directory if one of its remotes is the GitSource's repository. bunsen does not change your work tree. git creates the
commit, with your name, signing key and hooks. With --push bunsen pushes the branch, from a temporary clone if necessary. It
opens a pull request if BUNSEN_TOKEN or the token of the service is set: GITHUB_TOKEN, GITLAB_TOKEN, GITEA_TOKEN or
FORGEJO_TOKEN.

--dry-run prints the files, and what the merge does to the nodes.

Exit codes: 0 prepared, 2 invalid input or nothing to revert, 3 cluster or git server unreachable.`,
		Example: `  # Print the files that a rollback would revert, and what the nodes would do
  bunsen rollback pool/worker --dry-run

  # Push the commit and open a pull request, from any directory
  bunsen rollback pool/worker --push

  # Return the pool to the config of one commit, in a clone
  bunsen rollback pool/worker --to 4f1c2ab1 --repo ~/os-config`,
		Args: kube.OneSubject(kube.KindPool), ValidArgsFunction: kube.CompleteSubjects(kube.KindPool),
		PreRunE: func(*cobra.Command, []string) error {
			if err := errors.Join(rollback.CheckCommit(ask.To), o.Check()); err != nil {
				return cli.Invalid(err)
			}
			return nil
		},
	}
	addRollbackFlags(cmd, &ask, &o)
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		cluster, err := kube.Read(ctx, q.client)
		if err != nil {
			return answer{}, err
		}
		about, err := kube.FindSubject(cluster, q.args[0], kube.KindPool)
		if err != nil {
			return answer{}, err
		}
		ask.Pool, ask.Now = about.Name, q.now
		choice, err := rollback.Choose(cluster, ask)
		if err != nil {
			return answer{}, cli.Invalid(err)
		}
		result, forecast, err := o.Run(ctx, choice, q.Target)
		if err != nil {
			return answer{}, err
		}
		return answer{text: result.Text(forecast), data: result}, nil
	})
}

func addRollbackFlags(cmd *cobra.Command, ask *rollback.Ask, o *rollback.Options) {
	f := cmd.Flags()
	f.StringVar(&ask.To, "to", "", "commit to return to: at least 7 digits of its hash")
	f.StringVar(&ask.Source, "source", "", "the GitSource whose commits to revert, if several feed the pool")
	f.StringVar(&o.Repo, "repo", "", "a directory in a clone of the repository; empty: the current directory")
	f.StringVar(&o.Remote, "remote", "", "remote of the clone; empty: the remote with the GitSource's URL")
	f.StringVar(&o.Base, "base", "", "branch on which to commit; empty: the branch of the GitSource, or the "+
		"default branch")
	f.BoolVar(&o.AllFiles, "all-files", false, "also revert files that do not reach the pool")
	f.BoolVar(&o.Push, "push", false, "push the branch, and open a pull request if there is a token")
	f.BoolVar(&o.DryRun, "dry-run", false, "print the files to revert and the forecast, and create no branch")
	f.StringVar((*string)(&o.Site.Kind), "host", "", "the service of the repository: github, gitlab or gitea (also "+
		"for Forgejo)")
	f.StringVar(&o.Site.API, "api", "", "the API of the repository's service, such as https://git.example.com/api/v1")
	f.StringVar(&o.Site.Project, "project", "", "the repository at the service, as owner/name")
	f.StringVar(&o.TokenFrom, "token-from", "", "file with the token for the pull request; - is standard input")
	cli.CompleteFlag(cmd, "host", cobra.FixedCompletions([]string{"github", "gitlab", "gitea"},
		cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(cmd, "to", kube.Complete(2, offeredCommits))
}
