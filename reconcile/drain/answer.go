package drain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"

	corev1 "k8s.io/api/core/v1"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AnswerKind classifies the server's answers to an eviction or a deletion.
type AnswerKind int

// The values of AnswerKind.
const (
	// nothing has been requested yet
	Unasked AnswerKind = iota
	// the pod will terminate
	Accepted
	Gone
	// a disruption budget forbids the eviction now
	Refused
	// any other error; the next attempt may succeed
	Failed
)

// Answer is the server's answer to an eviction or a deletion.
type Answer struct {
	Kind AnswerKind
	// The controller deleted the pod despite its PodDisruptionBudgets.
	Past bool
	At   time.Time
	// the first of several equal answers, from Following
	Since time.Time
	// in words; empty for Accepted and Gone
	Why string
	// The server itself has a problem: send no more requests now.
	Down bool
	// Budgets refused the eviction, as namespace/name: one or, if several select the pod, all of them.
	Budgets []string
	// The budgets allow no eviction even if all pods are healthy.
	Never bool
	// the first pod of the budget that is not healthy; nil if there is none, or if Never
	Unhealthy *v1alpha1.UnhealthyPod
}

// Following returns the answer. If the previous answer is equal, the result has the Since of the previous answer.
func (a Answer) Following(before Answer) Answer {
	a.Since = a.At
	if before.Kind == a.Kind && slices.Equal(before.Budgets, a.Budgets) && !before.Since.IsZero() {
		a.Since = before.Since
	}
	return a
}

// Protection is what is known of the PodDisruptionBudgets of a pod whose eviction they refused.
type Protection struct {
	// those of the pod's namespace, with the numbers for the text; may be empty
	Budgets []*policyv1.PodDisruptionBudget
	// all that the budget of Refusing selects; nil if they are not known
	Pods []corev1.Pod
}

// Refusing returns the budget that refused an eviction because too few of its pods are healthy; nil for another reason,
// or if it is not among the given ones.
func Refusing(s *metav1.Status, pod *corev1.Pod,
	budgets []*policyv1.PodDisruptionBudget,
) *policyv1.PodDisruptionBudget {
	if s == nil {
		return nil
	}
	cause := causesOf(s)[policyv1.DisruptionBudgetCause]
	if cause == "" || uncounted.MatchString(cause) || named.MatchString(cause) {
		return nil
	}
	m := counted.FindStringSubmatch(cause)
	for _, b := range selecting(pod, budgets) {
		if m != nil && b.Name == m[1] || m == nil && b.Status.DisruptionsAllowed <= 0 {
			return b
		}
	}
	return nil
}

// ReadAnswer classifies the error of an eviction, given as the status of an API error; nil is success.
func ReadAnswer(s *metav1.Status, pod *corev1.Pod, by Protection, now time.Time) Answer {
	a := Answer{Kind: Accepted, At: now, Since: now}
	if s == nil {
		return a
	}
	causes := causesOf(s)
	switch {
	case s.Reason == metav1.StatusReasonNotFound, s.Reason == metav1.StatusReasonConflict && strings.Contains(s.Message,
		"UID in"):
		a.Kind = Gone // A conflict means that another pod has the name by now.
	// A 429 without this cause is the server's own limit on requests.
	case causes[policyv1.DisruptionBudgetCause] != "":
		a.Kind = Refused
		a.Budgets, a.Why, a.Never = inTheWay(s, pod, by)
		if !a.Never {
			a.Unhealthy = firstUnhealthy(by.Pods)
		}
	case strings.Contains(s.Message, "more than one PodDisruptionBudget"):
		a.Kind = Refused
		a.Budgets, a.Why = tooMany(pod, by.Budgets)
		a.Never = true
	case causes[corev1.NamespaceTerminatingCause] != "":
		a.Kind, a.Why = Failed, fmt.Sprintf("its namespace %s is being deleted, and the pod with it", pod.Namespace)
	default:
		a.Kind, a.Why = Failed, "evicting it: "+s.Message
		// no answer, too many requests, or a server error
		a.Down = s.Code == 0 || s.Code == http429 || s.Code >= 500
	}
	return a
}

// firstUnhealthy returns the pod of a budget that a user has to look at: one without a node first, then one whose
// container waits; nil if all are healthy. Pods that terminate do not count, as for a budget: others replace them.
func firstUnhealthy(pods []corev1.Pod) *v1alpha1.UnhealthyPod {
	var found []v1alpha1.UnhealthyPod
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil && !hasEnded(p) && !isReady(p) {
			found = append(found, unhealthy(p))
		}
	}
	if len(found) == 0 {
		return nil
	}
	rank := func(u v1alpha1.UnhealthyPod) int {
		switch {
		case u.Pending:
			return 0
		case u.Reason != reasonNotReady:
			return 1
		}
		return 2
	}
	first := slices.MinFunc(found, func(a, b v1alpha1.UnhealthyPod) int {
		if by := rank(a) - rank(b); by != 0 {
			return by
		}
		return strings.Compare(a.Pod, b.Pod)
	})
	first.More = len(found) - 1
	return &first
}

// unhealthy has the words of the scheduler or of the kubelet.
func unhealthy(p *corev1.Pod) v1alpha1.UnhealthyPod {
	u := v1alpha1.UnhealthyPod{Pod: p.Namespace + "/" + p.Name, Pending: p.Spec.NodeName == ""}
	say := func(reason, message string) v1alpha1.UnhealthyPod {
		u.Reason, u.Message = oneLine(reason, mostReason), oneLine(strings.TrimSuffix(message, "."), mostText)
		return u
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return say(c.Reason, c.Message)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			return say(w.Reason, w.Message)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return say(c.Reason, c.Message)
		}
	}
	return u
}

// oneLine makes a text of another program safe to show, on one line.
func oneLine(text string, most int) string {
	return safetext.Short(strings.Join(strings.Fields(text), " "), most)
}

const http429 = 429

// age returns how long ago the answer came; the longest duration for a time in the future, which a changed clock can
// cause.
func (a Answer) age(now time.Time) time.Duration {
	if age := now.Sub(a.At); age >= 0 {
		return age
	}
	return 1<<63 - 1
}

// ReadDeletion classifies the error of a deletion despite the budgets, as ReadAnswer does.
func ReadDeletion(s *metav1.Status, pod *corev1.Pod, now time.Time) Answer {
	a := ReadAnswer(s, pod, Protection{}, now)
	a.Past = true
	// PodDisruptionBudgets do not limit deletions.
	if a.Kind == Refused || a.Kind == Failed {
		a.Kind, a.Budgets, a.Why = Failed, nil, "deleting it: "+s.Message
	}
	return a
}

// causesOf has empty texts too.
func causesOf(s *metav1.Status) map[metav1.CauseType]string {
	causes := map[metav1.CauseType]string{}
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			causes[c.Type] = strings.TrimSpace(c.Message + " ")
			if causes[c.Type] == "" {
				causes[c.Type] = "no reason given"
			}
		}
	}
	return causes
}

// The API server's texts in the cause of a refusal: one with numbers, one for a budget without counts yet, and others.
var (
	counted   = regexp.MustCompile(`disruption budget (\S+) needs (\d+) healthy pods and has (\d+) currently`)
	uncounted = regexp.MustCompile(`disruption budget (\S+) is still being processed`)
	named     = regexp.MustCompile(`disruption budget (\S+) does not`)
)

// inTheWay returns the PodDisruptionBudget that refused, and why. never: it never allows an eviction. The numbers are
// from the budget object, which has the expected pods, or else from the server's text.
func inTheWay(s *metav1.Status, pod *corev1.Pod, by Protection) (names []string, why string, never bool) {
	cause := causesOf(s)[policyv1.DisruptionBudgetCause]
	name, says := "", strings.TrimSpace(s.Message+" "+cause)
	if m := counted.FindStringSubmatch(cause); m != nil {
		name, says = m[1], fmt.Sprintf("it requires %s healthy pods, and %s are healthy", m[2], m[3])
	} else if m := uncounted.FindStringSubmatch(cause); m != nil {
		name, says = m[1], "kube-controller-manager has not counted its pods yet"
	} else if m := named.FindStringSubmatch(cause); m != nil {
		name, says = m[1], cause
	}
	if b := Refusing(s, pod, by.Budgets); b != nil {
		name = b.Name
		says, never = numbers(b, by.Pods)
	}
	if name == "" {
		return nil, "blocked by a PodDisruptionBudget: " + says, false
	}
	full := pod.Namespace + "/" + name
	if never {
		return []string{full}, "PodDisruptionBudget " + full + " allows no evictions: " + says, true
	}
	return []string{full}, "blocked by PodDisruptionBudget " + full + ": " + says, false
}

// numbers describes the counts of a budget. never: it requires all existing pods. pods are those that it selects; nil
// if they are not known.
func numbers(b *policyv1.PodDisruptionBudget, pods []corev1.Pod) (text string, never bool) {
	s := b.Status
	switch {
	case s.ExpectedPods == 1 && s.DesiredHealthy >= 1:
		return "its only pod must stay healthy", true
	case s.ExpectedPods > 0 && s.DesiredHealthy >= s.ExpectedPods:
		return fmt.Sprintf("all %d pods must stay healthy", s.ExpectedPods), true
	}
	must := fmt.Sprintf("%d of %d pods", s.DesiredHealthy, s.ExpectedPods)
	if m := b.Spec.MinAvailable; m != nil && m.Type == intstr.Int {
		// Its expected pods include those that are terminating, and those that have ended.
		must = fmt.Sprintf("%d pods", s.DesiredHealthy)
		if s.DesiredHealthy == 1 {
			must = "1 pod"
		}
		if total, settled := remaining(pods); settled {
			must = fmt.Sprintf("%d of %d pods", s.DesiredHealthy, total)
		}
	}
	are := "are"
	if s.CurrentHealthy == 1 {
		are = "is"
	}
	return fmt.Sprintf("%s must stay healthy, and %d %s healthy", must, s.CurrentHealthy, are), false
}

// remaining returns how many of the pods have not ended. While one terminates, settled is false: the pod that replaces
// it may or may not exist yet.
func remaining(pods []corev1.Pod) (total int, settled bool) {
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			return 0, false
		}
		if !hasEnded(&pods[i]) {
			total++
		}
	}
	return total, total > 0
}

// tooMany is for a pod with more than one budget, which the server never evicts.
func tooMany(pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) ([]string, string) {
	var names []string
	for _, b := range selecting(pod, budgets) {
		names = append(names, b.Namespace+"/"+b.Name)
	}
	slices.Sort(names)
	which := ""
	if len(names) > 0 {
		which = " (" + strings.Join(names, ", ") + ")"
	}
	return names, "more than one PodDisruptionBudget selects it" + which + ", so that it can never be evicted: " +
		"change or delete all but one of them"
}

// selecting is sorted by name.
func selecting(pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) []*policyv1.PodDisruptionBudget {
	var out []*policyv1.PodDisruptionBudget
	for _, b := range budgets {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && s.Matches(labels.Set(pod.Labels)) {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// reasonNotReady: one of the pod's containers is not Ready.
const reasonNotReady = "ContainersNotReady"

// mostReason limits a reason, which is one word.
const mostReason = 60

// PodText returns a text that says why a drain waits for a pod, with the pod that its budget waits for.
func PodText(p v1alpha1.DrainedPod) string {
	return withUnhealthy(p.Why, p.Unhealthy)
}

func withUnhealthy(why string, u *v1alpha1.UnhealthyPod) string {
	if u == nil {
		return why
	}
	text := why + "; pod " + u.Pod + " is not Ready"
	if u.Pending {
		text = why + "; pod " + u.Pod + " is Pending"
	}
	words := []string{u.Reason, u.Message}
	if u.Pending && u.Message != "" { // The sentence of the scheduler says it all.
		words = words[1:]
	}
	for _, word := range words {
		if word != "" {
			text += ": " + word
		}
	}
	if u.More > 0 {
		text += fmt.Sprintf(" (and %d more of its pods)", u.More)
	}
	return text
}
