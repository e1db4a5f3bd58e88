package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const keyEnding = ".agekey"

// Keygen creates an age key in a new file that only the user can read, and says what to do with it. In a work tree of
// git, .gitignore gets the file first, so that no commit gets the key.
func Keygen(out io.Writer, file string, now time.Time) error {
	if !strings.HasSuffix(file, keyEnding) {
		return fmt.Errorf("%q: the name of a key's file ends in %s, because the server reads only such keys", file,
			keyEnding)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return fmt.Errorf("creating an age key: %w", err)
	}
	ignored, err := ignore(file)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", now.Format(time.RFC3339), id.Recipient(), id)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the age key: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing the age key: %w", err)
	}
	fmt.Fprintf(out, "%s\n\nThe key is in %s%s. Keep a copy in a safe place: without the key, no user can read the "+
		"files again.\n", id.Recipient(), file, ignored)
	fmt.Fprintf(out, "Give it to the server:\n  kubectl -n bunsen-system create secret generic bunsen-age "+
		"--from-file=%s\n", file)
	fmt.Fprintf(out, "Name it in .sops.yaml, at the top of the repository:\n"+
		"  echo 'creation_rules: [{path_regex: \"[.]sops[.]\", age: %s}]' > .sops.yaml\n", id.Recipient())
	return nil
}

// ignore lets git ignore all keys in a work tree, because the next one has another name.
func ignore(file string) (text string, err error) {
	at, err := git.FindAround(filepath.Dir(file))
	if err != nil || at.WorkTree == "" {
		return ", out of git", nil
	}
	if is, err := at.Ignored().Has(path.Join(at.Folder, filepath.Base(file))); err != nil || is {
		return ", which git ignores", err
	}
	list := filepath.Join(at.WorkTree, ".gitignore")
	if info, err := os.Lstat(list); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file, so git does not read it: replace it by a file", list)
	}
	was, err := os.ReadFile(list)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading which files git ignores: %w", err)
	}
	if len(was) > 0 && !bytes.HasSuffix(was, []byte("\n")) {
		was = append(was, '\n')
	}
	now := append(was, "*"+keyEnding+"\n"...)
	if err := os.WriteFile(list, now, 0o666); err != nil { //nolint:gosec // the umask of the user decides
		return "", fmt.Errorf("adding the key to .gitignore: %w", err)
	}
	return ", which git ignores: the line *" + keyEnding + " is new in " + list, nil
}

// KeyService is a key service of SOPS, and the keys for which it may be asked.
type KeyService struct {
	Address string
	Keys    []string
}

// AddFlags adds the flags of a key service.
func (k *KeyService) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&k.Address, "key-service", "", "`address` of your sops keyservice, unix:///PATH or "+
		"tcp://127.0.0.1:PORT, for encrypted files without an age key of yours")
	flags.StringArrayVar(&k.Keys, "key-service-key", nil, "`key` for which the key service may be asked, such as "+
		"\"kms arn:aws:kms:…\"; may be repeated")
}

func (k KeyService) service(ctx context.Context) (*sops.Service, error) {
	if (k.Address == "") != (len(k.Keys) == 0) {
		return nil, errors.New(
			"--key-service and --key-service-key belong together: where the key service is, and the " +
				"keys for which it may be asked")
	}
	if k.Address == "" {
		return nil, nil
	}
	for _, key := range k.Keys {
		if err := sops.ParseAllowed(key); err != nil {
			return nil, fmt.Errorf("reading --key-service-key: %w", err)
		}
	}
	client, err := sops.NewKeyService(k.Address)
	if err != nil {
		return nil, fmt.Errorf("reading --key-service: %w", err)
	}
	return &sops.Service{Ask: client.Round(ctx), Allowed: k.Keys, AllowedIn: "the flag --key-service-key"}, nil
}

// Decrypter decrypts files with the user's age keys: those of files, or those that the program sops would read. With a
// key service, it needs no age key.
func Decrypter(ctx context.Context, files []string, service KeyService,
) (func(format string, body []byte) ([]byte, error), error) {
	asked, err := service.service(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := identities(files)
	if err != nil && (asked == nil || len(files) > 0) {
		return nil, err
	}
	return sops.Keys{Age: ids, Service: asked}.Decrypt, nil
}

// identities reads the user's age keys: those of flags, or those that sops would read.
func identities(files []string) ([]age.Identity, error) {
	var texts [][]byte
	if len(files) == 0 {
		if text := os.Getenv("SOPS_AGE_KEY"); text != "" {
			texts = append(texts, []byte(text))
		}
		if file := os.Getenv("SOPS_AGE_KEY_FILE"); file != "" {
			files = append(files, file)
		} else if dir, err := os.UserConfigDir(); err == nil {
			if file := filepath.Join(dir, "sops", "age", "keys.txt"); exists(file) {
				files = append(files, file)
			}
		}
	}
	var problems []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		problems = append(problems, err)
		texts = append(texts, text)
	}
	var out []age.Identity
	for _, text := range texts {
		ids, err := sops.ParseIdentities(bytes.TrimSpace(text))
		if len(bytes.TrimSpace(text)) > 0 {
			problems = append(problems, err)
		}
		out = append(out, ids...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("reading your age keys: %w", err)
	}
	if len(out) == 0 {
		return nil, errors.New("you have no age key here: name its file with --key or SOPS_AGE_KEY_FILE, or create " +
			"one with `bunsen secret keygen`")
	}
	return out, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

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
