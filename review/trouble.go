package review

import (
	"cmp"
	"fmt"
	"strings"
)

// Failing is why there is no Comparison.
type Failing string

// What fails, in the words of the comment.
const (
	// HeadFails is a head that cannot be rendered.
	HeadFails Failing = "**Nothing would be rolled out:** what merging makes cannot be rendered, so nodes would stay as they are. `bunsen validate` shows the same."
	// BaseFails is a head that can be rendered, and a base that cannot: what nodes run is of an earlier commit.
	BaseFails Failing = "**What this does to machines is not known:** it can be rendered, but what it is merged to cannot, so there is nothing to compare with. Nodes run an earlier commit, and would take everything since then: `bunsen diff` with that commit as the base tells what."
	// AllFails is anything else, such as a revision that is not there.
	AllFails Failing = "**There is no plan:** it could not be worked out, so nothing is known of what this does to machines."
)

// Trouble is the comment in place of Comparison.Markdown where there is none: it has the same marker, so that it takes the
// plan's place and gives it back.
func Trouble(failing Failing, problem string, o MarkdownOptions) string {
	limit := max(cmp.Or(o.Limit, DefaultLimit), MinLimit) - 1000
	problem = visibleLines(strings.TrimSpace(strings.ToValidUTF8(problem, "�")))
	if len(problem) > limit {
		problem = strings.ToValidUTF8(problem[:limit], "") + "\n…"
	}
	fence := fenceFor(problem)
	if fence == "" { // somebody wrote it to break out
		fence, problem = "```", strings.ReplaceAll(problem, "`", "'")
	}
	heading := ""
	if o.Key != "" {
		heading = " · " + code(shorten(o.Key, maxHeading))
	}
	return fmt.Sprintf("%s\n### OS config plan%s\n\n%s\n\n%s\n%s\n%s\n", o.Marker(), heading, failing, fence, problem, fence)
}
