package repository

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// Edit opens the decrypted file in the user's editor, and encrypts what the editor saved. Until then, the text is in a
// private directory, in memory if the machine has one; signals remove it too. A file that does not exist is created,
// for the recipients of its creation rule.
func (o SecretOptions) Edit(ctx context.Context, file string) error {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return o.create(ctx, file)
	}
	format, body, err := open(file)
	if err == nil {
		err = checkAge(file, format, body, "edit")
	}
	if err != nil {
		return err
	}
	ids, err := identities(o.Keys)
	if err != nil {
		return err
	}
	plain, err := sops.Decrypt(format, body, ids...)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	changed, err := edited(ctx, filepath.Base(file), plain)
	if err != nil {
		return fmt.Errorf("%s is unchanged: %w", file, err)
	}
	if bytes.Equal(changed, plain) {
		return nil
	}
	out, err := o.writer().Replace(format, body, changed, ids...)
	if err != nil {
		return fmt.Errorf("%s is unchanged: %w", file, err)
	}
	return replaceFile(file, out)
}

// create encrypts what the user writes in the editor, as a new file. It needs no key.
func (o SecretOptions) create(ctx context.Context, file string) error {
	p, ok, err := rulePolicy(file)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s does not exist, and no creation rule of a %s above it names an age key: add one, or "+
			"correct the name", file, sops.RulesFile)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return fmt.Errorf("creating %s: there is no directory %s: create it first", file, filepath.Dir(file))
	}
	text, err := edited(ctx, filepath.Base(file), nil)
	if err != nil {
		return fmt.Errorf("%s is not created: %w", file, err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("%s is not created: the editor saved no text", file)
	}
	if _, encrypted := document.Detect(file, text); encrypted {
		return fmt.Errorf("%s is not created: the text is encrypted already", file)
	}
	out, err := o.writer().Encrypt(string(document.FormatOf(file)), text, p)
	if err != nil {
		return fmt.Errorf("%s is not created: %w", file, err)
	}
	return replaceFile(file, out)
}

func edited(ctx context.Context, name string, text []byte) (out []byte, err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	dir, err := os.MkdirTemp(privateParent(), "bunsen-edit-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	editor := cmp.Or(os.Getenv("SOPS_EDITOR"), os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$0"`, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor %q ended with an error: %w", editor, err)
	}
	return os.ReadFile(file)
}

// privateParent returns a directory in memory for decrypted text, or "" for the directory of temporary files.
func privateParent() string {
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"} {
		if info, err := os.Stat(dir); dir != "" && err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}
