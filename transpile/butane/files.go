package butane

import (
	"encoding/base64"
	"reflect"
	"strconv"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// plain are files that say what they contain and who may read it, and nothing else: nearly all files of nearly all
// documents. Butane takes a tenth of a millisecond for each, most of it for a list of paths, which for such a file are
// the document's own. So they go past Butane's translator and join its result before anything is checked; a test
// compares both ways. The zero value has none.
type plain struct {
	files reflect.Value // of the dialect's type
	urls  []string      // data URL of each; empty for a file without contents
}

// takePlain takes the files out of a document, if all of them are plain and nothing else in the document makes files.
// Local are the contents of local files.
func takePlain(cfg reflect.Value, local map[string]string) plain {
	storage := cfg.FieldByName("Storage")
	for _, makes := range []reflect.Value{storage.FieldByName("Trees"), cfg.FieldByName("Grub")} {
		if makes.IsValid() && !makes.IsZero() {
			return plain{}
		}
	}
	files := storage.FieldByName("Files")
	urls := make([]string, files.Len())
	for i := range urls {
		var ok bool
		if urls[i], ok = plainURL(files.Index(i), local); !ok {
			return plain{}
		}
	}
	p := plain{reflect.ValueOf(files.Interface()), urls}
	files.SetZero()
	return p
}

// plainURL gives the data URL of a plain file's contents, and tells whether the file is plain.
func plainURL(file reflect.Value, locals map[string]string) (string, bool) {
	if mode := file.FieldByName("Mode"); !mode.IsNil() && (mode.Elem().Int() < 0 || mode.Elem().Int() > 0o777) {
		return "", false
	}
	contents := file.FieldByName("Contents")
	inline, local := contents.FieldByName("Inline"), contents.FieldByName("Local")
	if file.FieldByName("Append").Len() > 0 || !local.IsValid() { // fcos 1.0.0 writes its URLs in another way
		return "", false
	}
	said := 0
	for i := range contents.NumField() {
		if !contents.Field(i).IsZero() {
			said++
		}
	}
	switch {
	case said == 0:
		return "", true
	case said == 1 && !inline.IsNil():
		return dataURL(inline.Elem().String()), true
	case said == 1 && !local.IsNil():
		data, ok := locals[local.Elem().String()]
		return dataURL(data), ok
	}
	return "", false
}

// dataURL writes contents as Butane does: escaped or in base64, whichever is shorter.
func dataURL(contents string) string {
	const hex = "0123456789ABCDEF"
	escaped := 0
	for i := range len(contents) {
		if !unreserved(contents[i]) {
			escaped++
		}
	}
	const base64Mark = ";base64,"
	if n := base64.StdEncoding.EncodedLen(len(contents)); len(base64Mark)+n < 1+len(contents)+2*escaped {
		return "data:" + base64Mark + base64.StdEncoding.EncodeToString([]byte(contents))
	}
	out := append(make([]byte, 0, len("data:,")+len(contents)+2*escaped), "data:,"...)
	for i := range len(contents) {
		if c := contents[i]; unreserved(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}

// unreserved tells of bytes that stand for themselves in a URL (RFC 2396).
func unreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case '-', '_', '.', '!', '~', '*', '\'', '(', ')':
		return true
	}
	return false
}

// join puts the files where Butane would have put them.
func (p plain) join(final reflect.Value) reflect.Value {
	if len(p.urls) == 0 {
		return final
	}
	out := reflect.New(final.Type()).Elem()
	out.Set(final)
	ignition := out
	if spec := out.FieldByName("Spec"); spec.IsValid() {
		ignition = spec.FieldByName("Config")
	}
	to := ignition.FieldByName("Storage").FieldByName("Files")
	to.Set(reflect.MakeSlice(to.Type(), len(p.urls), len(p.urls)))
	for i, url := range p.urls {
		f := to.Index(i)
		for _, name := range []string{"Path", "Mode", "Overwrite", "User", "Group"} {
			convert(f.FieldByName(name), p.files.Index(i).FieldByName(name))
		}
		if url != "" {
			contents := f.FieldByName("Contents")
			convert(contents.FieldByName("Source"), reflect.ValueOf(url))
			convert(contents.FieldByName("Compression"), reflect.ValueOf(""))
		}
	}
	return out
}

// places tells where each part of the files comes from: they have the document's own paths.
func (p plain) places(document origin.Map, at map[string]origin.Pos) {
	put := func(to, from string) {
		if place, ok := document.Find(from); ok {
			at[to] = place
		}
	}
	if len(p.urls) > 0 {
		put("$.storage", "$.storage")
		put("$.storage.files", "$.storage.files")
	}
	for i, url := range p.urls {
		here := "$.storage.files." + strconv.Itoa(i)
		put(here, here)
		f := p.files.Index(i)
		for _, leaf := range []struct{ name, path string }{
			{"Path", ".path"}, {"Mode", ".mode"}, {"Overwrite", ".overwrite"}, {"User", ".user"}, {"Group", ".group"},
		} {
			v := f.FieldByName(leaf.name)
			if v.IsZero() && leaf.name != "Path" {
				continue
			}
			put(here+leaf.path, here+leaf.path)
			for _, owner := range []struct{ name, path string }{{"ID", ".id"}, {"Name", ".name"}} {
				if v.Kind() == reflect.Struct && !v.FieldByName(owner.name).IsNil() {
					put(here+leaf.path+owner.path, here+leaf.path+owner.path)
				}
			}
		}
		if url == "" {
			continue
		}
		contents := here + ".contents"
		put(contents, contents)
		if local := f.FieldByName("Contents").FieldByName("Local"); !local.IsNil() {
			put(contents+".compression", contents+".local")
			at[contents+".source"] = origin.Pos{File: local.Elem().String(), Line: 1}
			continue
		}
		put(contents+".compression", contents+".inline")
		put(contents+".source", contents+".inline")
	}
}
