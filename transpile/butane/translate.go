package butane

import (
	"cmp"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/butane/config/common"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/unit"
	cutil "github.com/coreos/butane/config/util"
	"github.com/coreos/butane/translate"
	"github.com/coreos/ignition/v2/config/shared/errors"

	ignvalidate "github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
	"github.com/coreos/vcontext/validate"
	"go.yaml.in/yaml/v3"
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
	t.secrets = t.findSecrets()
	locals := t.locals()
	var cfg cutil.Config
	t.withPlaceholders(func() { cfg = t.decode() })
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

// withPlaceholders calls a function while the document has short texts in place of its large files, so that Butane does
// not read these files.
func (t *translator) withPlaceholders(use func()) {
	for i := range t.large {
		contents := child(lookup(t.doc, "$.storage.files."+strconv.Itoa(i)), "contents")
		for k := 0; k+1 < len(contents.Content); k += 2 {
			if contents.Content[k].Value != "local" {
				continue
			}
			key, value := contents.Content[k], contents.Content[k+1]
			inline, text := *key, yaml.Node{
				Kind: yaml.ScalarNode, Tag: "!!str", Value: "large", Line: value.Line,
				Column: value.Column,
			}
			inline.Value = "inline"
			contents.Content[k], contents.Content[k+1] = &inline, &text
			defer func() { contents.Content[k], contents.Content[k+1] = key, value }()
		}
	}
	use()
}

// mergeFiles adds the files of locals to the list a and keeps one file for each path. mergeFiles removes the mark of
// executable files.
func mergeFiles(a []origin.File, locals []Local) []origin.File {
	out := slices.Clone(a)
	for _, l := range locals {
		for _, f := range l.Files {
			f.Blob = strings.TrimSuffix(f.Blob, "+x")
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(x, y origin.File) int { return cmp.Compare(x.Path, y.Path) })
	return slices.CompactFunc(out, func(x, y origin.File) bool { return x.Path == y.Path })
}

// findSecrets finds the files whose contents the server resolves. It removes the notation that Butane does not know
// from the document: marks of templates, references in place of a source, and addresses in registries.
func (t *translator) findSecrets() secretFiles {
	out := secretFiles{t, map[int]secretFile{}}
	out.take()
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
			at = t.blockLine(at, value, line)
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

// checkKernelArguments refuses arguments that the daemon cannot set on a node, and arguments with an open quotation
// mark.
func (t *translator) checkKernelArguments() {
	if n := child(child(t.doc, "kernel_arguments"), "should_not_exist"); n != nil && len(n.Content) > 0 &&
		t.dialect.variant != "openshift" {
		t.fatal("$.kernel_arguments.should_not_exist", "kernel-arguments", "should_not_exist is not supported: a "+
			"node can remove only the kernel arguments that it added, not those of its image. Build an image "+
			"without them")
	}
	for _, list := range []string{"$.kernel_arguments.should_exist", "$.openshift.kernel_arguments"} {
		n := lookup(t.doc, list)
		if n == nil {
			continue
		}
		for i, c := range n.Content {
			if arg := text(c); strings.Count(arg, `"`)%2 != 0 {
				t.fatal(list+"."+strconv.Itoa(i), "kernel-arguments", "%s: the closing double quote is missing, so "+
					"the kernel would read all later arguments as part of this one; add it", arg)
			}
		}
	}
}

// checkKeys refuses every key of the document that its dialect does not have, because the effect of a typo would be
// missing on the node. checkKeys walks only the parts of the document that the decoder decoded.
func (t *translator) checkKeys(v reflect.Value, n *yaml.Node, at string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			t.checkKeys(v.Elem(), n, at)
		}
	case reflect.Slice:
		if n.Kind == yaml.SequenceNode && v.Type().Elem().Kind() == reflect.Struct {
			for i := range min(v.Len(), len(n.Content)) {
				t.checkKeys(v.Index(i), n.Content[i], at+"."+strconv.Itoa(i))
			}
		}
	case reflect.Struct:
		t.checkKeysOf(v, n, at)
	}
}

func (t *translator) checkKeysOf(v reflect.Value, n *yaml.Node, at string) {
	if n.Kind != yaml.MappingNode {
		t.warn(at, "butane", "%s is empty: indent what belongs to it below it, or remove it",
			at[strings.LastIndexByte(at, '.')+1:])
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		f, ok := fieldOf(v.Type(), key)
		if !ok && key == templateKey {
			t.fatal(at+"."+key, ruleReference, "only files in storage.files can be templates; write the secret into "+
				"a file, and let the unit or program read it")
			continue
		}
		if !ok {
			t.fatal(at+"."+key, "unknown-key", "%s %s knows no key %q here%s", t.dialect.variant, t.dialect.version,
				key, t.dialect.suggest(at, key, v.Type()))
			continue
		}
		switch value := v.FieldByIndex(f.Index); {
		case elem(f.Type, true).Kind() == reflect.Int && n.Content[i+1].ShortTag() == "!!float": // The decoder cuts it.
			t.fatal(at+"."+key, "yaml", "%s", noWholeNumber(key, n.Content[i+1].Value))
		case elem(f.Type, true).Kind() == reflect.Struct:
			t.checkKeys(value, n.Content[i+1], at+"."+key)
		case key == "local", key == "contents_local", key == "ssh_authorized_keys_local":
			if p := unchecked(value, t.checked); p != "" && !origin.Fatal(t.findings) {
				t.fatal(at+"."+key, "refused-local", "%q has an unusual notation; write it as a simple string", p)
			}
		}
	}
}

// unchecked returns a reference in a decoded document that the method locals did not check, or "". If the key has an
// unusual spelling, locals does not find the reference, but Butane would read the file.
func unchecked(v reflect.Value, checked map[string]bool) string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unchecked(v.Elem(), checked)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if p := unchecked(v.Index(i), checked); p != "" {
				return p
			}
		}
	case reflect.String:
		if p := v.String(); !checked[p] {
			return p
		}
	}
	return ""
}

// noWholeNumber says why YAML reads a number with a fraction.
func noWholeNumber(key, value string) string {
	switch {
	case strings.HasSuffix(key, "mode") && strings.Trim(value, "0123456789") == "":
		return key + " is an octal number, which has no digits 8 and 9: write it like 0644"
	case strings.HasSuffix(key, "mode"):
		return key + " is a whole number, and this has a fraction or an exponent: write it like 0644"
	default:
		return key + " is a whole number, and this has a fraction or an exponent"
	}
}

func (t *translator) warn(docPath, rule, format string, args ...any) {
	at, _ := t.in.Origin.Find(docPath)
	t.findings = append(t.findings, origin.Warningf(at, rule, format, args...))
}
