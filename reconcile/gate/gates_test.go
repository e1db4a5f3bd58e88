package gate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gate"
)

// gateWorld is a cluster in memory whose health is asked about.
type gateWorld struct {
	t     *testing.T
	now   time.Time
	c     client.WithWatch
	told  *controllertest.Events
	gates *gate.Evaluator
}

func newGateWorld(t *testing.T, objects ...client.Object) *gateWorld {
	t.Helper()
	scheme, err := reconcile.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &gateWorld{t: t, now: controllertest.Noon, told: &controllertest.Events{}}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&batchv1.Job{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).Build()
	w.restart()
	return w
}

// restart forgets everything that the gates held in memory.
func (w *gateWorld) restart() {
	w.gates = &gate.Evaluator{Live: w.c, Client: w.c, Now: func() time.Time { return w.now }, Events: w.told}
}

// node is what the gates say of one node.
func (w *gateWorld) node(n *corev1.Node) string {
	return w.gates.Nodes(w.t.Context(), []*corev1.Node{n}, controllertest.DaemonSetPace())[0]
}

func affinity(expressions, fields []corev1.NodeSelectorRequirement) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: expressions, MatchFields: fields}},
			},
		}}
	}
}

func TestDaemonSetsOfAGate(t *testing.T) {
	requires := func(key string, op corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}
	}
	broken := controllertest.GatePod("cni-1", "n1", controllertest.Crashing)
	const crash = "gate network: pod kube-system/cni-1 is not ready: container agent: CrashLoopBackOff: back-off 5m0s"
	const none = "gate network: DaemonSet kube-system/cni has no pod on the node yet"
	for sentence, c := range map[string]struct {
		node    *corev1.Node
		objects []client.Object
		want    string
	}{
		"a pod that is ready holds nobody up": {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(0, 9, nil), controllertest.GatePod("cni-1", "n1", controllertest.Ready)}, ""},
		"one that is not says why":            {controllertest.GateNode(time.Hour), []client.Object{controllertest.DaemonSet(8, 9, nil), broken}, crash},
		"one that cannot be scheduled says why": {
			controllertest.GateNode(0),
			[]client.Object{controllertest.DaemonSet(8, 9, nil), controllertest.GatePod("cni-1", "n1",
				func(p *corev1.Pod) {
					p.Status.Conditions = []corev1.PodCondition{{
						Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
						Reason: "Unschedulable", Message: "0/1 nodes fit",
					}}
				})},
			"gate network: pod kube-system/cni-1 is not ready: Unschedulable: 0/1 nodes fit",
		},
		"one that runs and has not answered yet is named": {
			controllertest.GateNode(0),
			[]client.Object{controllertest.DaemonSet(8, 9, nil), controllertest.GatePod("cni-1", "n1",
				func(p *corev1.Pod) {
					p.Status.ContainerStatuses = []corev1.ContainerStatus{{
						Name:  "agent",
						State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
					}}
				})},
			"gate network: pod kube-system/cni-1 is not ready: container agent is not ready yet",
		},
		"the pod of another node is not asked":     {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(8, 9, nil), controllertest.GatePod("cni-2", "n2", controllertest.Ready)}, none},
		"nor one that another DaemonSet owns":      {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(8, 9, nil), controllertest.GatePod("cni-1", "n1", func(p *corev1.Pod) { controllertest.Ready(p); p.OwnerReferences[0].UID = "another" })}, none},
		"beside a dying pod a ready one is enough": {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(8, 9, nil), broken, controllertest.GatePod("cni-9", "n1", controllertest.Ready)}, ""},
		"a pod that was ready before the node went away does not count": {
			controllertest.GateNode(0),
			[]client.Object{controllertest.DaemonSet(8, 9, nil), controllertest.GatePod("cni-1", "n1",
				controllertest.ReadySince(controllertest.Noon.Add(-time.Minute)))},
			"gate network: pod kube-system/cni-1 was ready before the node went away, and has not said so since",
		},
		"one that was taken in since does": {
			controllertest.GateNode(0),
			[]client.Object{controllertest.DaemonSet(8, 9, nil), controllertest.GatePod("cni-1", "n1",
				func(p *corev1.Pod) {
					controllertest.ReadySince(controllertest.Noon.Add(-time.Minute))(p)
					p.Status.StartTime = &metav1.Time{Time: controllertest.Noon}
				})},
			"",
		},
		"one that makes the node's network may be a little earlier":  {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(8, 9, nil), controllertest.GatePod("cni-1", "n1", controllertest.ReadySince(controllertest.Noon.Add(-10*time.Second)))}, ""},
		"and once the node is settled, what is said of it is of now": {controllertest.GateNode(2 * time.Minute), []client.Object{controllertest.DaemonSet(8, 9, nil), controllertest.GatePod("cni-1", "n1", controllertest.ReadySince(controllertest.Noon.Add(-time.Hour)))}, ""},
		"a whole DaemonSet is believed of a settled node":            {controllertest.GateNode(time.Hour), []client.Object{controllertest.DaemonSet(9, 9, nil)}, ""},
		"but not of one that came back a moment ago":                 {controllertest.GateNode(time.Minute), []client.Object{controllertest.DaemonSet(9, 9, nil), broken}, crash},
		"a DaemonSet that is not there is said":                      {controllertest.GateNode(0), nil, "gate network: there is no DaemonSet kube-system/cni: correct the gate in the RolloutPolicy, or create it"},
		"a node that its selector excludes does not wait":            {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(8, 9, func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"rack": "8"} })}, ""},
		"nor one that its affinity excludes":                         {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(8, 9, affinity(requires("rack", corev1.NodeSelectorOpGt, "7"), nil))}, ""},
		"nor one that its affinity excludes by name":                 {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(8, 9, affinity(nil, requires("metadata.name", corev1.NodeSelectorOpNotIn, "n1")))}, ""},
		"one that its affinity wants waits":                          {controllertest.GateNode(0), []client.Object{controllertest.DaemonSet(8, 9, affinity(requires("rack", corev1.NodeSelectorOpIn, "7"), requires("metadata.name", corev1.NodeSelectorOpIn, "n1")))}, none},
		"nor one whose taint it does not tolerate":                   {controllertest.GateNode(0, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}), []client.Object{controllertest.DaemonSet(8, 9, nil)}, ""},
		"a taint that it tolerates makes no difference":              {controllertest.GateNode(0, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}), []client.Object{controllertest.DaemonSet(8, 9, func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })}, none},
		"a cordon makes none either":                                 {controllertest.GateNode(0, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}), []client.Object{controllertest.DaemonSet(8, 9, nil)}, none},
		"nor does our own taint, which forbids nothing":              {controllertest.GateNode(0, corev1.Taint{Key: v1alpha1.UpdateInProgressTaint, Effect: corev1.TaintEffectPreferNoSchedule}), []client.Object{controllertest.DaemonSet(8, 9, nil)}, none},
		"nor a missing network, for one that makes it":               {controllertest.GateNode(0, corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}), []client.Object{controllertest.DaemonSet(8, 9, func(s *corev1.PodSpec) { s.HostNetwork = true })}, none},
	} {
		t.Run(sentence, func(t *testing.T) {
			controllertest.Equal(t, "the gate", newGateWorld(t, c.objects...).node(c.node), c.want)
		})
	}
}

func TestANodeWithoutSuchGatesCostsNoQuestion(t *testing.T) {
	g := &gate.Evaluator{Now: time.Now} // a question would be a panic
	p := schedule.Pace{Gates: []v1alpha1.HealthGate{{Name: "ready", Ready: &v1alpha1.ReadyGate{}}}}
	controllertest.Equal(t, "the gate", g.Nodes(t.Context(), []*corev1.Node{controllertest.GateNode(0)}, p)[0], "")
}

func TestWhatWasReadOfADaemonSetIsKeptForAMoment(t *testing.T) {
	pod := controllertest.GatePod("cni-1", "n1", controllertest.Crashing)
	w := newGateWorld(t, controllertest.DaemonSet(8, 9, nil), pod)
	look := func() bool { return w.node(controllertest.GateNode(0)) == "" }
	controllertest.Equal(t, "before", look(), false)
	controllertest.Ready(pod)
	if err := w.c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.now = controllertest.Noon.Add(4 * time.Second)
	controllertest.Equal(t, "after 4 seconds", look(), false)
	w.now = controllertest.Noon.Add(5 * time.Second)
	controllertest.Equal(t, "after 5 seconds", look(), true)
	controllertest.Crashing(pod)
	pod.Status.Conditions = nil
	if err := w.c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.now = controllertest.Noon.Add(10 * time.Second)
	controllertest.Equal(t, "what held is not believed for longer than that", look(), false)
}

// TestAsking5000NodesCostsTwoRequests: however many nodes there are, and however long the API server takes.
func TestAsking5000NodesCostsTwoRequests(t *testing.T) {
	w := newGateWorld(t, controllertest.DaemonSet(0, 5000, nil), controllertest.GatePod("cni-1", "n1",
		controllertest.Ready))
	var requests []string
	slow := func(what string) {
		requests = append(requests, what)
		w.now = w.now.Add(time.Minute)
	}
	w.gates.Live = interceptor.NewClient(w.c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			slow("get " + key.String())
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(opts)
			slow(fmt.Sprintf("list %s %s at version %s", o.Namespace, o.LabelSelector, o.Raw.ResourceVersion))
			return c.List(ctx, l, opts...)
		},
	})
	nodes := make([]*corev1.Node, 5000)
	for i := range nodes {
		nodes[i] = controllertest.GateNode(0)
		nodes[i].Name = fmt.Sprintf("n%d", i)
	}
	held := slices.DeleteFunc(w.gates.Nodes(t.Context(), nodes, controllertest.DaemonSetPace()), func(why string) bool {
		return why == ""
	})
	controllertest.Equal(t, "nodes that are held", len(held), 4999)
	controllertest.Equal(t, "the requests", strings.Join(requests, "; "), "get kube-system/cni; list kube-system "+
		"app=cni at version 0")
}

// ask is the answer of the only gate; "not asked" for none.
func (w *gateWorld) ask(change ...func(*gate.Question)) string {
	w.t.Helper()
	q := controllertest.JobQuestion()
	for _, c := range change {
		c(&q)
	}
	q.Now = w.now
	w.now = w.now.Add(5 * time.Second) // an answer is kept for less
	gates := w.gates.Pool(w.t.Context(), q)
	if len(gates) == 0 {
		return "not asked"
	}
	return gates[0].Name + ": " + strings.TrimSpace(string(gates[0].Verdict)+" "+gates[0].Why)
}

// jobs are all jobs, in the order of their names.
func (w *gateWorld) jobs() []batchv1.Job {
	w.t.Helper()
	var list batchv1.JobList
	if err := w.c.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *gateWorld) end(job batchv1.Job, kind batchv1.JobConditionType, at time.Time) {
	w.t.Helper()
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded",
		Message: "Job has reached the specified backoff limit", LastTransitionTime: metav1.NewTime(at),
	})
	if err := w.c.Status().Update(w.t.Context(), &job); err != nil {
		w.t.Fatal(err)
	}
}

func TestAJobIsMadeOnceForAStep(t *testing.T) {
	w := newGateWorld(t, controllertest.CronJob())
	controllertest.Equal(t, "before the step is due", w.ask(func(q *gate.Question) { q.Due = false }), "not asked")
	controllertest.Equal(t, "the number of jobs", len(w.jobs()), 0)
	name := "checks/bunsen-worker-1-"
	controllertest.Contains(t, "the first answer", w.ask(), "smoke test: Waits job "+name, " runs")
	controllertest.Contains(t, "the event", strings.Join(w.told.Lines, "\n"), "Normal GateJobStarted: job "+name,
		"asks for step 2 of rendered-worker-1 in pool worker")
	w.restart()
	controllertest.Contains(t, "the answer after a restart", w.ask(), "smoke test: Waits job "+name)
	controllertest.Equal(t, "the number of jobs", len(w.jobs()), 1)
	job := w.jobs()[0]
	controllertest.Equal(t, "its labels", fmt.Sprint(job.Labels),
		"map[bunsen.dev/gate:smoke-test bunsen.dev/pool:worker team:storage]")
	controllertest.Equal(t, "its annotations", fmt.Sprint(job.Annotations), "map[bunsen.dev/config:rendered-worker-1 "+
		"cronjob.kubernetes.io/instantiate:manual note:mine]")
	controllertest.Equal(t, "its owner", job.OwnerReferences[0].Kind+"/"+job.OwnerReferences[0].Name+" "+
		string(job.OwnerReferences[0].UID), "CronJob/smoke uid of smoke")
	env := "[{BUNSEN_POOL worker nil} {BUNSEN_CONFIG rendered-worker-1 nil} {BUNSEN_STEP 1 nil}"
	for _, c := range append(job.Spec.Template.Spec.InitContainers, job.Spec.Template.Spec.Containers...) {
		got := strings.ReplaceAll(fmt.Sprintf("%v", c.Env), "<nil>", "nil")
		controllertest.Contains(t, "the environment of "+c.Name, got, env)
		if strings.Contains(got, "mine") {
			t.Errorf("the template's own BUNSEN_POOL is still there: %s", got)
		}
	}
	controllertest.Contains(t, "the rest of the environment", fmt.Sprint(job.Spec.Template.Spec.Containers[0].Env),
		"URL http://$(BUNSEN_POOL)")
}

func TestHowAJobEnds(t *testing.T) {
	w := newGateWorld(t, controllertest.CronJob())
	w.ask()
	job := w.jobs()[0]
	job.Status.Failed = 2
	if err := w.c.Status().Update(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	controllertest.Contains(t, "a job whose pods fail", w.ask(), "Waits job checks/"+job.Name+" runs, 2 of its pods "+
		"failed so far")
	w.end(w.jobs()[0], batchv1.JobComplete, w.now)
	controllertest.Equal(t, "one that is complete", w.ask(), "smoke test: Open")
	if err := w.c.Delete(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	controllertest.Contains(t, "one that somebody deleted is made again", w.ask(), "Waits job checks/"+job.Name+" runs")
	w.end(w.jobs()[0], batchv1.JobFailed, w.now)
	controllertest.Equal(t, "one that failed", w.ask(), "smoke test: Failed job checks/"+job.Name+
		" failed: BackoffLimitExceeded: Job has reached the specified backoff limit")
	controllertest.Equal(t, "and stays so", w.ask(), "smoke test: Failed job checks/"+job.Name+
		" failed: BackoffLimitExceeded: Job has reached the specified backoff limit")
	controllertest.Equal(t, "the number of jobs", len(w.jobs()), 1)
}

func TestARetryRunsAFailedJobOnceMore(t *testing.T) {
	w := newGateWorld(t, controllertest.CronJob())
	w.ask()
	first := w.jobs()[0]
	w.end(first, batchv1.JobFailed, controllertest.Noon.Add(time.Minute))
	earlier := func(q *gate.Question) { q.RetryAt = controllertest.Noon.Add(30 * time.Second) }
	controllertest.Contains(t, "a retry of before the failure", w.ask(earlier), "Failed")
	again := func(q *gate.Question) { q.RetryAt = controllertest.Noon.Add(2 * time.Minute) }
	controllertest.Contains(t, "a retry", w.ask(again), "Waits job", " runs")
	controllertest.Equal(t, "the number of jobs", len(w.jobs()), 2)
	w.restart()
	controllertest.Contains(t, "the same after a restart", w.ask(again), "Waits job", " runs")
	for _, job := range w.jobs() {
		if job.Name != first.Name {
			w.end(job, batchv1.JobComplete, controllertest.Noon.Add(3*time.Minute))
		}
	}
	controllertest.Equal(t, "the second job", w.ask(again), "smoke test: Open")
	if err := w.c.Delete(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "the second job, the first gone", w.ask(again), "smoke test: Open")
	controllertest.Equal(t, "the number of jobs", len(w.jobs()), 1)
}

func TestWhatAJobCannotBeMadeFrom(t *testing.T) {
	closed := controllertest.CronJob()
	closed.Labels["bunsen.dev/gate"] = "false"
	for sentence, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"a CronJob that is not there": {nil, "Waits there is no CronJob checks/smoke: correct the gate in the RolloutPolicy, or create it"},
		"one that does not say that gates may run it": {
			[]client.Object{closed},
			"Waits CronJob checks/smoke does not let health gates run it: label it with bunsen.dev/gate=true, or " +
				"correct the gate in the RolloutPolicy",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newGateWorld(t, c.objects...)
			controllertest.Contains(t, "the answer", w.ask(), c.want)
			controllertest.Equal(t, "the number of jobs", len(w.jobs()), 0)
		})
	}
}

func TestAConfigThatComesBackIsAskedAboutAnew(t *testing.T) {
	w := newGateWorld(t, controllertest.CronJob())
	began := func(at time.Time) func(*gate.Question) {
		return func(q *gate.Question) { q.Began = at }
	}
	w.ask(began(controllertest.Noon))
	w.end(w.jobs()[0], batchv1.JobComplete, w.now)
	w.restart()
	controllertest.Equal(t, "the same rollout after a restart", w.ask(began(controllertest.Noon)), "smoke test: Open")
	controllertest.Contains(t, "a later rollout of the same config", w.ask(began(controllertest.Noon.AddDate(0, 0, 7))),
		"Waits job")
	controllertest.Equal(t, "the number of jobs", len(w.jobs()), 2)
}

func TestEveryQuestionHasAJobOfItsOwn(t *testing.T) {
	w := newGateWorld(t, controllertest.CronJob())
	for _, change := range []func(*gate.Question){
		func(*gate.Question) {},
		func(q *gate.Question) { q.Pool = "infra" },
		func(q *gate.Question) { q.Config = "rendered-worker-2" },
		func(q *gate.Question) { q.Step = 2 },
		func(q *gate.Question) { q.Pace.Gates[0].Name = "another" },
		func(q *gate.Question) { q.Pool = strings.Repeat("Long.name-", 20) },
	} {
		controllertest.Contains(t, "the answer", w.ask(change), "Waits job")
	}
	controllertest.Equal(t, "the number of jobs", len(w.jobs()), 6)
	for _, job := range w.jobs() {
		if len(job.Name) > 63 || strings.ToLower(job.Name) != job.Name || strings.Contains(job.Name, ".") {
			t.Errorf("the name %q is too long, or no label", job.Name)
		}
	}
}
