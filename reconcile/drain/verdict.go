package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
)

// Pod is a pod of the node with the state of its eviction.
type Pod struct {
	// as last read
	Pod *corev1.Pod
	// The DaemonSet that owns the pod is gone.
	Orphan bool
	// to the last eviction; zero before the first
	Answer Answer
}

// Action is the next action for a pod.
type Action string

// The values of Action.
const (
	Evict Action = "Evict"
	// despite its PodDisruptionBudgets
	Delete Action = "Delete"
	// the pod may stay, or is gone
	Skip Action = "Skip"
	// the pod has to leave, and no action is possible now
	Wait Action = "Wait"
)

// Verdict is the next action for one pod, and the reason.
type Verdict struct {
	// `namespace/name`, and what tells it from a later pod of that name
	Pod, UID string
	Do       Action
	// in the report; empty if the pod is gone
	State v1alpha1.DrainedPodState
	// why the API server refused the previous eviction; empty for the first
	Why string
	// the first one that refuses the eviction, as namespace/name
	Budget string
	// Budget never allows an eviction.
	Never bool
	// a pod of Budget that is not healthy; nil if there is none, or if it is not known
	Unhealthy *v1alpha1.UnhealthyPod
	// The pod would be evicted if another node could run it.
	Left bool
	// of the state; zero for states without a time
	Since time.Time
}

const (
	// after its grace period
	overdue = 30 * time.Second
	// from here on, a text mentions the end in advance
	longGrace = time.Minute
	// of a pod that sets none
	defaultGrace = 30 * time.Second
)

// decide returns the action for a pod. retry is the pause between an answer and the next eviction. force: the drain has
// waited long enough for PodDisruptionBudgets.
func (f Facts) decide(p Pod, retry time.Duration, force bool, now time.Time) Verdict {
	v := Verdict{Pod: p.Pod.Namespace + "/" + p.Pod.Name, UID: string(p.Pod.UID), State: v1alpha1.PodWaiting}
	stay := stays(p)
	switch {
	case p.Answer.Kind == Gone:
		v.Do, v.State, v.Why = Skip, "", "gone"
	case stay != "":
		v.Do, v.State, v.Why = Skip, v1alpha1.PodSkipped, stay
	case p.Pod.DeletionTimestamp != nil:
		f.ending(&v, p.Pod, now)
	case f.Alone && p.Answer.Kind == Unasked:
		v.Do, v.State, v.Why, v.Left = Skip, v1alpha1.PodSkipped, AloneText, true
	case p.Answer.Kind == Accepted && p.Answer.age(now) < overdue:
		v.Do, v.State, v.Since = Wait, v1alpha1.PodEvicted, p.Answer.At
		v.Why = inGrace(graceOf(p.Pod), p.Answer.At) + loses(p.Pod, f.Alone)
	case force && p.Answer.Kind != Unasked: // The controller tries one eviction of every pod before it deletes the pod.
		v.Do, v.Why = Delete, p.Answer.Why
		if p.Answer.Past && p.Answer.age(now) < retry {
			v.Do = Wait
		}
	default:
		v.evict(p.Answer, retry, now)
	}
	v.addAnswer(p.Answer)
	return v
}

// stays returns why a pod may stay on a drained node, or is empty. The rules are kubectl's with --force,
// --ignore-daemonsets and --delete-emptydir-data, except that finished pods stay. A test compares them.
func stays(p Pod) string {
	if isStatic(p.Pod) {
		return "static pod, run by the node itself"
	}
	if set := DaemonSetOf(p.Pod); set != "" && !p.Orphan {
		return fmt.Sprintf("DaemonSet %s/%s would put it back at once", p.Pod.Namespace, set)
	}
	if hasEnded(p.Pod) && p.Pod.DeletionTimestamp == nil {
		return fmt.Sprintf("finished (%s): nothing of it runs", p.Pod.Status.Phase)
	}
	if hasEnded(p.Pod) && len(p.Pod.Finalizers) > 0 {
		return fmt.Sprintf("finished (%s): only its finalizer %s keeps the object", p.Pod.Status.Phase,
			strings.Join(p.Pod.Finalizers, ", "))
	}
	return ""
}

func isStatic(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// evict sets Evict for the first eviction or after the pause, and otherwise Wait.
func (v *Verdict) evict(last Answer, retry time.Duration, now time.Time) {
	v.Do = Evict
	switch last.Kind {
	case Unasked:
	case Accepted: // The server accepted the eviction long ago, but the pod still exists.
		v.Why, v.Since = "evicted before, and still not terminating", last.At
	default:
		v.Why = last.Why
		if last.age(now) < retry {
			v.Do = Wait
		}
	}
}

func (v *Verdict) addAnswer(last Answer) {
	if v.Do != Skip && v.Since.IsZero() {
		v.Since = last.Since
	}
	if v.State == v1alpha1.PodEvicted && last.Past {
		v.State = v1alpha1.PodDeleted
	}
	if v.State == v1alpha1.PodWaiting && len(last.Budgets) > 0 {
		v.Budget, v.Never, v.Unhealthy = last.Budgets[0], last.Never, last.Unhealthy
	}
}

// ending is for a terminating pod. The text has points in time instead of durations, so that it changes only with the
// state.
func (f Facts) ending(v *Verdict, pod *corev1.Pod, now time.Time) {
	// It is the end of the grace period.
	end, grace := pod.DeletionTimestamp.Time, graceOf(pod)
	v.Do, v.State, v.Since = Wait, v1alpha1.PodEvicted, end.Add(-grace)
	lost, counts := f.lostAt(pod)
	switch {
	case counts && !now.Before(lost):
		v.Do, v.State, v.Since = Skip, v1alpha1.PodSkipped, time.Time{}
		v.Why = fmt.Sprintf("counts as gone: the node has not been Ready since %s, longer than the grace period %s "+
			"of the pod, so no kubelet reports its end",
			moment(f.NotReadySince), grace)
	case now.Before(end.Add(overdue)):
		v.Why = inGrace(grace, end.Add(-grace)) + loses(pod, f.Alone)
	case len(pod.Finalizers) > 0:
		v.Why = fmt.Sprintf("should have ended at %s, but waits for its finalizer %s", moment(end),
			strings.Join(pod.Finalizers, ", "))
	case counts:
		v.Why = fmt.Sprintf("should have ended at %s; the node is not Ready since %s, and the pod counts as gone at %s",
			moment(end), moment(f.NotReadySince), moment(lost))
	default:
		v.Why = fmt.Sprintf("should have ended at %s (grace period %s); the node's kubelet has not confirmed it",
			moment(end), grace)
	}
}

// lostAt returns when a terminating pod counts as gone although its kubelet does not report: its grace period is over,
// and the node was not Ready for longer than that; false for a Ready node.
func (f Facts) lostAt(pod *corev1.Pod) (time.Time, bool) {
	if f.NotReadySince.IsZero() {
		return time.Time{}, false
	}
	at := f.NotReadySince.Add(graceOf(pod))
	if end := pod.DeletionTimestamp.Time; end.After(at) {
		at = end
	}
	return at.Add(overdue), true
}

// inGrace says how long a terminating pod may take, with the end only of a long grace period: the API server's own
// value is known later and differs by a second, and every changed text causes another write.
func inGrace(grace time.Duration, from time.Time) string {
	if grace <= longGrace {
		return fmt.Sprintf("terminating (grace period %s)", grace)
	}
	return fmt.Sprintf("terminating, has until %s (grace period %s)", moment(from.Add(grace)), grace)
}

func graceOf(pod *corev1.Pod) time.Duration {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return defaultGrace
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// DaemonSetOf returns the name of the DaemonSet that owns a pod, whether it still exists or not; empty if none does.
func DaemonSetOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || owner.APIVersion != appsv1.SchemeGroupVersion.String() {
		return ""
	}
	return owner.Name
}

// hasEnded reports whether no container runs or will run again.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isReady reports whether a disruption budget counts the pod as healthy.
func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// loses describes what is lost when a pod leaves its node, as a text to append; empty for nothing.
func loses(pod *corev1.Pod, alone bool) string {
	text := ""
	switch {
	case metav1.GetControllerOf(pod) == nil:
		text = "; no controller puts it back"
	case alone:
		text = "; there is no other node: Pending until this one is back"
	}
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir != nil {
			return text + "; what it kept in emptyDir is lost"
		}
	}
	return text
}

// Queues returns the order of evictions and deletions. Different queues may be handled at the same time. Those of one
// are handled one after the other, until the API server refuses one, because the same PodDisruptionBudget refused them
// before: a budget without room costs one request a round. A budget may allow the eviction of pods that are not ready
// while it protects ready ones, so these are in separate queues.
//
// In each queue, the pod whose last request is oldest comes first, and the queues are sorted by that too, so that each
// pod is handled even if rounds end early.
func Queues(verdicts []Verdict, pods []Pod) [][]Pod {
	do := map[string]Action{}
	for _, v := range verdicts {
		do[v.UID] = v.Do
	}
	byBudget := map[string][]Pod{}
	var queues [][]Pod
	for _, p := range pods {
		action := do[string(p.Pod.UID)]
		switch {
		case action != Evict && action != Delete:
		case action == Evict && p.Answer.Kind == Refused && len(p.Answer.Budgets) > 0:
			key := fmt.Sprint(p.Answer.Budgets, isReady(p.Pod))
			byBudget[key] = append(byBudget[key], p)
		default:
			queues = append(queues, []Pod{p})
		}
	}
	for _, queue := range byBudget {
		slices.SortFunc(queue, byTurn)
		queues = append(queues, queue)
	}
	slices.SortFunc(queues, func(a, b []Pod) int { return byTurn(a[0], b[0]) })
	return queues
}

func byTurn(a, b Pod) int {
	return cmp.Or(a.Answer.At.Compare(b.Answer.At), strings.Compare(a.Pod.Namespace, b.Pod.Namespace),
		strings.Compare(a.Pod.Name, b.Pod.Name), strings.Compare(string(a.Pod.UID), string(b.Pod.UID)))
}

// Shared returns the answer for a pod that was skipped because the same budget has just refused another: the reason of
// that refusal, with the times of the pod's own answer.
func (a Answer) Shared(own Answer) Answer {
	own.Why, own.Unhealthy = a.Why, a.Unhealthy
	return own
}
