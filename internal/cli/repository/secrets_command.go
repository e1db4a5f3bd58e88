package repository

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
)

// SecretCommand returns the verb secret.
func SecretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secret", Short: "Encrypt files of a config repository", GroupID: "offline",
		Long: `Encrypt files of a config repository with age, in the format of SOPS. A document includes an encrypted file with
contents: {local: FILE}. The rendered config has the ciphertext; Bunsen decrypts it only for the nodes of the config's pool.

The creation rules in .sops.yaml name the keys of each file, and the values to encrypt. The program sops reads and writes
the same files. Your age keys come from --key, SOPS_AGE_KEY, SOPS_AGE_KEY_FILE or sops/age/keys.txt in your
configuration directory.`,
		Example: `  bunsen secret keygen prod.agekey
  bunsen secret encrypt pools/worker/app.sops.yaml
  bunsen secret edit pools/worker/app.sops.yaml --key prod.agekey`,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(keygenCommand(), encryptCommand(), editCommand(), rotateCommand(), decryptCommand())
	return cmd
}

func keygenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Create an age key in a new file, and print its public key",
		Example: "  bunsen secret keygen prod.agekey", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return invalid(Keygen(cmd.OutOrStdout(), args[0], time.Now()))
		},
	}
}

func encryptCommand() *cobra.Command {
	var o SecretOptions
	cmd := &cobra.Command{
		Use: "encrypt FILE", Short: "Encrypt a file in place, for the recipients of its creation rule",
		Example: "  bunsen secret encrypt pools/worker/app.sops.yaml\n  bunsen secret encrypt db.env --age " +
			"age1pattmatlnr5cd75xgeq4w4wln67rzm87z3pjemavuyhgag3ausjsv4h3r0",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.Now = time.Now()
			return invalid(o.Encrypt(args[0]))
		},
	}
	cmd.Flags().StringSliceVar(&o.Recipients, "age", nil, "public keys, instead of those of the creation rule")
	return cmd
}

func editCommand() *cobra.Command {
	var o SecretOptions
	cmd := &cobra.Command{
		Use: "edit FILE", Short: "Edit an encrypted file with $EDITOR, or create one",
		Long: `Edit an encrypted file with $EDITOR. If the file does not exist, bunsen encrypts what you write, for the public keys of
its creation rule in .sops.yaml. This needs no key of yours. The decrypted text is in a private directory until the editor ends. Values that you do
not change keep their ciphertext, so that a review shows which keys changed.`,
		Example: "  bunsen secret edit pools/worker/app.sops.yaml", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Now = time.Now()
			return invalid(o.Edit(cmd.Context(), args[0]))
		},
	}
	keyFlag(cmd, &o)
	return cmd
}

func rotateCommand() *cobra.Command {
	var o SecretOptions
	cmd := &cobra.Command{
		Use: "rotate FILE...", Short: "Encrypt files with new data keys, for the recipients of their creation rules",
		Long: `Encrypt files with new data keys, for the recipients of their creation rules. Who had an old key can still read the values
in the history of git, so replace the values too. A recipient that the rule has and the file does not have is an error:
check who added it to .sops.yaml, and then name it with --add.`,
		Example: "  bunsen secret rotate pools/*/*.sops.yaml", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Now = time.Now()
			return invalid(o.Rotate(cmd.OutOrStdout(), args))
		},
	}
	cmd.Flags().StringSliceVar(&o.Recipients, "age", nil, "public keys, instead of those of the creation rule")
	cmd.Flags().StringSliceVar(&o.Add, "add", nil, "public keys to add to those of the file")
	cmd.Flags().StringSliceVar(&o.Remove, "remove", nil, "public keys to remove from those of the file")
	keyFlag(cmd, &o)
	return cmd
}

func decryptCommand() *cobra.Command {
	var o SecretOptions
	cmd := &cobra.Command{
		Use: "decrypt FILE", Short: "Print a decrypted file",
		Example: "  bunsen secret decrypt pools/worker/app.sops.yaml", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return invalid(o.Decrypt(cmd.OutOrStdout(), args[0]))
		},
	}
	keyFlag(cmd, &o)
	return cmd
}

func keyFlag(cmd *cobra.Command, o *SecretOptions) {
	cmd.Flags().StringSliceVar(&o.Keys, "key", nil, "files with age keys, instead of those that sops reads")
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return cli.Invalid(fmt.Errorf("secret: %w", err))
}
