package overlay

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/filters/patchstrategicmerge"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// change is the application of one step to one document.
type change struct {
	step     *Step
	document *document
	name     string // the name of the document after the step
	// source is the document from which a replacement copies its value. sourceName is the name that this document has
	// at the time of the replacement.
	source     *document
	sourceName string
}

// apply applies the change. apply does nothing if the document is deleted or has a fatal finding.
func (c change) apply(b *builder) {
	d := c.document
	d.load()
	if d.root == nil || origin.Fatal(d.findings) {
		return
	}
	if !b.spend(1000 + size(d.root, maxGrown)) {
		d.fatal(c.step.At, "too-large", "patching all documents needs more work than a repository of this size may "+
			"request: use fewer patches that select many documents")
		return
	}
	defer d.recoverPanic()
	if !c.step.Selector.MatchesMetadata(d.root) {
		return
	}
	d.effects = append(d.effects, effect{step: c.step, what: applied})
	if c.transform(b) {
		c.checkSize()
	}
}

// transform applies the step to the document. If the step fails, transform adds a fatal finding to the document and
// returns false.
func (c change) transform(b *builder) bool {
	switch t := c.step.Transform.(type) {
	case *Patch:
		return b.applyPatch(t, c)
	case Replacement:
		return applyReplacement(t, c)
	case SetMetadata:
		return applyMetadata(t, c)
	case Rename:
		return applyRename(c)
	default:
		return false
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

func (b *builder) applyPatch(p *Patch, c change) bool {
	if p.Object == nil {
		return b.applyOperations(p, c)
	}
	return b.applyMerge(p, c)
}

// applyMerge merges the patch into a document.
func (b *builder) applyMerge(p *Patch, c change) bool {
	d := c.document
	lists := d.file.Info.Lists
	before, wholeBefore := documents.Entries(d.content(), lists), documents.WholeEntries(d.content(), lists)
	for _, of := range p.Deletions {
		e := effect{step: c.step, what: missing, entry: of.Entry, at: of.At}
		if _, there := before[of.Entry]; there {
			e.what = deleted
		}
		d.effects = append(d.effects, e)
	}
	part := documents.Copy(p.Object, d.files.Bits(p.File))
	if !p.checkMerge(d, part) {
		return false
	}
	_, meta := documents.Field(part, "metadata")
	if meta == nil {
		meta = documents.Mapping()
		documents.Set(part, "metadata", meta)
	}
	documents.Remove(part, "apiVersion") // A patch does not change the kind and the name of the document.
	documents.Remove(part, "kind")
	documents.Remove(meta, "name")
	content := d.file.Info.Content(part)
	inPatch, inDocument := scalarItems(documents.Entries(content, lists)), scalarItems(before)
	inOrder := orderedItems(d.content(), content, lists)
	b.spend(p.Size)
	documents.AddHiddenKeys(d.content(), lists)
	documents.AddHiddenKeys(content, lists)
	out, err := merge(d.root, part)
	if err != nil {
		return d.kustomizeFailed(p.At, err)
	}
	if d.root = out; out == nil {
		return true
	}
	documents.RemoveHiddenKeys(d.content(), lists)
	after := documents.Entries(d.content(), lists)
	restoreScalars(after, inPatch, inDocument)
	placeNewLists(d.content(), lists)
	setOrder(d.content(), inOrder)
	for _, e := range removedEntries(before, after) {
		if !p.deletesByName(e) {
			d.effects = append(d.effects, effect{
				step: c.step, what: removed, entry: e, at: p.listPosition(e),
				was: d.entryPosition(before[e], e),
			})
		}
	}
	for _, e := range removedOfWhole(before, after, wholeBefore, documents.WholeEntries(d.content(), lists)) {
		d.effects = append(d.effects, effect{
			step: c.step, what: removed, entry: e, at: p.listPosition(e), was: d.files.Pos(wholeBefore[e]),
		})
	}
	return true
}

// setOrder gives merged lists the order of their items, without items that kustomize did not keep.
func setOrder(content *yaml.Node, inOrder map[string][]*yaml.Node) {
	for path, items := range inOrder {
		for _, list := range documents.NodesBelow(content, strings.Split(path, ".")) {
			list.Content = slices.DeleteFunc(items, func(n *yaml.Node) bool { return !hasValue(list.Content, n.Value) })
		}
	}
}

// scalarItems copies the items of lists of scalars, because kustomize overwrites these items.
func scalarItems(in map[documents.Entry]*yaml.Node) map[documents.Entry]yaml.Node {
	out := map[documents.Entry]yaml.Node{}
	for e, item := range in {
		if item.Kind == yaml.ScalarNode {
			out[e] = *item
		}
	}
	return out
}

// restoreScalars restores the positions and the notation of the items that scalarItems copied.
func restoreScalars(after map[documents.Entry]*yaml.Node, inPatch, inDocument map[documents.Entry]yaml.Node) {
	for e, item := range after {
		if was, ok := inPatch[e]; ok && item.Kind == yaml.ScalarNode {
			*item = was
		} else if was, ok := inDocument[e]; ok && item.Kind == yaml.ScalarNode {
			*item = was
		}
	}
}

// placeNewLists sets the position of each list that kustomize created to the position of the list's first item.
func placeNewLists(content *yaml.Node, lists []documents.List) {
	for _, l := range lists {
		for _, n := range documents.NodesBelow(content, strings.Split(l.Path, ".")) {
			if n.Line == 0 && len(n.Content) > 0 {
				n.Line, n.Column = n.Content[0].Line, n.Content[0].Column
			}
		}
	}
}

// orderedItems returns, by its path, the order of each list in which the last item counts: first what only the document
// has, then what the patch has. kustomize would put the items of the patch first.
func orderedItems(content, patch *yaml.Node, lists []documents.List) map[string][]*yaml.Node {
	out := map[string][]*yaml.Node{}
	for _, l := range lists {
		words := strings.Split(l.Path, ".")
		theirs := scalarsIn(patch, words)
		if !l.IsOrdered || len(theirs) == 0 {
			continue
		}
		for _, item := range scalarsIn(content, words) {
			if !hasValue(theirs, item.Value) {
				out[l.Path] = append(out[l.Path], item)
			}
		}
		out[l.Path] = append(out[l.Path], theirs...)
	}
	return out
}

// scalarsIn returns copies of the scalars of a list.
func scalarsIn(content *yaml.Node, words []string) (out []*yaml.Node) {
	for _, list := range documents.NodesBelow(content, words) {
		if list.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range list.Content {
			if item.Kind == yaml.ScalarNode {
				is := *item
				out = append(out, &is)
			}
		}
	}
	return out
}

// merge merges a patch into an object. The result is nil if the patch deletes the object.
func merge(object, part *yaml.Node) (*yaml.Node, error) {
	out, err := patchstrategicmerge.Filter{Patch: kyaml.NewRNode(part)}.Filter([]*kyaml.RNode{kyaml.NewRNode(object)})
	if err != nil || len(out) == 0 || out[0].IsNilOrEmpty() {
		return nil, err
	}
	return out[0].YNode(), nil
}

// listPosition returns the position in the patch of the list that contains an entry. If the patch does not have the
// list, listPosition returns the position of the nearest parent.
func (p *Patch) listPosition(e documents.Entry) origin.Pos {
	n, at := p.Info.Content(p.Object), p.At
	for _, word := range strings.Split(e.List, ".") {
		if _, n = documents.Field(n, word); n == nil {
			break
		}
		at = origin.Pos{File: p.File, Line: n.Line, Column: n.Column}
	}
	return at
}

// deletesByName reports whether the patch deletes an entry by its name.
func (p *Patch) deletesByName(e documents.Entry) bool {
	return slices.ContainsFunc(p.Deletions, func(d Deletion) bool { return d.Entry == e })
}

// checkMerge refuses patches that kustomize would merge wrongly or too slowly.
func (p *Patch) checkMerge(d *document, part *yaml.Node) bool {
	info := d.file.Info
	if info.Kind == documents.Ignition && documents.IsIgnition2(d.content()) && !p.Deletes {
		return d.fatal(p.At, "patch", "%s is a config of Ignition 2, where a path can occur twice, so a patch is "+
			"ambiguous. Use a JSON patch, or write the config as version 3", d.file.Path)
	}
	if key, twice := documents.FindAmbiguousKey(d.content(), info.Content(part), info.Lists); twice {
		return d.fatal(p.At, "patch-key", "%q occurs twice in %s, so a patch of it is ambiguous; use operations of a "+
			"JSON patch", key, d.file.Path)
	}
	if isWide(d.root) || isWide(part) {
		return d.fatal(p.At, "too-large", "%s, or the patch, has a list or mapping of more than %d entries, which "+
			"kustomize would take too long to merge", d.file.Path, maxWidth)
	}
	return true
}

// isWide reports whether a list or mapping of the tree has more entries than kustomize can merge in time.
func isWide(n *yaml.Node) bool {
	limit := maxWidth
	if n.Kind == yaml.MappingNode {
		limit *= 2
	}
	if len(n.Content) > limit {
		return true
	}
	for _, c := range n.Content {
		if c.Content != nil && isWide(c) {
			return true
		}
	}
	return false
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

// recoverPanic turns a panic in kustomize into a finding, so that the panic fails only this build.
func (d *document) recoverPanic() {
	if recover() != nil {
		d.fatal(origin.Pos{File: d.file.Path}, "kustomize", "the document cannot be built: kustomize failed "+
			"unexpectedly while it applied the patches")
	}
}

// checkSize refuses a document that grew too large. checkSize reports whether the size is allowed.
func (c change) checkSize() bool {
	d := c.document
	if d.root != nil && size(d.root, maxGrown) > maxGrown {
		return d.fatal(c.step.At, "too-large", "with this the document %q has more than %d bytes", d.name(), maxGrown)
	}
	return true
}

// size returns approximately how many bytes a tree needs. size stops counting above the limit.
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

// quoting matches the parts of kustomize's errors that quote documents and patches, because these may contain secrets.
var quoting = regexp.MustCompile(":? ?(?:node contents: .*|(?:with config: ?)?`.*`|from \\[patch: .*\\]|in the YAML: " +
	".*|for value .*)")

// kustomizeFailed adds kustomize's error as a finding, without the quoted parts, and returns false.
func (d *document) kustomizeFailed(at origin.Pos, err error) bool {
	msg := strings.Join(strings.Fields(err.Error()), " ")
	msg = quoting.ReplaceAllString(msg, "")
	if d.file.Info.Wrapped {
		msg = strings.NewReplacer("/spec/", "/", `"spec.`, `"`, " spec.", " ").Replace(msg)
	}
	return d.fatal(at, "kustomize", "kustomize cannot apply this to %q (%s): %s", d.name(), d.file.Path, msg)
}

// maxWidth is how many entries a list or a mapping may have if kustomize merges it. The time for a merge grows with the
// square of that number.
const maxWidth = 4000

func hasValue(in []*yaml.Node, value string) bool {
	return slices.ContainsFunc(in, func(n *yaml.Node) bool { return n.Value == value })
}
