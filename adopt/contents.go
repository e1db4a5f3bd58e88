package adopt

import (
	"encoding/base64"
	"path"
	"strconv"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy/secret"
)

// maxGrowth is how many bytes a pool may grow by unpacking gzip, so that what fitted into an API object still does.
const maxGrowth = 256 << 10

// draft is a document that is being written.
type draft struct {
	opts Options
	// stem names the directory of the document's local files.
	stem string
	// growth of the document's pool so far.
	growth *int
	// file is the path on the node of what is being written, or "".
	file string
	// locals are the files beside the document, by their path from its directory.
	locals map[string][]byte
	// secrets are those of locals that few people should read.
	secrets []string
	// hashes are the users whose password's hash stands in the document.
	hashes []string
	// encoded are the paths whose contents stay the same and are encoded otherwise.
	encoded []string
	// opaque are the paths whose contents stay encoded; exposed are those of them that few people should read.
	opaque, exposed []string
}

// dataURL is what Butane makes of contents: the shorter of two encodings.
func dataURL(contents []byte) string {
	plain, packed := "data:,"+dataurl.Escape(contents), "data:;base64,"+base64.StdEncoding.EncodeToString(contents)
	if len(packed) < len(plain) {
		return packed
	}
	return plain
}

// form is how the contents of a resource are written.
type form struct {
	// contents to write in place of the source; gzip where packed.
	contents []byte
	packed   bool
	// plain are the contents as the node has them.
	plain []byte
	// readable is false where the source stays as it is.
	readable bool
	// encoded says that Butane's source will be another text than the original's, with the same contents.
	encoded bool
}

// formOf chooses how to write a resource. fixed asks for its very text, besides Options.Exact; the renderer tells no
// compression from an empty one in a file's own contents, and nowhere else.
func (d *draft) formOf(r ign.Resource, fixed, ownContents bool) form {
	contents, err := machineconfig.Contents(r)
	if err != nil || r.Source == nil || *r.Source == "" && d.opts.Exact {
		return form{}
	}
	exact := fixed || d.opts.Exact
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
	if !exact && *d.growth+max(grown, 0) <= maxGrowth {
		*d.growth += max(grown, 0)
		return form{contents: contents, plain: contents, readable: true, encoded: true}
	}
	equal := dataURL(packed) == *r.Source
	return form{contents: packed, plain: contents, packed: true, readable: equal || !exact, encoded: !equal}
}

// resource writes contents: as a text that people can read, as a file beside the document, or, where neither gives what
// the original gave, as they are.
func (d *draft) resource(v map[string]any, at string) *yaml.Node {
	r, ok := resourceOf(v)
	if !ok {
		return d.plain(v, at)
	}
	f := d.formOf(r, fixed[at], at == "storage.files.contents")
	hidden := at == "storage.luks.keyFile" || secret.Is(d.file, string(f.plain))
	if !f.readable {
		if *r.Source != "" {
			d.opaque = append(d.opaque, d.label(at))
		}
		if hidden {
			d.exposed = append(d.exposed, d.label(at))
		}
		return d.plain(v, at)
	}
	if f.encoded {
		d.encoded = append(d.encoded, d.label(at))
	}
	n := mapping()
	if f.packed {
		n.Content = append(n.Content, key("compression"), str(*r.Compression))
	}
	where, what := d.put(f, path.Base(d.label(at)), hidden)
	n.Content = append(n.Content, key(where), what)
	for _, k := range []string{"httpHeaders", "verification"} {
		if rest, ok := v[k]; ok {
			n.Content = append(n.Content, key(snake(k)), d.value(rest, at+"."+k))
		}
	}
	return n
}

// label names what is being written, to people.
func (d *draft) label(at string) string {
	if d.file != "" {
		return d.file
	}
	return at[strings.LastIndexByte(at, '.')+1:]
}

// put says where contents stand: inline, or in a local file.
func (d *draft) put(f form, name string, secret bool) (where string, what *yaml.Node) {
	if n, ok := d.inline(string(f.contents)); ok && !f.packed && !secret {
		return "inline", n
	}
	if f.packed {
		name += ".gz"
	}
	return "local", str(d.local(name, f.contents, secret))
}

// unitText writes the contents of a unit or drop-in.
func (d *draft) unitText(text, name string) (where string, what *yaml.Node) {
	hidden := secret.Is("", text)
	n, ok := d.inline(text)
	switch {
	case ok && !hidden:
		return "contents", n
	case text == "":
		return "contents", str(text)
	}
	return "contents_local", str(d.local(name, []byte(text), hidden))
}

// inline is text in the document, if it can be read there.
func (d *draft) inline(text string) (*yaml.Node, bool) {
	if len(text) > d.opts.maxInline() {
		return nil, false
	}
	if short(text) {
		return str(text), true
	}
	return block(text)
}

// local puts contents into a file beside the document and returns its path from there.
func (d *draft) local(name string, contents []byte, secret bool) string {
	dir := "files/"
	if secret {
		dir = "secrets/"
	}
	stem := dir + d.stem + "/"
	file := stem + slug(name)
	if d.locals[file] != nil && d.file != "" {
		file = stem + slug(strings.TrimSuffix(d.file, path.Base(name))+name)
	}
	for n := 2; d.locals[file] != nil; n++ {
		file = stem + strconv.Itoa(n) + "-" + slug(name)
	}
	d.locals[file] = append([]byte{}, contents...)
	if secret {
		d.secrets = append(d.secrets, file)
	}
	return file
}
