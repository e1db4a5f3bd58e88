package review

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/textdiff"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
	"github.com/bunsen-os/bunsen/transpile"
)

// Readers are the changes of who can read the secrets of a repository. No rendered config has them.
type Readers struct {
	// NewRecipients are keys that head adds, in creation rules or in encrypted files.
	NewRecipients []NewRecipient `json:"newRecipients,omitempty"`
	// CreationRules are the lines by which the creation rules differ: `FILE: -RULE` and `FILE: +RULE`.
	CreationRules []string `json:"creationRules,omitempty"`
}

// NewRecipient is a key that can read secrets which it could not read before.
type NewRecipient struct {
	// Name is the public key, or kind and name of another key than one of age.
	Name string `json:"name"`
	// At are files of creation rules, and encrypted files.
	At []string `json:"at"`
}

// EncryptionState is who can read the secrets of one side.
type EncryptionState struct {
	rules map[string]sops.Rules // by directory
	// files of creation rules that cannot be read, with their text
	broken map[string]string
	files  map[string][]string // the recipients of encrypted files
}

// ReadEncryption reads the creation rules and the recipients of all encrypted files of a tree.
func ReadEncryption(fsys fs.FS) EncryptionState {
	c := &checker{fs: fsys, rules: map[string]sops.Rules{}}
	s := EncryptionState{rules: c.rules, broken: map[string]string{}, files: map[string][]string{}}
	for _, f := range c.files() {
		if path.Base(f) == sops.RulesFile {
			text, err := fs.ReadFile(fsys, f)
			rs, bad := sops.ParseRules(text)
			if c.rules[path.Dir(f)] = rs; err != nil || bad != nil {
				s.broken[f] = string(text)
			}
			continue
		}
		if body, ok := c.read(f); ok {
			if format, encrypted := document.Detect(f, body); encrypted {
				if d, err := document.Parse(format, body); err == nil {
					s.files[f] = d.Metadata.Recipients()
				}
			}
		}
	}
	return s
}

// compareEncryption returns what head changes; nothing if one side is unknown. A recipient of an encrypted file is not
// new if base has it in the same file or its creation rule.
func compareEncryption(base, head EncryptionState) Readers {
	if base.rules == nil || head.rules == nil {
		return Readers{}
	}
	added := map[string][]string{}
	var out Readers
	for _, dir := range slices.Sorted(maps.Keys(head.rules)) {
		file := path.Join(dir, sops.RulesFile)
		for _, r := range head.rules[dir] {
			var had []string
			for _, old := range base.rules[dir] {
				if old.Selects() == r.Selects() {
					had = append(had, old.Keys()...)
				}
			}
			for _, name := range r.Keys() {
				if !slices.Contains(had, name) && !slices.Contains(added[name], file) {
					added[name] = append(added[name], file)
				}
			}
		}
	}
	before := checker{rules: base.rules}
	for _, file := range slices.Sorted(maps.Keys(head.files)) {
		rule, _ := before.rule(file)
		had := append(rule.Keys(), base.files[file]...)
		for _, name := range head.files[file] {
			if !slices.Contains(had, name) {
				added[name] = append(added[name], file)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(added)) {
		out.NewRecipients = append(out.NewRecipients, NewRecipient{name, added[name]})
	}
	out.CreationRules = ruleChanges(base, head)
	return out
}

// ruleChanges lists the rules that only one side has, or that stand in another order: the first one for a path counts.
func ruleChanges(base, head EncryptionState) (out []string) {
	all := maps.Clone(base.rules)
	maps.Copy(all, head.rules)
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		file := path.Join(dir, sops.RulesFile)
		edits, ok := textdiff.Script(base.texts(dir), head.texts(dir))
		if !ok {
			out = append(out, file+": too many rules to be compared")
		}
		for _, e := range edits {
			if e.Sign != ' ' {
				out = append(out, fmt.Sprintf("%s: %c%s", file, e.Sign, e.Text))
			}
		}
	}
	return out
}

func (s EncryptionState) texts(dir string) []string {
	if text, is := s.broken[path.Join(dir, sops.RulesFile)]; is {
		return strings.Split("(invalid)\n"+strings.TrimSpace(text), "\n")
	}
	out := make([]string, len(s.rules[dir]))
	for i, r := range s.rules[dir] {
		out[i] = r.String()
	}
	return out
}

// The rules of findings.
const (
	ruleRules      = "sops-rules"
	ruleClear      = "not-encrypted"
	ruleRecipients = "other-recipients"
	ruleSecret     = "secret-in-clear"
	ruleKey        = "private-key"
)

const maxFiles = 20_000

type checker struct {
	fs      fs.FS
	rules   map[string]sops.Rules // by the directory of the file
	entries []transpile.Entry
	store   transpile.Store // nil for none
}

// CheckEncryption returns findings about a tree and its documents: errors for a broken file of creation rules and for a
// credential in clear text; all others are warnings. The store has results of earlier runs; nil for none.
func CheckEncryption(fsys fs.FS, res transpile.Result, owner SecretOwner, store transpile.Store) []transpile.Entry {
	c := &checker{fs: fsys, rules: map[string]sops.Rules{}, store: store}
	files := c.files()
	for _, f := range files {
		if path.Base(f) == sops.RulesFile {
			c.readRules(f)
		}
	}
	for _, f := range files {
		if path.Base(f) != sops.RulesFile {
			c.file(f)
		}
	}
	c.clearText(files, res.Fragments, owner, c.samples(res.Cluster))
	return c.entries
}

func (c *checker) add(e transpile.Entry) { c.entries = append(c.entries, e) }

// files leaves out those of git.
func (c *checker) files() []string {
	var out []string
	_ = fs.WalkDir(c.fs, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || len(out) >= maxFiles:
			return fs.SkipDir
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.Type().IsRegular(), d.Name() == sops.RulesFile && !d.IsDir(): // a link to rules is read as rules
			out = append(out, p)
		}
		return nil
	})
	return out
}

func (c *checker) readRules(file string) {
	text, err := fs.ReadFile(c.fs, file)
	if err != nil {
		return
	}
	rs, err := sops.ParseRules(text)
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			c.add(transpile.Entry{Severity: transpile.Fatal, Rule: ruleRules, Message: line, File: file})
		}
		return
	}
	c.rules[path.Dir(file)] = rs
}

// rule is from the nearest file of rules above.
func (c *checker) rule(file string) (sops.Rule, bool) {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if rs, ok := c.rules[dir]; ok {
			below := file
			if dir != "." {
				below = strings.TrimPrefix(file, dir+"/")
			}
			return rs.For(below)
		}
		if dir == "." {
			return sops.Rule{}, false
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
		command := "bunsen secret encrypt"
		if len(rule.Foreign) > 0 {
			command = "sops encrypt -i"
		}
		c.add(transpile.Entry{Rule: ruleClear, File: file, Message: fmt.Sprintf("a creation rule of %s says that "+
			"this file is encrypted, and it is not: run `%s %s`. Then replace its secrets, because git keeps the "+
			"earlier content", sops.RulesFile, command, file)})
	case encrypted:
		c.recipients(file, rule, format, body)
	}
}

func (c *checker) read(file string) ([]byte, bool) {
	info, err := fs.Stat(c.fs, file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > document.MaxSize {
		return nil, false
	}
	body, err := fs.ReadFile(c.fs, file)
	return body, err == nil
}

// recipients warns of an encrypted file whose recipients differ from those of its rule. It advises to remove some only:
// a rule may have one that nobody checked.
func (c *checker) recipients(file string, rule sops.Rule, format document.Format, body []byte) {
	d, err := document.Parse(format, body)
	if err != nil || len(rule.Foreign) > 0 {
		return // the document that includes the file reports it
	}
	has, want := d.Metadata.Recipients(), rule.Recipients()
	if more := less(has, want); len(more) > 0 {
		command := fmt.Sprintf("bunsen secret rotate %s --remove %s", file, strings.Join(more, ","))
		if slices.ContainsFunc(slices.Concat(d.Metadata.Groups...), func(r document.Recipient) bool {
			return r.Kind != "age"
		}) {
			command = "sops updatekeys " + file
		}
		c.add(transpile.Entry{Rule: ruleRecipients, File: file, Message: fmt.Sprintf("%s can read the file, and its "+
			"creation rule does not name it: run `%s`, and replace the secrets", strings.Join(more, ", "), command)})
	}
	if more := less(want, has); len(more) > 0 {
		c.add(transpile.Entry{Rule: ruleRecipients, File: file, Message: fmt.Sprintf("its creation rule names %s, "+
			"for which the file is not encrypted. Whoever holds the keys of this repository must check who added it "+
			"to %s, before a secret is encrypted for it", strings.Join(more, ", "), sops.RulesFile)})
	}
}

// less returns the names that another list does not have.
func less(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
}
