package overlay

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// Result is the result of building one directory.
type Result struct {
	// Documents are the documents in the order of the build.
	Documents []documents.Document
	// Reads lists the files that the build read, with the digests of their contents.
	Reads []origin.File
	// AsWritten are the documents before any patch. AsWritten is set only if the build fails, and does not contain
	// documents that have their own fatal finding. Use AsWritten to find further errors, not to configure a node.
	AsWritten []documents.Document
}

// The limits on one build. The limits are much larger than real repositories need, and small enough to keep a build
// fast.
const (
	maxFindings  = 1000
	maxDocuments = 20_000
	// maxLayers is the maximum number of directories. A directory counts once for each time that a kustomization lists
	// it.
	maxLayers  = 2000
	maxNesting = 50
	// the bytes of documents and patches; each counts once for each time that a patch changes a document
	maxWork  = 512 << 20
	maxGrown = 8 << 20 // the size of one document, in bytes

	// freeWork is the work that every repository may cause, even a small one: 16 MiB, which need less than two seconds
	// of CPU time.
	freeWork    = 16 << 20
	workPerByte = 200 // the additional work that is allowed for each byte that the build reads
)

// builder is the state of one build.
type builder struct {
	*Reader
	work    int // work is the number of bytes that the build has processed so far. The method spend adds to work.
	maxWork int
}

// Build builds the directory dir of fsys. If a finding is fatal, Documents is nil. Warnings do not prevent documents.
// In a directory without a kustomization file, all documents are resources, in lexical order of their files.
func Build(fsys fs.FS, dir string) (Result, []origin.Finding) { return buildWithin(fsys, dir, maxWork) }

// buildWithin is Build with another limit for the work.
func buildWithin(fsys fs.FS, dir string, limit int) (Result, []origin.Finding) {
	b := newBuilder(fsys, limit)
	var out Result
	docs, changes := b.gather(path.Clean(dir))
	if !origin.Fatal(b.Findings) {
		out.Documents = b.apply(docs, changes)
	}
	if origin.Fatal(b.Findings) {
		return Result{AsWritten: b.asWritten()}, sorted(b.Findings)
	}
	b.WarnUnlisted()
	for _, f := range slices.Sorted(maps.Keys(b.Reads)) {
		out.Reads = append(out.Reads, origin.File{Path: f, Blob: b.Reads[f]})
	}
	return out, sorted(b.Findings)
}

// gather finds all documents of a directory and the changes to them, in order. Documents that a patch deletes come
// last.
func (b *builder) gather(dir string) ([]*document, []change) {
	g := &gatherer{builder: b, effective: map[SetMetadata]bool{}}
	l := b.Layer(dir, origin.Pos{File: dir})
	if l == nil {
		return nil, nil
	}
	if l.Component {
		b.Add(origin.Errorf(origin.Pos{File: l.File}, "kustomization", "a component is no directory of its own: list "+
			"it under components of a kustomization"))
		return nil, nil
	}
	all := newDocumentSet()
	g.layerInto(l, all)
	g.reportUnmatched()
	g.warnUnusedMetadata()
	return slices.Concat(all.docs, g.dropped), g.changes
}

func newBuilder(fsys fs.FS, limit int) *builder {
	return &builder{Reader: NewReader(fsys), maxWork: limit}
}

// spend adds bytes to the work that the build has done so far, and reports whether more work is allowed.
func (b *builder) spend(bytes int) bool {
	b.work += bytes
	return b.work <= min(b.maxWork, freeWork+workPerByte*b.Bytes)
}

// apply applies all changes and returns the documents that no patch deleted.
func (b *builder) apply(docs []*document, changes []change) []documents.Document {
	if err := b.applyAll(changes); err != nil {
		b.Add(origin.Errorf(origin.Pos{}, "kustomize", "%v", err))
		return nil
	}
	var out []documents.Document
	for _, d := range docs { // Deleted documents are checked too: a document must be valid even if a patch deletes it.
		made := d.finish(b)
		b.Add(d.findings...)
		if !d.isDeleted() && !origin.Fatal(d.findings) {
			out = append(out, made)
		}
	}
	if !origin.Fatal(b.Findings) {
		b.Add(reportEffects(docs, changes, b.Layers)...)
	}
	return out
}

// reportEffects reports entries that were removed, and steps that had no effect.
func reportEffects(docs []*document, changes []change, layers map[string]*Layer) (out []origin.Finding) {
	outcomes := outcomesOf(docs)
	used := map[*Layer]map[string]bool{}
	seen := map[*Step]bool{}
	for _, c := range changes {
		s := c.step
		if seen[s] {
			continue
		}
		seen[s] = true
		o := outcomes[s]
		if o == nil {
			o = &outcome{}
		}
		if !o.applied && s.Selector.HasMetadata() {
			out = append(out, origin.Errorf(s.Selector.At, "patch-target", "no matching document has these labels or "+
				"annotations; kustomize would ignore the patch silently"))
		}
		for of, found := range o.deletions {
			if !found {
				out = append(out, origin.Warningf(of.At, "delete-missing", "there is no %s to delete here: correct "+
					"its name, or remove this item", of.Entry))
			}
		}
		if used[s.Layer] == nil {
			used[s.Layer] = map[string]bool{}
		}
		out = append(out, reportLosses(s.Layer, o.removed, used[s.Layer])...)
	}
	return append(out, reportUnusedAcknowledgements(layers, used)...)
}

// reportUnusedAcknowledgements warns of acknowledgements without a removal. An unused acknowledgement would hide the
// loss if a step later removed an entry with its name.
func reportUnusedAcknowledgements(layers map[string]*Layer,
	used map[*Layer]map[string]bool,
) (out []origin.Finding) {
	for _, dir := range slices.Sorted(maps.Keys(layers)) {
		l := layers[dir]
		if l == nil {
			continue
		}
		words := slices.DeleteFunc(slices.Clone(l.Removes), func(name string) bool { return used[l][name] })
		if len(words) > 0 {
			out = append(out, origin.Warningf(l.RemovesAt, "entry-removed", "%s acknowledges that %s is removed, and "+
				"nothing of that name is; remove it", RemovesAnnotation, some(words)))
		}
	}
	return out
}

// reportLosses warns of removed entries that the layer does not acknowledge. reportLosses marks used acknowledgements.
func reportLosses(l *Layer, losses []loss, used map[string]bool) (out []origin.Finding) {
	count := 0
	for _, f := range losses {
		if name, ok := acknowledgement(l, f.entry); ok {
			used[name] = true
			continue
		}
		if count++; count > maxLosses {
			continue
		}
		from := ""
		if f.was.File != "" {
			from = " (" + f.was.String() + ")"
		}
		remedy := "delete the item with `$patch: delete`, or "
		if f.entry.IsOfWhole() {
			remedy = "" // A list without a merge key has no such directive.
		}
		text := fmt.Sprintf("this removes %s%s from %q; if that is intended, %ssay so in %s: metadata: {annotations: "+
			"{%s: %q}}", f.entry, from, f.document, remedy, l.File, RemovesAnnotation, f.entry.Short())
		if f.entry.IsOfWhole() {
			text += ". If not, repeat the item: a patch replaces this list as a whole"
		}
		out = append(out, origin.Warningf(f.at, "entry-removed", "%s", text))
	}
	if count > maxLosses {
		out = append(out, origin.Warningf(losses[0].at, "entry-removed", "this removes %d more entries",
			count-maxLosses))
	}
	return out
}

// acknowledgement returns the word with which a layer acknowledges that an entry is removed.
func acknowledgement(l *Layer, e documents.Entry) (string, bool) {
	holder, _ := e.Within()
	for _, name := range l.Removes {
		if name == "*" || name == e.Name || name == e.Short() || name == holder.Name {
			return name, true
		}
	}
	return "", false
}

// outcomesOf collects the effects by step.
func outcomesOf(docs []*document) map[*Step]*outcome {
	out := map[*Step]*outcome{}
	for _, d := range docs {
		for _, e := range d.effects {
			o := out[e.step]
			if o == nil {
				o = &outcome{deletions: map[Deletion]bool{}}
				out[e.step] = o
			}
			switch of := (Deletion{Entry: e.entry, At: e.at}); e.what {
			case applied:
				o.applied = true
			case deleted:
				o.deletions[of] = true
			case missing:
				if !o.deletions[of] { // If any document had the entry, the deletion has had an effect.
					o.deletions[of] = false
				}
			case removed:
				o.removed = append(o.removed, loss{e, d.name()})
			}
		}
	}
	return out
}

// applyAll applies all changes in order, while kustomize uses Bunsen's schema.
func (b *builder) applyAll(changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	kustomizeLock.Lock()
	defer kustomizeLock.Unlock()
	if err := resetSchema(); err != nil {
		return err
	}
	for _, c := range changes {
		c.apply(b)
	}
	return nil
}

// resetSchema makes kustomize use Bunsen's schema, because other code in the process may have set another schema. No
// repository can change the schema. The caller holds kustomizeLock.
func resetSchema() error {
	keys, err := documents.Schema()
	if err != nil {
		return err
	}
	openapi.ResetOpenAPI()
	openapi.SuppressBuiltInSchemaUse()
	if err := openapi.AddSchema(keys); err != nil {
		return fmt.Errorf("adding the schema of merge keys: %w", err)
	}
	return nil
}

// asWritten returns the documents that are valid without their patches.
func (b *builder) asWritten() []documents.Document {
	bad := map[string]bool{}
	for _, f := range b.Findings {
		bad[f.At.File] = bad[f.At.File] || !f.Warning
	}
	files := slices.Clone(b.Declared)
	slices.SortStableFunc(files, func(x, y *documents.File) int { return cmp.Compare(x.Name, y.Name) })
	var out []documents.Document
	for _, f := range files {
		if !bad[f.Path] && !f.Broken {
			out = append(out, f.Unchanged)
		}
	}
	return out
}

// sorted returns findings in the order of their positions, and at most maxFindings of them.
func sorted(findings []origin.Finding) []origin.Finding {
	out := slices.Clone(findings)
	slices.SortStableFunc(out, func(x, y origin.Finding) int { return x.At.Compare(y.At) })
	out = slices.Compact(out)
	if len(out) > maxFindings {
		more := len(out) - maxFindings
		slices.SortStableFunc(out, func(x, y origin.Finding) int { return cmp.Compare(severity(x), severity(y)) })
		out = append(out[:maxFindings:maxFindings], origin.Warningf(origin.Pos{}, "more",
			"%d more findings are left out", more))
	}
	return out
}

// severity returns the rank of a finding, so that errors sort before warnings.
func severity(f origin.Finding) int {
	if f.Warning {
		return 1
	}
	return 0
}

// effect is one effect of a step on a document, such as a removed entry.
type effect struct {
	step  *Step
	what  effectKind
	entry documents.Entry
	// at is the position of the step. was is the position of the line that wrote the removed entry.
	at, was origin.Pos
}

type effectKind int

const (
	applied effectKind = iota // applied: the step's selector matched the document.
	removed                   // removed: the step removed an entry.
	deleted                   // deleted: the patch deletes an entry by name, and the document had the entry.
	missing                   // missing: the patch deletes an entry by name, and the document did not have the entry.
)

// outcome collects the effects of one step on all documents.
type outcome struct {
	applied bool
	// deletions maps each entry that the patch deletes by name to whether any document had this entry.
	deletions map[Deletion]bool
	removed   []loss
}

// loss is an entry that a step removed.
type loss struct {
	effect
	document string
}

// maxLosses is how many removed entries of one step get a warning of their own.
const maxLosses = 20

// maxWidth is how many entries a list or a mapping may have if kustomize merges it. The time for a merge grows with the
// square of that number.
const maxWidth = 4000

func hasValue(in []*yaml.Node, value string) bool {
	return slices.ContainsFunc(in, func(n *yaml.Node) bool { return n.Value == value })
}

// removedOfWhole returns the items of lists without a merge key that a step removed, except those of an item that is
// removed itself.
func removedOfWhole(before, after, wholeBefore, wholeAfter map[documents.Entry]*yaml.Node) []documents.Entry {
	var out []documents.Entry
	for e := range wholeBefore {
		holder, within := e.Within()
		_, was := before[holder]
		_, left := after[holder]
		if _, same := wholeAfter[e]; !same && (!within || !was || left) {
			out = append(out, e)
		}
	}
	documents.SortEntries(out)
	return out
}

// removedEntries returns the entries that are in before and not in after, except entries within a removed item.
func removedEntries(before, after map[documents.Entry]*yaml.Node) []documents.Entry {
	var out []documents.Entry
	for e := range before {
		if _, left := after[e]; !left {
			out = append(out, e)
		}
	}
	documents.SortEntries(out)
	return slices.DeleteFunc(out, func(e documents.Entry) bool {
		holder, within := e.Within()
		_, was := before[holder]
		_, left := after[holder]
		return within && was && !left
	})
}

// kustomizeLock guards kustomize's schema, which is in package variables. A build holds the lock while it applies its
// changes.
var kustomizeLock sync.Mutex
