package contents

import (
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/trace"
	"github.com/bunsen-os/bunsen/internal/policy"
	"github.com/bunsen-os/bunsen/internal/policy/secret"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
)

// Contents are the items of one rendered config.
type Contents struct {
	// Trace says which commit requested the config, and which MachineConfigs it contains.
	Trace trace.Trace
	Items []Item
	// Note says why the positions of items are not known. It is empty if the caller asked for no positions, or if they
	// are known.
	Note string
}

// Lines are the positions of items in a repository.
type Lines struct {
	// At maps an item, such as `file /etc/motd`, to its position `file:line:col`.
	At map[string]string
	// Note says why positions are not known, or what differs between the config and the repository. It is empty if
	// nothing differs.
	Note string
}

// Item is one item of a rendered config. A program may search its texts: no text has a secret.
type Item struct {
	// Kind is the noun for the item's kind, such as `file` or `kernel argument`.
	Kind string
	// Name is the path or the name of the item. For an item without a name, Name is the value.
	Name string
	// Origin says which documents set the item, the last one first.
	Origin string
}

// Of reads the items of a rendered config. The parameter inputs has the MachineConfigs of the rendered config that the
// cluster still has. The positions of items may be empty.
func Of(mc *mcfgv1.MachineConfig, t trace.Trace, inputs []*mcfgv1.MachineConfig, lines Lines) (Contents, error) {
	marked, err := secret.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	if err != nil {
		return Contents{}, fmt.Errorf("reading annotation %s of MachineConfig %s: %w", v1alpha1.SecretPathsAnnotation,
			mc.Name, err)
	}
	options := lineage.Options{Pool: t.Rendered.Pool, Mask: marked.Mask}
	of, err := lineage.LayersOf([]*mcfgv1.MachineConfig{mc}, nil)
	if err != nil {
		return Contents{}, err
	}
	layers, err := lineage.LayersOf(inputs, nil)
	if err != nil {
		return Contents{}, err
	}
	by := lineage.New(layers, options)
	out := Contents{Trace: t, Note: lines.Note}
	texts := t.InputTexts()
	for _, n := range lineage.NamesOf(lineage.New(of, options)) {
		if n.Kind == policy.KindIgnition {
			continue // The skipped items are the version of the format, and settings of the first boot.
		}
		origin := originOf(lineage.Setters(by, n), t, texts)
		if at := lines.At[string(n.Kind)+" "+n.Shown]; at != "" {
			origin = at + "   " + origin
		}
		out.Items = append(out.Items, Item{Kind: n.Noun(), Name: n.Shown, Origin: origin})
	}
	return out, nil
}

// originOf describes the documents that set an item, the last one first.
func originOf(layers []string, t trace.Trace, texts map[string]string) string {
	if len(layers) == 0 {
		switch {
		case len(t.Inputs) == 0:
			return "not recorded"
		case len(texts) < len(t.Inputs):
			return "not known: a MachineConfig of this config is gone or changed"
		}
		return "the controller's defaults, or a MachineConfig that has changed since"
	}
	var out []string
	for i := len(layers) - 1; i >= 0; i-- {
		out = append(out, texts[layers[i]])
	}
	return strings.Join(out, ", in place of ")
}

// Match is an item of one or several rendered configs that matches a search.
type Match struct {
	Kind, Name string
	// In has the configs that have the item.
	In []Holder
}

// Holder is a rendered config that has an item, with the item's origin there.
type Holder struct {
	Config, Origin string
}

// Search returns the items whose kind and name contain a text, in any case. Search returns at most a number of them,
// and how many more there are.
func Search(all []Contents, text string, most int) (found []Match, more int) {
	type key struct{ kind, name string }
	at := map[key]int{}
	text = strings.ToLower(text)
	for _, c := range all {
		for _, it := range c.Items {
			if !strings.Contains(strings.ToLower(it.Kind+" "+it.Name), text) {
				continue
			}
			k := key{it.Kind, it.Name}
			i, known := at[k]
			if !known {
				i = len(found)
				at[k] = i
				found = append(found, Match{Kind: it.Kind, Name: it.Name})
			}
			found[i].In = append(found[i].In, Holder{c.Trace.Rendered.Name, it.Origin})
		}
	}
	if len(found) > most {
		return found[:most], len(found) - most
	}
	return found, 0
}
