package drain

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// mostReport is in bytes of JSON: all annotations of an object share 256 KiB, and each write of the Node includes the
// report.
const mostReport = 8 << 10

// ReportText returns the report in the form of the annotation.
func ReportText(r v1alpha1.DrainReport) string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // There is no error, because texts, numbers and times can always be encoded.
	}
	return string(text)
}

// report lists every pod that is not gone, in the order of the verdicts, as far as there is room.
func (f Facts) report(verdicts []Verdict, now time.Time) v1alpha1.DrainReport {
	started := f.Started
	if started.IsZero() {
		started = now
	}
	r := v1alpha1.DrainReport{For: f.Config, Started: whole(started), Alone: f.Alone}
	room := mostReport - len(ReportText(r)) - len(`,"pods":[],"more":1000000`)
	for _, v := range verdicts {
		if v.State == "" {
			continue
		}
		pod := v1alpha1.DrainedPod{
			Pod: v.Pod, State: v.State, Why: cut(v.Why), Budget: v.Budget, Never: v.Never, Unhealthy: v.Unhealthy,
		}
		if !v.Since.IsZero() {
			since := whole(v.Since)
			pod.Since = &since
		}
		text, err := json.Marshal(pod)
		if room -= len(text) + 1; err != nil || room < 0 || r.More > 0 {
			r.More++
			continue
		}
		r.Pods = append(r.Pods, pod)
	}
	return r
}

// whole has the precision of the report's JSON.
func whole(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// kept copies from the last report what a restarted controller does not have: when the state of a pod began, and that
// it was deleted instead of evicted; not from an entry that is older than the pod, which is about an earlier one with
// the same name.
func (f Facts) kept(v Verdict, p Pod) Verdict {
	for _, last := range f.Last.Pods {
		if last.Pod != v.Pod || last.Since == nil || last.Since.Time.Before(p.Pod.CreationTimestamp.Time) {
			continue
		}
		if v.Do == Evict && p.Answer.Kind == Unasked && last.State == v1alpha1.PodWaiting {
			v.Why, v.Budget, v.Never, v.Unhealthy = last.Why, last.Budget, last.Never, last.Unhealthy
			v.Since = last.Since.Time
		}
		if v.State == v1alpha1.PodEvicted && last.State == v1alpha1.PodDeleted {
			v.State = v1alpha1.PodDeleted
		}
		if v.State == last.State && v.Budget == last.Budget && !v.Since.IsZero() {
			v.Since = last.Since.Time
		}
	}
	return v
}

// blocked describes the pods that wait for a PodDisruptionBudget for which none waited before, or for one that now
// waits for a pod which does not become healthy by itself: for each such budget one pod, and the number of the others.
func (f Facts) blocked(verdicts []Verdict) string {
	known := map[string]bool{}
	for _, p := range f.Last.Pods {
		known[p.Budget], known[needs(p.Budget, p.Unhealthy)] = true, true
	}
	first, more := []Verdict(nil), map[string]int{}
	for _, v := range verdicts {
		if v.State != v1alpha1.PodWaiting || v.Budget == "" || known[needs(v.Budget, v.Unhealthy)] {
			continue
		}
		if _, again := more[v.Budget]; again {
			more[v.Budget]++
			continue
		}
		first, more[v.Budget] = append(first, v), 0
	}
	lines := make([]string, len(first))
	for i, v := range first {
		lines[i] = v.Pod + ": " + v.text()
		switch n := more[v.Budget]; n {
		case 0:
		case 1:
			lines[i] += " (and 1 more pod)"
		default:
			lines[i] += fmt.Sprintf(" (and %d more pods)", n)
		}
	}
	return strings.Join(lines, "; ")
}

// needs is a key for what a user has to look at: a pod that does not become healthy by itself, or the budget.
func needs(budget string, u *v1alpha1.UnhealthyPod) string {
	switch {
	case u == nil, !u.Pending && (u.Reason == reasonNotReady || u.Reason == "ContainerCreating"):
		return budget
	case u.Pending && u.Reason == "": // The scheduler has not looked at the pod yet.
		return budget
	}
	return budget + " " + u.Pod
}
