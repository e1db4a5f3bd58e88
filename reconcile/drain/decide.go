package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/pace"
)

// Facts are all that a decision on a drain depends on, besides the time.
type Facts struct {
	// Config is what the node is drained for.
	Config string
	// Started is when this drain began; zero means now.
	Started time.Time
	// Pods are those bound to the node, in any order.
	Pods []Pod
	// Pace says what becomes of a drain that is held up; the zero value waits for ever.
	Pace pace.Drain
	// Last is the report that the node has. It keeps the times of what is still so.
	Last v1alpha1.DrainReport
	// NotReadySince is since when the node is not Ready; zero while it is.
	NotReadySince time.Time
	// Alone: there is no other node in the cluster.
	Alone bool
}

// Progress is where a drain stands and what to do next.
type Progress struct {
	// Verdicts has one entry per pod: those that hold the drain up first, then by namespace and name.
	Verdicts []Verdict
	// Done: no pod is left that has to go.
	Done bool
	// Next is when to look again even if nothing is heard of; 0 where Done.
	Next time.Duration
	// Status is one line for people; it changes only when the matter does.
	Status string
	// Report is the whole, for machines and people; it too changes only when the matter does.
	Report v1alpha1.DrainReport
	// Blocked says which pods wait for budgets that no pod waited for in the last report: what one event is about. Empty
	// where there is none.
	Blocked string
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

// paces are how often to look, and to ask again after a refusal, by how long the drain has been under way. A drained node
// costs one list of its pods each time, one request for each eviction, and about one for each budget that refuses.
var paces = []struct{ until, every time.Duration }{
	{90 * time.Second, 5 * time.Second},
	{SlowAfter, 30 * time.Second},
	{1<<63 - 1, LongestPause},
}

// LongestPause is the longest time between two looks at a drain.
const LongestPause = time.Minute

// Decide judges every pod of a node that is being drained.
func Decide(f Facts, now time.Time) Progress {
	age := time.Duration(0)
	if !f.Started.IsZero() {
		age = max(0, now.Sub(f.Started))
	}
	p := Progress{Done: true, Next: Every(age), Alarm: alarm(age)}
	retry, force := p.Next, f.Pace.WhenBlocked == v1alpha1.DrainDelete && age >= f.Pace.After
	for _, pod := range f.Pods {
		v := f.kept(f.judge(pod, retry, force, now), pod)
		p.Verdicts = append(p.Verdicts, v)
		p.Done = p.Done && v.Do == Skip
		if pod.Pod.DeletionTimestamp != nil && v.Do == Wait {
			if at, counts := f.lostAt(pod.Pod); counts {
				p.Next = sooner(p.Next, at.Sub(now))
			}
		}
	}
	if f.Pace.WhenBlocked == v1alpha1.DrainDelete && !force {
		p.Next = sooner(p.Next, f.Pace.After-age)
	}
	slices.SortStableFunc(p.Verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Pod, b.Pod), strings.Compare(a.UID, b.UID))
	})
	p.Status, p.Report, p.Blocked = status(p.Verdicts), f.report(p.Verdicts, now), f.blocked(p.Verdicts)
	if p.Done {
		p.Next, p.Alarm = 0, Quiet
	}
	return p
}

// Every is how often to look at a drain of that age.
func Every(age time.Duration) time.Duration {
	for _, p := range paces {
		if age < p.until {
			return p.every
		}
	}
	return LongestPause
}

// sooner shortens a pause to what comes within it.
func sooner(pause, other time.Duration) time.Duration {
	if other > 0 && other < pause {
		return other
	}
	return pause
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

// rank orders verdicts: what has to wait, what is on its way out, what stays, what is gone.
func (v Verdict) rank() int {
	switch v.State {
	case v1alpha1.PodWaiting:
		return 0
	case v1alpha1.PodDeleted:
		return 1
	case v1alpha1.PodEvicted:
		return 2
	case v1alpha1.PodSkipped:
		return 3
	}
	return 4
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
			why = append(why, v.Pod+": "+cut(v.Why))
		}
	}
	text := fmt.Sprintf("%d pods left", left)
	switch left {
	case 0:
		return "drained"
	case 1:
		text = "1 pod left"
	}
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
