package overlay

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// kustomizations are the names of a kustomization file; a directory may have one of them.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// allowed are the fields of a kustomization that a build may use. Everything else runs programs, fetches from the
// network, invents contents, or changes how other builds merge.
var allowed = []string{
	"apiVersion", "kind", "metadata", "resources", "components", "patches", "namePrefix", "nameSuffix",
	"labels", "commonLabels", "commonAnnotations", "buildMetadata", "replacements", "sortOptions",
}

// refused says why, where there is more to say than that a field is not known.
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
	"configurations":              "it would change which fields names and labels are written to",
	"namespace":                   "nothing here has a namespace",
	"images":                      "no document has containers; write the image into the document, or use replacements",
	"imageTags":                   "no document has containers; write the image into the document, or use replacements",
	"replicas":                    "no document has replicas",
	"bases":                       "list the directories under resources",
	"patchesStrategicMerge":       "write patches: [{path: …}]",
	"patchesJson6902":             "write patches: [{target: …, patch: …}]",
	"vars":                        "use replacements",
}

// checkField checks one field of a kustomization and tells whether it means anything.
func (r *reader) checkField(k, v *yaml.Node) bool {
	t := r.text
	switch k.Value {
	case "resources", "components", "patches", "replacements", "labels":
		if v.Kind != yaml.SequenceNode {
			if v.Tag != "!!null" {
				r.add(fatal(t.pos(v), "kustomization", "%s is a list", k.Value))
			}
			return false
		}
	case "commonLabels", "commonAnnotations", "metadata":
		if v.Kind != yaml.MappingNode {
			if v.Tag != "!!null" {
				r.add(fatal(t.pos(v), "kustomization", "%s is a mapping", k.Value))
			}
			return false
		}
	case "namePrefix", "nameSuffix", "apiVersion", "kind":
		if v.Kind != yaml.ScalarNode {
			r.add(fatal(t.pos(v), "kustomization", "%s is one word", k.Value))
			return false
		}
	case "sortOptions":
		if order := scalarAt(v, "order"); order != "fifo" && order != "legacy" {
			r.add(fatal(t.pos(v), "kustomization", "the order of sortOptions is fifo or legacy; it changes nothing here, for documents merge in order of their names: remove it"))
			return false
		}
		r.add(origin.Finding{Warning: true, Rule: "ignored-field", At: t.pos(k), Message: "sortOptions changes nothing: documents merge in order of their names"})
		return false
	case "buildMetadata":
		return false // where everything comes from is kept in any case
	default:
		why, known := refused[k.Value]
		if meant := message.Closest(k.Value, allowed[3:]); !known && meant != "" {
			why = fmt.Sprintf("did you mean %q?", meant)
		} else if !known {
			why = "known are " + strings.Join(allowed[3:], ", ")
		}
		r.add(fatal(t.pos(k), "kustomization-field", "the field %s is not supported here: %s", k.Value, why))
		return false
	}
	return true
}

// checkKind checks what a kustomization says it is, and tells whether that is a component.
func (r *reader) checkKind(root *yaml.Node) bool {
	kind, want := scalarAt(root, "kind"), "kustomize.config.k8s.io/v1beta1"
	switch kind {
	case "Component":
		want = "kustomize.config.k8s.io/v1alpha1"
	case "Kustomization", "":
	default:
		_, v := field(root, "kind")
		r.add(fatal(r.text.pos(v), "kustomization", "the kind of a kustomization is Kustomization or Component, not %q", kind))
		return false
	}
	if v := scalarAt(root, "apiVersion"); v != "" && v != want {
		_, n := field(root, "apiVersion")
		r.add(fatal(r.text.pos(n), "kustomization", "the apiVersion of a %s is %s, not %q", cmp.Or(kind, "Kustomization"), want, v))
	}
	return kind == "Component"
}

// remote finds hosts that kustomize knows by name, and parts of paths that it takes for a repository's end.
var remote = regexp.MustCompile(`(?i)^(\./)*(github|gitlab|bitbucket)\.(com|org)|\.git(/|$)|_git(/|$)`)

// local checks that a path is relative, stays in the repository, and cannot be taken for something remote: kustomize
// fetches whatever looks like a URL, even where a directory of that name exists. We never would, but whoever writes such
// a path expects it.
func (r *reader) local(t text, e *yaml.Node) (string, bool) {
	p := e.Value
	full := path.Join(r.dir, p)
	switch {
	case e.Kind != yaml.ScalarNode || p == "" || e.Tag == "!!null":
		r.add(fatal(t.pos(e), "kustomization", "a path is expected here"))
	case strings.ContainsAny(p, "?@*:\\\x00\n") || strings.Contains(p, "//") || remote.MatchString(p):
		r.add(fatal(t.pos(e), "remote-base", "%q looks like a remote repository or URL, and a commit must hold all that it means; copy it into this repository and name it by a relative path", p))
	case path.IsAbs(p):
		r.add(fatal(t.pos(e), "path", "%q is absolute; name it relative to this directory", p))
	case full == ".." || strings.HasPrefix(full, "../"):
		r.add(fatal(t.pos(e), "path", "%q leaves the repository; copy it in and name it by a relative path", p))
	default:
		return full, true
	}
	return "", false
}

// references reads the entries of resources or components.
func (r *reader) references(n *yaml.Node) []reference {
	var out []reference
	seen := map[string]int{}
	for _, e := range n.Content {
		full, ok := r.local(r.text, e)
		if !ok {
			continue
		}
		if line, twice := seen[full]; twice {
			r.add(fatal(r.text.pos(e), "duplicate-name", "%q is listed twice, first in line %d; keep one", e.Value, line))
			continue
		}
		seen[full] = e.Line
		out = append(out, reference{full, e.Value, r.text.pos(e), false})
	}
	return out
}

// unlisted warns of documents that lie beside a kustomization and are read by none: whoever adds one expects it to
// count.
func (b *builder) unlisted() {
	for _, dir := range sortedKeys(b.layersOf) {
		l := b.layersOf[dir]
		if l == nil || l.file == "" {
			continue
		}
		names, err := listing(b.fs, dir)
		if err != nil {
			continue // said where the directory was let in
		}
		b.reads[dir] = sum([]byte(strings.Join(names, "\n")))
		for _, n := range names {
			f := path.Join(dir, n)
			if _, read := b.reads[f]; read || !IsButane(n) && path.Ext(n) != ignitionExt {
				continue
			}
			b.add(origin.Finding{
				Warning: true, Rule: "unused-file", At: origin.Pos{File: f},
				Message: "not read: " + l.file + " does not list it; add it there under resources, or under patches, or remove it",
			})
		}
	}
}

// unknownKey finds a field that a part of a kustomization does not have.
func (r *reader) unknownKey(t text, n *yaml.Node, what string, keys ...string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; !slices.Contains(keys, k.Value) {
			last := len(keys) - 1
			meant := message.Closest(k.Value, keys)
			if meant != "" {
				meant = fmt.Sprintf("; did you mean %q?", meant)
			} else {
				meant = fmt.Sprintf("; it has %s and %s", strings.Join(keys[:last], ", "), keys[last])
			}
			r.add(fatal(t.pos(k), "kustomization-field", "%s has no field %s%s", what, k.Value, meant))
			return true
		}
	}
	return false
}
