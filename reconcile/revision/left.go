package revision

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Left returns an error if MachineConfigs of a deleted GitSource may be a part of a revision, because the GitSource was
// deleted during an apply. These MachineConfigs are a whole revision if the pool was last rendered from exactly these,
// according to the pool's record was. If the record does not contain the GitSource, the parameter recorded decides: the
// digests of the inputs of the config in force. Left ignores MachineConfigs without a GitSource, because users may
// change them freely. Left also ignores MachineConfigs from which no pool was rendered since the deletion.
func Left(was v1alpha1.PoolTarget, f TargetFacts, recorded map[string]string) error {
	now := f.gone()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		before, known := was.Gone[name]
		if s, existed := was.Sources[name]; existed {
			before, known = s.Inputs, true
		}
		if known && before != now[name] || !known && !f.hasOnly(recorded) {
			return fmt.Errorf("GitSource %q was deleted, and its MachineConfigs differ from those in the last config "+
				"of pool %s. They may be half a commit: "+
				"create the GitSource again, or remove the label %s from its MachineConfigs to use them as they are",
				name, f.Pool, v1alpha1.SourceLabel)
		}
	}
	return nil
}

// hasOnly reports whether all inputs of deleted GitSources are among the recorded inputs, and no recorded input is
// missing.
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
