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

// LastChange returns which row of the history last changed an item of a config of the pool: it compares the config with
// the one before, and so on, up to the pool's first config. read returns a config of the cluster, and false if it is
// gone. The result is nil if not even one comparison was possible.
func (h History) LastChange(config string, item ItemKey,
	read func(config string) (machineconfig.Config, bool, error),
) (*ItemChange, error) {
	var out *ItemChange
	to, has, err := read(config)
	if err != nil || !has {
		return nil, err
	}
	next := 0
	for range mostCompared {
		at := slices.IndexFunc(h.Rows[next:], func(r Row) bool {
			return r.Rendered == config && r.Before != "" && r.Before != config
		})
		if at < 0 {
			// The oldest row of a pool replaced nothing: the item came with it.
			if oldest := len(h.Rows) - 1; oldest >= 0 && h.Rows[oldest].Rendered == config && h.Rows[oldest].Before == "" {
				out = &ItemChange{Row: oldest}
			}
			return out, nil
		}
		at += next
		from, has, err := read(h.Rows[at].Before)
		if err != nil {
			return nil, fmt.Errorf("reading the config before %s: %w", config, err)
		}
		if !has {
			return out, nil
		}
		out = &ItemChange{Row: at, Unchanged: !differs(item, from, to)}
		if !out.Unchanged {
			return out, nil
		}
		config, to, next = h.Rows[at].Before, from, at+1
	}
	return out, nil
}

// differs reports whether two configs differ in an item.
func differs(k ItemKey, from, to machineconfig.Config) bool {
	has := func(value func(machineconfig.Config) []string) bool {
		return slices.Contains(value(machineconfig.Flattened(from)), k.Name) !=
			slices.Contains(value(machineconfig.Flattened(to)), k.Name)
	}
	switch k.Kind {
	case disruption.KindKargs:
		return has(func(c machineconfig.Config) []string { return machineconfig.SplitKargs(c.KernelArguments) })
	case disruption.KindExtensions:
		return has(func(c machineconfig.Config) []string { return c.Extensions })
	}
	return slices.ContainsFunc(disruption.Compare(from, to), func(c disruption.Change) bool {
		return c.Kind == k.Kind && (c.Name == k.Name || c.Name == "")
	})
}
