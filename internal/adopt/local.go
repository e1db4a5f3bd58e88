package adopt

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// reference is a scalar of a document that names a local file or directory.
type reference struct {
	node *yaml.Node
	tree bool
}

func references(n *yaml.Node, inTrees bool) (out []reference) {
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			out = append(out, references(c, inTrees)...)
		}
		return out
	}
	for k := 0; n.Kind == yaml.MappingNode && k+1 < len(n.Content); k += 2 {
		word, v := n.Content[k].Value, n.Content[k+1]
		switch {
		case (word == "local" || word == "contents_local") && v.Kind == yaml.ScalarNode && v.ShortTag() != "!!null":
			out = append(out, reference{v, inTrees && word == "local"})
		case word == "ssh_authorized_keys_local":
			for _, c := range v.Content {
				out = append(out, reference{c, false})
			}
		default:
			out = append(out, references(v, word == "trees")...)
		}
	}
	return out
}

// moveLocals copies the local files of a document into the directory of its pool, and returns the edits of their paths,
// which the caller has checked.
func (i *importer) moveLocals(f *file, dir string) (edits []edit) {
	for _, r := range references(f.doc, false) {
		name, err := localPath(i.in.Files, r.node.Value)
		if err != nil {
			continue
		}
		if r.tree {
			i.copyTree(f, dir, name)
			edits = append(edits, edit{r.node, localName(name, false)})
			continue
		}
		contents, executable, err := readLocal(i.in.Files, name)
		if err != nil {
			continue
		}
		hidden := i.isSecret(name, contents)
		target := localName(name, hidden)
		i.copy(f, localFile{dir + "/" + target, contents, executable, hidden})
		edits = append(edits, edit{r.node, target})
	}
	return edits
}

// isSecret reports whether the user names a file, or it has an unmistakable credential.
func (i *importer) isSecret(file string, contents []byte) bool {
	return i.in.Secrets.Match("/"+file) || len(secretmask.Credentials(string(contents))) > 0
}

func (i *importer) copyTree(f *file, dir, name string) {
	// No error is possible, because the check has read the whole directory.
	_ = fs.WalkDir(i.in.Files.FS, name, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // the check has reported what cannot be read
		}
		if contents, executable, err := readLocal(i.in.Files, p); err == nil {
			i.copy(f, localFile{dir + "/" + localName(p, false), contents, executable, i.isSecret(p, contents)})
		}
		return nil
	})
}

// localFile is a file that a document includes.
type localFile struct {
	name       string
	contents   []byte
	executable bool
	isSecret   bool
}

// copy writes a local file. Two documents that name the same file share one copy.
func (i *importer) copy(f *file, local localFile) {
	name := local.name
	if !slices.Contains(f.written, name) {
		f.write(i.out.Files, name, local.contents)
	}
	if local.executable {
		i.out.Executable = append(i.out.Executable, name)
	}
	if local.isSecret && !slices.Contains(i.out.Secrets, name) {
		i.out.Secrets = append(i.out.Secrets, name)
		i.warn(f.at(1), "secret", "%s has a credential, or you name it. .gitignore leaves it out of git: run `bunsen "+
			"secret encrypt` on it before you remove that line", name)
	}
}

// accepts checks a file with the rules of a pool: it sets files aside that Bunsen refuses, and notes settings that only
// a first boot applies.
func (i *importer) accepts(f *file) bool {
	if f.aside != "" {
		return false
	}
	if f.bad != nil {
		i.setAside(f, f.badLine, f.bad.Error())
		return false
	}
	config, at, findings := translatedFile(i.in.Files, f)
	var first *origin.Finding
	var all []string
	for _, found := range findings {
		if !found.Warning {
			if first == nil {
				first = &found
			}
			all = append(all, found.Message)
		}
	}
	if first != nil {
		i.setAside(f, max(1, first.At.Line), strings.Join(all, "; "))
		return false
	}
	problems, found := []string(nil), machineconfig.Check(config)
	for _, p := range found {
		problems = append(problems, p.Error())
	}
	for _, r := range disruption.Invalid(config) {
		problems = append(problems, r.Field+": "+r.Why)
	}
	if len(problems) > 0 {
		i.setAside(f, lineOf(found, at), strings.Join(problems, "; "))
		return false
	}
	for _, r := range disruption.NewNodesOnly(machineconfig.Config{HasIgnition: true}, config) {
		if section, _, _ := strings.Cut(r.Field, " "); !f.reported {
			p, _ := at.Find("$." + section)
			i.note(f.at(max(1, p.Line)), "first-boot", "%s: %s", r.Field, r.Why)
		}
	}
	f.reported = true
	return true
}

// translatedFile translates a file with its local files at their original paths.
func translatedFile(files source.Tree, f *file) (machineconfig.Config, origin.Map, []origin.Finding) {
	at := origin.Map{At: map[string]origin.Pos{"$": {File: f.shown, Line: 1}}}
	if f.compiled() {
		out, findings := kinds.TranslateIgnition(kinds.IgnitionInput{Source: f.source, Origin: at})
		return out.Config, out.Origin, findings
	}
	places(f.shown, f.doc, "$", at.At)
	refused := map[string]string{}
	for _, r := range files.Refused {
		refused[r.Path] = r.Why
	}
	var clean []edit
	for _, r := range references(f.doc, false) { // The loop checks every path before any file is read.
		name, err := localPath(files, r.node.Value)
		if err != nil {
			return machineconfig.Config{}, at,
				[]origin.Finding{{
					Message: fmt.Sprintf("local file %q: %v", r.node.Value, err),
					At:      origin.Pos{Line: r.node.Line},
				}}
		}
		clean = append(clean, edit{r.node, name})
	}
	source, err := f.edited(clean)
	if err != nil {
		return machineconfig.Config{}, at, []origin.Finding{{Message: err.Error()}}
	}
	out, findings := butane.Translate(butane.Input{
		Source: source, Origin: at, Root: files.Root, FS: files.FS,
		Refused: refused,
	})
	return out.Config, out.Origin, findings
}

// places maps the paths of a document to its lines.
func places(name string, n *yaml.Node, at string, into map[string]origin.Pos) {
	if n == nil {
		return
	}
	if at == "$" {
		into[at] = origin.Pos{File: name, Line: n.Line}
	}
	for k, c := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			here := fmt.Sprintf("%s.%d", at, k)
			into[here] = origin.Pos{File: name, Line: c.Line, Column: c.Column}
			places(name, c, here, into)
		case n.Kind == yaml.MappingNode && k%2 == 1:
			word := n.Content[k-1]
			here := at + "." + word.Value
			into[here] = origin.Pos{File: name, Line: word.Line, Column: word.Column}
			places(name, c, here, into)
		}
	}
}

// lineOf returns the line of the item, such as a file, that the first problem is about; 1 if unknown.
func lineOf(problems machineconfig.Problems, at origin.Map) int {
	if len(problems) == 0 {
		return 1
	}
	steps := strings.Split(problems[0].Path, ".") // $, section, list and index, then the parts of the item
	p := at.At[strings.Join(steps[:min(len(steps), 4)], ".")]
	return max(1, p.Line)
}
