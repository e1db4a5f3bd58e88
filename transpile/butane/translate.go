package butane

import (
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/coreos/butane/config/common"
	cutil "github.com/coreos/butane/config/util"
	"github.com/coreos/butane/translate"
	"github.com/coreos/ignition/v2/config/shared/errors"
	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/unit"
)

// Input is one document and what it may refer to.
type Input struct {
	// Source is the document as YAML: one document, no aliases.
	Source []byte
	// Parsed is Source as it was parsed, with other lines; nil where nobody has. It is not changed.
	Parsed *yaml.Node
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
	// Config is what the document says. Kernel arguments stand beside the Ignition, where a running node takes them; those of Flatcar,
	// which only a first boot can set, stand in it.
	Config machineconfig.Config
	// Name and Role are what an `openshift` document says of itself; empty for other variants.
	Name, Role string
	// Origin maps paths of the output to places in the repository. Its Files are the input's and the local files.
	Origin origin.Map
	// Locals are what the document takes in, in the order in which it says so.
	Locals []Local
}

// Translate translates a document. The output is the zero value where a finding is fatal. It is a pure function of the
// input and of the contents of its local files.
func Translate(in Input) (out Output, findings []origin.Finding) {
	t := &translator{in: in, lines: map[string][]string{}}
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
	checked  map[string]bool     // files and directories that Butane may read
	contents map[string]string   // of those that are files
	lines    map[string][]string // of files that findings were placed in
	plain    plain
	findings []origin.Finding
}

func (t *translator) fatal(docPath, rule, format string, args ...any) {
	at, _ := t.in.Origin.Find(docPath)
	t.findings = append(t.findings, origin.Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: at})
}

func (t *translator) run() Output {
	if !t.parse() || !t.choose() {
		return Output{}
	}
	locals := t.locals()
	cfg := t.decode()
	if cfg == nil || origin.Fatal(t.findings) {
		return Output{}
	}
	t.kargs()
	final, steps := t.translate(cfg)
	if origin.Fatal(t.findings) {
		return Output{}
	}
	out := t.output(final, steps)
	out.Origin.Files, out.Locals = mergeFiles(t.in.Origin.Files, locals), locals
	return out
}

// translate does what Butane's own function of that name does around a dialect's method, and keeps what that one drops:
// which part comes from where. It goes as far as the first fatal report, as Butane does.
func (t *translator) translate(cfg cutil.Config) (final reflect.Value, set translate.TranslationSet) {
	if t.report(verdict(cfg, yamlTag)) {
		return
	}
	options := common.TranslateOptions{FilesDir: t.in.Root, NoResourceAutoCompression: true}
	t.plain = takePlain(reflect.ValueOf(cfg).Elem(), t.contents)
	ret := reflect.ValueOf(cfg).MethodByName(t.dialect.method).Call([]reflect.Value{reflect.ValueOf(options)})
	final, set = t.plain.join(ret[0]), ret[1].Interface().(translate.TranslationSet)
	if t.report(cutil.TranslateReportPaths(ret[2].Interface().(report.Report), set)) {
		return
	}
	if filters := cfg.FieldFilters(); filters != nil {
		if t.report(cutil.TranslateReportPaths(filters.Verify(final.Interface()), set)) {
			return
		}
	}
	t.report(cutil.TranslateReportPaths(verdict(final.Interface(), jsonTag), set))
	return
}

// saidElsewhere are messages about what this program has its own words for: it looks into configs that a document merges, and rejects
// modes beyond permissions in all documents.
var saidElsewhere = []string{common.ErrUnkownIgnitionVersion.Error(), errors.ErrModeSpecialBits.Error()}

// report takes over what Butane has to say, and tells whether any of it is fatal.
func (t *translator) report(rep report.Report) bool {
	for _, e := range rep.Entries {
		if e.Kind == report.Info || slices.Contains(saidElsewhere, e.Message) {
			continue
		}
		here := documentPath(e.Context)
		at, _ := t.in.Origin.Find(here)
		value := textAt(t.doc, here)
		if line := unit.BrokenLine(value); line > 0 && strings.HasPrefix(e.Message, "invalid unit content") {
			at = blockLine(t.in.FS, t.lines, at, value, line)
		}
		t.findings = append(t.findings, origin.Finding{Rule: "butane", Message: message.Translate(e.Message, value), At: at, Warning: e.Kind != report.Error})
	}
	return rep.IsFatal()
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
