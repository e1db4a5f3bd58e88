package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// endings of files that are read; all others in a folder are somebody else's.
var endings = []string{".yaml", ".yml", ".json"}

// content is one file as it was found.
type content struct {
	name string
	data []byte
}

// gather reads a file, or the files of a folder in lexical order. Symbolic links are followed: that is how a kubelet mounts
// a ConfigMap. The digest changes with the names and the contents.
func gather(path string) (all []content, digest string, err error) {
	names, err := namesOf(path)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.New()
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, "", fmt.Errorf("reading %s: %w", name, err)
		}
		fmt.Fprintf(sum, "%d:%s%d:", len(name), name, len(data))
		sum.Write(data)
		all = append(all, content{name, data})
	}
	return all, hex.EncodeToString(sum.Sum(nil)), nil
}

func namesOf(path string) (names []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("looking into %s: %w", path, err)
	}
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains(endings, filepath.Ext(name)) {
			continue
		}
		switch info, err := os.Stat(name); {
		case errors.Is(err, fs.ErrNotExist): // somebody took it away just now, or it leads nowhere
		case err != nil:
			return nil, fmt.Errorf("looking at %s: %w", name, err)
		case info.Mode().IsRegular():
			names = append(names, name)
		}
	}
	return names, nil
}

// document is one object of a file, as JSON.
type document struct {
	file string
	line int // where it begins, from 1
	json []byte
}

// at is where a document is, for messages.
func (d document) at() string { return fmt.Sprintf("%s:%d", d.file, d.line) }

// documents takes files apart: YAML documents, JSON objects one after the other, and lists of objects, as kubectl prints
// them. The errors are one for each document that cannot be read, with its line.
func documents(all []content) (out []document, bad []error) {
	for _, c := range all {
		split := splitYAML
		if bytes.HasPrefix(bytes.TrimSpace(c.data), []byte("{")) {
			split = splitJSON
		}
		docs, err := split(c)
		if err != nil {
			bad = append(bad, err)
		}
		for _, d := range docs {
			items, err := d.items()
			if err != nil {
				bad = append(bad, err)
			}
			out = append(out, items...)
		}
	}
	return out, bad
}

// splitYAML cuts at the lines that separate documents. Each is read with empty lines in front, so that the parser's own
// messages count from the top of the file.
func splitYAML(c content) (out []document, err error) {
	var bad []error
	first, line := 1, 0
	var text bytes.Buffer
	end := func() {
		padded := append(bytes.Repeat([]byte("\n"), first-1), text.Bytes()...)
		raw, err := yaml.YAMLToJSONStrict(padded)
		switch {
		case err != nil:
			bad = append(bad, placed(c.name, first, err))
		case !bytes.Equal(bytes.TrimSpace(raw), []byte("null")): // nothing but comments
			out = append(out, document{c.name, first, raw})
		}
		text.Reset()
		first = line + 1
	}
	for row := range bytes.Lines(c.data) {
		line++
		if rest, ok := bytes.CutPrefix(row, []byte("---")); ok && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ') {
			end()
			if row = append([]byte("   "), rest...); len(bytes.TrimSpace(rest)) > 0 {
				first = line
			} else {
				row = nil
			}
		}
		text.Write(row)
	}
	end()
	return out, errors.Join(bad...)
}

// yamlPlace is how the YAML parser names a line.
var yamlPlace = regexp.MustCompile(`^.*yaml: (?:unmarshal errors:\s*)?line (\d+): `)

// placed puts the line that the parser names where compilers do; first is the document's.
func placed(file string, first int, err error) error {
	text := err.Error()
	if m := yamlPlace.FindStringSubmatchIndex(text); m != nil {
		return fmt.Errorf("%s:%s: reading YAML: %s", file, text[m[2]:m[3]], text[m[1]:])
	}
	return fmt.Errorf("%s:%d: reading YAML: %w", file, first, err)
}

// splitJSON reads one object after the other.
func splitJSON(c content) (out []document, err error) {
	dec := json.NewDecoder(bytes.NewReader(c.data))
	for {
		before := dec.InputOffset()
		var raw json.RawMessage
		err := dec.Decode(&raw)
		blank := len(c.data[before:]) - len(bytes.TrimLeft(c.data[before:], " \t\r\n"))
		line := 1 + bytes.Count(c.data[:int(before)+blank], []byte("\n"))
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, fmt.Errorf("%s:%d: reading the JSON object that begins here: %w", c.name, line, err)
		}
		out = append(out, document{c.name, line, raw})
	}
}

// items are a list's, or the object itself.
func (d document) items() ([]document, error) {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(d.json, &head); err != nil {
		return nil, fmt.Errorf("%s: this is no object of Kubernetes, which has apiVersion, kind and metadata", d.at())
	}
	if !strings.HasSuffix(head.Kind, "List") {
		return []document{d}, nil
	}
	out := make([]document, len(head.Items))
	for i, raw := range head.Items {
		out[i] = document{d.file, d.line, raw}
	}
	return out, nil
}

// decode reads a document as an object of one kind, and lets no field pass that the kind does not have.
func decode(d document, want metav1.TypeMeta, into any) error {
	var got metav1.TypeMeta
	if err := json.Unmarshal(d.json, &got); err != nil {
		return fmt.Errorf("%s: this is no object of Kubernetes, which has apiVersion, kind and metadata", d.at())
	}
	if got != want {
		return fmt.Errorf("%s: kind %q of apiVersion %q: want %s of %s; keep other objects elsewhere", d.at(), got.Kind, got.APIVersion, want.Kind, want.APIVersion)
	}
	dec := json.NewDecoder(bytes.NewReader(d.json))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: reading the %s: %w", d.at(), want.Kind, err)
	}
	return nil
}
