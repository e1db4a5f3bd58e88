package overlay

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// kustomizations are the names of a kustomization file; a directory may have one of them.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// allowed are the fields of a kustomization that a build may use. Everything else runs programs, fetches from the
// network, invents contents, or changes how other builds merge.
var allowed = []string{
	"apiVersion", "kind", "metadata", "resources", "components", "patches", "namePrefix", "nameSuffix",
	"labels", "commonAnnotations", "buildMetadata", "replacements", "sortOptions",
}

// refused says why, where there is more to say than that a field is not known.
var refused = map[string]string{
	"openapi":               "it would change how every list merges; Butane's lists merge by path and name already",
	"generators":            "generators run programs",
	"transformers":          "transformers run programs",
	"validators":            "validators run programs",
	"helmCharts":            "charts are fetched and run by helm",
	"helmGlobals":           "charts are fetched and run by helm",
	"configMapGenerator":    "nothing but Butane documents and MachineConfigs reaches a node",
	"secretGenerator":       "nothing but Butane documents and MachineConfigs reaches a node",
	"crds":                  "it would change how lists merge",
	"bases":                 "list the directories under resources",
	"patchesStrategicMerge": "write patches: [{path: …}]",
	"patchesJson6902":       "write patches: [{target: …, patch: …}]",
	"commonLabels":          "write labels: [{pairs: …}]",
	"vars":                  "use replacements",
}

// guard lets into the build what a repository may mean, and nothing else.
type guard struct{ *builder }

// directory lets one directory into the build: its kustomization and all that it names, or, without one, all its
// Butane documents.
func (g guard) directory(dir string) {
	if g.visited[dir] {
		return
	}
	g.visited[dir] = true
	names, err := listing(g.fs, dir)
	if err != nil {
		g.add(fatal(origin.Pos{File: dir}, "missing", "%s", plain(err)))
		return
	}
	var found []string
	for _, n := range kustomizations {
		if slices.Contains(names, n) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		g.implicit(dir, names)
	case 1:
		g.explicit(dir, path.Join(dir, found[0]))
	default:
		g.add(fatal(origin.Pos{File: path.Join(dir, found[1])}, "kustomization", "the directory has %s; keep one", strings.Join(found, " and ")))
	}
}

// implicit writes the kustomization that a directory without one stands for.
func (g guard) implicit(dir string, names []string) {
	g.reads[dir] = sum([]byte(strings.Join(names, "\n")))
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, n := range names {
		switch ext := path.Ext(n); {
		case IsButane(n):
			list.Content = append(list.Content, str(n))
			g.resource(path.Join(dir, n), origin.Pos{File: path.Join(dir, n)})
		case ext == ".yaml" || ext == ".yml" || ext == ".ign":
			g.add(origin.Finding{
				Warning: true, Rule: "unused-file", At: origin.Pos{File: path.Join(dir, n)},
				Message: "not read: a directory without a kustomization.yaml is its *.bu files; add a kustomization.yaml that lists this file",
			})
		}
	}
	g.write(path.Join(dir, kustomizations[0]), mapping(str("resources"), list))
}

// explicit lets a written kustomization in.
func (g guard) explicit(dir, file string) {
	src, err := g.read(file)
	if err != nil {
		g.add(fatal(origin.Pos{File: file}, "missing", "%s", plain(err)))
		return
	}
	t := text{file: file, src: src}
	root, fs := t.parse()
	g.add(fs...)
	if root == nil {
		return
	}
	if root.Kind != yaml.MappingNode {
		g.add(fatal(t.pos(root), "kustomization", "a kustomization is a mapping of fields such as resources and patches"))
		return
	}
	kept := mapping()
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		if g.kustomizationField(t, dir, k, v) {
			kept.Content = append(kept.Content, k, v)
		}
	}
	// Patches come last, when all documents that they may mean are known.
	if _, patches := field(kept, "patches"); patches != nil {
		patcher{g, t, dir}.patches(patches)
	}
	g.write(file, kept)
	g.kustomized[dir] = file
}

// unlisted warns of Butane documents that lie beside a kustomization and are read by none: whoever adds one expects it
// to count.
func (g guard) unlisted() {
	for _, dir := range sortedKeys(g.kustomized) {
		names, err := listing(g.fs, dir)
		if err != nil {
			continue // said where the directory was let in
		}
		g.reads[dir] = sum([]byte(strings.Join(names, "\n")))
		for _, n := range names {
			f := path.Join(dir, n)
			if _, read := g.reads[f]; read || !IsButane(n) {
				continue
			}
			g.add(origin.Finding{
				Warning: true, Rule: "unused-file", At: origin.Pos{File: f},
				Message: "not read: " + g.kustomized[dir] + " does not list it; add it there under resources, or under patches, or remove it",
			})
		}
	}
}

// kustomizationField checks one field and tells whether kustomize shall see it.
func (g guard) kustomizationField(t text, dir string, k, v *yaml.Node) bool {
	switch k.Value {
	case "resources", "components":
		if v.Kind != yaml.SequenceNode {
			g.add(fatal(t.pos(v), "kustomization", "%s is a list of paths", k.Value))
			return false
		}
		seen := map[string]int{}
		for _, e := range v.Content {
			p := path.Join(dir, e.Value)
			if line, twice := seen[p]; twice {
				g.add(fatal(t.pos(e), "duplicate-name", "%q is listed twice, first in line %d; keep one", e.Value, line))
				continue
			}
			seen[p] = e.Line
			g.reference(t, dir, e)
		}
	case "replacements":
		patcher{g, t, dir}.replacements(v)
	case "labels", "commonAnnotations":
		g.add(origin.Finding{Warning: true, Rule: "ignored-field", At: t.pos(k), Message: k.Value + " does not reach a node: of a fragment's metadata only its name and role count"})
		return false
	case "sortOptions":
		if order := scalarAt(v, "order"); order != "fifo" && order != "legacy" {
			g.add(fatal(t.pos(v), "kustomization", "the order of sortOptions is fifo or legacy; it changes nothing here, for documents merge in order of their names: remove it"))
			return false
		}
		g.add(origin.Finding{Warning: true, Rule: "ignored-field", At: t.pos(k), Message: "sortOptions changes nothing: documents merge in order of their names"})
		return false
	case "buildMetadata":
		return false // where everything comes from is kept in any case
	default:
		if slices.Contains(allowed, k.Value) {
			return true
		}
		why, known := refused[k.Value]
		if !known {
			why = "known are " + strings.Join(allowed[3:], ", ")
		}
		g.add(fatal(t.pos(k), "kustomization-field", "the field %s is not supported here: %s", k.Value, why))
		return false
	}
	return true
}

// reference lets in what an entry of resources or components names.
func (g guard) reference(t text, dir string, e *yaml.Node) {
	full, ok := g.local(t, dir, e)
	if !ok {
		return
	}
	info, err := fs.Stat(g.fs, full)
	switch {
	case err != nil:
		g.add(fatal(t.pos(e), "missing", "%q: %s", e.Value, plain(err)))
	case info.IsDir():
		g.directory(full)
	default:
		g.resource(full, t.pos(e))
	}
}

// remote finds hosts that kustomize knows by name, and parts of paths that it takes for a repository's end.
var remote = regexp.MustCompile(`(?i)^(\./)*(github|gitlab|bitbucket)\.(com|org)|\.git(/|$)|_git(/|$)`)

// local checks that a path is relative, stays in the repository, and cannot be taken for something remote: kustomize
// fetches whatever looks like a URL, even where a directory of that name exists.
func (g guard) local(t text, dir string, e *yaml.Node) (string, bool) {
	p := e.Value
	full := path.Join(dir, p)
	switch {
	case e.Kind != yaml.ScalarNode || p == "":
		g.add(fatal(t.pos(e), "kustomization", "a path is expected here"))
	case strings.ContainsAny(p, "?@*:\\\x00\n") || strings.Contains(p, "//") || remote.MatchString(p):
		g.add(fatal(t.pos(e), "remote-base", "%q looks like a remote repository or URL, and a commit must hold all that it means; copy it into this repository and name it by a relative path", p))
	case path.IsAbs(p):
		g.add(fatal(t.pos(e), "path", "%q is absolute; name it relative to this directory", p))
	case full == ".." || strings.HasPrefix(full, "../"):
		g.add(fatal(t.pos(e), "path", "%q leaves the repository; copy it in and name it by a relative path", p))
	default:
		return full, true
	}
	return "", false
}

// plain says why a file cannot be read, without the operating system's words for it.
func plain(err error) string {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or directory in this repository"
	case errors.As(err, &pe):
		return pe.Err.Error()
	default:
		return err.Error()
	}
}
