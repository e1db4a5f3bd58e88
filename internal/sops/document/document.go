package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Format is one of the file formats of SOPS.
type Format string

// The formats of SOPS.
const (
	YAML   Format = "yaml"
	JSON   Format = "json"
	Dotenv Format = "dotenv"
	Binary Format = "binary"
	// INI is recognised, and refused: SOPS cuts values at ; and #, and loses quotes and repeated keys.
	INI Format = "ini"
)

// Formats lists the formats that this package reads and writes.
func Formats() []Format { return []Format{YAML, JSON, Dotenv, Binary} }

var errINI = errors.New("SOPS loses text of INI files (values with ; or #, quotes, repeated keys): encrypt it as " +
	"binary, which keeps every byte, under a name that does not end in .ini, such as app.sops.conf")

const (
	// MaxSize is the largest file in bytes. A rendered config must fit into an object of the API server.
	MaxSize = 1 << 20
	// maxValues bounds the values of a file, and maxDepth how deep they are nested.
	maxValues, maxDepth = 100_000, 100
)

// Comment is a comment of a file. SOPS encrypts comments too.
type Comment struct {
	Text string
	// Inline is true for a comment at the end of a line.
	Inline bool
}

// Item is a key with its value. The key is a string or a Comment.
type Item struct{ Key, Value any }

// Branch is an ordered mapping. A value is a string, an int, a float64, a bool, a time.Time, nil, a Comment, a list
// ([]any) or a Branch.
type Branch []Item

// Document is a file that SOPS encrypted, or that it may encrypt.
type Document struct {
	Format   Format
	Branches []Branch
	// Metadata has no Raw if the file is not encrypted.
	Metadata Metadata
}

// FormatOf returns the format that SOPS selects for a file's name.
func FormatOf(name string) Format {
	switch path.Ext(name) {
	case ".yaml", ".yml":
		return YAML
	case ".json":
		return JSON
	case ".env":
		return Dotenv
	case ".ini":
		return INI
	}
	return Binary
}

var (
	yamlMetadata   = regexp.MustCompile(`(?m)^["']?sops["']?:[ \t\r]*$`)
	dotenvMetadata = regexp.MustCompile(`(?m)^sops_(mac|version|lastmodified)=`)
	iniMetadata    = regexp.MustCompile(`(?m)^\[sops\]`)
)

// Detect reports whether SOPS encrypted a file, and in which format. The name decides between formats that look the
// same.
func Detect(name string, body []byte) (format Format, encrypted bool) {
	if !bytes.Contains(body, []byte("ENC[AES256_GCM,data:")) || !bytes.Contains(body, []byte("sops")) {
		return "", false
	}
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(trimmed) > 0 && trimmed[0] == '{':
		var top map[string]json.RawMessage
		if json.Unmarshal(trimmed, &top) != nil { // truncated: Parse explains it
			return FormatOf(name), bytes.Contains(trimmed, []byte(`"sops"`))
		}
		if _, ok := top["sops"]; !ok {
			return "", false
		}
		switch named := FormatOf(name); {
		case named == JSON || named == YAML:
			return named, true
		case len(top) == 2 && bytes.HasPrefix(top["data"], []byte(`"ENC[`)):
			return Binary, true
		}
		return JSON, true
	case yamlMetadata.Match(body):
		return YAML, true
	case iniMetadata.Match(body):
		return INI, true
	case dotenvMetadata.Match(body):
		return Dotenv, true
	}
	return "", false
}

// Parse reads an encrypted file.
func Parse(format Format, body []byte) (d Document, err error) {
	defer Recover(&err)
	stored := format
	if format == Binary {
		stored = JSON
	}
	if d, err = parse(stored, body, false); err != nil {
		return Document{}, err
	}
	d.Format = format
	if d.Metadata, err = extract(&d); err != nil {
		return Document{}, fmt.Errorf("reading the metadata of SOPS: %w", err)
	}
	if format == Binary {
		if len(d.Branches[0]) != 1 || d.Branches[0][0].Key != "data" {
			return Document{}, errors.New("a binary file has one key, \"data\"; is it of another format?")
		}
	}
	return d, d.check()
}

// ParsePlain reads a file that is not encrypted.
func ParsePlain(format Format, body []byte) (d Document, err error) {
	defer Recover(&err)
	if format == Binary {
		if len(body) > MaxSize {
			return Document{}, sizeError(len(body))
		}
		return Document{Format: Binary, Branches: []Branch{{{"data", string(body)}}}}, nil
	}
	if d, err = parse(format, body, true); err != nil {
		return Document{}, err
	}
	for _, b := range d.Branches {
		for _, it := range b {
			if k, _ := it.Key.(string); k == "sops" || format == Dotenv && strings.HasPrefix(k, "sops_") {
				return Document{}, fmt.Errorf("the key %q is reserved for the metadata of SOPS; is the file "+
					"encrypted already?", k)
			}
		}
	}
	return d, nil
}

// Recover turns a panic into an error, for a defer statement: one file that a library cannot take must not end a server
// that decrypts many. The error leaves out what the library said, which may be a value.
func Recover(err *error) {
	if what := recover(); what != nil {
		*err = fmt.Errorf("the file made a library fail (%T); it is damaged, or encrypt it as binary", what)
	}
}

func sizeError(size int) error {
	return fmt.Errorf("the file has %d bytes; at most %d are allowed", size, MaxSize)
}

// parse reads a file of a format other than binary, with its metadata among the values.
func parse(format Format, body []byte, aliases bool) (Document, error) {
	if len(body) > MaxSize {
		return Document{}, sizeError(len(body))
	}
	d := Document{Format: format}
	var err error
	switch format {
	case YAML:
		d.Branches, err = readYAML(body, aliases)
	case JSON:
		d.Branches, err = readJSON(body)
	case Dotenv:
		d.Branches, err = readDotenv(body)
	case INI:
		return Document{}, errINI
	default:
		return Document{}, fmt.Errorf("unknown format %q; use one of %v", format, Formats())
	}
	if err != nil {
		return Document{}, fmt.Errorf("reading the file as %s: %w", format, err)
	}
	if len(d.Branches) == 0 {
		return Document{}, errors.New("the file is empty")
	}
	return d, nil
}

// Plain writes the values without metadata. It is the decrypted file if the values are decrypted.
func (d Document) Plain() ([]byte, error) {
	if d.Format == Binary {
		s, ok := d.Branches[0][0].Value.(string)
		if !ok {
			return nil, errors.New("the data of a binary file is no string")
		}
		return []byte(s), nil
	}
	return d.write(d.Branches)
}

// Encrypted returns the encrypted file: the values, and the metadata of SOPS.
func (d Document) Encrypted() ([]byte, error) { return d.write(d.embed()) }

func (d Document) write(branches []Branch) (out []byte, err error) {
	defer Recover(&err)
	switch d.Format {
	case YAML:
		out, err = writeYAML(branches)
	case JSON, Binary:
		out, err = writeJSON(branches[0])
	case Dotenv:
		out, err = writeDotenv(branches[0])
	}
	if err != nil {
		return nil, fmt.Errorf("writing the file as %s: %w", d.Format, err)
	}
	return out, nil
}
