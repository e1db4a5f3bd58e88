package butane

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/sops/document"
	"github.com/bunsen-os/bunsen/transpile/origin"
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

// findSecrets finds the files whose contents the server resolves. It removes the notation that Butane does not know
// from the document: marks of templates, references in place of a source, and addresses in registries.
func (t *translator) findSecrets() secretFiles {
	out := secretFiles{t, map[int]secretFile{}}
	out.take()
	return out
}

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

// isReference reports whether a source is meant as a reference.
func isReference(text string) bool {
	return strings.HasPrefix(text, string(machineconfig.Secret)+":") ||
		strings.HasPrefix(text, string(machineconfig.ConfigMap)+
			":")
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
