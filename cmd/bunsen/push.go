package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

func pushCommand() *cobra.Command {
	var p repository.Push
	var out cli.Output
	cmd := &cobra.Command{
		Use: "push oci://HOST/NAME:TAG", Short: "Publish the files of a commit as a signed OCI artifact, for " +
			"clusters without access to git", GroupID: "offline",
		Long: `Push the files of a commit below the current directory to an OCI registry as one artifact, and move the tag to this artifact. A
GitSource whose url is oci://HOST/NAME follows the tag. Standard output is the digest of the artifact. The same commit, folder
and source's URL give the same digest.

bunsen pushes the commit HEAD. If files of the folder differ from HEAD, bunsen reports an error, unless --rev names the commit.
bunsen also reports an error for symbolic links, submodules and Git LFS pointers, which no source applies; --allow-partial
leaves out such entries.

With --sign, bunsen signs the artifact as "cosign sign --key" of cosign 2 does, before it moves the tag. KEY is a cosign.key, an
unencrypted key in PEM, or env://NAME for a variable with one of them. COSIGN_PASSWORD is the password of an encrypted key.

The credentials are those of "docker login", or BUNSEN_REGISTRY_USERNAME and BUNSEN_REGISTRY_PASSWORD. The registry must serve https.

Exit codes: 0 pushed, 2 invalid input or refused credentials, 3 registry unreachable.`,
		Example: `  # The commit of the current directory
  bunsen push oci://registry.example.org/platform/os-config:stable

  # One folder of a tag, signed
  COSIGN_PASSWORD=... bunsen push oci://registry.example.org/platform/os-config:v1.4.0 \
    --rev v1.4.0 --path clusters/prod --sign cosign.key

  # Print the artifact that a push would create, and send nothing
  bunsen push oci://registry.example.org/platform/os-config:stable --dry-run -o json`,
		Args: needsArgs(1, 1, "push needs the address of a tag, for example: bunsen push "+
			"oci://registry.example.org/platform/os-config:stable"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			result, err := p.Run(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, e := range result.LeftOut {
				cli.Say(cmd.ErrOrStderr(), "warning: left out: %s: %s", e.Path, e.Why)
			}
			cli.Say(cmd.ErrOrStderr(), "%s", summaryOf(result))
			return out.Print(cmd.OutOrStdout(), result.Digest+"\n", result)
		},
	}
	out.AddFlag(cmd, "digest, json or yaml: only the digest, or the digest with the pushed revision and files",
		"digest", "json", "yaml")
	flags := cmd.Flags()
	flags.StringVar(&p.Repo, "repo", ".", "a directory in the git repository")
	flags.StringVar(&p.Path, "path", "", "the folder below --repo to push; empty: all of --repo")
	flags.StringVar(&p.Revision, "rev", "", "the commit to push: a branch, a tag or a hash; empty: HEAD, if no file "+
		"differs from it")
	flags.StringVar(&p.Source, "source", "", "the repository's URL for the artifact's annotations; empty: the URL of "+
		"the remote origin")
	flags.StringVar(&p.Key, "sign", "", "sign the artifact with this private key: a file in PEM, or env://NAME")
	flags.StringVar(&p.CAFile, "ca-file", "", "a file with the certificate authority of the registry, in PEM")
	flags.BoolVar(&p.DryRun, "dry-run", false, "send nothing, and print the digest that a push would have")
	flags.BoolVar(&p.AllowPartial, "allow-partial", false, "leave out symbolic links, submodules and other entries "+
		"that no source applies, and name them on stderr")
	cli.CompleteFlag(cmd, "rev", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return repository.CompleteRevisions(cmd.Context(), p.Repo), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func summaryOf(r repository.PushResult) string {
	verb, signed := "pushed", "not signed"
	if !r.Pushed {
		verb = "would push"
	}
	if r.Key != "" {
		signed = "signed with " + r.Key
	}
	return fmt.Sprintf("%s %d files of %s to %s:%s, %s", verb, r.Files, r.Revision, r.URL, r.Tag, signed)
}
