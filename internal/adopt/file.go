package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// maxNodes limits a document after its aliases are resolved, because a few aliases can expand to gigabytes.
const maxNodes = 200_000

// file is a Butane file of the tree, or a compiled config that a Butane file merges.
type file struct {
	// The path in the tree, or that of a compiled config in the directory of local files; shown is the name in
	// messages.
	path, shown string
	source      []byte
	// without the configs that it merges; nil for a compiled config and for a file that cannot be read
	doc *yaml.Node
	// doc differs from source
	rewritten bool
	// why the file cannot be read, and its line
	bad     error
	badLine int
	// the configs that the file merges, in their order
	links []*link
	state
}

// state is what became of a file.
type state struct {
	// Merged: another file merges this one. Reached: an imported file does, directly or indirectly.
	merged, reached bool
	// the files of the repository that contain this one
	written []string
	// why the repository does not contain the file, and the file below unsupported/ with its content
	skipped, aside string
	// the findings about first boots were added
	reported bool
}

// link is a config that a file merges, or that replaces it.
type link struct {
	line     int
	replaces bool
	// One of these is set: a path below the directory of local files, the config itself, or its URL.
	local, text, source string
	compression         string
	target              *file
}

func (f *file) kind() string {
	if f.compiled() {
		return "Ignition"
	}
	return "Butane"
}

func (f *file) compiled() bool { return f.doc == nil && f.bad == nil }

// String returns kind and path.
func (f *file) String() string { return f.kind() + " " + f.path }

// replaced reports whether another config replaces the whole file.
func (f *file) replaced() bool {
	return slices.ContainsFunc(f.links, func(l *link) bool { return l.replaces })
}

// namesItself reports whether the document has a name and a role of its own.
func (f *file) namesItself() bool { return ScalarText(f.doc, "variant") == "openshift" }

// pool returns the pool that the file itself names by its role, its name or its directory; "" for none.
func (f *file) pool() string {
	if f.namesItself() {
		return ScalarText(Field(Field(f.doc, "metadata"), "labels"), v1alpha1.RoleLabel)
	}
	for _, word := range append([]string{stem(f.path)}, strings.Split(path.Dir(f.path), "/")...) {
		if word == masterPool || word == workerPool {
			return word
		}
	}
	return ""
}

func (i *importer) discover() error {
	err := fs.WalkDir(i.in.Tree.FS, ".", func(p string, e fs.DirEntry, err error) error {
		switch ext := path.Ext(p); {
		case err != nil:
			return err
		case refusedIn(i.in.Tree.Refused, p) != "":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case p != "." && strings.HasPrefix(e.Name(), ".") && e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular() || !slices.Contains([]string{".bu", ".butane", ".fcc", ".yaml", ".yml"}, ext):
			return nil
		default:
			src, err := fs.ReadFile(i.in.Tree.FS, p)
			if err != nil {
				return err
			}
			f := &file{path: p, shown: p, source: src}
			f.parse()
			if !f.isButane(ext) {
				return nil
			}
			i.files[p] = f
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("reading the directory of Butane files: %w", err)
	}
	return nil
}

// isButane reports whether a file is Butane, judged by its extension or its first keys.
func (f *file) isButane(ext string) bool {
	if ext != ".yaml" && ext != ".yml" {
		return true
	}
	if f.doc != nil {
		return ScalarText(f.doc, "variant") != "" && ScalarText(f.doc, "version") != ""
	}
	return bytes.HasPrefix(f.source, []byte("variant:")) || bytes.Contains(f.source, []byte("\nvariant:"))
}

// parse reads the document, resolves its aliases, and removes the configs that it merges.
func (f *file) parse() {
	dec := yaml.NewDecoder(bytes.NewReader(f.source))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("it is not a mapping that begins with variant and version")
		}
		f.fail(1, fmt.Errorf("not valid YAML: %w", err))
		return
	}
	if dec.Decode(&second) == nil {
		f.fail(second.Line, errors.New("a second YAML document begins here: put each document in a file of its own"))
		return
	}
	count := 0
	root, err := f.resolved(doc.Content[0], &count, nil)
	if err != nil {
		f.fail(doc.Content[0].Line, err)
		return
	}
	f.doc = root
	f.takeLinks()
}

func (f *file) fail(line int, err error) {
	f.doc, f.bad, f.badLine = nil, err, line
}

// resolved returns a node with its aliases resolved. The parameter open has the aliases that are being resolved.
func (f *file) resolved(n *yaml.Node, count *int, open []*yaml.Node) (*yaml.Node, error) {
	if *count++; *count > maxNodes {
		return nil, fmt.Errorf("its aliases unfold into more than %d values: write the values out", maxNodes)
	}
	if n.Kind == yaml.AliasNode {
		if slices.Contains(open, n.Alias) {
			return nil, fmt.Errorf("the alias *%s in line %d contains itself", n.Value, n.Line)
		}
		f.rewritten = true
		return f.resolved(n.Alias, count, append(slices.Clone(open), n.Alias))
	}
	out := *n
	if n.Anchor != "" {
		out.Anchor, f.rewritten = "", true
	}
	out.Content = make([]*yaml.Node, 0, len(n.Content))
	for k, c := range n.Content {
		if n.Kind == yaml.MappingNode && k%2 == 0 && c.ShortTag() == "!!merge" {
			return nil, fmt.Errorf("line %d has a YAML merge key <<: write the values out", c.Line)
		}
		r, err := f.resolved(c, count, open)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, r)
	}
	return &out, nil
}

func (f *file) takeLinks() {
	ignition := Field(f.doc, "ignition")
	config := Field(ignition, "config")
	if config == nil {
		return
	}
	add := func(n *yaml.Node, replaces bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		l := &link{
			line: n.Line, replaces: replaces, local: ScalarText(n, "local"),
			text: ScalarText(n, "inline"),
		}
		if l.text == "" && l.local == "" {
			l.source, l.compression = ScalarText(n, "source"), ScalarText(n, "compression")
		}
		f.links = append(f.links, l)
	}
	if replace := Field(config, "replace"); replace != nil {
		add(replace, true)
	} else if merge := Field(config, "merge"); merge != nil {
		for _, n := range merge.Content {
			add(n, false)
		}
	}
	remove(ignition, "config")
	if len(ignition.Content) == 0 {
		remove(f.doc, "ignition")
	}
	f.rewritten = true
}

func remove(n *yaml.Node, key string) {
	for k := 0; k+1 < len(n.Content); k += 2 {
		if n.Content[k].Value == key {
			n.Content = slices.Delete(n.Content, k, k+2)
			return
		}
	}
}
