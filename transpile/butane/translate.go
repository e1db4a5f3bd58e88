package butane

import (
	"bytes"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/coreos/butane/config/common"
	cutil "github.com/coreos/butane/config/util"
	"github.com/coreos/butane/translate"
	ignvalidate "github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
	"github.com/coreos/vcontext/validate"
	vyaml "github.com/coreos/vcontext/yaml"
	"gopkg.in/yaml.v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Input is one document and what it may refer to.
type Input struct {
	// Source is the document as YAML: one document, no aliases.
	Source []byte
	// Origin maps paths in the document to places in the repository.
	Origin origin.Map
	// Root is the directory on disk below which `local:` names files. It holds nothing but regular files and
	// directories, except what Refused names.
	Root string
	// FS is the same directory as a file system, without what Refused names.
	FS fs.FS
	// Refused maps paths that were left out of the tree to the reason: "symbolic link", "submodule".
	Refused map[string]string
}

// Output is one translated document.
type Output struct {
	// Config is what the document says. Kernel arguments stand beside the Ignition, where a running node takes them.
	Config machineconfig.Config
	// Name and Role are what an `openshift` document says of itself; empty for other variants.
	Name, Role string
	// Origin maps paths of the output to places in the repository. Its Files are the input's and the local files.
	Origin origin.Map
}

// Translate translates a document. The output is the zero value where a finding is fatal. It is a pure function of the
// input and of the contents of its local files.
func Translate(in Input) (out Output, findings []origin.Finding) {
	t := &translator{in: in}
	defer func() { // a document that Butane did not foresee costs one commit, not the process
		if r := recover(); r != nil {
			t.fatal("$", "butane", "Butane panicked: %v", r)
			out, findings = Output{}, t.findings
		}
	}()
	out = t.run()
	if origin.Fatal(t.findings) {
		return Output{}, t.findings
	}
	return out, t.findings
}

type translator struct {
	in       Input
	doc      *yaml.Node
	dialect  dialect
	findings []origin.Finding
}

func (t *translator) fatal(docPath, rule, format string, args ...any) {
	at, _ := t.in.Origin.Find(docPath)
	t.findings = append(t.findings, origin.Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: at})
}

func (t *translator) run() Output {
	var doc yaml.Node
	if err := yaml.Unmarshal(t.in.Source, &doc); err != nil || len(doc.Content) == 0 {
		t.fatal("$", "yaml", "not valid YAML: %v", err)
		return Output{}
	}
	t.doc = doc.Content[0]
	if !t.choose() {
		return Output{}
	}
	files := t.locals()
	cfg := t.decode()
	if cfg == nil || origin.Fatal(t.findings) {
		return Output{}
	}
	t.shoulds()
	_, rep, err := cutil.Translate(cfg, t.dialect.method, t.options())
	t.report(rep)
	if err != nil && !rep.IsFatal() {
		t.fatal("$", "butane", "%v", err)
	}
	if origin.Fatal(t.findings) {
		return Output{}
	}
	final, steps := t.trace(cfg)
	out := t.output(final, steps)
	out.Origin.Files = mergeFiles(t.in.Origin.Files, files)
	return out
}

func (t *translator) options() common.TranslateOptions {
	return common.TranslateOptions{FilesDir: t.in.Root, NoResourceAutoCompression: true}
}

// choose finds the document's dialect.
func (t *translator) choose() bool {
	variant, version := scalar(t.doc, "variant"), scalar(t.doc, "version")
	var ok bool
	switch t.dialect, ok = find(variant, version); {
	case ok:
		return true
	case variant == "":
		t.fatal("$", "variant", "the document has no variant: begin it with `variant: fcos` and `version: 1.6.0`; %s", versions(""))
	case version == "":
		t.fatal("$.variant", "variant", "the document has no version; %s", versions(variant))
	case strings.HasPrefix(versions(variant), "versions"):
		t.fatal("$.version", "variant", "version %s of %s is not supported; %s", version, variant, versions(variant))
	default:
		t.fatal("$.variant", "variant", "variant %s is not supported; %s", variant, versions(variant))
	}
	return false
}

var typeError = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)

// decode reads the document into its dialect's type, and refuses keys that the dialect does not know.
func (t *translator) decode() cutil.Config {
	cfg := t.dialect.config()
	if err := yaml.NewDecoder(bytes.NewReader(t.in.Source)).Decode(cfg); err != nil {
		for _, line := range typeErrors(err) {
			m := typeError.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				t.fatal("$", "yaml", "%s", line)
				continue
			}
			n, _ := strconv.Atoi(m[1])
			t.fatal(pathAtLine(t.doc, n, "$"), "yaml", "%s", m[2])
		}
		return nil
	}
	tree, err := vyaml.UnmarshalToContext(t.in.Source)
	if err != nil {
		t.fatal("$", "yaml", "%v", err)
		return nil
	}
	t.report(validate.ValidateCustom(cfg, "yaml", func(v reflect.Value, c path.ContextPath) report.Report {
		return ignvalidate.ValidateUnusedKeys(v, c, tree)
	}))
	return cfg
}

func typeErrors(err error) []string {
	if te, ok := err.(*yaml.TypeError); ok { //nolint:errorlint // the decoder returns it bare
		return te.Errors
	}
	return []string{err.Error()}
}

// report takes over what Butane has to say. An unknown key is a typo whose effect would be missing on the node, so it
// is fatal here.
func (t *translator) report(rep report.Report) {
	for _, e := range rep.Entries {
		at, _ := t.in.Origin.Find(documentPath(e.Context))
		f := origin.Finding{Rule: "butane", Message: e.Message, At: at, Warning: e.Kind != report.Error}
		if key, unused := strings.CutPrefix(e.Message, "unused key "); unused {
			f.Warning, f.Rule = false, "unknown-key"
			f.Message = fmt.Sprintf("%s %s knows no key %q here%s", t.dialect.variant, t.dialect.version, key, t.meant(key))
		}
		if f.Warning && e.Kind == report.Info {
			continue
		}
		t.findings = append(t.findings, f)
	}
}

// documentPath is where in the document a report's entry stands. What Butane could not translate back is a path in the
// MachineConfig.
func documentPath(c path.ContextPath) string {
	p := c.String()
	if rest, ok := strings.CutPrefix(p, "$.spec.config"); ok {
		p = "$" + rest
	}
	return p
}

// shoulds refuses what no running node can do: take kernel arguments away that it did not add.
func (t *translator) shoulds() {
	if t.dialect.variant == "openshift" {
		return
	}
	if n := child(child(t.doc, "kernel_arguments"), "should_not_exist"); n != nil && len(n.Content) > 0 {
		t.fatal("$.kernel_arguments.should_not_exist", "kernel-arguments", "should_not_exist is not supported: a node can add kernel arguments and remove those it added, but not those of its image; build an image without them")
	}
}

// trace translates once more for what Butane's own function drops: which part comes from where.
func (t *translator) trace(cfg cutil.Config) (any, map[string]string) {
	ret := reflect.ValueOf(cfg).MethodByName(t.dialect.method).Call([]reflect.Value{reflect.ValueOf(t.options())})
	steps := map[string]string{}
	set, ok := ret[1].Interface().(translate.TranslationSet)
	if !ok {
		t.fatal("$", "butane", "Butane's %s %s tells no origins", t.dialect.variant, t.dialect.version)
		return nil, nil
	}
	for to, tr := range set.Set {
		steps[to] = tr.From.String()
	}
	return ret[0].Interface(), steps
}
