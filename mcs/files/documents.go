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

// extensions: a directory may contain other files.
var extensions = []string{".yaml", ".yml", ".json"}

type file struct {
	name string
	data []byte
}

// readFiles reads a file, or those of a directory in lexical order. It follows symbolic links, which the files of a
// ConfigMap that a kubelet mounts are. The digest changes with the names and the contents.
func readFiles(path string) (all []file, digest string, err error) {
	names, err := listFiles(path)
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
		all = append(all, file{name, data})
	}
	return all, hex.EncodeToString(sum.Sum(nil)), nil
}

func listFiles(path string) (names []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains(extensions, filepath.Ext(name)) {
			continue
		}
		switch info, err := os.Stat(name); {
		case errors.Is(err, fs.ErrNotExist): // The file was removed after the listing, or is a link without a target.
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", name, err)
		case info.Mode().IsRegular():
			names = append(names, name)
		}
	}
	return names, nil
}

type document struct {
	file string
	line int // line is the line at which the document begins, counted from 1.
	json []byte
}

// position says where a document begins.
func (d document) position() string { return fmt.Sprintf("%s:%d", d.file, d.line) }

// documents splits files into objects: YAML documents, JSON objects one after the other, and lists of objects, as
// kubectl prints them. There is an error with the line for each that cannot be read.
func documents(all []file) (out []document, bad []error) {
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

// splitYAML parses each document with empty lines in front of it, so that the parser's messages have line numbers of
// the file.
func splitYAML(c file) (out []document, err error) {
	var bad []error
	first, line := 1, 0
	var text bytes.Buffer
	end := func() {
		padded := append(bytes.Repeat([]byte("\n"), first-1), text.Bytes()...)
		raw, err := yaml.YAMLToJSONStrict(padded)
		switch {
		case err != nil:
			bad = append(bad, withPosition(c.name, first, err))
		case !bytes.Equal(bytes.TrimSpace(raw), []byte("null")): // A document that has only comments is skipped.
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

// yamlLine matches the line in a message of the YAML parser.
var yamlLine = regexp.MustCompile(`^.*yaml: (?:unmarshal errors:\s*)?line (\d+): `)

// withPosition moves the line number in a parser's message to the front, as compilers do. first is the first line of
// the document.
func withPosition(file string, first int, err error) error {
	text := err.Error()
	if m := yamlLine.FindStringSubmatchIndex(text); m != nil {
		return fmt.Errorf("%s:%s: reading YAML: %s", file, text[m[2]:m[3]], text[m[1]:])
	}
	return fmt.Errorf("%s:%d: reading YAML: %w", file, first, err)
}

func splitJSON(c file) (out []document, err error) {
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

func (d document) items() ([]document, error) {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(d.json, &head); err != nil {
		return nil, fmt.Errorf("%s: this is not a Kubernetes object with apiVersion, kind and metadata", d.position())
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

// decode needs an object of one kind without unknown fields.
func decode(d document, want metav1.TypeMeta, into any) error {
	var got metav1.TypeMeta
	if err := json.Unmarshal(d.json, &got); err != nil {
		return fmt.Errorf("%s: this is not a Kubernetes object with apiVersion, kind and metadata", d.position())
	}
	if got != want {
		return fmt.Errorf("%s: kind %q of apiVersion %q: want %s of %s; move other objects elsewhere", d.position(),
			got.Kind, got.APIVersion, want.Kind, want.APIVersion)
	}
	dec := json.NewDecoder(bytes.NewReader(d.json))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: reading the %s: %w", d.position(), want.Kind, err)
	}
	return nil
}
