package revisions

import (
	"fmt"
	"strings"
)

// History is what is played.
type History struct {
	Setup Setup
	Steps []Step
}

// Result is what came of playing a history.
type Result struct {
	// Broken is the rule that was broken first; empty where all held. How says what happened.
	Broken Rule
	How    string
	// At is the number of steps that were played.
	At int
	// Moved says for each step whether anything came of it.
	Moved []bool
	// Assignments, Applies and Restores are counted, for statistics.
	Assignments, Applies, Restores int

	story []string
}

// Play plays a history to its end, or until a rule is broken.
func Play(h History, core Core) Result { return play(h, core, false) }

func play(h History, core Core, tell bool) Result {
	w := newWorld(h.Setup, core)
	w.tale.isOn = tell
	w.player = player{steps: h.Steps, moved: make([]bool, len(h.Steps))}
	for w.broken == "" && w.player.next < len(h.Steps) {
		w.player.next++
		w.step(w.player.next - 1)
	}
	at := w.player.next
	if w.broken == "" {
		finish(w)
	}
	return Result{
		Broken: w.broken, How: w.how, At: at, Moved: w.player.moved, story: w.tale.lines,
		Assignments: w.ledger.assignments, Applies: w.ledger.applies, Restores: w.ledger.restores,
	}
}

// Story tells a history in sentences.
func Story(h History, core Core) string {
	r := play(h, core, true)
	var b strings.Builder
	fmt.Fprintf(&b, "%d GitSources; ", h.Setup.Sources)
	if h.Setup.Foreign {
		b.WriteString("a user has made pool gpu; ")
	}
	if h.Setup.Stuck {
		b.WriteString("in the end the API server refuses every write for the second GitSource; ")
	}
	for i, label := range h.Setup.Nodes {
		fmt.Fprintf(&b, "%s is a worker and %q; ", nodeName(i), nodeLabels[label])
	}
	b.WriteString("\n")
	for _, line := range r.story {
		b.WriteString("  " + line + "\n")
	}
	if r.Broken != "" {
		fmt.Fprintf(&b, "BROKEN: %s\n  %s\n", r.Broken, r.How)
	}
	return b.String()
}
