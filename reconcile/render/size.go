package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/policy"
)

// MaxSize is the most bytes that a rendered config's spec may have as JSON. The store of a cluster takes no object much
// larger.
const MaxSize = 1_572_864

// guardSize refuses a spec that is too large, and returns a warning for one that is nearly so. Both name the largest
// entries and who set them.
func guardSize(r Rendered) (warning string, err error) {
	text, err := json.Marshal(r.Spec)
	if err != nil {
		return "", fmt.Errorf("measuring the rendered config of pool %s: %w", r.Pool, err)
	}
	switch size := len(text); {
	case size > MaxSize:
		return "", fmt.Errorf("the rendered config of pool %s has %d bytes, more than the %d that a cluster stores: make these smaller, or fetch them on the node: %s", r.Pool, size, MaxSize, largest(r))
	case size > MaxSize/10*8:
		return fmt.Sprintf("the rendered config of pool %s has %d bytes, %d %% of the most that a cluster stores; the largest are %s", r.Pool, size, size*100/MaxSize, largest(r)), nil
	}
	return "", nil
}

// largest names the five largest files and units.
func largest(r Rendered) string {
	type sized struct {
		entry
		bytes int
	}
	var all []sized
	for _, f := range r.Config.Ignition.Storage.Files {
		if f.Contents.Source != nil {
			all = append(all, sized{entry{policy.KindFile, f.Path}, len(*f.Contents.Source)})
		}
	}
	for _, u := range r.Config.Ignition.Systemd.Units {
		s := sized{entry{policy.KindUnit, u.Name}, 0}
		if u.Contents != nil {
			s.bytes = len(*u.Contents)
		}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				s.bytes += len(*d.Contents)
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b sized) int { return cmp.Or(b.bytes-a.bytes, cmp.Compare(a.name, b.name)) })
	var parts []string
	for _, s := range all[:min(5, len(all))] {
		parts = append(parts, fmt.Sprintf("%s %s (%d bytes, from MachineConfig %s)", s.kind, s.name, s.bytes, r.winners[s.entry]))
	}
	return strings.Join(parts, ", ")
}
