package overlay

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

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
		out = append(out, s.Layer.reportLosses(o.removed, used[s.Layer])...)
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
func (l *Layer) reportLosses(losses []loss, used map[string]bool) (out []origin.Finding) {
	count := 0
	for _, f := range losses {
		if name, ok := l.acknowledgement(f.entry); ok {
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
func (l *Layer) acknowledgement(e documents.Entry) (string, bool) {
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
