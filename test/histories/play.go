package histories

import (
	"fmt"
	"strings"
	"time"
)

// Result is what came of playing a history.
type Result struct {
	// Broken is the rule that was broken first; empty where all held. How says what happened.
	Broken Rule
	How    string
	// At is the number of the step after which it was; len(Steps) is the end.
	At int
	// Moved tells for each step whether anything came of it.
	Moved []bool
	// Ended tells how the rollouts stood in the end, for statistics.
	Ended Ending

	story []line
}

// Ending is how the rollouts of a history stood in the end.
type Ending struct {
	// Converged pools run the last push on every node; Explained ones say why not. Excused are those that cannot even
	// with every disturbance over: somebody has to correct a policy.
	Converged, Explained, Excused int
	// Tells is how often a node was told a config.
	Tells int
}

// Play plays a history to its end, or until a rule is broken.
func Play(h History, core Core) Result { return play(h, core, false) }

func play(h History, core Core, tell bool) Result {
	w := newWorld(h.Setup, core)
	w.tale.on = tell
	r := Result{At: len(h.Steps), Moved: make([]bool, len(h.Steps))}
	for i, s := range h.Steps {
		before := w.tale.stirs
		w.step(s)
		r.Moved[i] = w.tale.stirs != before || s.Verb == Tick
		if w.ledger.broken != "" {
			r.At = i
			break
		}
	}
	if w.ledger.broken == "" {
		r.Ended = finale{w}.end()
	}
	r.Broken, r.How, r.story = w.ledger.broken, w.ledger.how, w.tale.lines
	r.Ended.Tells = w.ledger.tells
	return r
}

// Story tells a failing history in sentences.
func Story(h History, core Core) string {
	r := play(h, core, true)
	var b strings.Builder
	b.WriteString(describe(h.Setup))
	for _, l := range r.story {
		fmt.Fprintf(&b, "  %s  %s\n", moment(l.at), l.text)
	}
	if r.Broken != "" {
		fmt.Fprintf(&b, "BROKEN: %s\n  %s\n", r.Broken, r.How)
	}
	return b.String()
}

// moment is a time as a story names it: the days since the beginning, and the time of the day.
func moment(t time.Time) string {
	text := t.Format("15:04:05")
	if days := int(t.Sub(noon.Truncate(24*time.Hour)) / (24 * time.Hour)); days != 0 {
		text = fmt.Sprintf("day %d %s", days, text)
	}
	return text
}

// describe says what a history begins with.
func describe(s Setup) string {
	var b strings.Builder
	b.WriteString("In the beginning\n")
	number := 0
	for i, p := range s.Pools {
		budget := "1, as it says nothing"
		if p.Budget > 0 {
			budget = budgets[p.Budget-1].String()
		}
		fmt.Fprintf(&b, "  pool %s has maxUnavailable %s, runs rendered-%s-%02d, and has", p.Name, budget, p.Name, i)
		for range p.Machines {
			if number < maxMachines {
				fmt.Fprintf(&b, " %s", machineName(number))
				number++
			}
		}
		if p.Zones > 0 {
			fmt.Fprintf(&b, " in %d zones", p.Zones)
		}
		b.WriteString("\n")
	}
	for i, variants := range s.Policies {
		fmt.Fprintf(&b, "  RolloutPolicy policy%d: %s\n", i, describePolicy(variants[0]))
	}
	for i, spare := range s.Apps {
		fmt.Fprintf(&b, "  the PodDisruptionBudget of app%d lets %d pod(s) be missing\n", i, spare)
	}
	if s.PerNode > 0 && len(s.Apps) > 0 {
		fmt.Fprintf(&b, "  each node runs %d pod(s)\n", s.PerNode)
	}
	b.WriteString("Then\n")
	return b.String()
}
