package overlay

import (
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// outcomes are what all steps did to all documents.
type outcomes struct {
	of    map[*step]*outcome
	order []*step
}

// outcome is what one step did.
type outcome struct {
	applied bool
	// deletions, and whether any document had the entry.
	deletions map[fact]bool
	removed   []loss
}

// loss is an entry that a step made disappear.
type loss struct {
	fact
	document string
}

// note keeps what a document's steps did.
func (b *outcomes) note(d *document, made *built) {
	for i := range d.uses {
		if s := d.uses[i].step; b.of[s] == nil {
			b.of[s] = &outcome{deletions: map[fact]bool{}}
			b.order = append(b.order, s)
		}
	}
	for _, f := range made.facts {
		o := b.of[d.uses[f.step].step]
		was := fact{entry: f.entry, at: f.at}
		switch f.what {
		case applied:
			o.applied = true
		case deleted:
			o.deletions[was] = true
		case missing:
			if !o.deletions[was] { // another document may have it
				o.deletions[was] = false
			}
		case removed:
			o.removed = append(o.removed, loss{f, d.name()})
		}
	}
}

// conclude says what was lost, and what had no effect.
func (b *outcomes) conclude(layers map[string]*layer) (out []origin.Finding) {
	used := map[*layer]map[string]bool{}
	for _, s := range b.order {
		o := b.of[s]
		if !o.applied && s.selector.depends() {
			out = append(out, fatal(s.selector.at, "patch-target", "no document that is meant here has the labels or annotations; kustomize would pass over the patch in silence"))
		}
		for f, found := range o.deletions {
			if !found {
				out = append(out, origin.Finding{Warning: true, Rule: "delete-missing", At: f.at, Message: fmt.Sprintf("there is no %s to delete here: correct its name, or remove this item", f.entry)})
			}
		}
		if used[s.layer] == nil {
			used[s.layer] = map[string]bool{}
		}
		out = append(out, s.layer.lost(o.removed, used[s.layer])...)
	}
	return append(out, idle(layers, used)...)
}

// maxLosses is how many entries that one layer's step makes disappear are named one by one.
const maxLosses = 20

// lost warns of entries that disappeared, unless their layer says so itself.
func (l *layer) lost(losses []loss, used map[string]bool) (out []origin.Finding) {
	told := 0
	for _, f := range losses {
		if name, ok := l.acknowledges(f.entry); ok {
			used[name] = true
			continue
		}
		if told++; told > maxLosses {
			continue
		}
		from := ""
		if f.was.File != "" {
			from = " (" + f.was.String() + ")"
		}
		out = append(out, origin.Finding{
			Warning: true, Rule: "entry-removed", At: f.at,
			Message: fmt.Sprintf("this makes %s%s disappear from %q; if that is meant, delete the item with `$patch: delete`, or say so in %s: metadata: {annotations: {%s: %q}}", f.entry, from, f.document, l.file, RemovesAnnotation, f.entry.short()),
		})
	}
	if told > maxLosses {
		out = append(out, origin.Finding{Warning: true, Rule: "entry-removed", At: losses[0].at, Message: fmt.Sprintf("this makes %d more entries disappear", told-maxLosses)})
	}
	return out
}

// acknowledges tells by which word a layer says that an entry may disappear.
func (l *layer) acknowledges(e entry) (string, bool) {
	holder, _ := e.within()
	for _, name := range l.removes {
		if name == "*" || name == e.name || name == e.short() || name == holder.name {
			return name, true
		}
	}
	return "", false
}

// idle warns of words that acknowledge nothing: they would hide the loss of what comes by that name later.
func idle(layers map[string]*layer, used map[*layer]map[string]bool) (out []origin.Finding) {
	for _, dir := range sortedKeys(layers) {
		l := layers[dir]
		if l == nil {
			continue
		}
		words := slices.DeleteFunc(slices.Clone(l.removes), func(name string) bool { return used[l][name] })
		if len(words) > 0 {
			out = append(out, origin.Finding{Warning: true, Rule: "entry-removed", At: l.removesAt, Message: fmt.Sprintf("%s acknowledges that %s disappears, and nothing of that name does; remove it", RemovesAnnotation, some(words))})
		}
	}
	return out
}
