package review

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// SecretOwner is what the owner of a repository decided about its secrets.
type SecretOwner struct {
	Ignored func(file string) bool
	// Marks are secret paths on nodes, by pool.
	Marks map[string]secretmask.Paths
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

// text is a text of a fragment: a file or a unit on machines.
type text struct {
	// Name is the path or the unit, Field where the config has it.
	Name, Field string
	Lines       int
	Credentials []secretmask.Credential `json:",omitempty"`
}

// content is a text of a fragment, and where the repository has it.
type content struct {
	credentials []secretmask.Credential
	at          origin.Pos
	// in the file of at
	lines int
}

// clearText reports each credential in the files of the tree, and in contents that a document encodes.
func (c *checker) clearText(files []string, fragments []transpile.Fragment, owner SecretOwner,
	samples secretmask.Paths,
) {
	var declared, clear []content
	documents := map[string]bool{}
	texts := map[string][]text{} // by config: pools include the same documents
	for _, f := range fragments {
		documents[f.File] = true
		key := textsKey(f)
		if _, known := texts[key]; !known {
			texts[key] = c.textsOf(f)
		}
		for _, x := range texts[key] {
			at, _ := f.Origin.Find(x.Field)
			one := content{x.Credentials, at, x.Lines}
			if owner.Marks[f.Pool].Match(x.Name) {
				declared = append(declared, one)
			} else {
				clear = append(clear, one)
			}
		}
	}
	reported := map[string]bool{}
	for _, file := range files {
		body, ok := c.read(file)
		found := c.credentials(string(body))
		if !ok || len(found) == 0 || samples.Match("/"+file) || owner.Ignored(file) {
			continue
		}
		for _, one := range found {
			at := positionOf(file, string(body), one.Offset)
			if !slices.ContainsFunc(declared, func(d content) bool { return d.has(at) }) {
				reported[file] = true
				c.credential(one, at, documents[file])
			}
		}
	}
	for _, x := range clear {
		for _, one := range x.credentials {
			if !reported[x.at.File] && !samples.Match("/"+x.at.File) {
				reported[x.at.File] = true
				c.credential(one, x.at, documents[x.at.File])
			}
		}
	}
}

// credentials are those of a text, from the store if it has them.
func (c *checker) credentials(text string) []secretmask.Credential {
	if text == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	return stored(c.store, "credentials in "+hex.EncodeToString(sum[:]), func() []secretmask.Credential {
		return secretmask.Credentials(text)
	})
}

// textsOf are the texts of a fragment, from the store if it has them.
func (c *checker) textsOf(f transpile.Fragment) []text {
	return stored(c.store, textsKey(f), func() []text { return textsOf(f) })
}

// textsKey identifies everything that textsOf reads.
func textsKey(f transpile.Fragment) string {
	sum := sha256.Sum256(f.MachineConfig.Spec.Config.Raw)
	return "all texts of " + hex.EncodeToString(sum[:])
}

// stored returns what a pure step returned for a key that identifies everything that the step reads.
func stored[T any](store transpile.Store, key string, step func() T) (out T) {
	if store == nil {
		return step()
	}
	if value, has := store.Get(key); has && json.Unmarshal(value, &out) == nil {
		return out
	}
	out = step()
	if value, err := json.Marshal(out); err == nil {
		store.Put(key, value)
	}
	return out
}

// samples returns the files whose credentials are public samples, as cluster/ says.
func (c *checker) samples(objects []transpile.ClusterObject) (out secretmask.Paths) {
	for _, o := range objects {
		if o.Object.GetKind() != PolicyKind {
			continue
		}
		files, err := secretmask.ParsePaths(o.Object.GetAnnotations()[secretmask.SamplesAnnotation])
		if err != nil {
			c.add(transpile.Entry{
				Severity: transpile.Fatal, Rule: ruleSecret, File: o.File, Line: o.Line,
				Message: fmt.Sprintf("%s: %v", secretmask.SamplesAnnotation, err),
			})
		}
		out = append(out, files...)
	}
	return out
}

// has reports whether a position is in the text.
func (x content) has(at origin.Pos) bool {
	return at.File == x.at.File && at.Line >= x.at.Line && at.Line <= x.at.Line+x.lines
}

// Storable returns a function that reports whether a fragment may be stored on disk: nothing in it is declared as
// secret, is for its owner alone on machines, or looks like a credential. The store has results of earlier runs.
func Storable(store transpile.Store) func(transpile.Fragment) bool {
	c := &checker{store: store}
	return func(f transpile.Fragment) bool {
		config, err := machineconfig.Decode(f.MachineConfig.Spec)
		if err != nil || f.MachineConfig.Annotations[v1alpha1.SecretPathsAnnotation] != "" {
			return false
		}
		for _, file := range config.Ignition.Storage.Files {
			if file.Mode != nil && *file.Mode&ownerOnly == 0 {
				return false
			}
		}
		for _, l := range config.Ignition.Storage.Luks {
			if l.KeyFile.Source != nil {
				return false
			}
		}
		for _, u := range config.Ignition.Passwd.Users {
			if u.PasswordHash != nil {
				return false
			}
		}
		return !slices.ContainsFunc(c.textsOf(f), func(x text) bool { return len(x.Credentials) > 0 })
	}
}

// ownerOnly are the bits of a mode that a file for its owner alone has not.
const ownerOnly = 0o077

// resources returns the contents of a file, and what a config appends to them.
func resources(f ign.File) []ign.Resource { return append([]ign.Resource{f.Contents}, f.Append...) }

func textsOf(f transpile.Fragment) (out []text) {
	config, err := machineconfig.Decode(f.MachineConfig.Spec)
	if err != nil {
		return nil // rendering reports it
	}
	add := func(name, body, field string) {
		out = append(out, text{name, field, strings.Count(body, "\n") + 1, secretmask.Credentials(body)})
	}
	for i, file := range config.Ignition.Storage.Files {
		for n, r := range resources(file) {
			field := fmt.Sprintf("$.storage.files.%d.contents.source", i)
			if n > 0 {
				field = fmt.Sprintf("$.storage.files.%d.append.%d.source", i, n-1)
			}
			if r.Source == nil || machineconfig.IsUnresolved(*r.Source) {
				continue
			}
			if body, err := machineconfig.Contents(r); err == nil && len(body) <= document.MaxSize {
				add(file.Path, string(body), field)
			}
		}
	}
	for i, u := range config.Ignition.Systemd.Units {
		if u.Contents != nil {
			add(u.Name, *u.Contents, fmt.Sprintf("$.systemd.units.%d.contents", i))
		}
		for n, d := range u.Dropins {
			if d.Contents != nil {
				add(u.Name+".d/"+d.Name, *d.Contents, fmt.Sprintf("$.systemd.units.%d.dropins.%d.contents", i, n))
			}
		}
	}
	return out
}

func positionOf(file, text string, offset int) origin.Pos {
	before := text[:offset]
	return origin.Pos{
		File: file, Line: 1 + strings.Count(before, "\n"), Column: offset - strings.LastIndexByte(before, '\n'),
	}
}

// credential reports one credential, and how to encrypt it.
func (c *checker) credential(found secretmask.Credential, at origin.Pos, inDocument bool) {
	e := transpile.Entry{
		Severity: transpile.Fatal, Rule: ruleSecret, File: at.File, Line: at.Line, Column: at.Column,
		Message: fmt.Sprintf("a %s in clear text: run `bunsen secret encrypt %s`. ", found.Kind, at.File),
	}
	if inDocument {
		e.Message = fmt.Sprintf("a %s in clear text: move the text to a file of its own, run `bunsen secret encrypt "+
			"FILE`, and name it in `local:`. ", found.Kind)
	}
	if found.Kind == secretmask.AgeKey {
		e.Rule, e.Message = ruleKey, "the private key of age is in the repository: whoever reads the repository can "+
			"decrypt its secrets. Move the file out of it, or let .gitignore name it. If the key was pushed, create a "+
			"new one, run `bunsen secret rotate` on the encrypted files and replace the secrets. "
	} else {
		e.Message += "Once pushed, it has to be replaced at its source, because git keeps it. "
	}
	e.Message += fmt.Sprintf("If it is a public sample, the owner of the repository names the file in the annotation "+
		"%s of MachineConfiguration cluster", secretmask.SamplesAnnotation)
	c.add(e)
}
