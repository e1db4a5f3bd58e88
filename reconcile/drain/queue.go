package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Queues returns the order of evictions and deletions. Pods of different queues may be handled at the same time. The
// pods of one queue are handled one after the other, until the API server refuses one, because the same
// PodDisruptionBudget refused these pods before. So a budget without room costs one request a round. A budget may allow
// the eviction of pods that are not ready while it protects ready pods, so pods that are ready and pods that are not
// are in separate queues.
//
// In each queue, the pod whose last request is oldest comes first. The queues are sorted by the age of the first pod's
// last request. So each pod is handled even if rounds end early.
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

// Shared returns the answer for a pod that was skipped because the same budget has just refused another pod. The result
// has the reason of the new refusal, and the times of the pod's own answer.
func (a Answer) Shared(own Answer) Answer {
	own.Why, own.Unhealthy = a.Why, a.Unhealthy
	return own
}
