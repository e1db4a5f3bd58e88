package schema

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/bunsen-os/bunsen/transpile/butane"
)

// descriptions are Butane's own descriptions of its fields, grouped by path and text. The test of this package writes
// the file from the documentation of the version in go.mod.
//
//go:embed butane.txt
var descriptions string

// description is the text of a field, and whether an item must have it.
type description struct {
	text     string
	required bool
}

// readDescriptions returns the descriptions by dialect and path. It reads the file once, when a schema first needs it.
var readDescriptions = sync.OnceValue(func() map[string]map[string]description {
	out := map[string]map[string]description{}
	path, dialects, required := "", []string(nil), false
	for line := range strings.Lines(descriptions) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			path, required = strings.CutSuffix(line, " (required)")
		case !strings.HasPrefix(line, "    "):
			dialects = strings.Fields(line)
		default:
			for _, d := range dialects {
				if out[d] == nil {
					out[d] = map[string]description{}
				}
				out[d][path] = description{strings.TrimSpace(line), required}
			}
		}
	}
	return out
})

// own are Bunsen's own words about fields of all dialects. They follow Butane's.
var own = map[string]string{
	"storage.files.template": "true marks a file whose text has references to secrets, such as " +
		"`${secret:NAME/KEY}`. Nodes replace them by the values, which no config has.",
	"storage.files.contents.source": "Bunsen: a remote file needs `verification.hash`, which `bunsen hash FILE` " +
		"writes.",
	"storage.files.contents.verification.hash": "Bunsen: for a remote file, `bunsen hash FILE` writes it.",
	"storage.disks":       newNodes,
	"storage.raid":        newNodes,
	"storage.luks":        newNodes,
	"storage.filesystems": newNodes,
}

const newNodes = "Bunsen: only new nodes get it; existing nodes keep what they have."

// dialectName is the name of a variant and a version in names of schemas: butane-fcos-1.6.0.
func dialectName(variant, version string) string { return butanePrefix + variant + "-" + version }

const butanePrefix = "butane-"

// Variants lists the variants of Butane.
func Variants() (out []string) {
	for _, d := range butane.Dialects() {
		if !slices.Contains(out, d.Variant) {
			out = append(out, d.Variant)
		}
	}
	return out
}

// Versions lists the versions of a variant, from the oldest on.
func Versions(variant string) (out []string) {
	for _, d := range butane.Dialects() {
		if d.Variant == variant {
			out = append(out, d.Version)
		}
	}
	return out
}

// ofDialect returns the schema of the documents of a dialect.
func ofDialect(d butane.Dialect) *Node {
	known := readDescriptions()[d.Variant+"-"+d.Version]
	r := reader{tag: "yaml", describe: func(path string) (string, bool) {
		found := known[path]
		if found.text == "" || found.text == "Unsupported" || path == "kernel_arguments.should_not_exist" {
			return "", false // The variant refuses a field that its documentation does not have.
		}
		return strings.TrimSpace(found.text + "\n\n" + own[path]), found.required
	}}
	out := r.of(d.Type, "", nil)
	if files := out.At([]string{"storage", "files", "-"}); files != nil {
		files.Properties["template"] = &Node{Type: Types{"boolean"}, Description: own["storage.files.template"]}
	}
	for key, value := range map[string]string{"variant": d.Variant, "version": d.Version} {
		was := out.Properties[key]
		if was == nil {
			was = text()
		}
		was.Const = value
		out.require(key, was)
	}
	slices.Sort(out.Required)
	return out
}

// anyDialect leads a document to the schema of its variant and version.
func anyDialect() *Node {
	out := &Node{
		Title: "A Butane document of any variant and version", Type: Types{"object"},
		Properties: map[string]*Node{"variant": text(), "version": text()}, Required: []string{"variant", "version"},
	}
	for _, v := range Variants() {
		out.Properties["variant"].Enum = append(out.Properties["variant"].Enum, v)
	}
	for _, d := range butane.Dialects() {
		out.AllOf = append(out.AllOf, &Node{
			If: &Node{
				Properties: map[string]*Node{"variant": {Const: d.Variant}, "version": {Const: d.Version}},
				Required:   []string{"variant", "version"},
			},
			Then: &Node{Ref: dialectName(d.Variant, d.Version) + ".json"},
		})
	}
	for _, v := range Variants() {
		known := &Node{}
		for _, version := range Versions(v) {
			known.Enum = append(known.Enum, version)
		}
		out.AllOf = append(out.AllOf, &Node{
			If:   &Node{Properties: map[string]*Node{"variant": {Const: v}}, Required: []string{"variant"}},
			Then: &Node{Properties: map[string]*Node{"version": known}},
		})
	}
	return out
}
