package butane

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"go.yaml.in/yaml/v3"
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
		if file, isLarge := t.takeLarge(r); isLarge {
			t.checked[r.path] = true
			out = append(out, Local{r.path, []origin.File{file}})
			continue
		}
		found, err := files(t.in.FS, r.path, func(file string, contents []byte, size int64) {
			if size > machineconfig.MaxContentObject {
				t.refuseLarge(r.at, file, size)
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
			t.extract(r.at, found)
		}
		out = append(out, Local{r.path, found})
	}
	return out
}

// extract puts files where Butane reads them.
func (t *translator) extract(at string, found []origin.File) {
	if t.in.Extract == nil {
		return
	}
	for _, f := range found {
		if err := t.in.Extract(f.Path); err != nil {
			t.fatal(at, "missing-local", "%v", err)
		}
	}
}

// takeLarge reads the local file at a reference, if it is too large for a config. It returns the file with its digest.
// takeLarge never has the whole file in memory.
func (t *translator) takeLarge(r reference) (origin.File, bool) {
	info, err := fs.Stat(t.in.FS, r.path)
	if err != nil || info.IsDir() || info.Size() <= machineconfig.MaxContentObject {
		return origin.File{}, false
	}
	place := takesSecret.FindStringSubmatch(r.at)
	if place == nil {
		t.refuseLarge(r.at, r.path, info.Size())
		return origin.File{}, true
	}
	i, _ := strconv.Atoi(place[1])
	contents := child(lookup(t.doc, "$.storage.files."+place[1]), "contents")
	if scalar(contents, "compression") != "" {
		t.fatal(r.at, ruleLarge, "%q is too large for a config, and the content store has no compressed files; "+
			"unpack it, and remove `compression`", r.path)
		return origin.File{}, true
	}
	if t.secrets.files[i].template {
		t.fatal(r.at, ruleLarge, "%q has %d bytes, and a template at most %d; split it", r.path, info.Size(),
			machineconfig.MaxContentObject)
		return origin.File{}, true
	}
	f, err := readLarge(t.in.FS, r.path, info.Size())
	if err != nil {
		t.fatal(r.at, ruleLarge, "%v", err)
		return origin.File{}, true
	}
	if want := strings.ToLower(scalar(child(contents, "verification"), "hash")); want != "" && want != f.Hash &&
		want != "sha256-"+f.sha256 {
		t.fatal(r.at, ruleLarge, "verification hash does not match %q: a machine would refuse to boot; write %s, or "+
			"remove it", r.path, f.Hash)
	}
	if t.large == nil {
		t.large = largeFiles{}
	}
	t.large[i] = f
	blob := f.sha256
	if info.Mode()&0o111 != 0 {
		blob += "+x"
	}
	return origin.File{Path: r.path, Blob: blob}, true
}

// readLarge reads a file once, and returns its hashes.
func readLarge(files fs.FS, name string, size int64) (largeFile, error) {
	if size > machineconfig.MaxContent {
		return largeFile{}, fmt.Errorf("%q has %d bytes, and the content store has files of at most %d", name, size,
			int64(machineconfig.MaxContent))
	}
	file, err := files.Open(name)
	if err != nil {
		return largeFile{}, fmt.Errorf("reading %q: %w", name, err)
	}
	defer file.Close()
	short, long := sha256.New(), sha512.New()
	marks := &finder{needles: [][]byte{[]byte(encrypted), []byte(machineconfig.ContentFact)}}
	n, err := io.Copy(io.MultiWriter(short, long, marks), io.LimitReader(file, machineconfig.MaxContent+1))
	if err != nil {
		return largeFile{}, fmt.Errorf("reading %q: %w", name, err)
	}
	if marks.found[0] {
		return largeFile{}, fmt.Errorf("SOPS encrypted %q, and an encrypted file has at most 1 MiB; split it", name)
	}
	hex := func(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }
	out := largeFile{sha256: hex(short)}
	out.LargeFile = machineconfig.LargeFile{Hash: "sha512-" + hex(long), Size: n, Name: name, HasFacts: marks.found[1]}
	return out, nil
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

// ruleLarge is the rule of findings about large files.
const ruleLarge = "large-file"

// largeFile is a local file that is too large for any config, so that its contents go to the content store.
type largeFile struct {
	machineconfig.LargeFile
	sha256 string
}

// largeFiles are the large files of a document, by their place in storage.files.
type largeFiles map[int]largeFile

// encrypted is in each value that SOPS encrypted.
const encrypted = "ENC[AES256_GCM,data:"

// refuseLarge refuses a large file in a place from which it cannot go to the content store.
func (t *translator) refuseLarge(at, file string, size int64) {
	t.fatal(at, ruleLarge, "%q has %d bytes, and only `contents: {local: …}` of a file in storage.files may have "+
		"more than %d; include it there", file, size, machineconfig.MaxContentObject)
}

// finder is a writer that looks for texts in everything that is written.
type finder struct {
	needles [][]byte
	found   [2]bool
	tail    []byte
}

// Write looks for the texts, also across the borders of writes.
func (f *finder) Write(b []byte) (int, error) {
	const overlap = 32 // more than a text is long
	joint := append(f.tail, b[:min(len(b), overlap)]...)
	for i, needle := range f.needles {
		f.found[i] = f.found[i] || bytes.Contains(joint, needle) || bytes.Contains(b, needle)
	}
	f.tail = append([]byte(nil), joint[max(0, len(joint)-overlap):]...)
	if len(b) >= overlap {
		f.tail = append(f.tail[:0], b[len(b)-overlap:]...)
	}
	return len(b), nil
}
