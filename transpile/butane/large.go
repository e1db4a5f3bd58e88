package butane

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

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

// takeLarge reads the local file at a reference, if it is too large for a config. It returns the file with its digest.
// takeLarge never has the whole file in memory.
func takeLarge(t *translator, r reference) (origin.File, bool) {
	info, err := fs.Stat(t.in.FS, r.path)
	if err != nil || info.IsDir() || info.Size() <= machineconfig.MaxContentObject {
		return origin.File{}, false
	}
	place := takesSecret.FindStringSubmatch(r.at)
	if place == nil {
		refuseLarge(t, r.at, r.path, info.Size())
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

// refuseLarge refuses a large file in a place from which it cannot go to the content store.
func refuseLarge(t *translator, at, file string, size int64) {
	t.fatal(at, ruleLarge, "%q has %d bytes, and only `contents: {local: …}` of a file in storage.files may have "+
		"more than %d; include it there", file, size, machineconfig.MaxContentObject)
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

// withPlaceholders calls a function while the document has short texts in place of its large files, so that Butane does
// not read these files.
func withPlaceholders(t *translator, use func()) {
	for i := range t.large {
		contents := child(lookup(t.doc, "$.storage.files."+strconv.Itoa(i)), "contents")
		for k := 0; k+1 < len(contents.Content); k += 2 {
			if contents.Content[k].Value != "local" {
				continue
			}
			key, value := contents.Content[k], contents.Content[k+1]
			inline, text := *key, yaml.Node{
				Kind: yaml.ScalarNode, Tag: "!!str", Value: "large", Line: value.Line,
				Column: value.Column,
			}
			inline.Value = "inline"
			contents.Content[k], contents.Content[k+1] = &inline, &text
			defer func() { contents.Content[k], contents.Content[k+1] = key, value }()
		}
	}
	use()
}

// withoutPlaceholders replaces the paths of placeholders in the steps of a translation by those of the large files, and
// puts the names in the content store into the output.
func withoutPlaceholders(t *translator, out *Output, steps map[string]string) {
	for _, to := range slices.Sorted(maps.Keys(steps)) {
		from := steps[to]
		input, output := contentsOf.FindStringSubmatch(from), contentsOf.FindStringSubmatch(to)
		if input == nil || input[2] != "inline" {
			continue
		}
		i, _ := strconv.Atoi(input[1])
		large, ok := t.large[i]
		if !ok {
			continue
		}
		steps[to] = strings.TrimSuffix(from, "inline") + "local"
		if output == nil {
			continue
		}
		k, _ := strconv.Atoi(output[1])
		if k >= len(out.Config.Ignition.Storage.Files) {
			continue
		}
		f := &out.Config.Ignition.Storage.Files[k]
		f.Contents = machineconfig.ContentResource(large.Hash)
		large.Path, large.FS = f.Path, t.in.FS
		out.Contents = append(out.Contents, large.LargeFile)
	}
}
