package overlay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// step is one thing that a layer does to its documents.
type step struct {
	key      string // a digest of all that it does
	at       origin.Pos
	layer    *layer
	selector *selector // nil is all documents
	change   change
}

// change is what a step does.
type change interface {
	// use adds the step to the documents that it may change.
	use(w *walker, s *step, all *gathered)
	// apply changes a document. It is false where it cannot, and then says why.
	apply(s *state, u use) bool
}

// built is a document as all its steps left it. It does not change and may be remembered.
type built struct {
	document Document
	deleted  bool
	findings []origin.Finding
	facts    []fact
	// brief: the document has neither source nor origin, see Learn.
	brief bool
}

// fact is what one step did to one document, for the steps' outcomes.
type fact struct {
	step    int // of the document's
	what    effect
	entry   entry
	at, was origin.Pos
}

// effect is a kind of fact.
type effect int

const (
	applied effect = iota // the step's selector chose the document
	removed               // an entry disappeared
	deleted               // an entry was there to delete
	missing               // an entry to delete was not there
)

// state is a document on its way through its steps.
type state struct {
	b        *builder
	document *document
	root     *yaml.Node // the object; nil once it is deleted
	from     sources
	step     int
	findings []origin.Finding
	facts    []fact
	// added are labels and annotations that no document says, and none shall have in the end.
	added [][2]string
}

// evaluate takes one document through its steps.
func (b *builder) evaluate(d *document) (out *built) {
	key := d.now()
	if hit, ok := b.documents.get(key); ok && b.enough(hit) {
		return hit
	}
	defer func() {
		if r := recover(); r != nil { // it costs this build, and no other
			out = &built{findings: []origin.Finding{fatal(origin.Pos{File: d.path}, "kustomize", "the document cannot be built: its patches make kustomize fail in a way that nobody foresaw")}}
		}
	}()
	if b.before != nil {
		b.before(d.name())
	}
	if len(d.uses) == 0 {
		out = d.asItIs(b)
	} else {
		out = b.run(d, len(d.uses)).finish()
	}
	weight := 500 + len(out.document.Source)
	for p := range out.document.Origin.At {
		weight += len(p) + 80
	}
	b.documents.put(key, out, weight)
	return out
}

// asItIs makes a document that no step touches. Its text is good as it stands, and so is its tree.
func (d *document) asItIs(b *builder) *built {
	out := &built{}
	root, held := d.file.take()
	made, err := b.unwrap(root, unwrapping{file: d.file, name: d.name(), from: sources{d.path}})
	if out.document = made; err != nil {
		out.findings = append(out.findings, fatal(origin.Pos{File: d.path}, "kustomize", "%v", err))
	} else if held && made.Kind == Butane {
		b.parsed[made.Key] = d.about.content(root)
	}
	return out
}

// after is a document as it is after so many steps. Whoever asks for it does not change it.
func (b *builder) after(d *document, steps int) *state {
	key := d.keys[steps]
	s, ok := b.states[key]
	if !ok {
		s = b.run(d, steps)
		b.states[key] = s
	}
	return s
}

// run takes a document through its first steps.
func (b *builder) run(d *document, steps int) *state {
	s := &state{b: b, document: d, root: d.file.object(), from: sources{d.path}}
	if _, meta := field(s.root, "metadata"); meta == nil {
		set(s.root, "metadata", mapping())
	}
	for i, u := range d.uses[:steps] {
		if s.root == nil || origin.Fatal(s.findings) {
			break
		}
		s.step = i
		if !b.spend(1000 + size(s.root, maxGrown)) {
			s.fatal(u.step.at, "too-large", "patching all documents takes more work than a repository of this size may ask for: use fewer patches that select many documents")
			break
		}
		if !u.step.selector.chosen(s.root) {
			continue
		}
		s.facts = append(s.facts, fact{step: i, what: applied})
		if !u.step.change.apply(s, u) {
			break
		}
		s.grown(u)
	}
	return s
}

func (s *state) fatal(at origin.Pos, rule, format string, args ...any) bool {
	s.findings = append(s.findings, fatal(at, rule, format, args...))
	return false
}

// grown refuses what patches blew up.
func (s *state) grown(u use) bool {
	if s.root != nil && size(s.root, maxGrown) > maxGrown {
		return s.fatal(u.step.at, "too-large", "with this the document %q has more than %d bytes", s.document.name(), maxGrown)
	}
	return true
}

// size is about how many bytes a tree takes, where that is not more than the limit.
func size(n *yaml.Node, limit int) int {
	total := 16 + len(n.Value)
	for _, c := range n.Content {
		if total > limit {
			break
		}
		total += size(c, limit-total)
	}
	return total
}

// placeOf is where an entry was written: of an item of a list of mappings, its key.
func (s *state) placeOf(item *yaml.Node, e entry) origin.Pos {
	for _, l := range s.document.about.lists {
		if _, key := field(item, l.key); l.path == e.list && key != nil {
			return s.from.pos(key)
		}
	}
	return s.from.pos(item)
}

// content is the part of the document that lists and shapes are about.
func (s *state) content() *yaml.Node { return s.document.about.content(s.root) }

// finish makes the document.
func (s *state) finish() *built {
	d := s.document
	out := &built{findings: s.findings, facts: s.facts, deleted: s.root == nil}
	if out.deleted || origin.Fatal(s.findings) {
		return out
	}
	content := s.content()
	if content == nil || content.Kind != yaml.MappingNode {
		out.findings = append(out.findings, fatal(origin.Pos{File: d.path}, "document", "the document %q is empty once it is patched; remove it from the resources", d.name()))
		return out
	}
	s.forgetAdded()
	left := entries(content, d.about.lists)
	out.facts = slices.DeleteFunc(out.facts, func(f fact) bool { // a later layer brought it back
		_, back := left[f.entry]
		return f.what == removed && back
	})
	var err error
	if out.document, err = s.b.unwrap(s.root, unwrapping{file: d.file, name: d.name(), from: s.from, changed: true}); err != nil {
		out.findings = append(out.findings, fatal(origin.Pos{File: d.path}, "kustomize", "%v", err))
	}
	return out
}

// forgetAdded takes out of the document's metadata what the layers added to choose documents by.
func (s *state) forgetAdded() {
	_, meta := field(s.root, "metadata")
	for _, a := range s.added {
		_, m := field(meta, a[0])
		remove(m, a[1])
		if m != nil && len(m.Content) == 0 {
			remove(meta, a[0])
		}
	}
	if !s.document.about.plain && !s.document.named {
		remove(s.root, "metadata")
	}
}

// quoting are the places in kustomize's errors where it prints what stands in documents and patches. Nobody may read that
// in a log or a status.
var quoting = regexp.MustCompile(":? ?(?:node contents: .*|(?:with config: ?)?`.*`|from \\[patch: .*\\]|in the YAML: .*|for value .*)")

// wordsOf are an error's words, without what stands in documents.
func wordsOf(err error, a about) string {
	msg := strings.Join(strings.Fields(err.Error()), " ")
	msg = quoting.ReplaceAllString(msg, "")
	if a.plain {
		msg = strings.NewReplacer("/spec/", "/", `"spec.`, `"`, " spec.", " ").Replace(msg)
	}
	return msg
}

// kustomized turns kustomize's error into a finding.
func (s *state) kustomized(at origin.Pos, err error) bool {
	return s.fatal(at, "kustomize", "%s: %s", fmt.Sprintf("this cannot be done to %q (%s)", s.document.name(), s.document.path), wordsOf(err, s.document.about))
}
