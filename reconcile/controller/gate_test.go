package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/pace"
	"github.com/bunsen-os/bunsen/reconcile/controller"
)

// gateWorld is a cluster in memory whose health is asked about.
type gateWorld struct {
	t     *testing.T
	now   time.Time
	c     client.WithWatch
	told  *told
	gates *controller.Gates
}

func newGateWorld(t *testing.T, objects ...client.Object) *gateWorld {
	t.Helper()
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &gateWorld{t: t, now: noon, told: &told{}}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&batchv1.Job{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	w.restart()
	return w
}

// restart forgets everything that the gates held in memory.
func (w *gateWorld) restart() {
	w.gates = &controller.Gates{Live: w.c, Client: w.c, Now: func() time.Time { return w.now }, Events: w.told}
}

func daemonSetPace() pace.Pace {
	return pace.Pace{Gates: []v1alpha1.HealthGate{{Name: "network", DaemonSets: []v1alpha1.ObjectName{{Namespace: "kube-system", Name: "cni"}}}}}
}

func daemonSet(ready, desired int32, change func(*corev1.PodSpec)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cni", UID: "uid of cni"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cni"}}},
		Status:     appsv1.DaemonSetStatus{NumberReady: ready, DesiredNumberScheduled: desired},
	}
	if change != nil {
		change(&ds.Spec.Template.Spec)
	}
	return ds
}

// gateNode has been Ready for that long.
func gateNode(ready time.Duration, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid of n1", Labels: map[string]string{"kubernetes.io/os": "linux", "rack": "7"}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-ready))},
		}},
	}
}

// gatePod is the DaemonSet's pod on a node.
func gatePod(name, node string, change func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{"app": "cni"}, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "cni", UID: "uid of cni", Controller: &yes},
		}},
		Spec: corev1.PodSpec{NodeName: node},
	}
	if change != nil {
		change(p)
	}
	return p
}

func ready(p *corev1.Pod) { readySince(noon)(p) }

// readySince makes a pod ready since then.
func readySince(when time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(when)}}
	}
}

// node is what the gates say of one node.
func (w *gateWorld) node(n *corev1.Node) string {
	return w.gates.Nodes(w.t.Context(), []*corev1.Node{n}, daemonSetPace())[0]
}

func crashing(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"},
	}}}
}

func affinity(expressions, fields []corev1.NodeSelectorRequirement) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: expressions, MatchFields: fields}},
		}}}
	}
}

func TestDaemonSetsOfAGate(t *testing.T) {
	requires := func(key string, op corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}
	}
	broken := gatePod("cni-1", "n1", crashing)
	const crash = "gate network: pod kube-system/cni-1 is not ready: container agent: CrashLoopBackOff: back-off 5m0s"
	const none = "gate network: DaemonSet kube-system/cni has no pod on the node yet"
	for sentence, c := range map[string]struct {
		node    *corev1.Node
		objects []client.Object
		want    string
	}{
		"a pod that is ready holds nobody up": {gateNode(0), []client.Object{daemonSet(0, 9, nil), gatePod("cni-1", "n1", ready)}, ""},
		"one that is not says why":            {gateNode(time.Hour), []client.Object{daemonSet(8, 9, nil), broken}, crash},
		"one that cannot be scheduled says why": {gateNode(0), []client.Object{daemonSet(8, 9, nil), gatePod("cni-1", "n1", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes fit"}}
		})}, "gate network: pod kube-system/cni-1 is not ready: Unschedulable: 0/1 nodes fit"},
		"one that runs and has not answered yet is named": {gateNode(0), []client.Object{daemonSet(8, 9, nil), gatePod("cni-1", "n1", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		})}, "gate network: pod kube-system/cni-1 is not ready: container agent is not ready yet"},
		"the pod of another node is not asked":     {gateNode(0), []client.Object{daemonSet(8, 9, nil), gatePod("cni-2", "n2", ready)}, none},
		"nor one that another DaemonSet owns":      {gateNode(0), []client.Object{daemonSet(8, 9, nil), gatePod("cni-1", "n1", func(p *corev1.Pod) { ready(p); p.OwnerReferences[0].UID = "another" })}, none},
		"beside a dying pod a ready one is enough": {gateNode(0), []client.Object{daemonSet(8, 9, nil), broken, gatePod("cni-9", "n1", ready)}, ""},
		"a pod that was ready before the node went away does not count": {
			gateNode(0),
			[]client.Object{daemonSet(8, 9, nil), gatePod("cni-1", "n1", readySince(noon.Add(-time.Minute)))},
			"gate network: pod kube-system/cni-1 was ready before the node went away, and has not said so since",
		},
		"one that was taken in since does": {gateNode(0), []client.Object{daemonSet(8, 9, nil), gatePod("cni-1", "n1", func(p *corev1.Pod) {
			readySince(noon.Add(-time.Minute))(p)
			p.Status.StartTime = &metav1.Time{Time: noon}
		})}, ""},
		"one that makes the node's network may be a little earlier":  {gateNode(0), []client.Object{daemonSet(8, 9, nil), gatePod("cni-1", "n1", readySince(noon.Add(-10*time.Second)))}, ""},
		"and once the node is settled, what is said of it is of now": {gateNode(2 * time.Minute), []client.Object{daemonSet(8, 9, nil), gatePod("cni-1", "n1", readySince(noon.Add(-time.Hour)))}, ""},
		"a whole DaemonSet is believed of a settled node":            {gateNode(time.Hour), []client.Object{daemonSet(9, 9, nil)}, ""},
		"but not of one that came back a moment ago":                 {gateNode(time.Minute), []client.Object{daemonSet(9, 9, nil), broken}, crash},
		"a DaemonSet that is not there is said":                      {gateNode(0), nil, "gate network: there is no DaemonSet kube-system/cni: correct the gate in the RolloutPolicy, or make it"},
		"a node that its selector excludes does not wait":            {gateNode(0), []client.Object{daemonSet(8, 9, func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"rack": "8"} })}, ""},
		"nor one that its affinity excludes":                         {gateNode(0), []client.Object{daemonSet(8, 9, affinity(requires("rack", corev1.NodeSelectorOpGt, "7"), nil))}, ""},
		"nor one that its affinity excludes by name":                 {gateNode(0), []client.Object{daemonSet(8, 9, affinity(nil, requires("metadata.name", corev1.NodeSelectorOpNotIn, "n1")))}, ""},
		"one that its affinity wants waits":                          {gateNode(0), []client.Object{daemonSet(8, 9, affinity(requires("rack", corev1.NodeSelectorOpIn, "7"), requires("metadata.name", corev1.NodeSelectorOpIn, "n1")))}, none},
		"nor one whose taint it does not tolerate":                   {gateNode(0, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}), []client.Object{daemonSet(8, 9, nil)}, ""},
		"a taint that it tolerates makes no difference":              {gateNode(0, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}), []client.Object{daemonSet(8, 9, func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })}, none},
		"a cordon makes none either":                                 {gateNode(0, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}), []client.Object{daemonSet(8, 9, nil)}, none},
		"nor does our own taint, which forbids nothing":              {gateNode(0, corev1.Taint{Key: v1alpha1.UpdateInProgressTaint, Effect: corev1.TaintEffectPreferNoSchedule}), []client.Object{daemonSet(8, 9, nil)}, none},
		"nor a missing network, for one that makes it":               {gateNode(0, corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}), []client.Object{daemonSet(8, 9, func(s *corev1.PodSpec) { s.HostNetwork = true })}, none},
	} {
		t.Run(sentence, func(t *testing.T) {
			equal(t, "the gate", newGateWorld(t, c.objects...).node(c.node), c.want)
		})
	}
}

func TestANodeWithoutSuchGatesCostsNoQuestion(t *testing.T) {
	g := &controller.Gates{Now: time.Now} // a question would be a panic
	p := pace.Pace{Gates: []v1alpha1.HealthGate{{Name: "ready", Ready: &v1alpha1.ReadyGate{}}}}
	equal(t, "the gate", g.Nodes(t.Context(), []*corev1.Node{gateNode(0)}, p)[0], "")
}

func TestWhatWasReadOfADaemonSetIsKeptForAMoment(t *testing.T) {
	pod := gatePod("cni-1", "n1", crashing)
	w := newGateWorld(t, daemonSet(8, 9, nil), pod)
	look := func() bool { return w.node(gateNode(0)) == "" }
	equal(t, "before", look(), false)
	ready(pod)
	if err := w.c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.now = noon.Add(4 * time.Second)
	equal(t, "after 4 seconds", look(), false)
	w.now = noon.Add(5 * time.Second)
	equal(t, "after 5 seconds", look(), true)
	crashing(pod)
	pod.Status.Conditions = nil
	if err := w.c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.now = noon.Add(10 * time.Second)
	equal(t, "what held is not believed for longer than that", look(), false)
}

// TestAsking5000NodesCostsTwoRequests: however many nodes there are, and however long the API server takes.
func TestAsking5000NodesCostsTwoRequests(t *testing.T) {
	w := newGateWorld(t, daemonSet(0, 5000, nil), gatePod("cni-1", "n1", ready))
	var requests []string
	slow := func(what string) {
		requests = append(requests, what)
		w.now = w.now.Add(time.Minute)
	}
	w.gates.Live = interceptor.NewClient(w.c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
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
		nodes[i] = gateNode(0)
		nodes[i].Name = fmt.Sprintf("n%d", i)
	}
	held := slices.DeleteFunc(w.gates.Nodes(t.Context(), nodes, daemonSetPace()), func(why string) bool { return why == "" })
	equal(t, "nodes that are held", len(held), 4999)
	equal(t, "the requests", strings.Join(requests, "; "), "get kube-system/cni; list kube-system app=cni at version 0")
}

func cronJob() *batchv1.CronJob {
	yes := true
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "checks", Name: "smoke", UID: "uid of smoke", Labels: map[string]string{"bunsen.dev/gate": "true"}},
		Spec: batchv1.CronJobSpec{Schedule: "@yearly", Suspend: &yes, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "storage"}, Annotations: map[string]string{"note": "mine"}},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:  corev1.RestartPolicyNever,
				InitContainers: []corev1.Container{{Name: "wait", Image: "example.com/wait"}},
				Containers:     []corev1.Container{{Name: "smoke", Image: "example.com/smoke", Env: []corev1.EnvVar{{Name: "BUNSEN_POOL", Value: "mine"}, {Name: "URL", Value: "http://$(BUNSEN_POOL)"}}}},
			}}},
		}},
	}
}

func jobQuestion() controller.GateQuestion {
	return controller.GateQuestion{Pool: "worker", Config: "rendered-worker-1", Step: 1, Due: true, Pace: pace.Pace{Gates: []v1alpha1.HealthGate{
		{Name: "smoke test", Job: &v1alpha1.JobGate{CronJob: v1alpha1.ObjectName{Namespace: "checks", Name: "smoke"}}},
	}}}
}

// ask is the answer of the only gate; "not asked" for none.
func (w *gateWorld) ask(change ...func(*controller.GateQuestion)) string {
	w.t.Helper()
	q := jobQuestion()
	for _, c := range change {
		c(&q)
	}
	q.Now = w.now
	w.now = w.now.Add(5 * time.Second) // an answer is kept for less
	gates, err := w.gates.Pool(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(err)
	}
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

// end lets a job end at a time.
func (w *gateWorld) end(job batchv1.Job, kind batchv1.JobConditionType, at time.Time) {
	w.t.Helper()
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit", LastTransitionTime: metav1.NewTime(at),
	})
	if err := w.c.Status().Update(w.t.Context(), &job); err != nil {
		w.t.Fatal(err)
	}
}

func TestAJobIsMadeOnceForAStep(t *testing.T) {
	w := newGateWorld(t, cronJob())
	equal(t, "before the step is due", w.ask(func(q *controller.GateQuestion) { q.Due = false }), "not asked")
	equal(t, "the number of jobs", len(w.jobs()), 0)
	name := "checks/bunsen-worker-1-"
	has(t, "the first answer", w.ask(), "smoke test: Waits job "+name, " runs")
	has(t, "the event", strings.Join(w.told.lines, "\n"), "Normal GateJobStarted: job "+name, "asks for step 2 of rendered-worker-1 in pool worker")
	w.restart()
	has(t, "the answer after a restart", w.ask(), "smoke test: Waits job "+name)
	equal(t, "the number of jobs", len(w.jobs()), 1)
	job := w.jobs()[0]
	equal(t, "its labels", fmt.Sprint(job.Labels), "map[bunsen.dev/gate:smoke-test bunsen.dev/pool:worker team:storage]")
	equal(t, "its annotations", fmt.Sprint(job.Annotations), "map[bunsen.dev/config:rendered-worker-1 cronjob.kubernetes.io/instantiate:manual note:mine]")
	equal(t, "its owner", job.OwnerReferences[0].Kind+"/"+job.OwnerReferences[0].Name+" "+string(job.OwnerReferences[0].UID), "CronJob/smoke uid of smoke")
	env := "[{BUNSEN_POOL worker nil} {BUNSEN_CONFIG rendered-worker-1 nil} {BUNSEN_STEP 1 nil}"
	for _, c := range append(job.Spec.Template.Spec.InitContainers, job.Spec.Template.Spec.Containers...) {
		got := strings.ReplaceAll(fmt.Sprintf("%v", c.Env), "<nil>", "nil")
		has(t, "the environment of "+c.Name, got, env)
		if strings.Contains(got, "mine") {
			t.Errorf("the template's own BUNSEN_POOL is still there: %s", got)
		}
	}
	has(t, "the rest of the environment", fmt.Sprint(job.Spec.Template.Spec.Containers[0].Env), "URL http://$(BUNSEN_POOL)")
}

func TestHowAJobEnds(t *testing.T) {
	w := newGateWorld(t, cronJob())
	w.ask()
	job := w.jobs()[0]
	job.Status.Failed = 2
	if err := w.c.Status().Update(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	has(t, "a job whose pods fail", w.ask(), "Waits job checks/"+job.Name+" runs, 2 of its pods failed so far")
	w.end(w.jobs()[0], batchv1.JobComplete, w.now)
	equal(t, "one that is complete", w.ask(), "smoke test: Open")
	if err := w.c.Delete(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	has(t, "one that somebody deleted is made again", w.ask(), "Waits job checks/"+job.Name+" runs")
	w.end(w.jobs()[0], batchv1.JobFailed, w.now)
	equal(t, "one that failed", w.ask(), "smoke test: Failed job checks/"+job.Name+" failed: BackoffLimitExceeded: Job has reached the specified backoff limit")
	equal(t, "and stays so", w.ask(), "smoke test: Failed job checks/"+job.Name+" failed: BackoffLimitExceeded: Job has reached the specified backoff limit")
	equal(t, "the number of jobs", len(w.jobs()), 1)
}

func TestARetryRunsAFailedJobOnceMore(t *testing.T) {
	w := newGateWorld(t, cronJob())
	w.ask()
	first := w.jobs()[0]
	w.end(first, batchv1.JobFailed, noon.Add(time.Minute))
	earlier := func(q *controller.GateQuestion) { q.RetryAt = noon.Add(30 * time.Second) }
	has(t, "a retry of before the failure", w.ask(earlier), "Failed")
	again := func(q *controller.GateQuestion) { q.RetryAt = noon.Add(2 * time.Minute) }
	has(t, "a retry", w.ask(again), "Waits job", " runs")
	equal(t, "the number of jobs", len(w.jobs()), 2)
	w.restart()
	has(t, "the same after a restart", w.ask(again), "Waits job", " runs")
	for _, job := range w.jobs() {
		if job.Name != first.Name {
			w.end(job, batchv1.JobComplete, noon.Add(3*time.Minute))
		}
	}
	equal(t, "the second job", w.ask(again), "smoke test: Open")
	if err := w.c.Delete(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	equal(t, "the second job, the first gone", w.ask(again), "smoke test: Open")
	equal(t, "the number of jobs", len(w.jobs()), 1)
}

func TestWhatAJobCannotBeMadeFrom(t *testing.T) {
	closed := cronJob()
	closed.Labels["bunsen.dev/gate"] = "false"
	for sentence, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"a CronJob that is not there": {nil, "Waits there is no CronJob checks/smoke: correct the gate in the RolloutPolicy, or make it"},
		"one that does not say that gates may run it": {
			[]client.Object{closed},
			"Waits CronJob checks/smoke does not let health gates run it: label it with bunsen.dev/gate=true, or correct the gate in the RolloutPolicy",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newGateWorld(t, c.objects...)
			has(t, "the answer", w.ask(), c.want)
			equal(t, "the number of jobs", len(w.jobs()), 0)
		})
	}
}

func TestAConfigThatComesBackIsAskedAboutAnew(t *testing.T) {
	w := newGateWorld(t, cronJob())
	began := func(at time.Time) func(*controller.GateQuestion) {
		return func(q *controller.GateQuestion) { q.Began = at }
	}
	w.ask(began(noon))
	w.end(w.jobs()[0], batchv1.JobComplete, w.now)
	w.restart()
	equal(t, "the same rollout after a restart", w.ask(began(noon)), "smoke test: Open")
	has(t, "a later rollout of the same config", w.ask(began(noon.AddDate(0, 0, 7))), "Waits job")
	equal(t, "the number of jobs", len(w.jobs()), 2)
}

func TestEveryQuestionHasAJobOfItsOwn(t *testing.T) {
	w := newGateWorld(t, cronJob())
	for _, change := range []func(*controller.GateQuestion){
		func(*controller.GateQuestion) {},
		func(q *controller.GateQuestion) { q.Pool = "infra" },
		func(q *controller.GateQuestion) { q.Config = "rendered-worker-2" },
		func(q *controller.GateQuestion) { q.Step = 2 },
		func(q *controller.GateQuestion) { q.Pace.Gates[0].Name = "another" },
		func(q *controller.GateQuestion) { q.Pool = strings.Repeat("Long.name-", 20) },
	} {
		has(t, "the answer", w.ask(change), "Waits job")
	}
	equal(t, "the number of jobs", len(w.jobs()), 6)
	for _, job := range w.jobs() {
		if len(job.Name) > 63 || strings.ToLower(job.Name) != job.Name || strings.Contains(job.Name, ".") {
			t.Errorf("the name %q is too long, or no label", job.Name)
		}
	}
}
