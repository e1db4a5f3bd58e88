package drain_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name),
		Labels: map[string]string{"app": "web"},
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: kind, Name: name,
			Controller: new(true),
		}}
	}
}

// replicated is a pod that its ReplicaSet puts back.
func replicated(p *corev1.Pod) { ownedBy("ReplicaSet", "web")(p) }

func ends(at time.Time, grace int64, finalizers ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = new(metav1.NewTime(at)), &grace, finalizers
	}
}

// refusal is what the API server says where a budget has no room.
func refusal(cause string) *metav1.Status {
	return &metav1.Status{
		Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "Cannot evict pod as it would violate the " +
			"pod's disruption budget.",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type:    policyv1.DisruptionBudgetCause,
			Message: cause,
		}}},
	}
}

const needsTwo = "The disruption budget web needs 2 healthy pods and has 2 currently"

func budget(name string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			DesiredHealthy: 2, CurrentHealthy: 2, ExpectedPods: 3,
			DisruptionsAllowed: allowed,
		},
	}
}

func answered(ago time.Duration, s *metav1.Status, budgets ...*policyv1.PodDisruptionBudget) drain.Answer {
	return drain.ReadAnswer(s, pod("web-0"), drain.Protection{Budgets: budgets}, noon.Add(-ago))
}

// TestProgress follows a drain with a budget in its way over the hours.
func TestProgress(t *testing.T) {
	blocked := drain.Pod{Pod: pod("web-0"), Answer: answered(time.Second, refusal(needsTwo))}
	for sentence, tc := range map[string]struct {
		age   time.Duration
		next  time.Duration
		event string
	}{
		"at first it reads the pods every second":            {0, time.Second, ""},
		"after 10 s every 5 s":                               {10 * time.Second, 5 * time.Second, ""},
		"after 90 s every 30 s":                              {90 * time.Second, 30 * time.Second, ""},
		"after 10 minutes it warns, and looks every minute":  {10 * time.Minute, time.Minute, "DrainThresholdExceeded"},
		"after an hour it warns louder, and never gives up":  {time.Hour, time.Minute, "DrainFailed"},
		"after a year it still goes on":                      {365 * 24 * time.Hour, time.Minute, "DrainFailed"},
		"a clock that went backwards counts as just started": {-time.Hour, time.Second, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := drain.Decide(drain.Facts{Started: noon.Add(-tc.age), Pods: []drain.Pod{blocked}}, noon)
			if p.Done || p.Next != tc.next || p.Alarm.Event() != tc.event {
				t.Errorf("done %t, next %s, event %q; want false, %s, %q", p.Done, p.Next, p.Alarm.Event(), tc.next,
					tc.event)
			}
			if want := "1 pod left: default/web-0: blocked by PodDisruptionBudget default/web: it requires 2 healthy " +
				"pods, and 2 are healthy"; p.Status != want {
				t.Errorf("status\n got %s\nwant %s", p.Status, want)
			}
		})
	}
}

// TestTheStatusLineStaysShort: many blocked pods, each with a long and many-lined text.
func TestTheStatusLineStaysShort(t *testing.T) {
	var pods []drain.Pod
	for i := range 50 {
		long := refusal("")
		long.Message = strings.Repeat("no\nway ", 500)
		pods = append(pods, drain.Pod{Pod: pod(fmt.Sprintf("web-%02d", i)), Answer: answered(time.Second, long)})
	}
	status := drain.Decide(drain.Facts{Pods: pods}, noon).Status
	if len(status) > 1000 || strings.Contains(status, "\n") || !strings.Contains(status, "and 47 more") {
		t.Errorf("%d bytes: %s", len(status), status)
	}
}

// TestADrainWithNothingToDoIsDone: only pods that may stay.
func TestADrainWithNothingToDoIsDone(t *testing.T) {
	p := drain.Decide(drain.Facts{
		Started: noon.Add(-2 * time.Hour),
		Pods:    []drain.Pod{{Pod: pod("cni", ownedBy("DaemonSet", "cni"))}},
	}, noon)
	if !p.Done || p.Next != 0 || p.Alarm != drain.Quiet || p.Status != "drained" {
		t.Errorf("%+v", p)
	}
}

// TestTheOrderOfPodsDoesNotMatter, on random drains; and a drain is done exactly where every pod is skipped.
func TestTheOrderOfPodsDoesNotMatter(t *testing.T) {
	for seed := range int64(2000) {
		r := rand.New(rand.NewSource(seed))
		f := drain.Facts{Started: noon.Add(-time.Duration(r.Intn(7200)) * time.Second)}
		for i := range r.Intn(6) {
			p := drain.Pod{Pod: pod(fmt.Sprintf("p%d", i)), Orphan: r.Intn(2) == 0}
			if r.Intn(3) == 0 {
				ownedBy("DaemonSet", "cni")(p.Pod)
			}
			if r.Intn(4) == 0 {
				ends(noon.Add(time.Duration(r.Intn(200)-100)*time.Second), int64(r.Intn(90)))(p.Pod)
			}
			p.Answer = drain.Answer{
				Kind: drain.AnswerKind(r.Intn(5)),
				At:   noon.Add(-time.Duration(r.Intn(90)) * time.Second), Why: "x",
			}
			f.Pods = append(f.Pods, p)
		}
		if r.Intn(3) == 0 {
			f.NotReadySince = noon.Add(-time.Duration(r.Intn(200)) * time.Second)
		}
		if r.Intn(3) == 0 {
			f.Pace = schedule.Drain{WhenBlocked: v1alpha1.DrainDelete, After: time.Hour}
		}
		first := drain.Decide(f, noon)
		skipped := 0
		for _, v := range first.Verdicts {
			if v.Do == drain.Skip {
				skipped++
			} else if v.Do == drain.Wait && v.Why == "" {
				t.Fatalf("seed %d: %s waits without a reason", seed, v.Pod)
			}
		}
		if first.Done != (skipped == len(f.Pods)) {
			t.Fatalf("seed %d: done %t with %d of %d pods skipped", seed, first.Done, skipped, len(f.Pods))
		}
		r.Shuffle(len(f.Pods), func(i, j int) { f.Pods[i], f.Pods[j] = f.Pods[j], f.Pods[i] })
		if diff := gocmp.Diff(first, drain.Decide(f, noon)); diff != "" {
			t.Fatalf("seed %d: another order gives another result:\n%s", seed, diff)
		}
	}
}

// TestParse reads the two annotations of the protocol.
func TestParse(t *testing.T) {
	for sentence, tc := range map[string]struct {
		desired, applied string
		want             drain.Request
		err              bool
	}{
		"nothing was ever asked":                {"", "", drain.Request{}, false},
		"what is asked is done":                 {"drain-rendered-worker-aa", "drain-rendered-worker-aa", drain.Request{}, false},
		"a first drain":                         {"drain-rendered-worker-aa", "", drain.Request{Verb: "drain", Config: "rendered-worker-aa"}, false},
		"an uncordon after a drain":             {"uncordon-rendered-worker-aa", "drain-rendered-worker-aa", drain.Request{Verb: "uncordon", Config: "rendered-worker-aa"}, false},
		"a drain for another config":            {"drain-rendered-worker-bb", "drain-rendered-worker-aa", drain.Request{Verb: "drain", Config: "rendered-worker-bb"}, false},
		"a further drain for the config":        {"drain-rendered-worker-aa_2", "drain-rendered-worker-aa_1", drain.Request{Verb: "drain", Config: "rendered-worker-aa", Attempt: 2}, false},
		"a drain that somebody undid":           {"drain-rendered-worker-aa_2", "undone-rendered-worker-aa_2", drain.Request{}, false},
		"an earlier one that somebody undid":    {"drain-rendered-worker-aa_2", "undone-rendered-worker-aa_1", drain.Request{Verb: "drain", Config: "rendered-worker-aa", Attempt: 2}, false},
		"a number that is none":                 {"drain-rendered-worker-aa_x", "", drain.Request{}, true},
		"a number in another form":              {"drain-rendered-worker-aa_02", "", drain.Request{}, true},
		"a word of the controller":              {"undone-rendered-worker-aa", "", drain.Request{}, true},
		"a verb of another protocol":            {"reboot-rendered-worker-aa", "", drain.Request{}, true},
		"a verb without a config":               {"drain-", "", drain.Request{}, true},
		"a word that is no request":             {"drain", "", drain.Request{}, true},
		"a request withdrawn, as by a new node": {"", "drain-rendered-worker-aa", drain.Request{}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := v1alpha1.PendingDrain(tc.desired, tc.applied)
			if got != tc.want || (err != nil) != tc.err {
				t.Errorf("%+v, %v; want %+v, error %t", got, err, tc.want, tc.err)
			}
			if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", tc.desired)) {
				t.Errorf("error %q does not quote what it read", err)
			}
		})
	}
}

// TestReadNode reads a node that drains, and one that speaks another protocol.
func TestReadNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", Annotations: map[string]string{
		v1alpha1.DesiredDrainAnnotation: "drain-v1", v1alpha1.CordonedAnnotation: "v1",
		v1alpha1.DrainStartedAnnotation: "2026-01-02T11:00:00Z", v1alpha1.DrainStatusAnnotation: "drained",
	}}, Spec: corev1.NodeSpec{Unschedulable: true}}
	want := drain.Node{
		Name: "n0", Request: drain.Request{Verb: "drain", Config: "v1"}, Cordoned: drain.Cordoned{
			Unschedulable: true,
			For:           "v1",
		},
		Started: noon.Add(-time.Hour), Status: "drained",
	}
	got, err := drain.ReadNode(n)
	if diff := gocmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	n.Annotations[v1alpha1.DesiredDrainAnnotation] = "explode-v1"
	if _, err := drain.ReadNode(n); err == nil || !strings.Contains(err.Error(), "node n0") {
		t.Errorf("error %v, want one that names the node", err)
	}
}

// TestARevertDuringADrain: the daemon asks for the uncordon that is acknowledged already, so only our cordon is left to
// lift.
func TestARevertDuringADrain(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.DesiredDrainAnnotation: "uncordon-v0", v1alpha1.LastAppliedDrainAnnotation: "uncordon-v0",
		v1alpha1.CordonedAnnotation: "v1",
	}}, Spec: corev1.NodeSpec{Unschedulable: true}}
	node, err := drain.ReadNode(n)
	if want := (drain.Change{Needed: true}); err != nil || node.Rest() != want {
		t.Errorf("%+v, %v; want %+v", node.Rest(), err, want)
	}
	n.Annotations[v1alpha1.DesiredDrainAnnotation] = "drain-v1"
	n.Annotations[v1alpha1.LastAppliedDrainAnnotation] = "drain-v1"
	if node, err = drain.ReadNode(n); err != nil || node.Rest().Needed {
		t.Errorf("%+v, %v; a drained node keeps our cordon", node.Rest(), err)
	}
}

// TestCordons says who may cordon and uncordon.
func TestCordons(t *testing.T) {
	open, ours, theirs := drain.Cordoned{}, drain.Cordoned{Unschedulable: true, For: "v1"},
		drain.Cordoned{Unschedulable: true}
	stale := drain.Cordoned{For: "v1"}
	older := drain.Cordoned{Unschedulable: true, For: "v0"}
	anew := drain.Cordoned{Unschedulable: true, For: "v1", Replaced: true}
	same := func(c drain.Cordoned) drain.Change { return drain.Change{To: c} }
	to := func(c drain.Cordoned) drain.Change { return drain.Change{Needed: true, To: c} }
	for sentence, tc := range map[string]struct{ got, want drain.Change }{
		"a drain cordons an open node, with our mark":         {drain.Cordon(open, "v1"), to(ours)},
		"a drain finds its own cordon":                        {drain.Cordon(ours, "v1"), same(ours)},
		"a drain for the next config renews the mark":         {drain.Cordon(older, "v1"), to(ours)},
		"a drain leaves no mark on an administrator's cordon": {drain.Cordon(theirs, "v1"), same(theirs)},
		"a drain cordons again what somebody uncordoned":      {drain.Cordon(stale, "v1"), to(ours)},
		"an uncordon lifts our cordon and our mark":           {drain.Uncordon(ours), to(open)},
		"an uncordon never lifts an administrator's":          {drain.Uncordon(theirs), same(theirs)},
		"an uncordon of an open node removes a stale mark":    {drain.Uncordon(stale), to(open)},
		"an uncordon of an open node has nothing to do":       {drain.Uncordon(open), same(open)},
		"in between, a stale mark is tidied away":             {drain.Tidy(stale), to(open)},
		"in between, our cordon stays until it is asked back": {drain.Tidy(ours), same(ours)},
		"in between, an administrator's cordon stays":         {drain.Tidy(theirs), same(theirs)},
		"a drain takes our mark from a cordon made anew":      {drain.Cordon(anew, "v2"), to(theirs)},
		"an uncordon leaves a cordon that was made anew":      {drain.Uncordon(anew), to(theirs)},
		"in between, our mark goes from a cordon made anew":   {drain.Tidy(anew), to(theirs)},
	} {
		t.Run(sentence, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("%+v, want %+v", tc.got, tc.want)
			}
		})
	}
}

// TestACordonMadeAnewUndoesADrain: who owns the field tells that Bunsen's cordon was away in between.
func TestACordonMadeAnewUndoesADrain(t *testing.T) {
	owner := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const cordon, label = `{"f:spec":{"f:unschedulable":{}}}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	for says, c := range map[string]struct {
		owners []metav1.ManagedFieldsEntry
		undone bool
	}{
		"nobody is known":        {nil, false},
		"it is ours":             {[]metav1.ManagedFieldsEntry{owner("kubectl", label), owner(v1alpha1.CordonManager, cordon)}, false},
		"it is of both":          {[]metav1.ManagedFieldsEntry{owner("argocd", cordon), owner(v1alpha1.CordonManager, cordon)}, false},
		"it is somebody else's":  {[]metav1.ManagedFieldsEntry{owner(v1alpha1.CordonManager, label), owner("kubectl", cordon)}, true},
		"the fields are damaged": {[]metav1.ManagedFieldsEntry{owner("kubectl", "x")}, false},
	} {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n0", ManagedFields: c.owners, Annotations: map[string]string{
				v1alpha1.CordonedAnnotation: "v1", v1alpha1.DesiredDrainAnnotation: "drain-v1",
				v1alpha1.LastAppliedDrainAnnotation: "drain-v1",
			}},
			Spec: corev1.NodeSpec{Unschedulable: true},
		}
		node, err := drain.ReadNode(n)
		if applied, undone := node.Withdraw(); err != nil || undone != c.undone || undone && applied != "undone-v1" {
			t.Errorf("%s: %t %q, %v", says, undone, applied, err)
		}
	}
}

// TestAutoscalersLeaveACordonedNode: they would remove the node that is empty for its update. What others say stays.
func TestAutoscalersLeaveACordonedNode(t *testing.T) {
	const (
		theirs, karpenter = "cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"
		both              = theirs + " " + karpenter
	)
	ours := drain.Cordoned{Unschedulable: true, For: "v1"}
	type words map[string]string
	cordoned := func(is words) words { is[v1alpha1.CordonedAnnotation] = "v1"; return is }
	for sentence, tc := range map[string]struct {
		was  words
		set  drain.Cordoned
		want words
	}{
		"our cordon protects the node": {
			words{"else": "1"},
			ours,
			cordoned(words{"else": "1", theirs: "true", karpenter: "true", v1alpha1.ScaleDownAnnotation: both}),
		},
		"the end of our cordon ends it": {
			cordoned(words{"else": "1", theirs: "true", karpenter: "true", v1alpha1.ScaleDownAnnotation: both}),
			drain.Cordoned{},
			words{"else": "1"},
		},
		"what an administrator set is not ours": {
			words{theirs: "false"},
			ours,
			cordoned(words{theirs: "false", karpenter: "true", v1alpha1.ScaleDownAnnotation: karpenter}),
		},
		"so it stays": {
			cordoned(words{theirs: "true", karpenter: "true", v1alpha1.ScaleDownAnnotation: karpenter}),
			drain.Cordoned{},
			words{theirs: "true"},
		},
		"all of it is an administrator's": {
			words{theirs: "true", karpenter: "true"},
			ours,
			cordoned(words{theirs: "true", karpenter: "true", v1alpha1.ScaleDownAnnotation: ""}),
		},
		"what was removed during the update stays removed": {
			cordoned(words{theirs: "true", v1alpha1.ScaleDownAnnotation: both}), ours,
			cordoned(words{theirs: "true", v1alpha1.ScaleDownAnnotation: both}),
		},
		"what was changed during the update stays": {
			cordoned(words{theirs: "false", v1alpha1.ScaleDownAnnotation: both}),
			drain.Cordoned{},
			words{theirs: "false"},
		},
		"a mark names only annotations of autoscalers": {
			cordoned(words{"else": "true", v1alpha1.ScaleDownAnnotation: "else " + v1alpha1.StateAnnotation}),
			drain.Cordoned{},
			words{"else": "true"},
		},
		"an administrator's cordon protects nothing": {
			words{}, drain.Cordoned{Unschedulable: true}, words{},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: tc.was}}
			tc.set.Set(n)
			if diff := gocmp.Diff(map[string]string(tc.want), n.Annotations); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := n.DeepCopy()
			tc.set.Set(again)
			if diff := gocmp.Diff(n, again); diff != "" {
				t.Errorf("a second write differs:\n%s", diff)
			}
		})
	}
}

// TestAcknowledge says when a request counts as done.
func TestAcknowledge(t *testing.T) {
	ask := func(verb string) drain.Request { return drain.Request{Verb: verb, Config: "v1"} }
	for sentence, tc := range map[string]struct {
		request drain.Request
		node    drain.Cordoned
		drained bool
		want    string
	}{
		"a drained and cordoned node":                    {ask("drain"), drain.Cordoned{Unschedulable: true, For: "v1"}, true, "drain-v1"},
		"a drained node under an administrator's cordon": {ask("drain"), drain.Cordoned{Unschedulable: true}, true, "drain-v1"},
		"pods are left":                                  {ask("drain"), drain.Cordoned{Unschedulable: true}, false, ""},
		"somebody uncordoned it meanwhile":               {ask("drain"), drain.Cordoned{}, true, ""},
		"an uncordoned node":                             {ask("uncordon"), drain.Cordoned{}, false, "uncordon-v1"},
		"an administrator's cordon is all that is left":  {ask("uncordon"), drain.Cordoned{Unschedulable: true}, false, "uncordon-v1"},
		"our cordon still stands":                        {ask("uncordon"), drain.Cordoned{Unschedulable: true, For: "v1"}, false, ""},
		"nothing was asked":                              {drain.Request{}, drain.Cordoned{}, true, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, done := drain.Acknowledge(tc.request, tc.node, tc.drained)
			if got != tc.want || done != (tc.want != "") {
				t.Errorf("%q, %t; want %q", got, done, tc.want)
			}
		})
	}
}
