package poolstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// SilentBlock returns the block that names nodes whose daemons have stopped reporting, the first nodes with the time of
// the last heartbeat. Missing heartbeats do not delay the rollout, which uses the last reports of the nodes.
func SilentBlock(silent map[string]time.Time) Block {
	names := slices.Sorted(maps.Keys(silent))
	var texts []string
	for _, name := range names[:min(len(names), MaxNamed)] {
		texts = append(texts, fmt.Sprintf("%s since %s", name, FormatTime(silent[name])))
	}
	if more := len(names) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return Block{Cause: CauseSilent, Reason: "no heartbeat of the machine-config-daemon of " + strings.Join(texts,
		", ")}
}
