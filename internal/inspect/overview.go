package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// Overview is the answer of `bunsen why` without an argument. It has each reason once, at the first subject that has
// it: a refused commit stops every pool, but it is mended in one place.
type Overview struct {
	// Whys are about GitSources and pools that are not fine, and nodes in several pools, without what others already
	// say.
	Whys []Why
	// Outcome is the worst outcome of all GitSources and pools.
	Outcome Outcome
	// Stopped says where a user keeps new commits from a GitSource or a pool that is fine otherwise.
	Stopped []Stop
	// Status is that from which the overview was made.
	Status Status
}

// Stop is an answer about a GitSource or a pool that is fine.
type Stop struct {
	// About is pool/NAME or gitsource/NAME.
	About string `json:"about"`

	Answer `json:",inline"`
}

// text is the reason with the subject. That of a GitSource already names it.
func (s Stop) text(now time.Time) string {
	text := s.Short() + s.When(now)
	if s.Cause != fleet.CauseSource {
		text = s.About + ": " + text
	}
	return text
}

// All has an element for each subject that is not fine, and then one for each answer about the others.
func (o Overview) All() []any {
	out := []any{}
	for i := range o.Whys {
		out = append(out, o.Whys[i])
	}
	for _, s := range o.Stopped {
		out = append(out, s)
	}
	return out
}

// NewOverview returns the overview of a cluster.
func NewOverview(c fleet.Cluster, now time.Time) Overview {
	f := fleet.New(c, now)
	return OverviewOf(f, StatusOf(f))
}

// OverviewOf is NewOverview for a cluster whose decisions and status are known.
func OverviewOf(f *fleet.Fleet, s Status) Overview {
	o := Overview{Whys: []Why{}, Outcome: Fine, Status: s}
	for i := range f.Sources {
		src := &f.Sources[i]
		o.add(whySource(f, src, poolsOf(f, src), nil))
	}
	for i := range f.Pools {
		if why, err := WhyPoolOf(f, f.Pools[i].Name); err == nil { // There is no error, because the pool exists.
			o.add(why)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Conflicts)) {
		if why, err := whyNode(f, name); err == nil { // There is no error, because the node exists.
			o.add(why)
		}
	}
	for i := range o.Whys {
		o.Whys[i].FindSince(f)
	}
	o.Stopped = slices.DeleteFunc(o.Stopped, func(s Stop) bool { return o.tells(s.Answer) })
	return o
}

// tells reports whether the answer about a GitSource or a pool that is not fine has this reason too.
func (o *Overview) tells(a Answer) bool {
	return slices.ContainsFunc(o.Whys, func(w Why) bool {
		return slices.ContainsFunc(append(w.Also[:len(w.Also):len(w.Also)], w.Answer), func(told Answer) bool {
			return told.Reason == a.Reason
		})
	})
}

// add adds what the answer about a subject has that no earlier one has.
func (o *Overview) add(w Why) {
	o.Outcome = o.Outcome.Worse(w.Outcome)
	var own, fine []Answer
	for _, a := range append([]Answer{w.Answer}, w.Also...) {
		switch {
		case a.Outcome == Fine:
			fine = append(fine, a)
		case !o.isToldFor(w.About, a):
			own = append(own, a)
		}
	}
	if len(own) == 0 && w.isAtWork() {
		own = []Answer{{
			Outcome: Progressing, Cause: poolstate.CauseUpdating,
			Reason: fmt.Sprintf("%d of %d nodes run its config", w.Pool.Updated, w.Pool.Nodes),
		}}
	}
	if len(own) > 0 {
		fine = slices.DeleteFunc(fine, func(a Answer) bool { return a.Cause == fleet.CauseSource && o.tells(a) })
		w.setAnswers(append(own, fine...))
		o.Whys = append(o.Whys, w)
		return
	}
	for _, a := range fine {
		if !w.stops(a) {
			continue
		}
		// What is said of a GitSource is the same for all its pools.
		if a.Cause != fleet.CauseSource || !slices.ContainsFunc(o.Stopped, func(s Stop) bool {
			return s.Reason == a.Reason
		}) {
			o.Stopped = append(o.Stopped, Stop{w.About, a})
		}
	}
}

// stops reports whether an answer about this subject says that a user keeps new commits from it: a hold or a pause of a
// pool, or a GitSource that is suspended or deleted. The warnings of a GitSource's commit have no commands.
func (w Why) stops(a Answer) bool {
	return a.Cause == poolstate.CauseHeld || a.Cause == poolstate.CausePaused ||
		a.Cause == fleet.CauseSource && len(a.Do) > 0
}

func (w Why) isAtWork() bool {
	return w.Pool != nil && w.Pool.Target != "" && (len(w.Busy) > 0 || w.Pool.Updated < w.Pool.Nodes)
}

// isToldFor reports whether an earlier answer has the same reason with the same commands, and the reason is outside of
// the subject: in a GitSource or in the controller. If so, that answer gets the subject.
func (o *Overview) isToldFor(about string, a Answer) bool {
	if a.Cause != fleet.CauseSource && a.Cause != fleet.CauseController {
		return false
	}
	for i := range o.Whys {
		w := &o.Whys[i]
		for _, told := range append([]Answer{w.Answer}, w.Also...) {
			if told.Outcome != a.Outcome || told.Cause != a.Cause || told.Reason != a.Reason ||
				!slices.Equal(told.Do, a.Do) {
				continue
			}
			if !slices.Contains(w.SameFor, about) {
				w.SameFor = append(w.SameFor, about)
			}
			return true
		}
	}
	return false
}

func (w Why) sameForText() string {
	if len(w.SameFor) == 0 {
		return ""
	}
	const most = 20
	verb, kind := "the same holds for ", "pool "
	if w.Source != nil && w.Cause == fleet.CauseSource && w.Outcome == Blocked {
		verb = "blocks "
	}
	if len(w.SameFor) > 1 {
		kind = "pools "
	}
	names := slices.Clone(w.SameFor)
	for i := range names {
		name, isPool := strings.CutPrefix(names[i], "pool/")
		if !isPool {
			return verb + fleet.Names(w.SameFor, most)
		}
		names[i] = name
	}
	return verb + kind + fleet.Names(names, most)
}

// Text returns the answers one below another, the worst first, or that all is well, and then where users stopped new
// commits.
func (o Overview) Text(now time.Time) string {
	var texts []string
	for _, w := range append(o.Needs(), o.Moves()...) {
		texts = append(texts, w.Text(now))
	}
	if text := o.Status.Notifier.Text(); text != "" {
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		texts = append(texts, o.Status.Sentence()+"\n")
	}
	b := terminal.Labels{}
	for _, a := range o.Stopped {
		b.Add("Also", a.text(now))
	}
	for _, a := range o.Stopped {
		if o.Outcome.NeedsUser() && a.isIntended() {
			continue // The end of a hold solves no problem.
		}
		for _, do := range a.Do {
			b.Add("To do", do)
		}
	}
	if text := b.String(); text != "" {
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// StatusText is what `bunsen status` prints: whether something needs a person and what, and then the tables, which do
// not repeat those reasons.
func (o Overview) StatusText() string {
	const most = 5
	s, needs := o.Status, o.Needs()
	if len(s.Pools) == 0 {
		return s.Text()
	}
	var b terminal.Labels
	b.Line("%s · %s", o.Headline(), o.Counts())
	told := map[string]bool{}
	for i, w := range needs {
		for _, a := range append([]Answer{w.Answer}, w.Also...) {
			told[a.Reason] = true
		}
		if i == most {
			b.Line("  and %d more", len(needs)-most)
		}
		if i >= most {
			continue
		}
		b.Line("  %s", w.Sentence()+w.When(s.at))
		do := w.Commands()
		shown := min(1, len(do))
		switch {
		case len(do) < 2:
		case strings.HasPrefix(do[0], "git log "): // It only lists what the next one reverts.
			do = do[1:]
		case strings.HasPrefix(do[0], "bunsen drift show "): // The next one overwrites what it shows.
			if shown = 2; len(do) > shown && strings.HasPrefix(do[shown], "bunsen retry ") {
				shown++
			}
		case strings.HasSuffix(do[0], "then:"):
			do[0] += " " + do[1]
		}
		for _, do := range do[:shown] {
			b.Line("    To do: %s", do)
		}
	}
	s.Pools, s.Nodes = slices.Clone(s.Pools), slices.Clone(s.Nodes)
	begin := func(reason string) string {
		reason, _, _ = strings.Cut(reason, ": ")
		reason, _, _ = strings.Cut(reason, " (")
		return reason
	}
	for i := range s.Pools {
		if slices.ContainsFunc(needs, func(w Why) bool { return w.About == "pool/"+s.Pools[i].Name }) {
			s.Pools[i].State = begin(s.Pools[i].State)
		}
	}
	s.Sources = slices.Clone(s.Sources)
	for i := range s.Sources {
		if slices.ContainsFunc(needs, func(w Why) bool { return w.About == "gitsource/"+s.Sources[i].Name }) {
			s.Sources[i].brief = begin(s.Sources[i].brief)
		}
	}
	for i := range s.Nodes {
		if told[s.Nodes[i].Reason] {
			s.Nodes[i].Reason = begin(s.Nodes[i].Reason)
		}
	}
	problems := s.Controllers.Problems(s.at)
	if slices.ContainsFunc(needs, func(w Why) bool { return w.Cause == fleet.CauseController }) {
		problems = ""
	}
	return b.String() + "\n" + s.tables(problems)
}
