package butane

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/butane/config/common"
	cutil "github.com/coreos/butane/config/util"
	"github.com/coreos/butane/translate"
	ignerrors "github.com/coreos/ignition/v2/config/shared/errors"
	ignvalidate "github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
	"github.com/coreos/vcontext/validate"
	"go.yaml.in/yaml/v3"

	ign "github.com/bunsen-os/bunsen/api/ignition"
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
	// Extract puts a file of FS into Root; nil if Root has all files.
	Extract func(name string) error
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
	}
	mistyped := slices.Clone(t.findings)
	// Also after an error, because the decoder has decoded what is of the right type.
	t.checkKeys(reflect.ValueOf(cfg), t.doc, "$")
	further := slices.DeleteFunc(t.findings[len(mistyped):], func(f origin.Finding) bool {
		return slices.ContainsFunc(mistyped, func(is origin.Finding) bool { return is.At == f.At })
	})
	t.findings = append(mistyped, further...)
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

var typeError = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)

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
var ownMessages = []string{common.ErrUnkownIgnitionVersion.Error(), ignerrors.ErrModeSpecialBits.Error()}

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

// output converts Butane's result, of any Ignition version, to a config of 3.5.0.
func (t *translator) output(final reflect.Value, set translate.TranslationSet) Output {
	out := Output{Config: machineconfig.Config{HasIgnition: true}, Variant: t.dialect.variant}
	steps := make(map[string]string, len(set.Set))
	if t.dialect.variant == "openshift" {
		var mc machineConfig
		convert(reflect.ValueOf(&mc.Metadata).Elem(), final.FieldByName("Metadata"))
		convert(reflect.ValueOf(&mc.Spec).Elem(), final.FieldByName("Spec"))
		out.Name, out.Role = mc.Metadata.Name, mc.Metadata.Labels[roleLabel]
		out.Config.Ignition, out.Config.KernelArguments = mc.Spec.Config, mc.Spec.KernelArguments
		out.Config.Extensions, out.Config.FIPS, out.Config.KernelType = mc.Spec.Extensions, mc.Spec.FIPS,
			mc.Spec.KernelType
		for to, step := range set.Set {
			if rest, ok := strings.CutPrefix(to, "$.spec.config"); ok {
				steps["$"+rest] = step.From.String()
			} else if rest, ok := strings.CutPrefix(to, "$.spec."); ok {
				steps["spec."+rest] = step.From.String()
			}
		}
	} else {
		convert(reflect.ValueOf(&out.Config.Ignition).Elem(), final)
		for to, step := range set.Set {
			steps[to] = step.From.String()
		}
	}
	out.Config.Ignition.Ignition.Version = machineconfig.Version
	t.withoutPlaceholders(&out, steps)
	t.setOrigins(&out, steps)
	t.secrets.place(&out, steps)
	t.checkVersion36(out)
	if t.dialect.variant != "flatcar" { // only the first boot of Flatcar can set kernel arguments
		out.liftKernelArguments()
	}
	return out
}

// machineConfig has the fields that every `openshift` variant of Butane produces.
type machineConfig struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Config          ign.Config
		KernelArguments []string
		Extensions      []string
		FIPS            bool
		KernelType      string
	}
}

const roleLabel = "machineconfiguration.openshift.io/role"

// convert copies a value into the matching type of another Ignition version. convert matches fields by name, converts
// between a value and a pointer to it, and turns an empty list into nil. The versions of Ignition's types differ in
// nothing else. (Ignition translates 3.4 to 3.5 itself, but drops the advertisement of a Tang server.) convert panics
// if a field is set that the other version lacks.
func convert(to, from reflect.Value) {
	switch {
	case from.Kind() == reflect.Pointer:
		if !from.IsNil() {
			convert(to, from.Elem())
		}
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		convert(to.Elem(), from)
	case from.Kind() == reflect.Slice:
		if from.Len() == 0 {
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			convert(to.Index(i), from.Index(i))
		}
	case from.Kind() == reflect.Struct:
		convertFields(to, from)
	default:
		to.Set(from.Convert(to.Type()))
	}
}

func convertFields(to, from reflect.Value) {
	same := to.Type() == from.Type()
	for i := range from.NumField() {
		f := from.Field(i)
		switch {
		case same:
			convert(to.Field(i), f)
		case f.Kind() == reflect.Pointer && f.IsNil():
		default:
			name := from.Type().Field(i).Name
			t := to.FieldByName(name)
			if !t.IsValid() {
				if f.IsZero() {
					continue
				}
				panic(fmt.Sprintf("%s has no %s", to.Type(), name))
			}
			convert(t, f)
		}
	}
}

// withoutPlaceholders replaces the paths of placeholders in the steps of a translation by those of the large files, and
// puts the names in the content store into the output.
func (t *translator) withoutPlaceholders(out *Output, steps map[string]string) {
	for _, to := range slices.Sorted(maps.Keys(steps)) {
		from := steps[to]
		input, output := contentsOf.FindStringSubmatch(from), contentsOf.FindStringSubmatch(to)
		if input == nil || input[2] != "inline" {
			continue
		}
		i, _ := strconv.Atoi(input[1])
		large, ok := t.large[i]
		if !ok {
			continue
		}
		steps[to] = strings.TrimSuffix(from, "inline") + "local"
		if output == nil {
			continue
		}
		k, _ := strconv.Atoi(output[1])
		if k >= len(out.Config.Ignition.Storage.Files) {
			continue
		}
		f := &out.Config.Ignition.Storage.Files[k]
		f.Contents = machineconfig.ContentResource(large.Hash)
		large.Path, large.FS = f.Path, t.in.FS
		out.Contents = append(out.Contents, large.LargeFile)
	}
}

// checkVersion36 refuses values that Ignition 3.6 accepts and Ignition 3.5 does not. The two versions have the same
// fields. (Another check refuses special mode bits in every version.)
func (t *translator) checkVersion36(out Output) {
	if t.dialect.method != "ToIgn3_6Unvalidated" {
		return
	}
	for _, e := range ignvalidate.ValidateWithContext(out.Config.Ignition, nil).Entries {
		if e.Kind == report.Error {
			at, _ := out.Origin.Find(e.Context.String())
			t.findings = append(t.findings, origin.Errorf(at, "ignition-version",
				"%s: Ignition 3.6 accepts it, but nodes here use 3.5; write the document as fcos 1.6.0 without it",
				e.Message))
		}
	}
}

// liftKernelArguments moves the kernel arguments under shouldExist from the Ignition config into the spec. Ignition
// reads kernel arguments only at the first boot; the daemon applies the arguments of the spec at every update.
func (out *Output) liftKernelArguments() {
	args := &out.Config.Ignition.KernelArguments
	n := len(out.Config.KernelArguments)
	for i, a := range args.ShouldExist {
		from := fmt.Sprintf("$.kernelArguments.shouldExist.%d", i)
		if p, ok := out.Origin.Find(from); ok {
			out.Origin.At[fmt.Sprintf("spec.kernelArguments.%d", n+i)] = p
		}
		out.Config.KernelArguments = append(out.Config.KernelArguments, string(a))
	}
	for to := range out.Origin.At {
		if strings.HasPrefix(to, "$.kernelArguments") {
			delete(out.Origin.At, to)
		}
	}
	args.ShouldExist, args.ShouldNotExist = nil, nil
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

func (t *translator) warn(docPath, rule, format string, args ...any) {
	at, _ := t.in.Origin.Find(docPath)
	t.findings = append(t.findings, origin.Warningf(at, rule, format, args...))
}
