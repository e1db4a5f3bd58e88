package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
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
	// MaxSize in bytes: a rendered config must fit into an object of the API server.
	MaxSize = 1 << 20
	// of values in a file, and how deep they are nested
	maxValues, maxDepth = 100_000, 100
)

// Comment is a comment of a file. SOPS encrypts comments too.
type Comment struct {
	Text string
	// at the end of a line
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
	// without Raw if the file is not encrypted
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

// Detect reports whether SOPS encrypted a file, and its format. The name decides between those that look the same.
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
	if d.Metadata, err = d.extract(); err != nil {
		return Document{}, fmt.Errorf("reading the metadata of SOPS: %w", err)
	}
	if format == Binary {
		if len(d.Branches[0]) != 1 || d.Branches[0][0].Key != "data" {
			return Document{}, errors.New("a binary file has one key, \"data\"; is it of another format?")
		}
	}
	return d, d.check()
}

func (d *Document) extract() (Metadata, error) {
	var raw Branch
	for i, b := range d.Branches {
		found, rest, err := split(d.Format, b)
		if err != nil {
			return Metadata{}, err
		}
		if i == 0 {
			raw = found
		}
		d.Branches[i] = rest
	}
	if raw == nil {
		return Metadata{}, errors.New("there is none; the file is not encrypted")
	}
	return readMetadata(raw)
}

func split(format Format, b Branch) (metadata, rest Branch, err error) {
	for _, it := range b {
		key, _ := it.Key.(string)
		flat, isFlat := strings.CutPrefix(key, "sops_")
		switch {
		case format == Dotenv && isFlat:
			metadata = append(metadata, Item{flat, it.Value})
		case format != Dotenv && key == "sops":
			value, ok := it.Value.(Branch)
			if !ok {
				return nil, nil, errors.New("`sops` is not a mapping")
			}
			metadata = value
		default:
			rest = append(rest, it)
		}
	}
	if metadata == nil || format != Dotenv {
		return metadata, rest, nil
	}
	metadata, err = unflatten(metadata)
	return metadata, rest, err
}

func unflatten(b Branch) (Branch, error) {
	root := &flatNode{}
	for _, it := range b {
		key, ok := it.Key.(string)
		if !ok {
			continue
		}
		n := root
		for _, step := range strings.Split(strings.ReplaceAll(key, listSeparator, mapSeparator+"\x00"), mapSeparator) {
			n = n.child(step)
		}
		if n.value != nil {
			return nil, fmt.Errorf("%q occurs twice", key)
		}
		n.value = it.Value
	}
	v, err := root.tree(0)
	if err != nil {
		return nil, err
	}
	out, ok := v.(Branch)
	if !ok {
		return nil, errors.New("it is not a mapping")
	}
	return out, nil
}

func readMetadata(raw Branch) (Metadata, error) {
	f := fields{branch: raw}
	m := Metadata{
		Threshold: f.number("shamir_threshold"), MAC: f.text("mac"), Version: f.text("version"),
		Rules: Rules{
			UnencryptedSuffix: f.text("unencrypted_suffix"), EncryptedSuffix: f.text("encrypted_suffix"),
			UnencryptedRegex: f.text("unencrypted_regex"), EncryptedRegex: f.text("encrypted_regex"),
			UnencryptedCommentRegex: f.text("unencrypted_comment_regex"),
			EncryptedCommentRegex:   f.text("encrypted_comment_regex"),
			MACOnlyEncrypted:        f.text("mac_only_encrypted") == "true",
		},
	}
	at, err := time.Parse(time.RFC3339, f.text("lastmodified"))
	if err != nil {
		f.problem("`lastmodified` is no time")
	}
	m.LastModified = at
	for _, g := range f.list("key_groups") {
		if group := f.group(g); len(group) > 0 {
			m.Groups = append(m.Groups, group)
		}
	}
	if top := f.group(raw); len(m.Groups) == 0 && len(top) > 0 {
		m.Groups = [][]Recipient{top}
	}
	if len(m.Groups) == 0 {
		f.problem("it names no recipient")
	}
	if m.Threshold < 0 || m.Threshold > len(m.Groups) {
		f.problem("`shamir_threshold` is larger than the number of groups")
	}
	if m.Threshold == 0 {
		m.Threshold = len(m.Groups)
	}
	if err := m.Rules.compile(); err != nil {
		f.problems = append(f.problems, err)
	}
	return m, errors.Join(f.problems...)
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

// Recover turns a panic into an error, in a defer statement: one file that a library cannot take must not end a server
// that decrypts many. What the library said is left out: it may be a value.
func Recover(err *error) {
	if what := recover(); what != nil {
		*err = fmt.Errorf("the file made a library fail (%T); it is damaged, or encrypt it as binary", what)
	}
}

func sizeError(size int) error {
	return fmt.Errorf("the file has %d bytes; at most %d are allowed", size, MaxSize)
}

// parse is for formats other than binary, with the metadata among the values.
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

func readYAML(body []byte, aliases bool) ([]Branch, error) {
	r := yamlReader{aliases: aliases}
	var out []Branch
	for d := yaml.NewDecoder(bytes.NewReader(body)); ; {
		var n yaml.Node
		if err := d.Decode(&n); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		b, err := r.branch(&n, nil, false, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
}

func readJSON(body []byte) ([]Branch, error) {
	r := jsonReader{Decoder: json.NewDecoder(bytes.NewReader(body))}
	r.UseNumber()
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	b, ok := v.(Branch)
	if !ok {
		return nil, errors.New("the file is not an object, and SOPS encrypts only objects")
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has text after its object")
	}
	return []Branch{b}, nil
}

func readDotenv(body []byte) ([]Branch, error) {
	var b Branch
	seen := map[string]bool{}
	for i, line := range strings.Split(string(body), "\n") {
		if line == "" {
			continue
		}
		if line[0] == '#' {
			b = append(b, Item{Comment{Text: line[1:]}, nil})
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("line %d has no `=`", i+1) // not the line: it may be a secret
		}
		if seen[key] {
			return nil, fmt.Errorf("line %d: the key %q occurs twice", i+1, key)
		}
		seen[key] = true
		b = append(b, Item{key, strings.ReplaceAll(value, `\n`, "\n")})
	}
	if len(b) > maxValues {
		return nil, fmt.Errorf("the file has more than %d values", maxValues)
	}
	return []Branch{b}, nil
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

func writeYAML(branches []Branch) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(yamlIndent)
	for _, branch := range branches {
		mapping, err := yamlMapping(branch)
		if err != nil {
			return nil, err
		}
		if err := e.Encode(&yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{mapping}}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), e.Close()
}

func writeJSON(b Branch) ([]byte, error) {
	var raw, out bytes.Buffer
	if err := appendJSON(&raw, b); err != nil {
		return nil, err
	}
	if err := json.Indent(&out, raw.Bytes(), "", "\t"); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// appendJSON leaves out comments, which JSON does not have.
func appendJSON(out *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case Branch:
		out.WriteByte('{')
		separator := ""
		for _, it := range v {
			key, ok := it.Key.(string)
			if !ok {
				continue
			}
			out.WriteString(separator)
			separator = ","
			if err := appendJSON(out, key); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := appendJSON(out, it.Value); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		separator := ""
		for _, item := range v {
			if _, ok := item.(Comment); ok {
				continue
			}
			out.WriteString(separator)
			separator = ","
			if err := appendJSON(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		out.Write(text)
	}
	return nil
}

func writeDotenv(b Branch) ([]byte, error) {
	var out bytes.Buffer
	for _, it := range b {
		switch key := it.Key.(type) {
		case Comment:
			fmt.Fprintf(&out, "#%s\n", key.Text)
		default:
			text, err := flatText(it.Value)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "%s=%s\n", key, strings.ReplaceAll(text, "\n", `\n`))
		}
	}
	return out.Bytes(), nil
}

// flatText returns a value as SOPS writes it in formats that have strings only.
func flatText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case time.Time:
		return v.Format(time.RFC3339), nil
	case float64:
		text := strconv.FormatFloat(v, 'G', -1, 64)
		if !strings.ContainsAny(text, ".E") {
			text = strconv.FormatFloat(v, 'f', 1, 64)
		}
		return text, nil
	}
	return "", errors.New("this format has no lists, mappings or empty values")
}
