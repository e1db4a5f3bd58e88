package reconcile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gate"
)

// asController is a client with the controller's rights, and no cache.
func (s *stage) asController() client.Client {
	s.t.Helper()
	rc, err := clientcmd.BuildConfigFromFlags("", s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	rc.QPS = -1
	rc.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{
		"system:serviceaccounts",
		"system:serviceaccounts:bunsen-system", "system:authenticated",
	}}
	c, err := client.New(rc, client.Options{Scheme: s.admin.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestGatesAndGarbageOnARealAPIServer(t *testing.T) {
	s := newStage(t)
	t.Run("a DaemonSet's pods are found by their node", s.gateOfPods)
	t.Run("a job lives through the API server's checks", s.gateOfJobs)
	t.Run("a config that is deleted by hand comes back", s.lostConfig)
}

func (s *stage) gateOfPods(t *testing.T) {
	c := s.asController()
	now := controllertest.Noon
	g := &gate.Evaluator{Live: c, Client: c, Now: func() time.Time { return now }}
	look := func() string {
		now = now.Add(time.Minute)
		return g.Nodes(t.Context(), []*corev1.Node{controllertest.GateNode(0)}, controllertest.DaemonSetPace())[0]
	}
	// shows waits, because the gate lists pods from the cache of the API server.
	shows := func(what, want string) {
		t.Helper()
		s.eventually(what, func() error {
			if got := look(); got != want {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			return nil
		})
	}
	controllertest.Equal(t, "before the DaemonSet", look(), "gate network: there is no DaemonSet kube-system/cni: "+
		"correct the gate in the RolloutPolicy, or create it")
	ds := controllertest.DaemonSet(0, 0, func(p *corev1.PodSpec) {
		p.Containers = []corev1.Container{{Name: "agent", Image: "example.com/cni"}}
	})
	ds.UID = ""
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cni"}}
	ds.Spec.Template.Labels = ds.Spec.Selector.MatchLabels
	s.must(s.admin.Create(t.Context(), ds))
	controllertest.Equal(t, "before the pod", look(), "gate network: DaemonSet kube-system/cni has no pod on the "+
		"node yet")
	for _, node := range []string{"n2", "n1"} {
		pod := controllertest.GatePod("cni-"+node, node, func(p *corev1.Pod) {
			p.OwnerReferences[0].UID = ds.UID
			p.Spec.Containers = ds.Spec.Template.Spec.Containers
		})
		s.must(s.admin.Create(t.Context(), pod))
		controllertest.Ready(pod)
		if node == "n1" {
			shows("a pod that is not ready", "gate network: pod kube-system/cni-n1 is not ready: Pending")
		}
		s.must(s.admin.Status().Update(t.Context(), pod))
	}
	shows("a pod that is ready", "")
}

func (s *stage) gateOfJobs(t *testing.T) {
	c, events := s.asController(), &controllertest.Events{}
	now := time.Now().Truncate(time.Second)
	ask := func(retry time.Time) string {
		now = now.Add(5 * time.Second)
		q := controllertest.JobQuestion()
		q.Now, q.RetryAt = now, retry
		gates := (&gate.Evaluator{Live: c, Client: c, Now: time.Now, Events: events}).Pool(t.Context(), q)
		return string(gates[0].Verdict) + " " + gates[0].Why
	}
	controllertest.Equal(t, "before the CronJob", ask(time.Time{}), "Waits there is no CronJob checks/smoke: correct "+
		"the gate in the RolloutPolicy, or create it")
	s.must(s.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "checks"}}))
	cron := controllertest.CronJob()
	cron.UID = ""
	s.must(s.admin.Create(t.Context(), cron))
	s.eventually("a namespace without the label", func() error {
		err := c.Create(t.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "checks", Name: "probe"},
			Spec:       cron.Spec.JobTemplate.Spec,
		}, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "does not let health gates run Jobs") {
			return fmt.Errorf("the policy does not act: %w", err)
		}
		return nil
	})
	controllertest.Contains(t, "the answer there", ask(time.Time{}), "cannot be created from CronJob checks/smoke: ",
		"does not let health gates run Jobs: kubectl label namespace checks bunsen.dev/gate=true")
	edit(s, "checks", &corev1.Namespace{}, func(n *corev1.Namespace) {
		n.Labels = map[string]string{v1alpha1.GateLabel: "true"}
	})
	s.eventually("a namespace with the label", func() error {
		if said := ask(time.Time{}); !strings.HasSuffix(said, " runs") {
			return errors.New(said)
		}
		return nil
	})
	controllertest.Contains(t, "the first answer", ask(time.Time{}), "Waits job checks/bunsen-worker-1-", " runs")
	controllertest.Contains(t, "the answer after a restart", ask(time.Time{}), "Waits job checks/bunsen-worker-1-",
		" runs")
	jobs := func() []batchv1.Job {
		var list batchv1.JobList
		s.must(s.admin.List(t.Context(), &list, client.InNamespace("checks")))
		return list.Items
	}
	controllertest.Equal(t, "the number of jobs", len(jobs()), 1)
	first := jobs()[0]
	controllertest.Equal(t, "its owner", string(first.OwnerReferences[0].UID), string(cron.UID))
	s.end(first, batchv1.JobFailureTarget, batchv1.JobFailed, now)
	controllertest.Contains(t, "a job that failed", ask(time.Time{}), "Failed job checks/"+first.Name+
		" failed: BackoffLimitExceeded: three of three")
	again := now.Add(time.Minute)
	controllertest.Contains(t, "a retry", ask(again), "Waits job checks/bunsen-worker-1-", " runs")
	for _, job := range jobs() {
		if job.Name != first.Name {
			s.end(job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, again)
		}
	}
	controllertest.Equal(t, "its end", ask(again), "Open ")
	controllertest.Equal(t, "the number of jobs", len(jobs()), 2)
	controllertest.Equal(t, "the number of events", strings.Count(strings.Join(events.Lines, "\n"), "GateJobStarted"),
		2)
}

func (s *stage) end(job batchv1.Job, because, end batchv1.JobConditionType, at time.Time) {
	s.t.Helper()
	when := metav1.NewTime(at)
	job.Status.StartTime = &when
	if end == batchv1.JobComplete {
		job.Status.CompletionTime = &when
	}
	for _, kind := range []batchv1.JobConditionType{because, end} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "three of three",
			LastTransitionTime: when,
		})
	}
	s.must(s.admin.Status().Update(s.t.Context(), &job))
}

func (s *stage) lostConfig(t *testing.T) {
	src := &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Name: "os"},
		Spec:       v1alpha1.GitSourceSpec{URL: "https://git.example.com/os"},
	}
	s.repo.inner.Push("greet", controllertest.Files("worker/10-motd.bu=hello"))
	s.must(s.admin.Create(t.Context(), src))
	target := func() string {
		p := &mcfgv1.MachineConfigPool{}
		s.must(s.get("worker", p))
		return p.Spec.Configuration.Name
	}
	s.eventually("rendering", func() error {
		g := &v1alpha1.GitSource{}
		if err := s.get("os", g); err != nil || len(g.Status.History) == 0 ||
			g.Status.History[0].Pools["worker"] == "" {
			return fmt.Errorf("history is %v, %v", g.Status.History, err)
		}
		return nil
	})
	first := target()
	n := controllertest.Node("n1", first, first)
	n.Labels = nil // a worker by having no role
	s.must(s.admin.Create(t.Context(), n))
	s.push("greet louder", "worker/10-motd.bu=HELLO")
	s.eventually("rendering again", func() error {
		if target() == first {
			return fmt.Errorf("the target is still %s", first)
		}
		return nil
	})
	mc := &mcfgv1.MachineConfig{}
	s.must(s.get(first, mc))
	s.must(s.admin.Delete(t.Context(), mc))
	s.eventually("making it again", func() error {
		again := &mcfgv1.MachineConfig{}
		if err := s.get(first, again); err != nil {
			return err
		}
		if again.UID == mc.UID || again.Annotations[v1alpha1.CommitSubjectAnnotation] != "greet" {
			return fmt.Errorf("it is annotated with %v", again.Annotations)
		}
		return nil
	})
}
