package repository

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
	"github.com/google/renameio/v2/maybe"
)

// SecretOptions are the flags that verbs share.
type SecretOptions struct {
	// replace those of the creation rules
	Recipients  []string
	Add, Remove []string
	Keys        []string
	Now         time.Time
}

func (o SecretOptions) writer() sops.Writer { return sops.Writer{Random: rand.Reader, Now: o.Now} }

func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > document.MaxSize {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", file, document.MaxSize)
	}
	return os.ReadFile(file)
}

// replaceFile writes a file whole or not at all, and keeps its mode.
func replaceFile(file string, body []byte) error {
	mode := os.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		real = file
	}
	return maybe.WriteFile(real, body, mode)
}

// readRules reads a .sops.yaml. No commit has what a link leads to, so that a review would have other rules.
func readRules(file string) ([]byte, error) {
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file, so a review does not read it: replace it by a file", file)
	}
	return read(file)
}

// rule is from the nearest .sops.yaml above the file.
func rule(file string) (sops.Rule, bool, error) {
	whole, err := filepath.Abs(file)
	if err != nil {
		return sops.Rule{}, false, err
	}
	for dir := filepath.Dir(whole); ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, sops.RulesFile)
		text, err := readRules(at)
		if err == nil {
			rs, err := sops.ParseRules(text)
			if err != nil {
				return sops.Rule{}, false, fmt.Errorf("%s: %w", at, err)
			}
			below, _ := filepath.Rel(dir, whole)
			r, ok := rs.For(filepath.ToSlash(below))
			if ok && len(r.Foreign) > 0 {
				return r, true, fmt.Errorf("%s: the rule for %s has keys of %s, and Bunsen writes keys of age only: "+
					"type `sops encrypt -i %s`, `sops edit %s` or `sops rotate -i %s`", at, file,
					strings.Join(r.Foreign, ", "), file, file, file)
			}
			return r, ok, nil
		}
		if !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			return sops.Rule{}, false, ignoreMissing(err)
		}
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (o SecretOptions) policy(file string) (sops.Policy, error) {
	if len(o.Recipients) > 0 {
		return sops.Policy{Groups: [][]string{o.Recipients}}, nil
	}
	p, ok, err := rulePolicy(file)
	if err == nil && !ok {
		err = fmt.Errorf("no creation rule of a %s above %s names an age key: add one, or name the public key "+
			"with --age", sops.RulesFile, file)
	}
	return p, err
}

// rulePolicy is false if no rule names an age key.
func rulePolicy(file string) (sops.Policy, bool, error) {
	r, ok, err := rule(file)
	if err != nil || !ok || len(r.Groups) == 0 {
		return sops.Policy{}, false, err
	}
	return sops.Policy{Groups: r.Groups, Threshold: r.Threshold, Rules: r.Values}, true, nil
}

// Encrypt encrypts a file in place.
func (o SecretOptions) Encrypt(file string) error {
	body, err := read(file)
	if err != nil {
		return err
	}
	if _, encrypted := document.Detect(file, body); encrypted {
		return fmt.Errorf("%s is encrypted already; change it with `bunsen secret edit %s`", file, file)
	}
	p, err := o.policy(file)
	if err != nil {
		return err
	}
	out, err := o.writer().Encrypt(string(document.FormatOf(file)), body, p)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return replaceFile(file, out)
}

func open(file string) (format string, body []byte, err error) {
	if body, err = read(file); err != nil {
		return "", nil, err
	}
	found, encrypted := document.Detect(file, body)
	if !encrypted {
		return "", nil, fmt.Errorf("%s is not encrypted; encrypt it with `bunsen secret encrypt %s`", file, file)
	}
	return string(found), body, nil
}

// checkAge refuses a file that is also for other keys than those of age, which Bunsen cannot write, with the command of
// sops that can.
func checkAge(file, format string, body []byte, command string) error {
	d, err := document.Parse(document.Format(format), body)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, r := range slices.Concat(d.Metadata.Groups...) {
		if r.Kind != "age" {
			return fmt.Errorf("%s is also for %s, and Bunsen writes keys of age only: type `sops %s %s`, or `sops "+
				"updatekeys %s` to follow its creation rule", file, safetext.OneLine(r.String()), command, file, file)
		}
	}
	return nil
}

// Decrypt writes the decrypted file to the output.
func (o SecretOptions) Decrypt(out io.Writer, file string) error {
	format, body, err := open(file)
	if err != nil {
		return err
	}
	ids, err := identities(o.Keys)
	if err != nil {
		return err
	}
	plain, err := sops.Decrypt(format, body, ids...)
	if missing := new(sops.MissingKeyError); errors.As(err, &missing) && missing.NoService {
		return fmt.Errorf("%s: %w; or type `sops decrypt %s`", file, err, file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	_, err = out.Write(plain)
	return err
}

// Rotate encrypts files with new data keys, for the recipients of their creation rules or of the flags.
func (o SecretOptions) Rotate(out io.Writer, files []string) error {
	var problems []error
	for _, file := range files {
		if err := o.rotate(out, file); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func (o SecretOptions) rotate(out io.Writer, file string) error {
	format, body, err := open(file)
	if err == nil {
		err = checkAge(file, format, body, "rotate -i")
	}
	if err != nil {
		return err
	}
	ids, err := identities(o.Keys)
	if err != nil {
		return err
	}
	d, err := document.Parse(document.Format(format), body)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	p, err := o.policy(file)
	if len(o.Add)+len(o.Remove) > 0 && len(d.Metadata.Groups) == 1 {
		p, err = ownPolicy(d.Metadata), nil
		p.Groups[0] = slices.Compact(
			slices.Sorted(slices.Values(slices.DeleteFunc(slices.Concat(p.Groups[0], o.Add), func(r string) bool {
				return slices.Contains(o.Remove, r)
			}))))
	}
	if err != nil {
		return err
	}
	if err := o.checkNew(p, d.Metadata.Recipients()); err != nil {
		return fmt.Errorf("%s is unchanged: %w", file, err)
	}
	rotated, err := o.writer().Rotate(format, body, p, ids...)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := replaceFile(file, rotated); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: new data key, for %s\n", file, strings.Join(slices.Concat(p.Groups...), ", "))
	return nil
}

// checkNew refuses recipients that neither the file nor a flag names: a commit may have added them to the rule. The
// flags cannot change key groups, because each recipient belongs to one of them.
func (o SecretOptions) checkNew(p sops.Policy, had []string) error {
	all := slices.Concat(p.Groups...)
	for _, r := range o.Add {
		if !slices.Contains(all, r) {
			return fmt.Errorf("it has key groups: add %s to one of them in its creation rule", r)
		}
	}
	for _, r := range o.Remove {
		if slices.Contains(all, r) {
			return fmt.Errorf("it has key groups: remove %s from its creation rule", r)
		}
	}
	unasked := slices.DeleteFunc(all, func(r string) bool {
		return slices.Contains(slices.Concat(had, o.Add, o.Recipients), r)
	})
	if len(unasked) > 0 {
		return fmt.Errorf("its creation rule names %s, for which the file is not encrypted. Whoever holds the keys "+
			"must check who added it to %s. The flag --add takes a key that is checked", strings.Join(unasked, ", "),
			sops.RulesFile)
	}
	return nil
}

func ownPolicy(m document.Metadata) sops.Policy {
	p := sops.Policy{Threshold: m.Threshold}
	for _, g := range m.Groups {
		var names []string
		for _, r := range g {
			names = append(names, r.String())
		}
		p.Groups = append(p.Groups, names)
	}
	return p
}

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
	if runtime.GOOS == "windows" {
		editor = cmp.Or(os.Getenv("SOPS_EDITOR"), os.Getenv("VISUAL"), os.Getenv("EDITOR"), "notepad")
		words := append(strings.Fields(editor), file) // Windows has no shell that would split them.
		cmd = exec.CommandContext(ctx, words[0], words[1:]...)
	}
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
