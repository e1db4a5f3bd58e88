package butane

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Reference is one file or directory that a document takes in.
type Reference struct {
	// At is the place in the document: `$.storage.files.0.contents.local`.
	At string
	// Path is relative to the tree's root.
	Path string
}

// References lists what a document takes in, in the order in which it says so. A document that is not YAML has none.
func References(source []byte) []Reference {
	var doc yaml.Node
	if yaml.Unmarshal(source, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	return references(doc.Content[0], "$")
}

func references(n *yaml.Node, at string) []Reference {
	var out []Reference
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i].Value, n.Content[i+1]
			switch {
			case (k == "local" || k == "contents_local") && v.Kind == yaml.ScalarNode:
				out = append(out, reference(v, at+"."+k)...)
			case k == "ssh_authorized_keys_local":
				for j, c := range v.Content {
					out = append(out, reference(c, at+"."+k+"."+strconv.Itoa(j))...)
				}
			case v.Kind != yaml.ScalarNode:
				out = append(out, references(v, at+"."+k)...)
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			if c.Kind != yaml.ScalarNode {
				out = append(out, references(c, at+"."+strconv.Itoa(i))...)
			}
		}
	}
	return out
}

func reference(n *yaml.Node, at string) []Reference {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return nil
	}
	return []Reference{{at, text(n)}}
}

// Files returns every file at or below a path with the sha256 of its contents; an executable one has a `+x` behind it,
// as a tree takes that over.
func Files(fsys fs.FS, root string) ([]origin.File, error) {
	return files(fsys, root, func(string, []byte) {})
}

func files(fsys fs.FS, root string, each func(file string, contents []byte)) ([]origin.File, error) {
	var out []origin.File
	err := fs.WalkDir(fsys, root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		src, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		each(p, src)
		h := sha256.Sum256(src)
		blob := hex.EncodeToString(h[:])
		if info.Mode()&0o111 != 0 {
			blob += "+x"
		}
		out = append(out, origin.File{Path: p, Blob: blob})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", root, err)
	}
	return out, nil
}

// locals checks every reference before Butane follows it, as Butane would follow a symbolic link to anywhere.
func (t *translator) locals() []origin.File {
	var out []origin.File
	t.checked, t.contents = map[string]bool{}, map[string]string{}
	for _, r := range references(t.doc, "$") {
		if why := t.in.refused(r.Path); why != "" {
			t.fatal(r.At, "refused-local", "%s; copy the file itself into the repository", why)
			continue
		}
		if t.in.FS == nil || t.in.Root == "" {
			t.fatal(r.At, "missing-local", "%q: there is no directory of local files here", r.Path)
			continue
		}
		found, err := files(t.in.FS, r.Path, func(file string, contents []byte) {
			if file == r.Path {
				t.contents[file] = string(contents)
			}
			if strings.Contains(r.At, "_local") && !utf8.Valid(contents) {
				t.fatal(r.At, "not-text", "%q is not text in UTF-8, and a unit or a key is", file)
			}
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			t.fatal(r.At, "missing-local", "%q: no such file in this repository; `local:` is relative to the document's directory", r.Path)
		case err != nil:
			t.fatal(r.At, "missing-local", "%v", err)
		default:
			t.checked[r.Path] = true
		}
		out = append(out, found...)
	}
	return out
}

// unchecked finds a reference in a decoded document that locals did not see, however it was spelled: Butane would follow
// it.
func unchecked(v reflect.Value, checked map[string]bool) string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unchecked(v.Elem(), checked)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if p := unchecked(v.Index(i), checked); p != "" {
				return p
			}
		}
	case reflect.String:
		if p := v.String(); !checked[p] {
			return p
		}
	}
	return ""
}

// refused tells why a path must not be followed: it, a part of it or something below it was left out of the tree.
func (in Input) refused(p string) string {
	for _, r := range slices.Sorted(maps.Keys(in.Refused)) {
		if r == p || p == "." || strings.HasPrefix(p, r+"/") || strings.HasPrefix(r, p+"/") {
			return fmt.Sprintf("%q: %s is a %s and is not followed", p, r, in.Refused[r])
		}
	}
	return ""
}

// mergeFiles joins two lists by path. Of an executable file the digest stays that of its contents.
func mergeFiles(a, b []origin.File) []origin.File {
	out := slices.Clone(a)
	for _, f := range b {
		f.Blob = strings.TrimSuffix(f.Blob, "+x")
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y origin.File) int { return cmp.Compare(x.Path, y.Path) })
	return slices.CompactFunc(out, func(x, y origin.File) bool { return x.Path == y.Path })
}
