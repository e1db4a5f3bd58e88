package butane

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Local is one file or directory that a document includes.
type Local struct {
	// Path is relative to the tree's root.
	Path string
	// Files lists the files at or below Path, with their digests.
	Files []origin.File
}

// reference is one place in a document that names a file or directory.
type reference struct {
	at   string // `$.storage.files.0.contents.local`
	path string // the path relative to the tree's root
}

// references lists the files and directories that a document includes, in the order of the document.
func references(n *yaml.Node, at string) []reference {
	var out []reference
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i].Value, n.Content[i+1]
			switch {
			case (k == "local" || k == "contents_local") && v.Kind == yaml.ScalarNode:
				out = append(out, referenceOf(v, at+"."+k)...)
			case k == "ssh_authorized_keys_local":
				for j, c := range v.Content {
					out = append(out, referenceOf(c, at+"."+k+"."+strconv.Itoa(j))...)
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

// referenceOf returns the reference to a file or directory in a scalar, or none.
func referenceOf(n *yaml.Node, at string) []reference {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return nil
	}
	return []reference{{at, text(n)}}
}

// Files returns every file at or below a path with the sha256 of its contents. The digest of an executable file ends in
// `+x`, because `storage.trees` keeps the mode of executable files.
func Files(fsys fs.FS, root string) ([]origin.File, error) {
	return files(fsys, root, func(string, []byte, int64) {})
}

// files is Files that calls each with every file. It calls each without the contents of a file that is too large for a
// config, because these may be too large for memory.
func files(fsys fs.FS, root string, each func(file string, contents []byte, size int64)) ([]origin.File, error) {
	var out []origin.File
	err := fs.WalkDir(fsys, root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		blob, err := digestOf(fsys, p, info.Size(), each)
		if err != nil {
			return err
		}
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

// digestOf returns the sha256 of a file, and calls each as files does.
func digestOf(fsys fs.FS, name string, size int64, each func(file string, contents []byte,
	size int64),
) (string, error) {
	if size <= machineconfig.MaxContentObject {
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return "", err
		}
		each(name, src, size)
		h := sha256.Sum256(src)
		return hex.EncodeToString(h[:]), nil
	}
	file, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	each(name, nil, size)
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// locals checks every reference to a local file before Butane reads the file, because Butane would follow symbolic
// links to any file of the machine.
func (t *translator) locals() []Local {
	var out []Local
	t.checked = map[string]bool{}
	for _, r := range references(t.doc, "$") {
		if why := t.in.refused(r.path); why != "" {
			t.fatal(r.at, "refused-local", "%s", why)
			continue
		}
		if t.in.FS == nil || t.in.Root == "" {
			t.fatal(r.at, "missing-local", "%q: there is no directory of local files here", r.path)
			continue
		}
		if info, err := fs.Stat(t.in.FS, r.path); err == nil && info.IsDir() && !takesFolder.MatchString(r.at) {
			t.fatal(r.at, "local-directory", "%q is a directory, and a file is expected here; storage.trees takes "+
				"whole directories: `trees: [{local: …, path: …}]`", r.path)
			continue
		}
		if file, isLarge := takeLarge(t, r); isLarge {
			t.checked[r.path] = true
			out = append(out, Local{r.path, []origin.File{file}})
			continue
		}
		found, err := files(t.in.FS, r.path, func(file string, contents []byte, size int64) {
			if size > machineconfig.MaxContentObject {
				refuseLarge(t, r.at, file, size)
				return
			}
			t.secrets.checkEncrypted(r.at, file, contents)
			if strings.Contains(r.at, "_local") && !utf8.Valid(contents) {
				t.fatal(r.at, "not-text", "%q is not text in UTF-8, and a unit or a key is", file)
			}
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			t.fatal(r.at, "missing-local", "%q: no such file in this repository; `local:` is relative to the "+
				"document's directory%s", r.path, otherCase(t.in.FS, r.path))
		case err != nil:
			t.fatal(r.at, "missing-local", "%v", err)
		default:
			t.checked[r.path] = true
		}
		out = append(out, Local{r.path, found})
	}
	return out
}

// otherCase names the file whose path differs from a missing one only in upper and lower case, which some file systems
// do not tell apart.
func otherCase(files fs.FS, missing string) string {
	found := "."
	for _, word := range strings.Split(missing, "/") {
		entries, err := fs.ReadDir(files, found)
		i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return strings.EqualFold(e.Name(), word) })
		if exact := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == word }); exact >= 0 {
			i = exact
		}
		if err != nil || i < 0 {
			return ""
		}
		found = path.Join(found, entries[i].Name())
	}
	return fmt.Sprintf(". Did you mean %q?", found)
}

// takesFolder matches the places where `local` names a directory.
var takesFolder = regexp.MustCompile(`^\$\.storage\.trees\.[0-9]+\.local$`)

// unchecked returns a reference in a decoded document that the method locals did not check, or "". If the key has an
// unusual spelling, locals does not find the reference, but Butane would read the file.
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

// refused returns the reason why a path must not be read, or "". The reason is an entry that is not in the tree: the
// path itself, a directory above it, or an entry below it.
func (in Input) refused(p string) string {
	for _, r := range slices.Sorted(maps.Keys(in.Refused)) {
		if r == p || p == "." || strings.HasPrefix(p, r+"/") || strings.HasPrefix(r, p+"/") {
			why := in.Refused[r]
			switch {
			case strings.Contains(why, ": "): // It has its remedy.
				return fmt.Sprintf("%q: %s is a %s", p, r, why)
			case strings.HasPrefix(why, "the "): // A clause, such as `the name holds a control character`.
				return fmt.Sprintf("%q: %s is not read, because %s; rename it", p, r, why)
			}
			return fmt.Sprintf("%q: %s is a %s and is not followed; copy the file itself into the "+
				"repository", p, r, why)
		}
	}
	return ""
}

// mergeFiles adds the files of locals to the list a and keeps one file for each path. mergeFiles removes the mark of
// executable files.
func mergeFiles(a []origin.File, locals []Local) []origin.File {
	out := slices.Clone(a)
	for _, l := range locals {
		for _, f := range l.Files {
			f.Blob = strings.TrimSuffix(f.Blob, "+x")
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(x, y origin.File) int { return cmp.Compare(x.Path, y.Path) })
	return slices.CompactFunc(out, func(x, y origin.File) bool { return x.Path == y.Path })
}
