package overlay

import (
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"

	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// planRename adds a change for each document, and records the new name for the selectors of later steps.
func planRename(g *gatherer, c Rename, s *Step, all *documentSet) {
	warnOfOrder(g, c, s, all)
	for _, d := range all.docs {
		name := c.Prefix + d.name() + c.Suffix
		d.names = append(d.names, name)
		g.changes = append(g.changes, change{step: s, document: d, name: name})
	}
	all.reindex()
}

// number matches the number at the beginning of a name, which decides the order of merging.
var number = regexp.MustCompile(`^[0-9]+-`)

// warnOfOrder warns of a prefix that comes before the number of a name, because the prefix changes the order in which
// documents merge.
func warnOfOrder(g *gatherer, c Rename, s *Step, all *documentSet) {
	if c.Prefix == "" || number.MatchString(c.Prefix) {
		return
	}
	for _, d := range all.docs {
		switch {
		case !number.MatchString(d.name()), d.file.Info.Kind.HasGeneratedName():
		default:
			g.Add(origin.Warningf(s.At, "merge-order", "the prefix changes the order of merging: %s becomes %s, "+
				"which no longer begins with a number. Use nameSuffix, or a prefix that begins with a number", d.name(),
				c.Prefix+d.name()))
			return
		}
	}
}

func applyRename(to change) bool {
	_, meta := documents.Field(to.document.root, "metadata")
	name := documents.Str(to.name)
	if _, was := documents.Field(meta, "name"); was != nil {
		name.Line, name.Column = was.Line, was.Column
	}
	documents.Set(meta, "name", name)
	return true
}

// planMetadata adds a change for each document whose labels or annotations a step sets.
func planMetadata(g *gatherer, c SetMetadata, s *Step, all *documentSet) {
	for _, d := range all.docs {
		g.changes = append(g.changes, change{step: s, document: d, name: d.name()})
		if stays(c, d) {
			g.effective[c] = true
		}
	}
	g.metadata = append(g.metadata, c)
}

// stays reports whether a finished document keeps a label or annotation that a layer set.
func stays(c SetMetadata, d *document) bool {
	return c.IsRole() && !d.file.Info.Wrapped || c.IsRuntime() && d.file.Info.Kind.ReadsRuntime()
}

func applyMetadata(c SetMetadata, to change) bool {
	d := to.document
	_, meta := documents.Field(d.root, "metadata")
	_, m := documents.Field(meta, c.Field)
	if m == nil || m.Kind != yaml.MappingNode {
		m = documents.Mapping()
		d.files.Set(m, c.At)
		documents.Set(meta, c.Field, m)
	}
	v := documents.Str(c.Value)
	d.files.Set(v, c.At)
	documents.Set(m, c.Key, v)
	if added := [2]string{c.Field, c.Key}; !stays(c, d) && !slices.Contains(d.added, added) {
		d.added = append(d.added, added)
	}
	return true
}

// warnUnusedMetadata warns of labels and annotations without an effect: no selector uses them, and objects on the
// cluster do not get them.
func (g *gatherer) warnUnusedMetadata() {
	for _, c := range g.metadata {
		if g.effective[c] || g.isSelectedBy(c) {
			continue
		}
		why := "of a fragment's metadata only its name and role count"
		if c.IsRuntime() {
			why = "no document here configures a container runtime"
		}
		if c.IsRole() {
			why = "the role of a Butane document is its directory's pool"
		}
		g.Add(origin.Warningf(c.At, "ignored-field", "%s does not reach the cluster, and no target here selects "+
			"by it: %s", c.Key, why))
	}
}

// isSelectedBy reports whether any selector of the build uses a label or annotation.
func (g *gatherer) isSelectedBy(c SetMetadata) bool {
	for _, l := range g.Layers {
		if l == nil {
			continue
		}
		for _, s := range l.Steps {
			for _, sel := range selectors(s) {
				words := sel.Labels
				if c.Field == "annotations" {
					words = sel.Annotations
				}
				if mentionsKey(words, c.Key) {
					return true
				}
			}
		}
	}
	return false
}
