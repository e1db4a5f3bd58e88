package overlay

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// kustomizations are the possible names of a kustomization file. A directory may have only one of these files.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// allowed are the fields of a kustomization that Bunsen accepts. Fields that are not allowed run programs, fetch from
// the network, generate contents, or change how other builds merge.
var allowed = []string{
	"apiVersion", "kind", "metadata", "resources", "components", "patches", "namePrefix", "nameSuffix",
	"labels", "commonLabels", "commonAnnotations", "buildMetadata", "replacements", "sortOptions",
}

// refused maps each known field that is not allowed to the reason.
var refused = map[string]string{
	"openapi":                     "it would change how every list merges; Butane's lists merge by path and name already",
	"generators":                  "generators run programs",
	"transformers":                "transformers run programs",
	"validators":                  "validators run programs",
	"helmCharts":                  "charts are fetched and run by helm",
	"helmChartInflationGenerator": "charts are fetched and run by helm",
	"helmGlobals":                 "charts are fetched and run by helm",
	"configMapGenerator":          "nothing but Butane documents and MachineConfigs reaches a node; take a file into a document with `contents: {local: FILE}`",
	"secretGenerator":             "nothing but Butane documents and MachineConfigs reaches a node",
	"generatorOptions":            "there are no generators",
	"crds":                        "it would change how lists merge",
	"configurations":              "it would change the fields that get names and labels",
	"namespace":                   "nothing here has a namespace",
	"images":                      "no document has containers; write the image into the document, or use replacements",
	"imageTags":                   "no document has containers; write the image into the document, or use replacements",
	"replicas":                    "no document has replicas",
	"bases":                       "list the directories under resources",
	"patchesStrategicMerge":       "write patches: [{path: …}]",
	"patchesJson6902":             "write patches: [{target: …, patch: …}]",
	"vars":                        "use replacements",
}

// shapes maps each field to the kind of YAML node that it must have.
var shapes = map[string]yaml.Kind{
	"resources": yaml.SequenceNode, "components": yaml.SequenceNode, "patches": yaml.SequenceNode,
	"replacements": yaml.SequenceNode, "labels": yaml.SequenceNode,
	"commonLabels": yaml.MappingNode, "commonAnnotations": yaml.MappingNode, "metadata": yaml.MappingNode,
	"namePrefix": yaml.ScalarNode, "nameSuffix": yaml.ScalarNode, "apiVersion": yaml.ScalarNode,
	"kind": yaml.ScalarNode,
}

var shapeNames = map[yaml.Kind]string{
	yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping",
	yaml.ScalarNode: "one word",
}

// checkField checks one field of a kustomization and reports whether Bunsen uses the field.
func (r *layerReader) checkField(k, v *yaml.Node) bool {
	t := r.text
	if want, known := shapes[k.Value]; known {
		isEmpty := v.Tag == "!!null" && want != yaml.ScalarNode
		if v.Kind != want && !isEmpty {
			r.Add(origin.Errorf(t.Pos(v), "kustomization", "%s is %s", k.Value, shapeNames[want]))
		}
		return v.Kind == want
	}
	switch k.Value {
	case "sortOptions":
		if order := documents.Scalar(v, "order"); order != "fifo" && order != "legacy" {
			r.Add(origin.Errorf(t.Pos(v), "kustomization", "the order of sortOptions is fifo or legacy; it changes "+
				"nothing here, for documents merge in order of their names: remove it"))
			break
		}
		r.Add(origin.Warningf(t.Pos(k), "ignored-field", "sortOptions changes nothing: documents merge in order of "+
			"their names"))
	case "buildMetadata": // buildMetadata is accepted and ignored, because the build always records origins.
	default:
		r.Add(origin.Errorf(t.Pos(k), "kustomization-field", "the field %s is not supported here: %s", k.Value,
			unsupportedField(k.Value)))
	}
	return false
}

// unsupportedField returns why a field is not supported, or which field the user may have meant.
func unsupportedField(name string) string {
	why, known := refused[name]
	meant := message.Closest(name, allowed[3:])
	switch {
	case known:
		return why
	case meant != "":
		return fmt.Sprintf("did you mean %q?", meant)
	default:
		return "known are " + strings.Join(allowed[3:], ", ")
	}
}

// checkKind checks the fields apiVersion and kind of a kustomization. checkKind reports whether the kustomization is a
// component.
func (r *layerReader) checkKind(root *yaml.Node) bool {
	kind, want := documents.Scalar(root, "kind"), "kustomize.config.k8s.io/v1beta1"
	switch kind {
	case "Component":
		want = "kustomize.config.k8s.io/v1alpha1"
	case "Kustomization", "":
	default:
		_, v := documents.Field(root, "kind")
		r.Add(origin.Errorf(r.text.Pos(v), "kustomization", "the kind of a kustomization is Kustomization or "+
			"Component, not %q", kind))
		return false
	}
	if v := documents.Scalar(root, "apiVersion"); v != "" && v != want {
		_, n := documents.Field(root, "apiVersion")
		r.Add(origin.Errorf(r.text.Pos(n), "kustomization", "the apiVersion of a %s is %s, not %q",
			cmp.Or(kind, "Kustomization"), want, v))
	}
	return kind == "Component"
}

// remote matches hosts that have a special meaning in kustomize, and parts of paths that kustomize reads as the end of
// a URL.
var remote = regexp.MustCompile(`(?i)^(\./)*(github|gitlab|bitbucket)\.(com|org)|\.git(/|$)|_git(/|$)`)

// local returns the path of a file relative to the repository's root. local refuses paths that are absolute, leave the
// repository or look like a URL, because kustomize would fetch a URL even if a directory of that name exists.
func (r *layerReader) local(t documents.YAMLText, e *yaml.Node) (string, bool) {
	p := e.Value
	full := path.Join(r.dir, p)
	switch {
	case e.Kind != yaml.ScalarNode || p == "" || e.Tag == "!!null":
		r.Add(origin.Errorf(t.Pos(e), "kustomization", "a path is expected here"))
	case strings.ContainsAny(p, "?@*:\\\x00\n") || strings.Contains(p, "//") || remote.MatchString(p):
		r.Add(origin.Errorf(t.Pos(e), "remote-base", "%q looks like a remote repository or URL, and a commit must "+
			"contain everything that it uses. Copy it into this repository, and write a relative path", p))
	case path.IsAbs(p):
		r.Add(origin.Errorf(t.Pos(e), "path", "%q is absolute; name it relative to this directory", p))
	case full == ".." || strings.HasPrefix(full, "../"):
		r.Add(origin.Errorf(t.Pos(e), "path", "%q leaves the repository; copy it in and name it by a relative path", p))
	default:
		return full, true
	}
	return "", false
}

// references reads the entries of resources or components.
func (r *layerReader) references(n *yaml.Node) []documents.Reference {
	var out []documents.Reference
	seen := map[string]int{}
	for _, e := range n.Content {
		full, ok := r.local(r.text, e)
		if !ok {
			continue
		}
		if line, twice := seen[full]; twice {
			r.Add(origin.Errorf(r.text.Pos(e), "duplicate-name", "%q is listed twice, first in line %d; keep one",
				e.Value, line))
			continue
		}
		seen[full] = e.Line
		out = append(out, documents.Reference{Path: full, Written: e.Value, At: r.text.Pos(e)})
	}
	return out
}

// WarnUnlisted looks in directories with a kustomization. WarnUnlisted warns of each document in the directory that no
// kustomization lists.
func (b *Reader) WarnUnlisted() {
	for _, dir := range slices.Sorted(maps.Keys(b.Layers)) {
		l := b.Layers[dir]
		if l == nil || l.File == "" {
			continue
		}
		names, err := documents.Listing(b.FS, dir)
		if err != nil {
			continue // Reading the directory has reported this error already.
		}
		for _, n := range names {
			f := path.Join(dir, n)
			if _, read := b.Reads[f]; read || !documents.IsButane(n) && path.Ext(n) != documents.IgnitionExt {
				continue
			}
			b.Add(origin.Warningf(origin.Pos{File: f}, "unused-file", "not read: %s does not list it; add it there "+
				"under resources, or under patches, or remove it", l.File))
		}
	}
}

// unknownKey refuses keys that a part of a kustomization may not have. unknownKey reports whether it has refused a key.
func (r *layerReader) unknownKey(t documents.YAMLText, n *yaml.Node, what string, keys ...string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; !slices.Contains(keys, k.Value) {
			last := len(keys) - 1
			meant := message.Closest(k.Value, keys)
			if meant != "" {
				meant = fmt.Sprintf("; did you mean %q?", meant)
			} else {
				meant = fmt.Sprintf("; it has %s and %s", strings.Join(keys[:last], ", "), keys[last])
			}
			r.Add(origin.Errorf(t.Pos(k), "kustomization-field", "%s has no field %s%s", what, k.Value, meant))
			return true
		}
	}
	return false
}
