package butane

import (
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/coreos/butane/config/common"
	cutil "github.com/coreos/butane/config/util"
	"github.com/coreos/butane/translate"
	"github.com/coreos/ignition/v2/config/shared/errors"
	ignvalidate "github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
	"github.com/coreos/vcontext/validate"
	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/unit"
)

// Input is one document and the files that it may include.
type Input struct {
	// Source is the document as YAML: one document, no aliases.
	Source []byte
	// Origin maps paths in the document to places in the repository.
	Origin origin.Map
	// Root is the directory on disk in which `local:` finds files. Root contains only regular files and directories,
	// and the entries that Refused lists.
	Root string
	// FS is the same directory as a file system, without the entries that Refused lists.
	FS fs.FS
	// Refused maps paths that were left out of the tree to the reason: "symbolic link", "submodule".
	Refused map[string]string
}

// Output is one translated document.
type Output struct {
	// Config is the config that the document describes. Kernel arguments are in the spec, where the daemon reads them.
	// For Flatcar, kernel arguments are in the Ignition config, because only a first boot can set them there.
	Config machineconfig.Config
	// Variant is the document's variant, which names its operating system.
	Variant string
	// Name and Role are the name and the role of an `openshift` document; empty for other variants.
	Name, Role string
	// Origin maps paths of the output to places in the repository. Origin.Files lists the files of the input and the
	// local files.
	Origin origin.Map
	// Contents are the local files that are too large for a config. Config names them in the content store.
	Contents []machineconfig.LargeFile
	// Locals are the files and directories that the document includes, in the order of the document.
	Locals []Local
}

// Translate translates a document. If a finding is fatal, the output is the zero value. The output depends only on the
// input and the contents of the local files.
func Translate(in Input) (out Output, findings []origin.Finding) {
	t := &translator{in: in, lines: map[string][]string{}}
	defer func() { // A panic in Butane fails the translation of one commit, but does not end the process.
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
	secrets  secretFiles
	large    largeFiles
	checked  map[string]bool     // checked has the files and directories that Butane may read.
	lines    map[string][]string // the lines of the files that contain findings
	findings []origin.Finding
}

func (t *translator) fatal(docPath, rule, format string, args ...any) {
	at, _ := t.in.Origin.Find(docPath)
	t.findings = append(t.findings, origin.Errorf(at, rule, format, args...))
}

func (t *translator) run() Output {
	if !t.parse() || !t.choose() {
		return Output{}
	}
	t.secrets = findSecrets(t)
	locals := t.locals()
	var cfg cutil.Config
	withPlaceholders(t, func() { cfg = t.decode() })
	if cfg == nil || origin.Fatal(t.findings) {
		return Output{}
	}
	t.checkKernelArguments()
	final, steps := t.translate(cfg)
	if origin.Fatal(t.findings) {
		return Output{}
	}
	out := t.output(final, steps)
	out.Origin.Files, out.Locals = mergeFiles(t.in.Origin.Files, locals), locals
	return out
}

// translate does the same as Butane's method of the dialect, but also returns the translation set, which Butane drops.
// Like Butane, translate stops at the first fatal report.
func (t *translator) translate(cfg cutil.Config) (final reflect.Value, set translate.TranslationSet) {
	if t.report(validate.Validate(cfg, "yaml")) {
		return
	}
	options := common.TranslateOptions{FilesDir: t.in.Root, NoResourceAutoCompression: true}
	ret := reflect.ValueOf(cfg).MethodByName(t.dialect.method).Call([]reflect.Value{reflect.ValueOf(options)})
	final, set = ret[0], ret[1].Interface().(translate.TranslationSet)
	if t.report(cutil.TranslateReportPaths(ret[2].Interface().(report.Report), set)) {
		return
	}
	if filters := cfg.FieldFilters(); filters != nil {
		if t.report(cutil.TranslateReportPaths(filters.Verify(final.Interface()), set)) {
			return
		}
	}
	t.report(cutil.TranslateReportPaths(ignvalidate.ValidateWithContext(final.Interface(), nil), set))
	return
}

// ownMessages are the messages of Butane that Bunsen drops, because Bunsen reports these problems itself. Bunsen checks
// the configs that a document merges, and refuses special mode bits in all documents.
var ownMessages = []string{common.ErrUnkownIgnitionVersion.Error(), errors.ErrModeSpecialBits.Error()}

// report adds the entries of Butane's report, and reports whether any of them is fatal.
func (t *translator) report(rep report.Report) bool {
	for _, e := range rep.Entries {
		if e.Kind == report.Info || slices.Contains(ownMessages, e.Message) {
			continue
		}
		here := documentPath(e.Context)
		at, _ := t.in.Origin.Find(here)
		value := textAt(t.doc, here)
		if line := unit.BrokenLine(value); line > 0 && strings.HasPrefix(e.Message, "invalid unit content") {
			at = blockLine(t, at, value, line)
		}
		t.findings = append(t.findings, origin.Finding{
			Rule: "butane", Message: message.Translate(e.Message, value),
			At: at, Warning: e.Kind != report.Error,
		})
	}
	return rep.IsFatal()
}

// documentPath returns the path in the document that an entry of Butane's report is about. If Butane could not
// translate the path back, the result is a path in the MachineConfig.
func documentPath(c path.ContextPath) string {
	p := c.String()
	if rest, ok := strings.CutPrefix(p, "$.spec.config"); ok {
		p = "$" + rest
	}
	return p
}
