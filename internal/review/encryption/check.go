package encryption

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/secretref"
	"github.com/bunsen-os/bunsen/internal/policy/secret"
	"github.com/bunsen-os/bunsen/internal/sops/document"
	"github.com/bunsen-os/bunsen/internal/sops/rules"
	"github.com/bunsen-os/bunsen/transpile"
)

// The rules of findings.
const (
	ruleRules      = "sops-rules"
	ruleClear      = "not-encrypted"
	ruleRecipients = "other-recipients"
	ruleSecret     = "secret-in-clear"
	ruleKey        = "private-key"
)

// ageKey matches the private key of age, also of a post-quantum one.
var ageKey = regexp.MustCompile(`AGE-SECRET-KEY-(PQ-)?1[0-9A-Z]{40,}`)

// maxFiles bounds the files of a tree that are checked.
const maxFiles = 20_000

// checker walks a tree.
type checker struct {
	fs      fs.FS
	rules   map[string]rules.Rules // by the directory of the file
	entries []transpile.Entry
}

// Check returns findings about a tree and its fragments. A broken file of creation rules is an error, and so is a
// private key in a file that git does not ignore; all other findings are warnings.
func Check(fsys fs.FS, fragments []transpile.Fragment, ignored func(file string) bool) []transpile.Entry {
	c := &checker{fs: fsys, rules: map[string]rules.Rules{}}
	files := c.files()
	for _, f := range files {
		if path.Base(f) == rules.File {
			c.readRules(f)
		}
	}
	for _, f := range files {
		if line := c.keyLine(f); line > 0 && !ignored(f) {
			c.add(transpile.Entry{
				Severity: transpile.Fatal, Rule: ruleKey, File: f, Line: line,
				Message: "the private key of age is in the repository: whoever reads the repository can decrypt its " +
					"secrets. Move the file out of it, or let .gitignore name it. If the key was pushed, create a " +
					"new one, run `bunsen secret rotate` on the encrypted files and replace the secrets",
			})
		}
	}
	for _, f := range files {
		if path.Base(f) != rules.File {
			c.file(f)
		}
	}
	for _, f := range fragments {
		c.fragment(f)
	}
	return c.entries
}

func (c *checker) add(e transpile.Entry) { c.entries = append(c.entries, e) }

// files lists the files of the tree. Files of git are left out.
func (c *checker) files() []string {
	var out []string
	_ = fs.WalkDir(c.fs, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || len(out) >= maxFiles:
			return fs.SkipDir
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.Type().IsRegular(), d.Name() == rules.File && !d.IsDir(): // a link to rules is read as rules
			out = append(out, p)
		}
		return nil
	})
	return out
}

// keyLine returns the line of a file with a private key, or 0.
func (c *checker) keyLine(file string) int {
	info, err := fs.Stat(c.fs, file)
	if err != nil || info.Size() > document.MaxSize {
		return 0
	}
	text, err := fs.ReadFile(c.fs, file)
	if err != nil {
		return 0
	}
	at := ageKey.FindIndex(text)
	if at == nil {
		return 0
	}
	return 1 + bytes.Count(text[:at[0]], []byte("\n"))
}

func (c *checker) readRules(file string) {
	text, err := fs.ReadFile(c.fs, file)
	if err != nil {
		return
	}
	rs, err := rules.Parse(text)
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			c.add(transpile.Entry{Severity: transpile.Fatal, Rule: ruleRules, Message: line, File: file})
		}
		return
	}
	c.rules[path.Dir(file)] = rs
}

// rule returns the creation rule of a file: that of the nearest file of rules above it.
func (c *checker) rule(file string) (rules.Rule, bool) {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if rs, ok := c.rules[dir]; ok {
			below := file
			if dir != "." {
				below = strings.TrimPrefix(file, dir+"/")
			}
			return rs.For(below)
		}
		if dir == "." {
			return rules.Rule{}, false
		}
	}
}

func (c *checker) file(file string) {
	rule, ok := c.rule(file)
	if !ok {
		return
	}
	body, ok := c.read(file)
	if !ok {
		return
	}
	format, encrypted := document.Detect(file, body)
	switch {
	case !encrypted && rule.Path != nil: // a rule without a path is a default, which selects documents too
		c.add(transpile.Entry{Rule: ruleClear, File: file, Message: fmt.Sprintf("a creation rule of %s says that "+
			"this file is encrypted, and it is not: run `bunsen secret encrypt %s`. Then replace its secrets, "+
			"because git keeps the earlier content", rules.File, file)})
	case encrypted:
		c.recipients(file, rule, format, body)
	}
}

// read reads a file that is not too large to be encrypted.
func (c *checker) read(file string) ([]byte, bool) {
	info, err := fs.Stat(c.fs, file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > document.MaxSize {
		return nil, false
	}
	body, err := fs.ReadFile(c.fs, file)
	return body, err == nil
}

// recipients warns of an encrypted file whose recipients differ from those of its rule. It advises to remove recipients
// only: a rule may have one that nobody checked.
func (c *checker) recipients(file string, rule rules.Rule, format document.Format, body []byte) {
	d, err := document.Parse(format, body)
	if err != nil || len(rule.Foreign) > 0 {
		return // the document that includes the file reports it
	}
	has, want := d.Metadata.Recipients(), rule.Recipients()
	if more := less(has, want); len(more) > 0 {
		c.add(transpile.Entry{Rule: ruleRecipients, File: file, Message: fmt.Sprintf("%s can read the file, and its "+
			"creation rule does not name it: run `bunsen secret rotate %s --remove %s`, and replace the secrets",
			strings.Join(more, ", "), file, strings.Join(more, ","))})
	}
	if more := less(want, has); len(more) > 0 {
		c.add(transpile.Entry{Rule: ruleRecipients, File: file, Message: fmt.Sprintf("its creation rule names %s, "+
			"for which the file is not encrypted. Whoever holds the keys of this repository must check who added it "+
			"to %s, before a secret is encrypted for it", strings.Join(more, ", "), rules.File)})
	}
}

// less returns the names of a list that another one does not have.
func less(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
}

// fragment warns of files with secrets in clear text.
func (c *checker) fragment(f transpile.Fragment) {
	config, err := machineconfig.Parse(f.MachineConfig.Spec)
	if err != nil {
		return // rendering reports it
	}
	for i, file := range config.Ignition.Storage.Files {
		if file.Contents.Source == nil || secretref.IsUnresolved(*file.Contents.Source) {
			continue
		}
		text, err := machineconfig.Contents(file.Contents)
		if err != nil || len(text) > document.MaxSize || !secret.Is(file.Path, string(text)) {
			continue
		}
		at, _ := f.Origin.Find(fmt.Sprintf("$.storage.files.%d.contents.source", i))
		c.add(transpile.Entry{
			Rule: ruleSecret, File: at.File, Line: at.Line, Column: at.Column,
			Message: fmt.Sprintf("pool %s: %s has what looks like a secret in clear text: run `bunsen secret "+
				"encrypt` on a file with it, or write ${secret:NAME/KEY} and `template: true`", f.Pool, file.Path),
		})
	}
}
