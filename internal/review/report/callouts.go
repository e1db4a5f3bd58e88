package report

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/internal/review"
)

// notEvicted says that nodes reboot with their pods.
func notEvicted(p review.PoolChange) []string {
	switch {
	case p.Rollout == nil || p.Rollout.NotEvicted == 0:
		return nil
	case p.Rollout.NotEvicted == 1:
		return []string{"the pods of 1 node are not evicted, because no other node can run them, whatever their " +
			"PodDisruptionBudgets say"}
	}
	return []string{fmt.Sprintf("the pods of %d nodes are not evicted, because no other node can run them, whatever "+
		"their PodDisruptionBudgets say", p.Rollout.NotEvicted)}
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// markdownName is itemTitle without the word "file", which a path does not need.
func markdownName(it review.Item) string { return strings.TrimPrefix(itemTitle(it), "file ") }

// maxOpen limits the lines of a section that is not folded.
const maxOpen = 24

const detailsEnd = "</details>\n\n"
