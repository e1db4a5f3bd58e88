package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

func diffCommand() *cobra.Command {
	var c repository.DiffOptions
	var key string
	var form cli.Output
	var exitCode bool
	var ageKeys []string
	var service repository.KeyService
	cmd := &cobra.Command{
		Use: "diff [BASE [HEAD]]", Short: "Show what a change does to nodes: contents, actions, reboots",
		GroupID: "offline",
		Long: `Show what a change from BASE to HEAD does to the nodes of each pool. bunsen decodes the differences of files
and units, and says what a running node does for each of them, up to a reboot. That follows from the disruption policy
in cluster/ of HEAD, or from the default policy.

BASE and HEAD are directories or git revisions. Without HEAD, bunsen compares the present files of the directory; without BASE,
the last commit is the base. In a revision, bunsen reads the folder that the current directory (or --repo) has in its
repository. main...topic compares the changes that topic adds since it left main, as a pull request does. main topic also shows
the changes that main got since then, in reverse. With --cluster, the base is what the cluster's nodes should run now, and the
only argument is HEAD; if you name both sides, the cluster only says how many nodes there are.

With your age key, bunsen also shows what changed encrypted files decrypt to. Name the key with --age-key. On a
terminal, bunsen also takes it from SOPS_AGE_KEY, SOPS_AGE_KEY_FILE or sops/age/keys.txt in your configuration
directory. For keys of other kinds, name your own sops keyservice with --key-service, and each key for which it may be
asked with --key-service-key. Markdown and JSON, which are for others, never show decrypted values.

bunsen estimates the duration if it knows the number of nodes: from --cluster, or from --nodes.

Exit codes: 0 no change, 1 differences in rendered configs or in objects of cluster/, 2 invalid input or contents
that no reviewer can read and that only the change itself allows, 3 cluster unreachable.`,
		Example: `  # What do the changes of my working directory since the last commit do?
  bunsen diff

  # What does a branch change, on 40 workers of which 4 may be unavailable at the same time?
  bunsen diff main...my-branch --nodes worker=40/4

  # What do the encrypted files of a branch decrypt to?
  bunsen diff main...my-branch --age-key prod.agekey

  # What would change on the cluster with the files of this directory?
  bunsen diff --cluster

  # What does a commit reboot that is pushed already?
  bunsen diff --cluster 4f1c2ab9~ 4f1c2ab9

  # As a comment for a pull request, and as data (docs/review-json.md)
  bunsen diff main HEAD -o markdown
  bunsen diff main HEAD -o json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return err
			}
			var err error
			if c.Decrypt, err = decrypter(cmd.Context(), ageKeys, service, form.Form); err != nil {
				return cli.Invalid(err)
			}
			base, head, err := c.Arguments(cmd.Context(), args)
			if err != nil {
				return cli.Invalid(err)
			}
			found, err := c.Compare(cmd.Context(), base, head)
			if err != nil {
				return err
			}
			if err := c.Show(cmd.OutOrStdout(), found, form.Form, key); err != nil {
				return err
			}
			if err := found.Refused(); err != nil {
				return cli.Invalid(err)
			}
			if found.Changed() && exitCode {
				return &cli.ExitError{Code: cli.ExitDifferent}
			}
			return nil
		},
	}
	c.AddFlags(cmd)
	form.AddFlag(cmd, "", "text", "markdown", "json")
	cmd.Flags().StringVar(&key, "key", "", repository.KeyHelp)
	cmd.Flags().StringSliceVar(&ageKeys, "age-key", nil, "files with age keys: show what encrypted files decrypt "+
		"to; on a terminal, the keys that sops reads are used without it")
	service.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&exitCode, "exit-code", true, "exit with 1 if there are differences")
	return cmd
}

// decrypter returns what decrypts files for the user: the keys of files, or on a terminal those that sops reads. It
// returns nil for output that others may read, such as that of CI.
func decrypter(ctx context.Context, files []string, service repository.KeyService, form string,
) (func(format string, body []byte) ([]byte, error), error) {
	const text = "text"
	given := len(files) > 0 || service.Address != "" || len(service.Keys) > 0
	switch {
	case form != text && given:
		return nil, fmt.Errorf("--age-key and --key-service show secrets, and the output %s is for others: use -o %s",
			form, text)
	case given:
		return repository.Decrypter(ctx, files, service)
	case form != text || !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("CI") != "":
		return nil, nil
	}
	decrypt, err := repository.Decrypter(ctx, nil, service)
	if err != nil { // the user has no key here
		return nil, nil
	}
	return decrypt, nil
}
