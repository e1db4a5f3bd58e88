package machineconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
)

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
