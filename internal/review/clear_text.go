package review

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/internal/secretmask"

	"github.com/bunsen-os/bunsen/internal/sops/document"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// SecretOwner is what the owner of a repository decided about its secrets.
type SecretOwner struct {
	Ignored func(file string) bool
	// Marks are secret paths on nodes, by pool.
	Marks map[string]secretmask.Paths
	// Find is secretmask.Credentials if it is nil. Whoever checks a tree again and again keeps the answers.
	Find func(text string) []secretmask.Credential
}

func (o SecretOwner) find(text string) []secretmask.Credential {
	if o.Find != nil {
		return o.Find(text)
	}
	return secretmask.Credentials(text)
}

// content is a text of a fragment, and where the repository has it.
type content struct {
	text string
	at   origin.Pos
	// in the file of at
	lines int
}

// clearText reports each credential in the files of the tree, and in contents that a document encodes.
func (c *checker) clearText(files []string, fragments []transpile.Fragment, owner SecretOwner,
	samples secretmask.Paths,
) {
	var declared, clear []content
	documents := map[string]bool{}
	for _, f := range fragments {
		documents[f.File] = true
		a, b := contentsOf(f, owner.Marks[f.Pool])
		declared, clear = append(declared, a...), append(clear, b...)
	}
	reported := map[string]bool{}
	for _, file := range files {
		body, ok := c.read(file)
		found := owner.find(string(body))
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
		for _, one := range owner.find(x.text) {
			if !reported[x.at.File] && !samples.Match("/"+x.at.File) {
				reported[x.at.File] = true
				c.credential(one, x.at, documents[x.at.File])
			}
		}
	}
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

// contentsOf returns the texts that are declared as secret, and the others.
func contentsOf(f transpile.Fragment, marks secretmask.Paths) (declared, clear []content) {
	config, err := machineconfig.Parse(f.MachineConfig.Spec)
	if err != nil {
		return nil, nil // rendering reports it
	}
	add := func(name, text, field string) {
		at, _ := f.Origin.Find(field)
		x := content{text: text, at: at, lines: strings.Count(text, "\n") + 1}
		if marks.Match(name) {
			declared = append(declared, x)
		} else {
			clear = append(clear, x)
		}
	}
	for i, file := range config.Ignition.Storage.Files {
		if file.Contents.Source == nil || machineconfig.IsUnresolved(*file.Contents.Source) {
			continue
		}
		if text, err := machineconfig.Contents(file.Contents); err == nil && len(text) <= document.MaxSize {
			add(file.Path, string(text), fmt.Sprintf("$.storage.files.%d.contents.source", i))
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
	return declared, clear
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
