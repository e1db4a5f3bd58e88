package overlay

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/filters/replacement"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// replace copies a value from one document, or from the kustomization, to fields of others.
type replace struct {
	source *selector // nil where the value stands in the kustomization
	path   string    // of the source's field
	value  *string
	from   *types.FieldOptions
	target *selector
	reject []*selector
	fields []targetField
	to     *types.FieldOptions
}

// targetField is one field that takes the value.
type targetField struct {
	path string // in the object
	at   origin.Pos
}

// replacer reads the replacements of a kustomization.
type replacer struct{ *reader }

// replacements reads the list of replacements.
func (r replacer) replacements(list *yaml.Node) {
	for _, n := range list.Content {
		k, v := field(n, "path")
		if k == nil {
			r.replacement(r.text, r.here(), n)
			continue
		}
		if len(n.Content) > 2 {
			r.add(fatal(r.text.pos(n), "replacement", "a replacement from a file has a path and nothing else"))
			continue
		}
		full, ok := r.local(r.text, v)
		if !ok {
			continue
		}
		src, err := r.builder.read(full)
		if err != nil {
			r.add(unreadable(r.text.pos(v), full, v.Value, err))
			continue
		}
		t := text{file: full, src: src}
		root, fs := t.parse()
		r.add(fs...)
		switch {
		case root == nil:
		case root.Kind == yaml.SequenceNode:
			for _, item := range root.Content {
				r.replacement(t, full+r.reads[full], item)
			}
		default:
			r.replacement(t, full+r.reads[full], root)
		}
	}
}

// replacement reads one; each of its targets is a step.
func (r replacer) replacement(t text, digest string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.add(fatal(t.pos(n), "replacement", "a replacement is {source, targets}"))
		return
	}
	if r.unknownKey(t, n, "a replacement", "source", "sourceValue", "targets") {
		return
	}
	var c replace
	_, source := field(n, "source")
	_, value := field(n, "sourceValue")
	_, targets := field(n, "targets")
	switch {
	case (source == nil) == (value == nil):
		r.add(fatal(t.pos(n), "replacement", "a replacement has either a source or a sourceValue"))
		return
	case targets == nil || targets.Kind != yaml.SequenceNode || len(targets.Content) == 0:
		r.add(fatal(t.pos(n), "replacement", "a replacement has targets: [{select: {name: …}, fieldPaths: […]}]"))
		return
	case value != nil && value.Kind != yaml.ScalarNode:
		r.add(fatal(t.pos(value), "replacement", "a sourceValue is text"))
		return
	case value != nil:
		c.value = &value.Value
	case !r.source(t, source, &c):
		return
	}
	for _, target := range targets.Content {
		one := c
		if r.target(t, target, &one) {
			key := keyOf("replace", digest, t.pos(n).String(), t.pos(target).String())
			r.step(&step{key: key, at: t.pos(target), selector: one.target, change: one})
		}
	}
}

// source reads where a value comes from.
func (r replacer) source(t text, n *yaml.Node, c *replace) bool {
	if n.Kind != yaml.MappingNode {
		r.add(fatal(t.pos(n), "replacement", "a source is {name, fieldPath}"))
		return false
	}
	id, options := mapping(), (*yaml.Node)(nil)
	c.path = "metadata.name"
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k, v := n.Content[i], n.Content[i+1]; k.Value {
		case "fieldPath":
			if c.path = v.Value; v.Kind != yaml.ScalarNode || v.Value == "" {
				r.add(fatal(t.pos(v), "replacement", "a fieldPath is words with dots between them, such as storage.files.0.path"))
				return false
			}
		case "options":
			options = v
		default:
			id.Content = append(id.Content, k, v)
		}
	}
	id.Line, id.Column = n.Line, n.Column
	sel, ok := r.selectorOf(id, Butane, t)
	if !ok {
		return false
	}
	if _, said := field(n, "fieldPath"); said != nil && sel.about.plain {
		c.path = sel.about.under + "." + c.path
	}
	sel.byID, sel.isSource, c.source = sel.name != "", true, sel
	c.from, ok = r.fieldOptions(t, options)
	return ok
}

// target reads where a value goes to.
func (r replacer) target(t text, n *yaml.Node, c *replace) bool {
	if n.Kind != yaml.MappingNode || r.unknownKey(t, n, "a target", "select", "reject", "fieldPaths", "options") {
		if n.Kind != yaml.MappingNode {
			r.add(fatal(t.pos(n), "replacement", "a target is {select, fieldPaths}"))
		}
		return false
	}
	_, sel := field(n, "select")
	_, reject := field(n, "reject")
	_, paths := field(n, "fieldPaths")
	_, options := field(n, "options")
	var ok bool
	if sel == nil {
		sel = &yaml.Node{Line: n.Line, Column: n.Column}
	}
	if c.target, ok = r.selectorOf(sel, Butane, t); !ok {
		return false
	}
	c.target.always = true
	if reject != nil {
		for _, e := range reject.Content {
			s, ok := r.selectorOf(e, c.target.about.kind, t)
			if !ok {
				return false
			}
			_, kind := field(e, "kind")
			s.always, s.byName = true, kind != nil || s.name != ""
			c.reject = append(c.reject, s)
		}
	}
	if paths == nil || paths.Kind != yaml.SequenceNode || len(paths.Content) == 0 {
		r.add(fatal(t.pos(n), "replacement", "a target has fieldPaths, such as [storage.files.0.path]"))
		return false
	}
	for _, p := range paths.Content {
		f := targetField{p.Value, t.pos(p)}
		if c.target.about.plain {
			f.path = c.target.about.under + "." + f.path
		} else if first, _, _ := strings.Cut(f.path, "."); first == "kind" || first == "apiVersion" || f.path == "metadata" || f.path == "metadata.name" {
			r.add(fatal(f.at, "replacement", "a document is known by its kind and name, and %s would change them; use namePrefix or nameSuffix", p.Value))
			return false
		}
		if p.Kind != yaml.ScalarNode || p.Value == "" {
			r.add(fatal(f.at, "replacement", "a field path is words with dots between them, such as storage.files.0.path"))
			return false
		}
		c.fields = append(c.fields, f)
	}
	c.to, ok = r.fieldOptions(t, options)
	return ok
}

func (r replacer) fieldOptions(t text, n *yaml.Node) (*types.FieldOptions, bool) {
	if n == nil {
		return nil, true
	}
	if r.unknownKey(t, n, "options", "delimiter", "index", "create") {
		return nil, false
	}
	out := &types.FieldOptions{Delimiter: scalarAt(n, "delimiter"), Create: scalarAt(n, "create") == "true"}
	if _, v := field(n, "index"); v != nil {
		var err error
		if out.Index, err = strconv.Atoi(v.Value); err != nil {
			r.add(fatal(t.pos(v), "replacement", "an index is a number"))
			return nil, false
		}
	}
	return out, true
}

// selectors are all that a step asks by.
func (s *step) selectors() []*selector {
	var out []*selector
	if s.selector != nil {
		out = append(out, s.selector)
	}
	if c, ok := s.change.(replace); ok {
		out = append(out, c.reject...)
	}
	return out
}

// mentionsKey tells whether a selector such as `tier=edge,!old` speaks of a key.
func mentionsKey(selector, key string) bool {
	ok, err := regexp.MatchString(`(^|[^-._/\w])`+regexp.QuoteMeta(key)+`($|[^-._/\w])`, selector)
	return err == nil && ok
}

func (c replace) use(w *walker, s *step, all *gathered) {
	u := use{step: s}
	if c.source != nil {
		sources := w.meant(c.source, all)
		if len(sources) == 0 {
			return
		}
		if len(sources) > 1 {
			w.misses = append(w.misses, miss{selector: c.source, why: "more than one document is the source here; name the one"})
			return
		}
		u.source, u.after = sources[0], len(sources[0].uses)
	}
	targets := w.meant(c.target, all)
	for _, d := range targets {
		if c.rejects(d) {
			continue
		}
		u.name = d.name()
		d.add(u)
	}
}

// rejects tells whether a document is taken out by its name.
func (c replace) rejects(d *document) bool {
	for _, s := range c.reject {
		if s.byName && s.means(d) {
			return true
		}
	}
	return false
}

func (c replace) apply(s *state, u use) bool {
	for _, r := range c.reject {
		if r.depends() && r.chosen(s.root) {
			return true
		}
	}
	for _, f := range c.fields {
		if !c.copy(s, u, f) {
			return false
		}
		if !s.grown(u) {
			return false
		}
	}
	return true
}

// copy has kustomize set one field.
func (c replace) copy(s *state, u use, f targetField) bool {
	one := types.Replacement{SourceValue: c.value, Targets: []*types.TargetSelector{{
		Select: exactly(s.document.about, u.name), FieldPaths: []string{f.path}, Options: c.to,
	}}}
	nodes := []*kyaml.RNode{kyaml.NewRNode(s.root)}
	if c.source != nil {
		name := u.source.nameAfter(u.after)
		one.Source = &types.SourceSelector{ResId: exactly(u.source.about, name).ResId, FieldPath: c.path, Options: c.from}
		if u.source != s.document {
			from := s.b.after(u.source, u.after)
			if from.root == nil || origin.Fatal(from.findings) {
				return s.fatal(c.source.at, "replacement", "the source %q cannot be built", name)
			}
			nodes = append(nodes, kyaml.NewRNode(from.root))
		}
	}
	if !c.bounded(s, f, nodes) {
		return false
	}
	before := copyOf(s.root, 0)
	if _, err := (replacement.Filter{Replacements: []types.Replacement{one}}).Filter(nodes); err != nil {
		return s.kustomized(f.at, err)
	}
	s.from.blameChanges(before, s.root, f.at)
	return true
}

// bounded refuses a replacement that could write a long value very often.
func (c replace) bounded(s *state, f targetField, nodes []*kyaml.RNode) bool {
	if !strings.ContainsAny(f.path, "*[") {
		return true
	}
	value := 0
	if c.value != nil {
		value = len(*c.value)
	} else {
		n := nodes[len(nodes)-1]
		if found, err := n.Pipe(kyaml.Lookup(strings.Split(c.path, ".")...)); err == nil && found != nil {
			value = size(found.YNode(), maxGrown)
		}
	}
	if value*count(s.root) > 4*maxGrown {
		return s.fatal(f.at, "too-large", "this could write a value of %d bytes to too many fields; name the fields", value)
	}
	return true
}

func count(n *yaml.Node) int {
	total := 1
	for _, c := range n.Content {
		total += count(c)
	}
	return total
}

// nameAfter is the name that a document has after so many steps.
func (d *document) nameAfter(steps int) string {
	if steps == 0 {
		return d.names[0]
	}
	return d.uses[steps-1].name
}

func exactly(a about, name string) *types.Selector {
	return &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Group: a.group, Version: a.version, Kind: string(a.kind)}, Name: name}}
}

// blameChanges makes one place that of everything that differs between two states of a tree, and keeps the places of
// all else.
func (s *sources) blameChanges(before, after *yaml.Node, at origin.Pos) {
	if before.Kind != after.Kind || before.Kind == yaml.ScalarNode && before.Value != after.Value {
		s.blameAll(after, at)
		return
	}
	after.Line, after.Column = before.Line, before.Column
	for i, c := range after.Content {
		var was *yaml.Node
		switch {
		case after.Kind == yaml.MappingNode && i%2 == 0:
			was = c
		case after.Kind == yaml.MappingNode:
			_, was = field(before, after.Content[i-1].Value)
		case i < len(before.Content):
			was = before.Content[i]
		}
		if was == nil {
			s.blameAll(c, at)
		} else {
			s.blameChanges(was, c, at)
		}
	}
}
