package butane

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/sops/document"
	"github.com/bunsen-os/bunsen/transpile/origin"
	cutil "github.com/coreos/butane/config/util"
	"go.yaml.in/yaml/v3"
)

// The rules of findings about references to secrets and about encrypted files.
const (
	ruleReference = "secret-reference"
	ruleEncrypted = "encrypted"
)

// templateKey is Bunsen's own key beside the path of a file. Butane does not know it.
const templateKey = "template"

// secretFile is a file of the document whose contents the server resolves.
type secretFile struct {
	template bool
	// format is that of an encrypted file; empty for a template.
	format document.Format
}

// secretFiles are the files of a document whose contents the server resolves, by their place.
type secretFiles struct {
	*translator
	files map[int]secretFile
}

var (
	// takesSecret matches the places where a local file may be encrypted.
	takesSecret = regexp.MustCompile(`^\$\.storage\.files\.([0-9]+)\.contents\.local$`)
	// contentsOf matches the contents of a file in the output and in the document.
	contentsOf = regexp.MustCompile(`^\$\.storage\.files\.([0-9]+)\.contents\.(source|inline|local)$`)
)

func (t secretFiles) take() {
	files := child(child(t.doc, "storage"), "files")
	allowed := map[*yaml.Node]bool{}
	if files != nil && files.Kind == yaml.SequenceNode {
		for i, f := range files.Content {
			at := "$.storage.files." + strconv.Itoa(i)
			source := child(child(f, "contents"), "source")
			marked := t.takeMark(f, at)
			if source != nil {
				source.Value = machineconfig.SourceOf(source.Value)
				allowed[source] = t.takeReference(source, at+".contents.source", marked)
			}
			if marked || source != nil && allowed[source] {
				t.files[i] = secretFile{template: marked}
				t.refuseBeside(child(f, "contents"), at+".contents")
			}
		}
	}
	t.refuseReferences(t.doc, "$", allowed)
}

// takeMark removes `template: true` from a file, and returns its value.
func (t secretFiles) takeMark(f *yaml.Node, at string) (marked bool) {
	if f.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(f.Content); i += 2 {
		if f.Content[i].Value != templateKey {
			continue
		}
		if f.Content[i+1].Decode(&marked) != nil {
			t.fatal(at+"."+templateKey, ruleReference, "`template:` is true or false; true marks a file with "+
				"${secret:NAME/KEY}")
		}
		f.Content = append(f.Content[:i:i], f.Content[i+2:]...)
		break
	}
	contents := child(f, "contents")
	if marked && child(contents, "inline") == nil && child(contents, "local") == nil {
		t.fatal(at+"."+templateKey, ruleReference, "a template has its text in `contents: {inline: …}` or `contents: "+
			"{local: …}`; write one of them, or remove `template: true`")
	}
	return marked
}

// isReference reports whether a source is meant as a reference.
func isReference(text string) bool {
	return strings.HasPrefix(text, string(machineconfig.Secret)+":") ||
		strings.HasPrefix(text, string(machineconfig.ConfigMap)+
			":")
}

// takeReference replaces a reference by a data URL, which Butane accepts. It returns false if the source is none.
func (t secretFiles) takeReference(source *yaml.Node, at string, marked bool) bool {
	written := text(source)
	if source.Kind != yaml.ScalarNode || !isReference(written) {
		return false
	}
	r, err := machineconfig.ParseSecret(written)
	switch {
	case err != nil:
		t.fatal(at, ruleReference, "%v", err)
	case marked:
		t.fatal(at, ruleReference, "a file is a template or one reference; remove `template: true`, or write ${%s} "+
			"into a text", r)
	}
	source.SetString(machineconfig.TemplateURL("${" + r.String() + "}"))
	return true
}

// refuseBeside refuses keys that need the contents, which only the server knows.
func (t secretFiles) refuseBeside(contents *yaml.Node, at string) {
	for _, key := range []string{"verification", "compression"} {
		if child(contents, key) != nil {
			t.fatal(at+"."+key, ruleReference, "`%s` needs the contents, and only the server resolves them; remove it",
				key)
		}
	}
}

// refuseReferences refuses references in places where the server would not resolve them.
func (t secretFiles) refuseReferences(n *yaml.Node, at string, allowed map[*yaml.Node]bool) {
	for i, c := range n.Content {
		if n.Kind == yaml.SequenceNode {
			t.refuseReferences(c, at+"."+strconv.Itoa(i), allowed)
			continue
		}
		if i%2 == 0 {
			continue
		}
		here := at + "." + n.Content[i-1].Value
		if n.Content[i-1].Value == "source" && c.Kind == yaml.ScalarNode && !allowed[c] && isReference(text(c)) {
			t.fatal(here, ruleReference, "%q: only `contents` of a file in storage.files can refer to a secret; "+
				"write a file, and let the unit or program read it", text(c))
			continue
		}
		t.refuseReferences(c, here, allowed)
	}
}

// checkEncrypted checks a local file that SOPS may have encrypted, which the document includes at a path.
func (t secretFiles) checkEncrypted(at, file string, contents []byte) {
	format, encrypted := document.Detect(file, contents)
	if !encrypted {
		return
	}
	place := takesSecret.FindStringSubmatch(at)
	if place == nil {
		t.fatal(at, ruleEncrypted, "SOPS encrypted %q, and only `contents: {local: …}` of a file in storage.files "+
			"may be encrypted; include it there", file)
		return
	}
	i, _ := strconv.Atoi(place[1])
	if t.files[i].template {
		t.fatal(at, ruleEncrypted, "SOPS encrypted %q, and an encrypted file is no template; remove `template: true`",
			file)
		return
	}
	if _, err := document.Parse(format, contents); err != nil {
		t.fatal(at, ruleEncrypted, "SOPS encrypted %q, but the server could not decrypt it: %v", file, err)
		return
	}
	t.files[i] = secretFile{format: format}
	t.refuseBeside(child(lookup(t.doc, "$.storage.files."+place[1]), "contents"), "$.storage.files."+place[1]+
		".contents")
}

// place gives the files of the output that the server resolves their data URLs.
func (t secretFiles) place(out *Output, steps map[string]string) {
	for to, from := range steps {
		output, input := contentsOf.FindStringSubmatch(to), contentsOf.FindStringSubmatch(from)
		if output == nil || input == nil || output[2] != "source" {
			continue
		}
		i, _ := strconv.Atoi(input[1])
		k, _ := strconv.Atoi(output[1])
		s, ok := t.files[i]
		if !ok || k >= len(out.Config.Ignition.Storage.Files) || input[2] == "source" {
			continue
		}
		f := &out.Config.Ignition.Storage.Files[k]
		body, err := machineconfig.Contents(f.Contents)
		if err != nil {
			t.fatal(from, ruleReference, "%v", err)
			continue
		}
		source := machineconfig.SOPSURL(string(s.format), body)
		if s.template {
			source = t.templateURL(from, string(body))
		}
		f.Contents.Source = &source
	}
}

// templateURL returns the data URL of a template, and refuses a text that is none.
func (t secretFiles) templateURL(at, body string) string {
	if !utf8.ValidString(body) {
		t.fatal(at, ruleReference, "the file is not text in UTF-8, and a template is; remove `template: true`")
		return ""
	}
	c, err := machineconfig.SecretTemplate(body)
	if err != nil {
		start, _ := t.in.Origin.Find(at)
		if strings.HasSuffix(at, ".local") {
			start = origin.Pos{File: textAt(t.doc, at), Line: 1}
		}
		for problem := range strings.SplitSeq(err.Error(), "\n") {
			here, message := start, problem
			if m := numbered.FindStringSubmatch(problem); m != nil {
				n, _ := strconv.Atoi(m[1])
				here, message = t.translator.blockLine(start, body, n), m[2]
			}
			t.findings = append(t.findings, origin.Errorf(here, ruleReference, "%s", message))
		}
		return ""
	}
	if len(c.References()) == 0 {
		t.warn(at, ruleReference, "the template has no ${secret:NAME/KEY}; remove `template: true`")
	}
	return machineconfig.TemplateURL(body)
}

// numbered matches a problem in a line of a template.
var numbered = regexp.MustCompile(`^line (\d+): (.*)$`)

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalar(n *yaml.Node, key string) string {
	if c := child(n, key); c != nil && c.Kind == yaml.ScalarNode && c.Tag != "!!null" {
		return c.Value
	}
	return ""
}

// text returns the string that a scalar decodes to.
func text(n *yaml.Node) string {
	var s string
	if n.Decode(&s) != nil {
		return n.Value
	}
	return s
}

// textAt returns the string at a path, or "" if there is no scalar.
func textAt(doc *yaml.Node, at string) string {
	if n := lookup(doc, at); n != nil && n.Kind == yaml.ScalarNode {
		return text(n)
	}
	return ""
}

// pathAtLine returns the path of the value in a line of the document. Butane's type errors name only the line.
func pathAtLine(n *yaml.Node, line int, at string) string {
	best := ""
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			here := at + "." + n.Content[i].Value
			if p := pathAtLine(n.Content[i+1], line, here); p != "" {
				return p
			}
			if n.Content[i].Line == line {
				best = here
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			if p := pathAtLine(c, line, fmt.Sprintf("%s.%d", at, i)); p != "" {
				return p
			}
		}
	case yaml.ScalarNode:
		if n.Line == line {
			best = at
		}
	}
	return best
}

// parse parses the document once. All later checks use the result. parse returns false, with a finding, if the document
// is invalid.
func (t *translator) parse() bool {
	var err error
	if t.doc, err = t.in.parse(); err != nil {
		t.fatal("$", "yaml", "not valid YAML: %v", err)
		return false
	}
	n := findUnsupported(t.doc)
	switch {
	case n == nil:
		return true
	case n.Kind == yaml.AliasNode:
		t.fatal(pathAtLine(t.doc, n.Line, "$"), "alias", "YAML alias *%s: aliases are not followed, as a few of them "+
			"can unfold into gigabytes; write the value out", n.Value)
	default:
		t.fatal(pathAtLine(t.doc, n.Line, "$"), "yaml", "an item of this list is empty; write it out, or remove "+
			"its dash")
	}
	return false
}

// parse parses the source as YAML.
func (in Input) parse() (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(in.Source, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("there is nothing in it")
	}
	return doc.Content[0], nil
}

// findUnsupported returns the first alias or null item of a list. The decoder replaces an alias and skips a null item,
// so the paths of the tree and of the decoded document would differ.
func findUnsupported(n *yaml.Node) *yaml.Node {
	for _, c := range n.Content {
		if c.Kind == yaml.AliasNode || n.Kind == yaml.SequenceNode && c.Kind == yaml.ScalarNode &&
			c.ShortTag() == "!!null" {
			return c
		}
		if found := findUnsupported(c); found != nil {
			return found
		}
	}
	return nil
}

var typeError = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)

// decode decodes the document into its dialect's type, and refuses unknown keys.
func (t *translator) decode() cutil.Config {
	cfg := t.dialect.config()
	err := t.doc.Decode(cfg)
	if err != nil {
		for _, line := range typeErrors(err) {
			m := typeError.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				t.fatal("$", "yaml", "%s", line)
				continue
			}
			n, _ := strconv.Atoi(m[1])
			here := pathAtLine(t.doc, n, "$")
			t.fatal(here, "yaml", "%s", t.dialect.mistyped(here, m[2]))
		}
		return nil
	}
	t.checkKeys(reflect.ValueOf(cfg), t.doc, "$")
	// The first finding is enough: a wrong indentation also makes another part of the document empty, which would be a
	// second finding.
	if origin.Fatal(t.findings) {
		t.findings = slices.DeleteFunc(t.findings, func(f origin.Finding) bool { return f.Warning })
	}
	return cfg
}

func typeErrors(err error) []string {
	if te, ok := err.(*yaml.TypeError); ok { //nolint:errorlint // the decoder returns this error unwrapped
		return te.Errors
	}
	return []string{err.Error()}
}
