package secrets

import (
	"bytes"
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

	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/source/git"
)

// keyEnding is the ending of a key's name in the Secret that the server reads.
const keyEnding = ".agekey"

// Keygen creates an age key in a new file that only the user can read, and says what to do with it. In a work tree of
// git, it first adds the file to .gitignore, so that no commit gets the key.
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

// ignore lets git ignore a key in a work tree, and says so. The pattern is for all keys, because the next one has
// another name.
func ignore(file string) (text string, err error) {
	at, err := git.FindAround(filepath.Dir(file))
	if err != nil || at.WorkTree == "" {
		return ", out of git", nil
	}
	if is, err := at.Ignores(path.Join(at.Folder, filepath.Base(file))); err != nil || is {
		return ", which git ignores", err
	}
	list := filepath.Join(at.WorkTree, ".gitignore")
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

// Decrypter returns a function that decrypts files with the user's age keys: those of files, or those that the program
// sops would read.
func Decrypter(files []string) (func(format string, body []byte) ([]byte, error), error) {
	ids, err := identities(files)
	if err != nil {
		return nil, err
	}
	return func(format string, body []byte) ([]byte, error) { return sops.Decrypt(format, body, ids...) }, nil
}

// identities reads the user's age keys: the files of flags, or what the program sops would read.
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
