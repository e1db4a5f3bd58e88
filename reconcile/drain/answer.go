package drain

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// AnswerKind sorts the server's answers to an eviction.
type AnswerKind int

// Values of AnswerKind.
const (
	// Unasked: no eviction was asked for yet.
	Unasked AnswerKind = iota
	// Accepted: the pod will terminate.
	Accepted
	// Gone: there is no such pod any more.
	Gone
	// Refused: a disruption budget forbids it now (429).
	Refused
	// Failed: any other error; the next try may succeed.
	Failed
)

// Answer is the server's answer to an eviction.
type Answer struct {
	// Kind of the answer.
	Kind AnswerKind
	// At is when it came.
	At time.Time
	// Message is the server's text, and the causes it gave.
	Message string
	// Budget is the disruption budget that refused, if it was found.
	Budget *Budget
}

// Budget is what a PodDisruptionBudget counts.
type Budget struct {
	// Name of the PodDisruptionBudget; it lies in the pod's namespace.
	Name string
	// Needs healthy pods, Has them now, of Of expected.
	Needs, Has, Of int32
}

// ReadAnswer sorts the error of an eviction, given as the status that an API error carries; nil is success. budgets are
// those of the pod's namespace, to name the one in the way with its numbers; none will do.
func ReadAnswer(s *metav1.Status, pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget, now time.Time) Answer {
	if s == nil {
		return Answer{Kind: Accepted, At: now}
	}
	a := Answer{Kind: Failed, At: now, Message: s.Message}
	byBudget := false
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			a.Message = strings.TrimSpace(a.Message + " " + c.Message)
			byBudget = byBudget || c.Type == policyv1.DisruptionBudgetCause
		}
	}
	switch {
	case s.Reason == metav1.StatusReasonNotFound:
		a.Kind = Gone
	case byBudget: // a 429 without this cause is the server's own limit on requests
		a.Kind = Refused
		a.Budget = inTheWay(a.Message, pod, budgets)
	}
	return a
}

// counted is how the server names a budget and its numbers; named is how it names one without numbers.
var (
	counted = regexp.MustCompile(`disruption budget (\S+) needs (\d+) healthy pods and has (\d+) currently`)
	named   = regexp.MustCompile(`disruption budget (\S+) (?:does not|is still)`)
)

// inTheWay finds the budget that refused: by the name in the server's text, else the first that selects the pod and has
// no room. Its numbers come from the object, which knows how many pods are expected, else from the text.
func inTheWay(message string, pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) *Budget {
	name, fromText := parseBudget(message)
	for _, b := range budgets {
		if b.Namespace != pod.Namespace || name != "" && b.Name != name {
			continue
		}
		if name == "" && (b.Status.DisruptionsAllowed > 0 || !selects(b, pod)) {
			continue
		}
		return &Budget{Name: b.Name, Needs: b.Status.DesiredHealthy, Has: b.Status.CurrentHealthy, Of: b.Status.ExpectedPods}
	}
	return fromText
}

func parseBudget(message string) (string, *Budget) {
	if m := counted.FindStringSubmatch(message); m != nil {
		b := &Budget{Name: m[1]}
		if _, err := fmt.Sscan(m[2]+" "+m[3], &b.Needs, &b.Has); err == nil {
			return m[1], b
		}
	}
	if m := named.FindStringSubmatch(message); m != nil {
		return m[1], &Budget{Name: m[1]}
	}
	return "", nil
}

func selects(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && s.Matches(labels.Set(pod.Labels))
}

// why says in words what refused the eviction of a pod in a namespace.
func (a Answer) why(namespace string) string {
	if a.Kind != Refused {
		return "evicting it: " + a.Message
	}
	b := a.Budget
	switch {
	case b == nil:
		return "blocked by a PodDisruptionBudget: " + a.Message
	case b.Of > 0:
		return fmt.Sprintf("blocked by PodDisruptionBudget %s/%s: needs %d of %d healthy, has %d", namespace, b.Name, b.Needs, b.Of, b.Has)
	case b.Needs > 0:
		return fmt.Sprintf("blocked by PodDisruptionBudget %s/%s: needs %d healthy, has %d", namespace, b.Name, b.Needs, b.Has)
	}
	return fmt.Sprintf("blocked by PodDisruptionBudget %s/%s: %s", namespace, b.Name, a.Message)
}
