package drain_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

func born(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-ago)) }
}

func named(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name, p.UID = name, types.UID("uid-"+name) }
}

// TestTheReport reads as people see it: what holds the drain up first, what stays last, what is gone not at all.
func TestTheReport(t *testing.T) {
	f := drain.Facts{
		Config: "rendered-worker-aa", Started: noon.Add(-10 * time.Minute),
		Pods: []drain.Pod{
			{Pod: pod("cni", ownedBy("DaemonSet", "cni"))},
			web(drain.Answer{}, named("slow"), ends(noon.Add(4*time.Minute), 600)),
			web(asked(2, refusal(needsTwo), budget("web", 0)), named("guarded")),
			web(asked(0, said(404, metav1.StatusReasonNotFound, "")), named("away")),
		},
	}
	want := `{"for":"rendered-worker-aa","started":"2026-01-02T11:50:00Z","pods":[
{"pod":"default/guarded","state":"Waiting","why":"blocked by PodDisruptionBudget default/web: 2 of 3 pods must stay healthy, and 2 are healthy","budget":"default/web","since":"2026-01-02T11:59:58Z"},
{"pod":"default/slow","state":"Evicted","why":"terminating, has until 2026-01-02T12:04:00Z (grace period 10m0s)","since":"2026-01-02T11:54:00Z"},
{"pod":"default/cni","state":"Skipped","why":"DaemonSet default/cni would put it back at once"}]}`
	got := drain.ReportText(drain.Decide(f, noon).Report)
	if diff := gocmp.Diff(strings.ReplaceAll(want, "\n", ""), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r, err := v1alpha1.ParseDrainReport(got)
	if err != nil || drain.ReportText(r) != got {
		t.Errorf("%v; read and written again: %s", err, drain.ReportText(r))
	}
}

// TestSinceWhen: the times of a report are those of the matter, whoever looks and however often.
func TestSinceWhen(t *testing.T) {
	hour := new(metav1.NewTime(noon.Add(-time.Hour)))
	last := func(state v1alpha1.DrainedPodState, budget string) drain.Facts {
		return drain.Facts{Last: v1alpha1.DrainReport{Pods: []v1alpha1.DrainedPod{{
			Pod: "default/web-0", State: state,
			Budget: budget, Since: hour,
		}}}}
	}
	blocked := asked(2, refusal(needsTwo))
	past := asked(2, nil)
	past.Past = true
	for sentence, tc := range map[string]struct {
		facts drain.Facts
		pod   drain.Pod
		want  string
	}{
		"a first refusal counts from itself":                           {drain.Facts{}, web(blocked), "Waiting 11:59:58"},
		"a later one from the first, by the report":                    {last(v1alpha1.PodWaiting, "default/web"), web(blocked), "Waiting 11:00:00"},
		"a controller that has just begun takes it from there":         {last(v1alpha1.PodWaiting, "default/web"), web(drain.Answer{}), "Waiting 11:00:00"},
		"another budget in the way is another matter":                  {last(v1alpha1.PodWaiting, "default/all"), web(blocked), "Waiting 11:59:58"},
		"a pod that came back under its name has a clock of its own":   {last(v1alpha1.PodWaiting, "default/web"), web(blocked, born(time.Minute)), "Waiting 11:59:58"},
		"without room in the report, memory knows":                     {drain.Facts{}, web(blocked.Following(asked(600, refusal(needsTwo)))), "Waiting 11:50:00"},
		"memory does not mix up two budgets":                           {drain.Facts{}, web(blocked.Following(asked(600, refusal("The disruption budget all needs 1 healthy pods and has 1 currently")))), "Waiting 11:59:58"},
		"a pod ends since its deletion was asked for":                  {drain.Facts{}, web(drain.Answer{}, ends(noon.Add(time.Minute), 120)), "Evicted 11:59:00"},
		"a pod deleted past its budget remains one":                    {last(v1alpha1.PodDeleted, ""), web(drain.Answer{}, ends(noon.Add(time.Minute), 120)), "Deleted 11:00:00"},
		"memory knows of a deletion before the report does":            {drain.Facts{}, web(past), "Deleted 11:59:58"},
		"what stays has no clock":                                      {last(v1alpha1.PodWaiting, ""), web(blocked, static), "Skipped"},
		"an error is waited for since the first, however it is worded": {last(v1alpha1.PodWaiting, ""), web(asked(1, said(500, "", "etcdserver: request timed out"))), "Waiting 11:00:00"},
	} {
		t.Run(sentence, func(t *testing.T) {
			tc.facts.Pods = []drain.Pod{tc.pod}
			pod := drain.Decide(tc.facts, noon).Report.Pods[0]
			got := string(pod.State)
			if pod.Since != nil {
				got += pod.Since.UTC().Format(" 15:04:05")
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestALostMemoryLosesNoClock, on random drains: what a pod waited for, and since when, is in the next report of a
// controller that knows nothing but the last one.
func TestALostMemoryLosesNoClock(t *testing.T) {
	statuses := []*metav1.Status{
		refusal(needsTwo), refusal("The disruption budget all needs 1 healthy pods and has 1 currently"),
		said(500, "", "out of order"),
	}
	for seed := range int64(500) {
		r := rand.New(rand.NewSource(seed))
		f := drain.Facts{Config: "v1", Started: noon.Add(-time.Hour)}
		for i := range 1 + r.Intn(20) {
			before := asked(100+r.Intn(1000), statuses[r.Intn(len(statuses))])
			p := web(drain.Answer{}, named(fmt.Sprintf("web-%d", i)), born(2*time.Hour))
			p.Answer = asked(r.Intn(90), statuses[r.Intn(len(statuses))]).Following(before)
			f.Pods = append(f.Pods, p)
		}
		known := drain.Decide(f, noon).Report
		f.Last = known
		for i := range f.Pods {
			f.Pods[i].Answer = drain.Answer{}
		}
		if diff := gocmp.Diff(known, drain.Decide(f, noon.Add(time.Minute)).Report); diff != "" {
			t.Fatalf("seed %d: -before +after:\n%s", seed, diff)
		}
	}
}

// TestAReportThatNothingChangedIsTheSame: a later look, with a later answer, writes nothing.
func TestAReportThatNothingChangedIsTheSame(t *testing.T) {
	f := drain.Facts{
		Config: "v1", Started: noon.Add(-time.Hour), NotReadySince: noon.Add(-time.Second),
		Pods: []drain.Pod{
			web(asked(0, refusal(needsTwo)), named("a")), web(asked(0, nil), named("b")),
			web(drain.Answer{}, named("c"), ends(noon.Add(20*time.Minute), 1200)),
			{Pod: pod("d", static)},
		},
	}
	first := drain.Decide(f, noon)
	f.Last = first.Report
	later := noon.Add(10 * time.Second)
	again := drain.ReadAnswer(refusal(needsTwo), f.Pods[0].Pod, drain.Protection{}, later)
	f.Pods[0].Answer = again.Following(f.Pods[0].Answer)
	ends(later.Add(19*time.Second), 30)(f.Pods[1].Pod)
	second := drain.Decide(f, later)
	if diff := gocmp.Diff(drain.ReportText(first.Report), drain.ReportText(second.Report)); diff != "" ||
		first.Status != second.Status {
		t.Errorf("%s\n%s\n%s", diff, first.Status, second.Status)
	}
}

// TestTheReportHasItsRoom: with many pods it keeps within 8 KiB, and says how many it leaves out.
func TestTheReportHasItsRoom(t *testing.T) {
	f := drain.Facts{Config: "rendered-worker-0123456789abcdef0123456789abcdef", Started: noon}
	for i := range 250 {
		long := refusal("The disruption budget web does not allow evicting pods currently: " +
			strings.Repeat(`no "way" `, 100))
		f.Pods = append(f.Pods, web(asked(1, long), named(fmt.Sprintf("web-%03d", i))))
	}
	r := drain.Decide(f, noon).Report
	if text := drain.ReportText(r); len(text) > 8<<10 || len(text) < 7<<10 || r.More+len(r.Pods) != 250 ||
		!json.Valid([]byte(text)) {
		t.Errorf("%d bytes, %d pods and %d more", len(text), len(r.Pods), r.More)
	}
}

// TestWhatOneEventIsAbout: a drain that begins to wait for a budget.
func TestWhatOneEventIsAbout(t *testing.T) {
	one := func(name string) drain.Pod { return web(asked(1, refusal(needsTwo)), named(name)) }
	other := web(asked(1, refusal("The disruption budget all needs 1 healthy pods and has 1 currently")),
		named("other"))
	waits := func(budgets ...string) (r v1alpha1.DrainReport) {
		for _, b := range budgets {
			r.Pods = append(r.Pods, v1alpha1.DrainedPod{Pod: "default/z", State: v1alpha1.PodWaiting, Budget: b})
		}
		return r
	}
	const web0 = "default/web-0: blocked by PodDisruptionBudget default/web: it requires 2 healthy pods, and 2 are " +
		"healthy"
	for sentence, tc := range map[string]struct {
		pods []drain.Pod
		last v1alpha1.DrainReport
		want string
	}{
		"a first pod that has to wait":                {[]drain.Pod{one("web-0")}, waits(), web0},
		"several pods of one budget are one matter":   {[]drain.Pod{one("web-0"), one("web-1"), one("web-2")}, waits(), web0 + " (and 2 more pods)"},
		"it is told once":                             {[]drain.Pod{one("web-0")}, waits("default/web"), ""},
		"a budget beside another one is told as well": {[]drain.Pod{one("web-0"), other}, waits("default/web"), "default/other: blocked by PodDisruptionBudget default/all: it requires 1 healthy pods, and 1 are healthy"},
		"two at once are told in one":                 {[]drain.Pod{one("web-0"), other}, waits(), "default/other: blocked by PodDisruptionBudget default/all: it requires 1 healthy pods, and 1 are healthy; " + web0},
		"an error is no budget":                       {[]drain.Pod{web(asked(1, &metav1.Status{Message: "no route to host"}))}, waits(), ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := drain.Decide(drain.Facts{Pods: tc.pods, Last: tc.last}, noon).Blocked; got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestQueues: what one budget refuses is asked for one after the other, everything else at once.
func TestQueues(t *testing.T) {
	ready := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	two := said(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "+
		"support.")
	pods := []drain.Pod{
		web(drain.Answer{}, named("new-1"), ready), web(drain.Answer{}, named("new-2"), ready),
		web(asked(10, refusal(needsTwo)), named("web-1"), ready), web(asked(20, refusal(needsTwo)), named("web-2"),
			ready),
		web(asked(30, refusal(needsTwo)), named("sick-1")), web(asked(29, refusal(needsTwo)), named("sick-2")),
		web(asked(40, refusal("The disruption budget all needs 1 healthy pods and has 1 currently")), named("all-1"),
			ready),
		web(asked(50, said(500, "", "out of order")), named("broken"), ready),
		web(asked(14, two, budget("a", 1), budget("b", 1)), named("two-1"), ready),
		web(asked(13, two, budget("a", 1), budget("b", 1)), named("two-2"), ready),
		web(asked(1, refusal(needsTwo)), named("fresh"), ready),
		{Pod: pod("etcd", static)},
	}
	f := drain.Facts{Started: noon.Add(-time.Minute), Pods: pods}
	show := func(f drain.Facts) string {
		var lines []string
		for _, queue := range drain.Queues(drain.Decide(f, noon).Verdicts, f.Pods) {
			var names []string
			for _, p := range queue {
				names = append(names, p.Pod.Name)
			}
			lines = append(lines, strings.Join(names, " then "))
		}
		return strings.Join(lines, ", ")
	}
	if got, want := show(f),
		"new-1, new-2, broken, all-1, sick-1 then sick-2, web-2 then web-1, two-1 then two-2"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	f.Started, f.Pace = noon.Add(-2*time.Hour), schedule.Drain{WhenBlocked: v1alpha1.DrainDelete, After: time.Hour}
	if got, want := show(f),
		"new-1, new-2, broken, all-1, sick-1, sick-2, web-2, two-1, two-2, web-1, fresh"; got != want {
		t.Errorf("what is deleted needs no turns:\n got %s\nwant %s", got, want)
	}
}
