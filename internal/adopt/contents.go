package adopt

import (
	"encoding/base64"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/secretmask"

	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v3"
)

// maxGrowth is by how many bytes unpacked gzip may enlarge a pool, so that its config still fits into an API object.
const maxGrowth = 256 << 10

// Document is a Butane document that the package writes.
type Document struct {
	// Exact leaves each source unchanged that Butane would write as another text; maxInline limits the bytes of a text
	// in the document.
	Exact     bool
	MaxInline int
	// Stem names the directory of the document's local files.
	Stem string
	// Growth is by how many bytes the document's pool has grown so far.
	Growth *int
	// Named are the paths and units that the user names as secret.
	Named      secretmask.Paths
	InDocument bool
	// file is the path on the node of the file that is being written, or "". private is true if only its owner may read
	// it.
	file    string
	private bool
	Locals  map[string][]byte
	// Secrets are the names of those Locals that contain secrets.
	Secrets []string
	// Hashes are the users whose password hash is in the document.
	Hashes []string
	// Encoded are the paths with the same contents in another encoding.
	Encoded []string
	// Kept are the paths whose contents stay encoded; Exposed are those Kept paths that contain secrets.
	Kept, Exposed []string
}

// dataURL returns the data: URL that Butane creates for contents: the shorter of two encodings.
func dataURL(contents []byte) string {
	plain, packed := "data:,"+dataurl.Escape(contents), "data:;base64,"+base64.StdEncoding.EncodeToString(contents)
	if len(packed) < len(plain) {
		return packed
	}
	return plain
}

// form is how to write the contents of a resource.
type form struct {
	// Contents replace the source. They are compressed with gzip if packed.
	contents []byte
	packed   bool
	// the contents as the node has them
	plain []byte
	// false if the source stays unchanged
	readable bool
	// Butane's source has the same contents as the original, in another encoding.
	encoded bool
}

// mustStay reports whether a source has no readable form. The type of an unresolved source says that a node gets other
// contents.
func (d *Document) mustStay(source *string) bool {
	return source == nil || *source == "" && d.Exact || machineconfig.IsUnresolved(*source)
}

// formOf chooses how to write a resource. A fixed path, or Options.Exact, keeps the exact source. The renderer treats
// an empty compression like a missing one only in a file's own contents.
func (d *Document) formOf(r ign.Resource, fixed, ownContents bool) form {
	contents, err := machineconfig.Contents(r)
	if err != nil || d.mustStay(r.Source) {
		return form{}
	}
	exact := fixed || d.Exact
	if r.Compression == nil || *r.Compression == "" {
		said := r.Compression != nil || ownContents
		equal := dataURL(contents) == *r.Source && said
		return form{contents: contents, plain: contents, readable: equal || !exact, encoded: !equal}
	}
	packed, err := machineconfig.Contents(ign.Resource{Source: r.Source})
	if err != nil {
		return form{}
	}
	grown := len(dataURL(contents)) - len(*r.Source)
	if !exact && *d.Growth+max(grown, 0) <= maxGrowth {
		*d.Growth += max(grown, 0)
		return form{contents: contents, plain: contents, readable: true, encoded: true}
	}
	equal := dataURL(packed) == *r.Source
	return form{contents: packed, plain: contents, packed: true, readable: equal || !exact, encoded: !equal}
}

// resource writes contents as readable text, or as a file beside the document; if neither would render to the original
// contents, the source unchanged.
func (d *Document) resource(v map[string]any, at string) *yaml.Node {
	r, ok := resourceOf(v)
	if !ok {
		return d.Mapping(v, at)
	}
	f := d.formOf(r, fixed[at], at == "storage.files.contents")
	hidden := at == "storage.luks.keyFile" || d.private && len(f.plain) > 0 || d.isSecret(d.file, string(f.plain))
	if !f.readable {
		if *r.Source != "" {
			d.Kept = append(d.Kept, d.label(at))
		}
		if hidden {
			d.Exposed = append(d.Exposed, d.label(at))
		}
		return d.Mapping(v, at)
	}
	if f.encoded {
		d.Encoded = append(d.Encoded, d.label(at))
	}
	n := Mapping()
	if f.packed {
		n.Content = append(n.Content, Key("compression"), String(*r.Compression))
	}
	where, what := d.put(f, path.Base(d.label(at)), hidden)
	n.Content = append(n.Content, Key(where), what)
	for _, k := range []string{"httpHeaders", "verification"} {
		if rest, ok := v[k]; ok {
			n.Content = append(n.Content, Key(snake(k)), d.value(rest, at+"."+k))
		}
	}
	return n
}

// resourceOf reads a value as contents; false if it has no source.
func resourceOf(v map[string]any) (r ign.Resource, ok bool) {
	raw, err := json.Marshal(v)
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return ign.Resource{}, false
	}
	return r, r.Source != nil
}

// IsPrivate reports whether only the owner of a file may read it. The accounts of a machine count as such files,
// whatever their mode: they have hashes of passwords.
func IsPrivate(path string, mode *int) bool {
	return mode != nil && *mode&0o077 == 0 || slices.Contains([]string{
		"/etc/shadow", "/etc/gshadow", "/etc/shadow-",
		"/etc/gshadow-",
	}, path)
}

// isSecret reports whether the user names a path or a unit, or a text has an unmistakable credential.
func (d *Document) isSecret(name, text string) bool {
	return d.Named.Match(name) || len(secretmask.Credentials(text)) > 0
}

// label names the part that is being written in messages.
func (d *Document) label(at string) string {
	if d.file != "" {
		return d.file
	}
	return at[strings.LastIndexByte(at, '.')+1:]
}

// put stores contents inline or in a local file, and returns the key, such as inline or local, with its value.
func (d *Document) put(f form, name string, secret bool) (where string, what *yaml.Node) {
	if n, ok := d.inline(string(f.contents)); ok && !f.packed && (!secret || d.InDocument) {
		return "inline", n
	}
	if f.packed {
		name += ".gz"
	}
	return "local", String(d.local(name, f.contents, secret))
}

func (d *Document) unitText(text, name string) (where string, what *yaml.Node) {
	hidden := d.isSecret(name, text)
	n, ok := d.inline(text)
	switch {
	case ok && (!hidden || d.InDocument):
		return "contents", n
	case text == "":
		return "contents", String(text)
	}
	return "contents_local", String(d.local(name, []byte(text), hidden))
}

// inline returns a text as a value of the document, if users can read it in this form.
func (d *Document) inline(text string) (*yaml.Node, bool) {
	if len(text) > d.MaxInline {
		return nil, false
	}
	if short(text) {
		return String(text), true
	}
	return Block(text)
}

// short reports whether a text fits best on one line: a value without a line break.
func short(text string) bool {
	return len(text) <= 200 && utf8.ValidString(text) && !strings.Contains(text, "\n") && (text == "" || visible(text))
}

// local writes contents to a file beside the document and returns its path from there.
func (d *Document) local(name string, contents []byte, secret bool) string {
	dir := "files/"
	if secret {
		dir = "secrets/"
	}
	stem := dir + d.Stem + "/"
	file := stem + FileName(name)
	if d.Locals[file] != nil && d.file != "" {
		file = stem + FileName(strings.TrimSuffix(d.file, path.Base(name))+name)
	}
	for n := 2; d.Locals[file] != nil; n++ {
		file = stem + strconv.Itoa(n) + "-" + FileName(name)
	}
	d.Locals[file] = append([]byte{}, contents...)
	if secret {
		d.Secrets = append(d.Secrets, file)
	}
	return file
}

// MaxFileName leaves room for a number and an extension.
const MaxFileName = 200

var odd = regexp.MustCompile(`([^a-z0-9._-]|\.\.+|--+)+`)

// FileName creates a file name from any text: lower-case letters, digits, dots, - and _. The result is never hidden and
// never names another directory.
func FileName(text string) string {
	s := odd.ReplaceAllString(strings.ToLower(text), "-")
	s = strings.Trim(s, "-._")
	if len(s) > MaxFileName {
		s = strings.Trim(s[:MaxFileName], "-._")
	}
	if s == "" {
		return "unnamed"
	}
	return s
}
