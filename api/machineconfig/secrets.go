package machineconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/vincent-petithory/dataurl"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// SecretKind is the kind of object that a reference names.
type SecretKind string

// The kinds of objects that a config may refer to. Both are in the namespace v1alpha1.SecretsNamespace.
const (
	Secret    SecretKind = "secret"
	ConfigMap SecretKind = "configmap"
)

// SecretReference names one key of a Secret or ConfigMap.
type SecretReference struct {
	// Kind of the object.
	Kind SecretKind
	// Name of the object.
	Name string
	// Key of the object's data.
	Key string
}

// The limits of the Kubernetes API for names and keys.
const maxSecretName = 253

var (
	names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	keys  = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
)

// String returns the reference as users write it: secret:NAME/KEY or configmap:NAME/KEY.
func (r SecretReference) String() string { return string(r.Kind) + ":" + r.Name + "/" + r.Key }

// ParseSecret reads a reference in the form of String.
func ParseSecret(text string) (SecretReference, error) {
	kind, rest, _ := strings.Cut(text, ":")
	name, key, _ := strings.Cut(rest, "/")
	r := SecretReference{SecretKind(kind), name, key}
	switch {
	case r.Kind != Secret && r.Kind != ConfigMap:
		return SecretReference{}, fmt.Errorf("%q is no reference: write secret:NAME/KEY or configmap:NAME/KEY", text)
	case strings.Contains(rest, "${"+factPrefix):
		return SecretReference{}, fmt.Errorf("%q uses a fact, and facts are no part of a reference: write each "+
			"reference "+
			"into a document of its node, in nodes/NODE/", text)
	case len(name) > maxSecretName || !names.MatchString(name):
		return SecretReference{}, fmt.Errorf("%q has no valid name: write %s:NAME/KEY, with a name of lower case "+
			"letters, "+
			"digits, hyphens and dots", text, kind)
	case len(key) > maxSecretName || !keys.MatchString(key):
		return SecretReference{}, fmt.Errorf("%q has no valid key: write %s:%s/KEY, with a key of letters, digits, "+
			"hyphens, underscores and dots", text, kind, name)
	}
	return r, nil
}

// The media types of data URLs whose contents the server resolves.
const (
	// typePrefix begins all media types of Bunsen.
	typePrefix = "application/vnd.bunsen."
	// templateType is the media type of a template.
	templateType = typePrefix + "template"
	// sopsType is the media type of a file that SOPS encrypted; its parameter format names the format of the file.
	sopsType = typePrefix + "sops"
)

// SecretFormats are the formats of encrypted files, as SOPS names them.
var SecretFormats = []string{"binary", "dotenv", "json", "yaml"}

// SecretContent is the unresolved content of a file: a template, or a file that SOPS encrypted.
type SecretContent struct {
	// Template is the text with its placeholders; empty for an encrypted file.
	Template string
	// Format is one of Formats; empty for a template.
	Format string
	// Body is the encrypted file.
	Body []byte

	parts []part
}

// part is a literal text of a template, or a reference if that is set.
type part struct {
	text      string
	reference SecretReference
	// raw is the part as the template has it. fact is the name of a fact of nodes, if the part is one; its text is raw.
	raw, fact string
}

// SecretTemplate returns the unresolved content of a text with placeholders. A placeholder is ${secret:NAME/KEY} or
// ${configmap:NAME/KEY}; $${ stands for ${. A document for single nodes also has ${node.FACT}, see Content.WithFacts.
// The error lists each placeholder that is invalid.
func SecretTemplate(text string) (SecretContent, error) {
	c := SecretContent{Template: text}
	var bad []error
	for rest := text; rest != ""; {
		at := strings.Index(rest, "${")
		if at < 0 {
			c.parts = append(c.parts, part{text: rest, raw: rest})
			break
		}
		if at > 0 && rest[at-1] == '$' {
			c.parts = append(c.parts, part{text: rest[:at-1] + "${", raw: rest[:at+2]})
			rest = rest[at+2:]
			continue
		}
		if at > 0 {
			c.parts = append(c.parts, part{text: rest[:at], raw: rest[:at]})
		}
		line := strings.Count(text[:len(text)-len(rest)+at], "\n") + 1
		inside, after, closed := strings.Cut(rest[at+2:], "}")
		if fact, isFact := strings.CutPrefix(inside, factPrefix); isFact && closed && fact != "" {
			raw := "${" + inside + "}"
			c.parts, rest = append(c.parts, part{text: raw, raw: raw, fact: fact}), after
			continue
		}
		r, err := ParseSecret(inside)
		switch {
		case !closed:
			bad = append(bad, fmt.Errorf("line %d: ${ has no end: close it with }, or write $${ for a literal ${",
				line))
		case err != nil:
			bad = append(bad, fmt.Errorf("line %d: ${%s}: %w; write $${ for a literal ${", line, inside, err))
		}
		c.parts = append(c.parts, part{reference: r, raw: "${" + inside + "}"})
		if rest = after; !closed {
			break
		}
	}
	if len(bad) > 0 {
		return SecretContent{}, errors.Join(bad...)
	}
	return c, nil
}

// TemplateURL returns the data URL of a template.
func TemplateURL(text string) string {
	return "data:" + templateType + "," + dataurl.EscapeString(text)
}

// SOPSURL returns the data URL of a file that SOPS encrypted, in one of Formats.
func SOPSURL(format string, body []byte) string {
	return "data:" + sopsType + ";format=" + format + ";base64," + base64.StdEncoding.EncodeToString(body)
}

// IsUnresolved reports whether a source is a data URL with a media type of this package. Other spellings of such a
// media type count too, and Of refuses them.
func IsUnresolved(source string) bool {
	head, _, _ := strings.Cut(source, ",")
	if len(head) < len("data:") || !strings.EqualFold(head[:len("data:")], "data:") {
		return false
	}
	plain, err := url.PathUnescape(head[len("data:"):])
	if err != nil {
		plain = head[len("data:"):]
	}
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(plain)), typePrefix)
}

// SecretsOf returns the unresolved content of a resource, and whether it has one.
func SecretsOf(r ign.Resource) (SecretContent, bool, error) {
	if r.Source == nil || !IsUnresolved(*r.Source) {
		return SecretContent{}, false, nil
	}
	head, _, _ := strings.Cut(*r.Source, ",")
	mediaType := strings.TrimSuffix(strings.TrimPrefix(head, "data:"), ";base64")
	if r.Verification.Hash != nil {
		return SecretContent{}, true, errors.New("it has a verification hash, but its contents are resolved later: " +
			"remove " +
			"the hash")
	}
	body, err := Contents(r)
	if err != nil {
		return SecretContent{}, true, err
	}
	format, isSOPS := strings.CutPrefix(mediaType, sopsType+";format=")
	switch {
	case mediaType == templateType:
		c, err := SecretTemplate(string(body))
		return c, true, err
	case isSOPS && slices.Contains(SecretFormats, format):
		return SecretContent{Format: format, Body: body}, true, nil
	}
	return SecretContent{}, true, fmt.Errorf("its media type %q is unknown: write %s, or %s;format=FORMAT with %s",
		mediaType,
		templateType, sopsType, strings.Join(SecretFormats, ", "))
}

// References returns the references of a template, each once, in the order of the text.
func (c SecretContent) References() []SecretReference {
	var out []SecretReference
	for _, p := range c.parts {
		if p.reference != (SecretReference{}) && !slices.Contains(out, p.reference) {
			out = append(out, p.reference)
		}
	}
	return out
}

// Expand returns the text of a template with the value in place of each reference. The error joins those of value,
// which Expand calls once for each reference.
func (c SecretContent) Expand(value func(SecretReference) ([]byte, error)) ([]byte, error) {
	values := map[SecretReference][]byte{}
	var bad []error
	for _, r := range c.References() {
		v, err := value(r)
		values[r], bad = v, append(bad, err)
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	var out []byte
	for _, p := range c.parts {
		if p.reference == (SecretReference{}) {
			out = append(out, p.text...)
		} else {
			out = append(out, values[p.reference]...)
		}
	}
	return out, nil
}

// factPrefix begins the placeholder of a fact of nodes in a template.
const factPrefix = "node."

// Facts returns the names of the facts that a template uses, each once, in the order of the text. They may be invalid.
func (c SecretContent) Facts() []string {
	var out []string
	for _, p := range c.parts {
		if p.fact != "" && !slices.Contains(out, p.fact) {
			out = append(out, p.fact)
		}
	}
	return out
}

// WithFacts returns a template with the value in place of each fact. A value cannot change what the template refers to:
// it has no $, so it is never a part of a placeholder. The error joins those of value, which WithFacts calls once for
// each fact.
func (c SecretContent) WithFacts(value func(fact string) (string, error)) (string, error) {
	values, bad := map[string]string{}, []error{}
	for _, fact := range c.Facts() {
		v, err := value(fact)
		if err == nil && strings.Contains(v, "$") {
			err = fmt.Errorf("the fact %q contains $, and a template with references to secrets cannot use such a "+
				"value: write the text into a document of the node", fact)
		}
		values[fact], bad = v, append(bad, err)
	}
	if err := errors.Join(bad...); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, p := range c.parts {
		if p.fact != "" {
			out.WriteString(values[p.fact])
		} else {
			out.WriteString(p.raw)
		}
	}
	return out.String(), nil
}

// SecretFile is a file of a config whose contents are unresolved.
type SecretFile struct {
	// Path on the node.
	Path string
	// Content that the server resolves.
	Content SecretContent
}

// SecretFiles returns the files of a flat config whose contents are unresolved, in the config's order. The error lists
// each unresolved content that is invalid, or that is not the whole contents of a file. A template with facts of nodes
// is invalid: a rendered config has their values.
func SecretFiles(c Config) ([]SecretFile, error) {
	out, err := SecretFilesOf(c)
	bad := []error{err}
	for _, f := range out {
		if facts := f.Content.Facts(); len(facts) > 0 {
			bad = append(bad, fmt.Errorf("file %s: the template uses the fact %q of a node, which no table of nodes "+
				"has; write $${ for a literal ${", f.Path, facts[0]))
		}
	}
	return out, errors.Join(bad...)
}

// SecretFilesOf returns what Files does, for a document, which may use facts of nodes.
func SecretFilesOf(c Config) ([]SecretFile, error) {
	var out []SecretFile
	var bad []error
	for _, f := range c.Ignition.Storage.Files {
		content, unresolved, err := SecretsOf(f.Contents)
		if err != nil {
			bad = append(bad, fmt.Errorf("file %s: %w", f.Path, err))
		} else if unresolved {
			out = append(out, SecretFile{f.Path, content})
		}
	}
	for _, r := range elsewhere(c.Ignition) {
		if r.Source != nil && IsUnresolved(*r.Source) {
			bad = append(bad, fmt.Errorf("%s refers to a secret: only storage.files[].contents can", r.place))
		}
	}
	return out, errors.Join(bad...)
}

// placed is a resource with its place in the config.
type placed struct {
	ign.Resource
	place string
}

// elsewhere returns the resources of a config that are not the contents of a file.
func elsewhere(c ign.Config) []placed {
	var out []placed
	for _, f := range c.Storage.Files {
		for i, r := range f.Append {
			out = append(out, placed{r, fmt.Sprintf("file %s: append[%d]", f.Path, i)})
		}
	}
	for _, l := range c.Storage.Luks {
		out = append(out, placed{l.KeyFile, "luks " + l.Name + ": keyFile"})
	}
	for i, r := range c.Ignition.Security.TLS.CertificateAuthorities {
		out = append(out, placed{r, fmt.Sprintf("ignition.security.tls.certificateAuthorities[%d]", i)})
	}
	for i, r := range c.Ignition.Config.Merge {
		out = append(out, placed{r, fmt.Sprintf("ignition.config.merge[%d]", i)})
	}
	return append(out, placed{c.Ignition.Config.Replace, "ignition.config.replace"})
}

// ResolveSecrets returns a flat config with resolved contents in place of the unresolved ones, by path. It does not
// change the config of the caller. The error names each file without contents.
func ResolveSecrets(c Config, contents map[string][]byte) (Config, error) {
	files, err := SecretFiles(c)
	if err != nil || len(files) == 0 {
		return c, err
	}
	var bad []error
	c.Ignition.Storage.Files = slices.Clone(c.Ignition.Storage.Files)
	for i, f := range c.Ignition.Storage.Files {
		if f.Contents.Source == nil || !IsUnresolved(*f.Contents.Source) {
			continue
		}
		data, ok := contents[f.Path]
		if !ok {
			bad = append(bad, fmt.Errorf("file %s: its secret is not there", f.Path))
			continue
		}
		source := "data:;base64," + base64.StdEncoding.EncodeToString(data)
		c.Ignition.Storage.Files[i].Contents = ign.Resource{Source: &source}
	}
	return c, errors.Join(bad...)
}
