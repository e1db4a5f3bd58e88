package revisions

import "fmt"

// Rule is something that must hold, as a sentence.
type Rule string

// The rules.
const (
	WholeRevision Rule = "a node is only assigned what one applied revision of each repository renders to for its pool"
	OwnPool       Rule = "a node is only assigned the config of a pool that some applied revisions make it a member of"
	RefusedFirst  Rule = "nothing is written of a revision that the API server refuses in a dry run"
	NewestApplied Rule = "the newest good revision of each repository is applied in the end"
	NewestRuns    Rule = "every pool whose sources are healthy runs the newest good revision in the end"
	WholeObjects  Rule = "the live objects of a source equal its inventory in the end"
	NoLeftovers   Rule = "a revision that was not applied leaves no object behind"
	KeptObjects   Rule = "restoring a revision never deletes an object that was there before and was not the source's"
	HandedBack    Rule = "an object that no applied revision has is as its owner made it"
	Quiet         Rule = "a cluster in which nothing happens is not written to"
)

// fail records the first rule that is broken.
func (w *world) fail(r Rule, format string, args ...any) {
	if w.broken == "" {
		w.broken, w.how = r, fmt.Sprintf(format, args...)
	}
}
