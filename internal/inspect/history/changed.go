package history

import (
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// ItemKey identifies an item of a config. The name of a kernel argument or of an extension is the value itself.
type ItemKey struct {
	Kind disruption.ChangeKind
	Name string
}

// ItemChange says which row of a history last changed an item.
type ItemChange struct {
	// Row is its index.
	Row int
	// Unchanged: no row changed the item, as far as the configs before are still on the cluster. Row is then the
	// earliest one that could be compared.
	Unchanged bool
}

// mostCompared limits the configs that a search for the last change reads.
const mostCompared = 30

// LastChanges returns which row of the history last changed each item of a config of the pool: it compares the config
// with the one before, and so on, up to the pool's first config. read returns a config of the cluster, and false if it
// is gone. An item is missing in the result if not even one comparison was possible.
func (h History) LastChanges(config string, items []ItemKey,
	read func(config string) (machineconfig.Config, bool, error),
) (map[ItemKey]ItemChange, error) {
	out := map[ItemKey]ItemChange{}
	to, has, err := read(config)
	if err != nil || !has {
		return out, err
	}
	left, next := slices.Clone(items), 0
	for range mostCompared {
		at := slices.IndexFunc(h.Rows[next:], func(r Row) bool {
			return r.Rendered == config && r.Before != "" && r.Before != config
		})
		if at < 0 {
			// The first rollout of a pool replaced nothing: what is left came with it. A commit without a rollout
			// replaced nothing either, but brought nothing.
			for first, r := range slices.Backward(h.Rows) {
				if r.Began == nil {
					continue
				}
				for _, item := range left {
					if r.Rendered == config && r.Before == "" {
						out[item] = ItemChange{Row: first}
					}
				}
				break
			}
			return out, nil
		}
		at += next
		from, has, err := read(h.Rows[at].Before)
		if err != nil {
			return out, fmt.Errorf("reading the config before %s: %w", config, err)
		}
		if !has {
			return out, nil
		}
		changed := changes(from, to)
		left = slices.DeleteFunc(left, func(item ItemKey) bool {
			out[item] = ItemChange{Row: at, Unchanged: !changed(item)}
			return changed(item)
		})
		if len(left) == 0 {
			return out, nil
		}
		config, to, next = h.Rows[at].Before, from, at+1
	}
	return out, nil
}

// changes returns which items differ between two configs.
func changes(from, to machineconfig.Config) func(ItemKey) bool {
	all := disruption.Compare(from, to)
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	was, is := machineconfig.SplitKargs(from.KernelArguments), machineconfig.SplitKargs(to.KernelArguments)
	return func(k ItemKey) bool {
		switch k.Kind {
		case disruption.KindKargs:
			return slices.Contains(was, k.Name) != slices.Contains(is, k.Name)
		case disruption.KindExtensions:
			return slices.Contains(from.Extensions, k.Name) != slices.Contains(to.Extensions, k.Name)
		}
		return slices.ContainsFunc(all, func(c disruption.Change) bool {
			return c.Kind == k.Kind && (c.Name == k.Name || c.Name == "")
		})
	}
}
