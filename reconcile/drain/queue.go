package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Queues says in what order to act on those pods whose verdict is to evict or to delete. Pods of different queues may be
// asked for at the same time. Those of one queue are asked for one after the other, and not after one was refused: one
// disruption budget refused them before, so that a budget without room costs one request a round, however many pods wait
// for it. A budget may let go pods that are not ready while it keeps those that are; they are queues of their own.
//
// What was asked for longest ago comes first, among queues and in each, so that everyone has a turn where a round ends early.
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

// Shared is the answer of a pod that was not asked for in its turn, because the same budget has just refused another one:
// the new words, and its own clocks.
func (a Answer) Shared(own Answer) Answer {
	own.Why = a.Why
	return own
}
