package overlay

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// matches reports whether the kind and the names of a document match a selector. Labels are compared later, by
// MatchesMetadata.
func (s *Selector) matches(d *document) bool {
	switch {
	case s == nil:
		return true
	case d.file.Info.Kind != s.Info.Kind || d.dropped:
		return false
	case s.ByID:
		return slices.Contains(d.names, s.Name)
	}
	names := d.names
	if !s.AnyName {
		names = []string{d.names[0], d.name()}
	}
	return s.Pattern == nil || slices.ContainsFunc(names, s.Pattern.MatchString)
}

// unmatched is a selector that matches no document of its layer.
type unmatched struct {
	selector *Selector
	scope    []identity
	why      string // why is the reason why no document matches, if it is not the usual reason.
}

// find returns the documents whose kind and name a selector matches.
func (g *gatherer) find(s *Selector, all *documentSet) []*document {
	docs := all.docs
	if s.Name != "" && regexp.QuoteMeta(s.Name) == s.Name {
		docs = all.named[identity{s.Info.Kind, s.Name}]
	}
	var out []*document
	for _, d := range docs {
		if s.matches(d) {
			out = append(out, d)
		}
	}
	missing := unmatched{selector: s}
	switch {
	case s.ByID && len(out) > 1:
		missing.why = fmt.Sprintf("more than one document here is, or was, named %q; name the one as it is named "+
			"now, or build it apart", s.Name)
	case len(out) > 0:
		return out
	default:
		for _, d := range all.docs {
			missing.scope = append(missing.scope, identity{d.file.Info.Kind, d.name()})
		}
	}
	g.unmatched = append(g.unmatched, missing)
	return nil
}

// reportUnmatched adds a finding for each selector that matches no document. The build calls reportUnmatched after it
// has read all layers.
func (g *gatherer) reportUnmatched() {
	for _, m := range g.unmatched {
		g.Add(origin.Errorf(m.selector.At, "patch-target", "%s", g.unmatchedMessage(m)))
	}
}

func (g *gatherer) unmatchedMessage(m unmatched) string {
	if m.why != "" {
		return m.why
	}
	s := m.selector
	var names, others []string
	otherKind := documents.Kind("")
	slices.SortFunc(m.scope, func(x, y identity) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.kind, y.kind))
	})
	for _, id := range m.scope {
		names = append(names, id.name)
		if id.kind != s.Info.Kind && (s.Pattern == nil || s.Pattern.MatchString(id.name)) &&
			(!s.ByID || s.Name == id.name) {
			others = append(others, id.name+" is a "+string(id.kind))
			otherKind = cmp.Or(otherKind, id.kind)
		}
	}
	var elsewhere []string
	for _, d := range g.documents {
		if s.matches(d) {
			elsewhere = append(elsewhere, d.file.Path)
		}
	}
	slices.Sort(elsewhere)
	switch {
	case len(others) > 0:
		return fmt.Sprintf("no document of kind %s matches, but %s: write `kind: %s`", s.Info.Kind, some(others),
			otherKind)
	case len(elsewhere) > 0:
		return fmt.Sprintf("no resource of %[2]s has the name %[1]q. This patch does not reach %[3]s in another "+
			"directory: move the patch to the kustomization that lists both", s.Name, s.File,
			some(slices.Compact(elsewhere)))
	case s.Name == "":
		return fmt.Sprintf("no document of kind %s is here", s.Info.Kind)
	case s.IsSource:
		return fmt.Sprintf("no document is named %q here, so the replacement has no source; there are %s", s.Name,
			some(slices.Compact(names)))
	case s.ByID:
		return fmt.Sprintf("no document is named %q here; name the patch file as the document's, or give the patch a "+
			"target such as {name: 10-chrony}", s.Name)
	default:
		return fmt.Sprintf("no document is named %q here; there are %s", s.Name, some(slices.Compact(names)))
	}
}

// some lists at most 20 of the given words for a message.
func some(words []string) string {
	const enough = 20
	if len(words) > enough {
		words = append(words[:enough:enough], fmt.Sprintf("%d more", len(words)-enough))
	}
	return strings.Join(words, ", ")
}
