package overlay

import (
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// rename puts something before or behind the names of all documents.
type rename struct{ prefix, suffix string }

func (c rename) use(w *walker, s *step, all *gathered) {
	c.warnOfOrder(w, s, all)
	for _, d := range all.docs {
		name := c.prefix + d.name() + c.suffix
		d.names = append(d.names, name)
		d.add(use{step: s, name: name})
	}
	all.renew()
}

// number is what the order of merging goes by.
var number = regexp.MustCompile(`^[0-9]+-`)

// warnOfOrder warns of a prefix that takes the number from the beginning of a name: the document then merges elsewhere.
func (c rename) warnOfOrder(w *walker, s *step, all *gathered) {
	if c.prefix == "" || number.MatchString(c.prefix) {
		return
	}
	for _, d := range all.docs {
		switch {
		case !number.MatchString(d.name()), slices.Contains([]Kind{KubeletConfig, KubeletConfiguration, ContainerRuntimeConfig, SSHKeys}, d.about.kind):
		default:
			w.add(origin.Finding{Warning: true, Rule: "merge-order", At: s.at, Message: fmt.Sprintf(
				"the prefix changes the order of merging: %s becomes %s, whose number is no longer first; write nameSuffix instead, or a prefix that begins with a number", d.name(), c.prefix+d.name())})
			return
		}
	}
}

func (c rename) apply(s *state, u use) bool {
	_, meta := field(s.root, "metadata")
	name := str(u.name)
	if _, was := field(meta, "name"); was != nil {
		name.Line, name.Column = was.Line, was.Column
	}
	set(meta, "name", name)
	return true
}

// setMetadata gives all documents one label or annotation. Targets can choose by it; it reaches no cluster but for the
// role, which an object has of its own.
type setMetadata struct {
	field, key, value string
	at                origin.Pos
}

func (c setMetadata) use(w *walker, s *step, all *gathered) {
	effective := false
	for _, d := range all.docs {
		d.add(use{step: s, name: d.name()})
		effective = effective || !d.about.plain && c.role()
	}
	if effective {
		w.spoken[c] = true
	}
	w.metadata = append(w.metadata, c)
}

func (c setMetadata) role() bool { return c.field == "labels" && c.key == v1alpha1.RoleLabel }

func (c setMetadata) apply(s *state, _ use) bool {
	_, meta := field(s.root, "metadata")
	_, m := field(meta, c.field)
	if m == nil || m.Kind != yaml.MappingNode {
		m = mapping()
		s.from.blame(m, c.at)
		set(meta, c.field, m)
	}
	v := str(c.value)
	s.from.blame(v, c.at)
	set(m, c.key, v)
	if added := [2]string{c.field, c.key}; !c.role() && !slices.Contains(s.added, added) {
		s.added = append(s.added, added)
	}
	return true
}

// labeler reads what a kustomization writes to its documents' metadata.
type labeler struct{ *reader }

// labels reads labels, commonLabels and commonAnnotations.
func (r labeler) labels(labels, commonLabels, commonAnnotations *yaml.Node) {
	var from [][2]*yaml.Node // kustomize's order: labels, then the common ones
	if labels != nil {
		for _, l := range labels.Content {
			if l.Kind != yaml.MappingNode {
				r.add(fatal(r.text.pos(l), "kustomization", "an item of labels is {pairs: {key: value}}"))
				continue
			}
			if r.unknownLabelField(l) {
				continue
			}
			if _, pairs := field(l, "pairs"); pairs != nil {
				from = append(from, [2]*yaml.Node{pairs, nil})
			}
		}
	}
	if commonLabels != nil {
		from = append(from, [2]*yaml.Node{commonLabels, nil})
	}
	for _, f := range from {
		r.pairs("labels", f[0])
	}
	if commonAnnotations != nil {
		r.pairs("annotations", commonAnnotations)
	}
}

// unknownLabelField refuses what would write labels to other places than the metadata.
func (r labeler) unknownLabelField(l *yaml.Node) bool {
	for i := 0; i+1 < len(l.Content); i += 2 {
		k, v := l.Content[i], l.Content[i+1]
		switch k.Value {
		case "pairs":
		case "includeSelectors", "includeTemplates", "includeVolumeClaimTemplates":
			if v.Value != "false" {
				r.add(origin.Finding{Warning: true, Rule: "ignored-field", At: r.text.pos(k), Message: k.Value + " changes nothing: no document here has selectors or templates"})
			}
		case "fields":
			r.add(fatal(r.text.pos(k), "kustomization-field", "labels go to the metadata only, and fields would write them elsewhere; use a patch"))
			return true
		default:
			return r.unknownKey(r.text, l, "an item of labels", "pairs", "includeSelectors", "includeTemplates", "includeVolumeClaimTemplates")
		}
	}
	return false
}

func (r labeler) pairs(to string, pairs *yaml.Node) {
	if pairs.Kind != yaml.MappingNode {
		r.add(fatal(r.text.pos(pairs), "kustomization", "%s are a mapping of words to words", to))
		return
	}
	for i := 0; i+1 < len(pairs.Content); i += 2 {
		k, v := pairs.Content[i], pairs.Content[i+1]
		if v.Kind != yaml.ScalarNode || v.Tag != "!!str" {
			r.add(fatal(r.text.pos(v), "kustomization", "the value of %s is text; put it in quotation marks", k.Value))
			continue
		}
		c := setMetadata{to, k.Value, v.Value, r.text.pos(k)}
		r.step(&step{key: keyOf(to, k.Value, v.Value, r.here(), c.at.String()), at: c.at, change: c})
	}
}

// unspoken warns of labels and annotations that nothing asks for: whoever sets one expects it to count.
func (w *walker) unspoken() {
	for _, c := range w.metadata {
		if w.spoken[c] || w.asked(c) {
			continue
		}
		why := "of a fragment's metadata only its name and role count"
		if c.role() {
			why = "the role of a Butane document is its directory's pool"
		}
		w.add(origin.Finding{Warning: true, Rule: "ignored-field", At: c.at, Message: c.key + " does not reach the cluster, and no target here selects by it: " + why})
	}
}

// asked tells whether any selector of the build mentions a label or annotation.
func (w *walker) asked(c setMetadata) bool {
	for _, l := range w.layersOf {
		if l == nil {
			continue
		}
		for _, s := range l.steps {
			for _, sel := range s.selectors() {
				words := sel.labels
				if c.field == "annotations" {
					words = sel.annotations
				}
				if mentionsKey(words, c.key) {
					return true
				}
			}
		}
	}
	return false
}
