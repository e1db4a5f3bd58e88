package report

import (
	"cmp"
	"fmt"
	"strings"
)

// Failing is a reason why there is no Comparison.
type Failing string

// The reasons why there is no Comparison, as the comment on the pull request names them.
const (
	// HeadFails means that head cannot be rendered.
	HeadFails Failing = "**Nothing would be rolled out:** what merging makes cannot be rendered, so nodes would stay " +
		"as they are. `bunsen validate` shows the same."
	// BaseFails means that head can be rendered, but base cannot. The nodes then run a config of an earlier commit.
	BaseFails Failing = "**What this does to machines is not known:** this commit renders, but the branch that it " +
		"merges into does not, so Bunsen cannot compare them. Nodes run an earlier commit and would get every change " +
		"since then. `bunsen diff` with that commit as the base shows these changes."
	// AllFails means any other problem, such as a missing revision.
	AllFails Failing = "**There is no plan:** Bunsen could not compute it, so the effect on machines is unknown."
)

// Trouble returns the comment on a pull request for which there is no Comparison. This comment has the same marker as
// the comment with the Comparison, so that each of them replaces the other.
func Trouble(failing Failing, problem string, o MarkdownOptions) string {
	limit := max(cmp.Or(o.Limit, DefaultLimit), MinLimit) - 1000
	problem = visibleLines(strings.TrimSpace(strings.ToValidUTF8(problem, "�")))
	if len(problem) > limit {
		problem = strings.ToValidUTF8(problem[:limit], "") + "\n…"
	}
	fence := fenceFor(problem)
	if fence == "" { // The text could end the code block.
		fence, problem = "```", strings.ReplaceAll(problem, "`", "'")
	}
	heading := ""
	if o.Key != "" {
		heading = " · " + code(shorten(o.Key, maxHeading))
	}
	return fmt.Sprintf("%s\n### OS config plan%s\n\n%s\n\n%s\n%s\n%s\n", o.Marker(), heading, failing, fence, problem,
		fence)
}
