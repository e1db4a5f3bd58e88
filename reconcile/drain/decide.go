package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	policyv1 "k8s.io/api/policy/v1"
)

// Facts are the input of Decide, besides the time.
type Facts struct {
	// for which the node is drained
	Config string
	// of this drain; zero means now
	Started time.Time
	// in any order
	Pods []Pod
	// when to delete pods despite their budgets; zero: never
	Pace schedule.Drain
	// on the node; the start times of unchanged states are copied from it
	Last v1alpha1.DrainReport
	// zero while the node is Ready
	NotReadySince time.Time
	// Pods cannot move to another node, by IsAlone, so none is evicted.
	Alone bool
	// those of the cluster, needed only if Alone
	Budgets []*policyv1.PodDisruptionBudget
}

// Progress is the state of a drain with the next actions.
type Progress struct {
	// one per pod: those that delay the drain first, then by namespace and name
	Verdicts []Verdict
	// Every pod that has to leave is gone.
	Done bool
	// until the node is read again without an event; 0 if Done
	Next time.Duration
	// one line for users, which changes only with the state
	Status string
	// the whole state, which changes only with the state
	Report v1alpha1.DrainReport
	// the text of one event: the pods that wait for a PodDisruptionBudget for which none waited in the last report, or
	// empty
	Blocked string
	// the text of one event, when the drain begins to leave pods on the node because no other node can run them, or
	// empty
	Left Left
	// keeps its value until the drain is done
	Alarm Alarm
}

// Alarm says whether a drain takes too long.
type Alarm int

// The values of Alarm, in order.
const (
	// less than SlowAfter
	Quiet Alarm = iota
	// longer than SlowAfter
	Slow
	// longer than StuckAfter; the drain continues
	Stuck
)

// Event returns the reason of the warning event to send when an alarm begins; empty for Quiet.
func (a Alarm) Event() string {
	switch a {
	case Slow:
		return "DrainThresholdExceeded"
	case Stuck:
		return "DrainFailed"
	}
	return ""
}

// The durations after which a drain is Slow and Stuck.
const (
	SlowAfter  = 10 * time.Minute
	StuckAfter = time.Hour
)

// paces: the intervals of rounds, and of retries after a refusal, by the age of the drain. A round costs one list of
// the node's pods, one request for each eviction, and about one for each budget that refuses.
var paces = []struct{ until, every time.Duration }{
	{10 * time.Second, time.Second},
	{90 * time.Second, 5 * time.Second},
	{SlowAfter, 30 * time.Second},
	{1<<63 - 1, LongestPause},
}

// LongestPause is the longest interval between two rounds of a drain.
const LongestPause = time.Minute

// Decide returns a verdict about each pod of a node that is being drained.
func Decide(f Facts, now time.Time) Progress {
	age := time.Duration(0)
	if !f.Started.IsZero() {
		age = max(0, now.Sub(f.Started))
	}
	p := Progress{Done: true, Next: Every(age), Alarm: alarm(age)}
	retry, force := p.Next, f.Pace.WhenBlocked == v1alpha1.DrainDelete && age >= f.Pace.After
	for _, pod := range f.Pods {
		v := f.kept(f.decide(pod, retry, force, now), pod)
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
	p.Left = f.left(p.Verdicts)
	if p.Done {
		p.Next, p.Alarm = 0, Quiet
	}
	return p
}

// Every returns the interval of rounds for a drain of this age.
func Every(age time.Duration) time.Duration {
	for _, p := range paces {
		if age < p.until {
			return p.every
		}
	}
	return LongestPause
}

// sooner takes 0 as no pause.
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

// rank orders verdicts: first pods that wait, then those that terminate, that stay, and that are gone.
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

// Users read the line in a table.
const (
	mostPods = 3
	mostText = 200
)

// status says how many pods are left and why the first of them wait.
func status(verdicts []Verdict) string {
	var left int
	var why []string
	for _, v := range verdicts {
		if v.Do == Skip {
			continue
		}
		left++
		if v.Why != "" {
			why = append(why, v.Pod+": "+v.text())
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

func (v Verdict) text() string { return withUnhealthy(cut(v.Why), v.Unhealthy) }

func cut(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > mostText {
		return string(runes[:mostText]) + "…"
	}
	return text
}

// AloneText is the text that says why a pod stays on a node for which IsAlone is true.
const AloneText = "no other node can run it"

// controlPlaneTaints: ordinary pods do not tolerate these.
var controlPlaneTaints = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// IsAlone reports whether the pods of a node cannot move, because every other node is reserved for the control plane.
// One that is cordoned or not Ready counts as another node: the drain waits until it can run pods again, because
// PodDisruptionBudgets may protect them.
func IsAlone(nodes []corev1.Node, name string) bool { return findOther(nodes, name) == nil }

func findOther(nodes []corev1.Node, name string) *corev1.Node {
	for i := range nodes {
		if isOther(&nodes[i], name) {
			return &nodes[i]
		}
	}
	return nil
}

func isOther(n *corev1.Node, name string) bool { return n.Name != name && !isReserved(n.Spec.Taints) }

func isReserved(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && slices.Contains(controlPlaneTaints, t.Key)
	})
}

// Left says which pods a drain leaves on a node for which IsAlone is true.
type Left struct {
	Pods int
	// those that would have refused the eviction of some, as namespace/name
	Budgets []string
}

// left describes the pods that the drain leaves, unless the last report has them.
func (f Facts) left(verdicts []Verdict) Left {
	var l Left
	if !f.Alone || f.Last.Alone && f.Last.For == f.Config {
		return l
	}
	stay := map[string]bool{}
	for _, v := range verdicts {
		if v.Left {
			stay[v.UID] = true
			l.Pods++
		}
	}
	protected := map[string]int32{}
	for _, p := range f.Pods {
		if !stay[string(p.Pod.UID)] {
			continue
		}
		for _, b := range selecting(p.Pod, f.Budgets) {
			name := b.Namespace + "/" + b.Name
			if protected[name]++; protected[name] == b.Status.DisruptionsAllowed+1 {
				l.Budgets = append(l.Budgets, name)
			}
		}
	}
	slices.Sort(l.Budgets)
	return l
}

// String returns the text of an event; empty if no pod is left.
func (l Left) String() string {
	if l.Pods == 0 {
		return ""
	}
	text := fmt.Sprintf("%d pods are not evicted, because no other node can run them; they end if the node reboots",
		l.Pods)
	if l.Pods == 1 {
		text = "1 pod is not evicted, because no other node can run it; it ends if the node reboots"
	}
	if len(l.Budgets) == 0 {
		return text
	}
	names := strings.Join(l.Budgets[:min(len(l.Budgets), mostPods)], ", ")
	if more := len(l.Budgets) - mostPods; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return text + ", although PodDisruptionBudgets forbid it: " + names
}
