package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/adopt"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

func initCommand() *cobra.Command {
	var b adopt.Begin
	var keyFiles []string
	var ci string
	cmd := &cobra.Command{
		Use: "init [DIR] --os NAME", Short: "Create a config repository", GroupID: "offline",
		Long: `Create a config repository for machines with the operating system that you name: documents for all
machines and for workers, how carefully commits are rolled out, what nodes do for each kind of change, the settings of
editors, and a README. If the directory is a git repository with a remote on GitHub, GitLab, Forgejo or Gitea, bunsen
also writes the checks for its pull requests. bunsen replaces no file, and writes nothing into a directory that has
documents already.

Exit codes: 0 done, 2 invalid input.`,
		Example: `  # In a clone of an empty repository
  bunsen init --os fedora-coreos

  # With a pool of your own, and your key on every machine
  bunsen init os-config --os flatcar --pool storage --ssh-key ~/.ssh/id_ed25519.pub`,
		Args: needsArgs(0, 1, "init needs at most one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			var err error
			if b.Keys, err = repository.PublicKeys(keyFiles); err != nil {
				return err
			}
			b.URL = repository.RemoteOf(dir)
			if b.CI, err = repository.Checks(ci, b.URL); err != nil {
				return err
			}
			files, err := adopt.NewRepository(b)
			if err != nil {
				return cli.Invalid(err)
			}
			wrote, err := repository.WriteNew(dir, files)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(wrote, "\n")); err != nil {
				return fmt.Errorf("printing the files: %w", err)
			}
			next := "read README.md, and run bunsen validate"
			if len(b.CI) > 0 {
				next += "; put the commit of a release in place of the zeros in the checks"
			}
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), "next: "+next)
			return err
		},
	}
	cmd.Flags().StringVar(&b.OS, "os", "", "the operating system of the machines: "+strings.Join(adopt.OSNames(), ", "))
	cmd.Flags().StringSliceVar(&b.Pools, "pool", nil, "a pool of your own, besides worker and master (repeatable)")
	cmd.Flags().StringSliceVar(&keyFiles, "ssh-key", nil, "a file with public SSH keys that may log in (repeatable)")
	cmd.Flags().StringVar(&b.User, "ssh-user", "", "the user of the keys; empty: core, on CoreOS and Flatcar")
	cmd.Flags().StringVar(&ci, "ci", "", "github, gitlab, forgejo or none; empty: by the remote origin")
	services := []string{"github", "gitlab", "forgejo", repository.NoCI}
	for flag, values := range map[string][]string{"os": adopt.OSNames(), "ci": services} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}
