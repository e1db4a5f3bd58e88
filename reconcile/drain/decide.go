package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Facts are all that a decision on a drain depends on, besides the time.
type Facts struct {
	// Started is when this drain began; zero means now.
	Started time.Time
	// Pods are those bound to the node, in any order.
	Pods []Pod
}

// Progress is where a drain stands and what to do next.
type Progress struct {
	// Verdicts has one entry per pod, by namespace and name.
	Verdicts []Verdict
	// Done: no pod is left that has to go.
	Done bool
	// Next is when to look again even if nothing is heard of; 0 where Done.
	Next time.Duration
	// Status is one line for people; it changes only when the matter does.
	Status string
	// Alarm says whether the drain takes too long. It lasts until the drain is done.
	Alarm Alarm
}

// Alarm is how long a drain has been under way.
type Alarm int

// Values of Alarm, in order.
const (
	// Quiet: less than SlowAfter.
	Quiet Alarm = iota
	// Slow: SlowAfter is over.
	Slow
	// Stuck: StuckAfter is over. The drain goes on.
	Stuck
)

// Event is the reason of the warning event to emit when an alarm begins; empty for Quiet.
func (a Alarm) Event() string {
	switch a {
	case Slow:
		return "DrainThresholdExceeded"
	case Stuck:
		return "DrainFailed"
	}
	return ""
}

// When a drain is Slow, and when it is Stuck.
const (
	SlowAfter  = 10 * time.Minute
	StuckAfter = time.Hour
)

// pace is how often to look, and to ask again after a refusal, by how long the drain has been under way.
var pace = []struct{ until, every time.Duration }{
	{90 * time.Second, 5 * time.Second},
	{SlowAfter, 30 * time.Second},
	{1<<63 - 1, time.Minute},
}

// Decide judges every pod of a node that is being drained.
func Decide(f Facts, now time.Time) Progress {
	age := time.Duration(0)
	if !f.Started.IsZero() {
		age = max(0, now.Sub(f.Started))
	}
	p := Progress{Done: true, Next: every(age), Alarm: alarm(age)}
	for _, pod := range f.Pods {
		v := judge(pod, p.Next, now)
		p.Verdicts = append(p.Verdicts, v)
		p.Done = p.Done && v.Do == Skip
	}
	slices.SortStableFunc(p.Verdicts, func(a, b Verdict) int {
		return cmp.Or(strings.Compare(a.Pod, b.Pod), strings.Compare(a.UID, b.UID))
	})
	p.Status = status(p.Verdicts)
	if p.Done {
		p.Next, p.Alarm = 0, Quiet
	}
	return p
}

func every(age time.Duration) time.Duration {
	for _, p := range pace {
		if age < p.until {
			return p.every
		}
	}
	return time.Minute
}

func alarm(age time.Duration) Alarm {
	switch {
	case age >= StuckAfter:
		return Stuck
	case age >= SlowAfter:
		return Slow
	}
	return Quiet
}

// Bounds of a status line: it is an annotation, and people read it in a table.
const (
	mostPods = 3
	mostText = 200
)

// status says how many pods are left and what the first of them wait for.
func status(verdicts []Verdict) string {
	var left int
	var why []string
	for _, v := range verdicts {
		if v.Do == Skip {
			continue
		}
		left++
		if v.Why != "" {
			why = append(why, v.Pod+" "+cut(v.Why))
		}
	}
	if left == 0 {
		return "drained"
	}
	text := fmt.Sprintf("%d of %d pods left", left, len(verdicts))
	if len(why) == 0 {
		return text
	}
	if more := len(why) - mostPods; more > 0 {
		why = append(why[:mostPods], fmt.Sprintf("and %d more", more))
	}
	return text + ": " + strings.Join(why, "; ")
}

// cut keeps a text on one line and short.
func cut(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > mostText {
		return string(runes[:mostText]) + "…"
	}
	return text
}
