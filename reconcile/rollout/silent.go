package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// SilentBlock names the nodes whose daemons have stopped reporting, the first ones with the time of the last heartbeat. It
// holds nobody up: a rollout decides by what nodes reported.
func SilentBlock(silent map[string]time.Time) Block {
	names := slices.Sorted(maps.Keys(silent))
	var texts []string
	for _, name := range names[:min(len(names), named)] {
		texts = append(texts, fmt.Sprintf("%s since %s", name, at(silent[name])))
	}
	if more := len(names) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return Block{Cause: CauseSilent, Reason: "no heartbeat of the machine-config-daemon of " + strings.Join(texts, ", ")}
}
