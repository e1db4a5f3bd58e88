package revision

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Left returns an error where MachineConfigs of a GitSource that is gone may be half a revision: an apply may have been under way when
// the GitSource was deleted. They are whole where they are what the pool was last rendered from, as its record was has it.
// recorded maps the inputs of the config in force to their digests, for a record that knows nothing about the GitSource. What belongs
// to no GitSource, and what no pool was rendered from since, does not count: users create, change and delete that as they like.
func Left(was v1alpha1.PoolTarget, f TargetFacts, recorded map[string]string) error {
	now := f.gone()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		before, known := was.Gone[name]
		if s, existed := was.Sources[name]; existed {
			before, known = s.Inputs, true
		}
		if known && before != now[name] || !known && !f.hasOnly(recorded) {
			return fmt.Errorf("GitSource %q was deleted, and its MachineConfigs are not those that pool %s was last rendered from, so they may be half a commit; "+
				"create the GitSource again, or remove the label %s from its MachineConfigs to use them as they are", name, f.Pool, v1alpha1.SourceLabel)
		}
	}
	return nil
}

// hasOnly reports whether the inputs that belong to a GitSource which is gone are among the recorded ones, and nothing recorded is missing.
func (f TargetFacts) hasOnly(recorded map[string]string) bool {
	there := map[string]bool{}
	for _, in := range f.Inputs {
		there[in.Name] = true
		_, exists := f.Sources[in.Source]
		if in.Source != "" && !exists && shorten(recorded[in.Name]) != in.Digest {
			return false
		}
	}
	for name := range recorded {
		if !there[name] {
			return false
		}
	}
	return true
}
