package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// rolloutPolicy is one for pool worker.
func rolloutPolicy(name string, change func(*v1alpha1.RolloutPolicySpec)) *v1alpha1.RolloutPolicy {
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RolloutPolicySpec{
		RolloutPools: v1alpha1.RolloutPools{Pools: []string{"worker"}},
		Failures:     &v1alpha1.FailureBudget{After: 1, Action: v1alpha1.FailureHalt},
	}}
	change(&p.Spec)
	return p
}

// blocked is the pool's RolloutBlocked condition as `Status|Reason|Message`.
func (w *world) blocked(pool string) string {
	for _, c := range w.pool(pool).Status.Conditions {
		if c.Type == status.RolloutBlocked {
			return fmt.Sprintf("%s|%s|%s", c.Status, c.Reason, c.Message)
		}
	}
	return "absent"
}

// retry asks to try again, as `bunsen retry pool/NAME` does.
func (w *world) retry(pool string) {
	change(w, w.pool(pool), func(p *mcfgv1.MachineConfigPool) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.RetryAnnotation, w.now.Format(time.RFC3339))
	})
}

// failAgain is what the daemon reports that tried once more at once, and failed.
func (w *world) failAgain(name, config string) {
	asked := metav1.NewTime(w.now)
	change(w, w.node(name), func(n *corev1.Node) {
		n.Annotations[v1alpha1.RetryAnnotation] = w.now.Format(time.RFC3339)
		n.Annotations[v1alpha1.FailureAnnotation] = v1alpha1.Failure{Config: config, Cause: v1alpha1.FailureDiskFull, Since: asked, Retry: &asked}.String()
	})
}

func (w *world) later(d time.Duration) { w.now = w.now.Add(d) }

// record is what the pool remembers of its rollout.
func (w *world) record(pool string) v1alpha1.RolloutRecord {
	w.t.Helper()
	r, err := v1alpha1.ParseRolloutRecord(w.pool(pool).Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// TestRolloutPolicies is what a policy makes of a rollout, a sentence each.
func TestRolloutPolicies(t *testing.T) {
	halts := rolloutPolicy("careful", func(*v1alpha1.RolloutPolicySpec) {})
	reverts := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) { s.Failures.Action = v1alpha1.FailureRevert })
	canary := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.MaxUnavailable = new(intstr.FromInt32(3))
		s.Canary = &v1alpha1.RolloutCanary{Nodes: new(intstr.FromInt32(1)), Soak: metav1.Duration{Duration: 10 * time.Minute}}
	})
	nightly := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.Windows = []v1alpha1.MaintenanceWindow{{Name: "night", Kind: v1alpha1.WindowAllow, Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
	})
	broken := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.Windows = []v1alpha1.MaintenanceWindow{{Name: "night", Kind: v1alpha1.WindowAllow, Schedule: "whenever", Duration: metav1.Duration{Duration: time.Hour}}}
	})
	gated := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.Canary = &v1alpha1.RolloutCanary{Nodes: new(intstr.FromInt32(1))}
		s.Gates = []v1alpha1.HealthGate{
			{Name: "proxy", DaemonSets: []v1alpha1.ObjectName{{Namespace: "net", Name: "proxy"}}},
			{Name: "smoke", Job: &v1alpha1.JobGate{CronJob: v1alpha1.ObjectName{Namespace: "net", Name: "smoke"}}},
		}
	})
	for sentence, tc := range map[string]struct {
		policy *v1alpha1.RolloutPolicy
		story  func(t *testing.T, w *world, r *rolling)
	}{
		"the first failure halts; a restart remembers; retry goes on": {halts, func(t *testing.T, w *world, r *rolling) {
			r.roll()
			w.later(time.Minute)
			w.fail("n0", "no space")
			r.roll()
			r.roll()
			equal(t, "the nodes", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutHalted)
			has(t, "RolloutBlocked", w.blocked("worker"), "True|Halted|", "n0")
			has(t, "Degraded", poolCondition(w.pool("worker"), mcfgv1.MachineConfigPoolDegraded), "True|", "n0", "no space")
			equal(t, "Updating", poolCondition(w.pool("worker"), mcfgv1.MachineConfigPoolUpdating), "False|Rollout is halted; will not update to MachineConfig v1")
			equal(t, "events of the halt", w.events("RolloutHalted"), 1)
			again := w.rollout()
			again.roll()
			again.roll()
			equal(t, "the nodes after a restart", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			equal(t, "events of the halt after a restart", w.events("RolloutHalted"), 1)
			w.later(time.Minute)
			w.finish("n0")
			w.retry("worker")
			r.roll()
			r.roll()
			equal(t, "the nodes after a retry", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted")
			equal(t, "events of the resumption", w.events("RolloutResumed"), 1)
			equal(t, "RolloutBlocked after a retry", w.blocked("worker"), "False||")
			past, err := v1alpha1.ParseRolloutHistory(w.pool("worker").Annotations[v1alpha1.RolloutHistoryAnnotation])
			if err != nil || len(past) != 1 {
				t.Fatalf("the history has not the one outcome before the retry: %v %v", past, err)
			}
			equal(t, "the outcome before the retry", string(past[0].Result)+" "+past[0].Config, "Halted v1")
			asked := get(w, "n1", &corev1.Node{}).Annotations[v1alpha1.RequestAnnotation]
			equal(t, "who asked for the config of a node", v1alpha1.ParseConfigRequest(asked, "v1").Revision, w.config("v1").Annotations[v1alpha1.RevisionAnnotation])
		}},
		"a retry that failed before anybody looked is told as resumed and halted": {halts, func(t *testing.T, w *world, r *rolling) {
			r.roll()
			w.fail("n0", "no space")
			r.roll()
			r.roll()
			w.later(time.Minute)
			w.retry("worker")
			w.failAgain("n0", "v1")
			r.roll()
			equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutHalted)
			equal(t, "events of the resumption", w.events("RolloutResumed"), 1)
			equal(t, "events of the halts", w.events("RolloutHalted"), 2)
			r.roll()
			equal(t, "events of the halts after another look", w.events("RolloutHalted"), 2)
		}},
		"a new commit lifts the verdict, and the broken node is told first": {halts, func(t *testing.T, w *world, r *rolling) {
			r.roll()
			w.fail("n0", "no space")
			r.roll()
			w.aim("worker", "v2")
			r.roll()
			has(t, "the nodes", w.nodes(), "n0 v0>v2", "n2 v0>v0 tainted")
			equal(t, "the verdict", w.record("worker").Verdict, "")
			equal(t, "the config of the record", w.record("worker").Config, "v2")
		}},
		"too many failures revert the pool to what all of it ran": {reverts, func(t *testing.T, w *world, r *rolling) {
			w.aim("worker", "v0")
			r.roll()
			equal(t, "what all of it runs", w.pool("worker").Status.Configuration.Name, "v0")
			w.aim("worker", "v1")
			r.roll()
			w.later(time.Minute)
			w.fail("n0", "no space")
			r.roll()
			r.roll()
			equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutReverted)
			has(t, "RolloutBlocked", w.blocked("worker"), "True|Reverted|", "n0")
			equal(t, "events of the revert", w.events("RolloutReverted"), 1)
			has(t, "the order to go back", strings.Join(w.told.lines, "\n"), `told node n0 to update to v0 (main@sha1:aaaaaaaa "say nothing")`)
			w.finish("n0")
			r.roll()
			w.aim("worker", "v2")
			r.roll()
			has(t, "the nodes after a new commit", w.nodes(), "v0>v2")
		}},
		"a revert keeps how many nodes ran the config, and its end is told": {reverts, func(t *testing.T, w *world, r *rolling) {
			w.aim("worker", "v0")
			r.roll()
			w.aim("worker", "v1")
			r.roll()
			w.later(time.Minute)
			w.finish("n0")
			r.roll()
			w.later(time.Minute)
			w.fail("n1", "no space")
			r.roll()
			r.roll()
			equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutReverted)
			equal(t, "nodes that ran it", w.record("worker").Updated, 1)
			w.aim("worker", "v0")
			r.roll()
			past, err := v1alpha1.ParseRolloutHistory(w.pool("worker").Annotations[v1alpha1.RolloutHistoryAnnotation])
			if err != nil || len(past) == 0 {
				t.Fatalf("the history is %v, %v", past, err)
			}
			equal(t, "nodes that ran it, in the history", past[0].Updated, 1)
			before := w.events("Completed")
			for _, name := range []string{"n0", "n1", "n2"} {
				w.finish(name)
				r.roll()
			}
			equal(t, "Updated", poolCondition(w.pool("worker"), mcfgv1.MachineConfigPoolUpdated), "True|All nodes are updated with MachineConfig v0")
			equal(t, "events of the end of the undo", w.events("Completed")-before, 1)
		}},
		"a pool does not go back to what is not there any more": {reverts, func(t *testing.T, w *world, r *rolling) {
			w.aim("worker", "v0")
			r.roll()
			w.aim("worker", "v1")
			r.roll()
			w.remove(w.config("v0"))
			w.later(time.Minute)
			w.fail("n0", "no space")
			r.roll()
			r.roll()
			equal(t, "the nodes", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutHalted)
		}},
		"nor goes on to go back once it is not": {reverts, func(t *testing.T, w *world, r *rolling) {
			w.aim("worker", "v0")
			r.roll()
			w.aim("worker", "v1")
			r.roll()
			w.later(time.Minute)
			w.fail("n0", "no space")
			w.life.left = 1 // the record, and nobody is told
			_, _ = r.look("worker")
			w.restart()
			v0 := w.config("v0")
			w.remove(v0)
			again := w.rollout()
			again.roll()
			has(t, "the nodes", w.nodes(), "n0 v0>v1")
			has(t, "RolloutBlocked", w.blocked("worker"), "True|Invalid|MachineConfig v0")
			v0.ResourceVersion = ""
			w.create(v0)
			again.roll()
			has(t, "the nodes once it is made again", w.nodes(), "n0 v0>v0")
		}},
		"the canary comes first, and soaks": {canary, func(t *testing.T, w *world, r *rolling) {
			r.roll()
			equal(t, "the nodes", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			w.finish("n0")
			soaking := r.roll()
			r.roll()
			equal(t, "the nodes while it soaks", w.nodes(), "n0 v1>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			has(t, "RolloutBlocked", w.blocked("worker"), "True|Soak|")
			if soaking.RequeueAfter <= 0 || soaking.RequeueAfter > 10*time.Minute {
				t.Errorf("the next look comes after %s; the soak ends in 10m", soaking.RequeueAfter)
			}
			w.later(11 * time.Minute)
			w.rollout().roll()
			equal(t, "the nodes after it", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v1")
			equal(t, "events of the step", w.events("StepDone"), 1)
		}},
		"outside of its window a pool waits; the opening is told; the next night comes by itself": {nightly, func(t *testing.T, w *world, r *rolling) {
			for range 3 {
				r.roll()
			}
			equal(t, "the nodes told at noon", strings.Count(w.nodes(), "v0>v1"), 0)
			has(t, "RolloutBlocked", w.blocked("worker"), "True|Window|", "night")
			equal(t, "events of the closed window", w.events("WindowClosed"), 1)
			again := w.rollout()
			again.roll()
			equal(t, "events of the closed window after a restart", w.events("WindowClosed"), 1)
			w.later(10*time.Hour + time.Minute)
			again.roll()
			again.roll()
			has(t, "the nodes at night", w.nodes(), "n0 v0>v1")
			equal(t, "events of the open window", w.events("WindowOpened"), 1)
			w.later(2 * time.Hour)
			w.finish("n0")
			again.roll()
			equal(t, "the nodes told after the window closed", strings.Count(w.nodes(), "v0>v1"), 0)
		}},
		"somebody may open the window for a while": {nightly, func(t *testing.T, w *world, r *rolling) {
			change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.OpenUntilAnnotation, w.now.Add(time.Hour).Format(time.RFC3339))
			})
			r.roll()
			has(t, "the nodes", w.nodes(), "n0 v0>v1")
		}},
		"nodes are asked for their DaemonSets, and then a job is run, before the next step": {gated, func(t *testing.T, w *world, r *rolling) {
			r.Gates = &controller.Gates{Live: w.admin, Client: w.through, Now: r.Now, Events: w.told}
			r.roll()
			w.finish("n0")
			r.roll()
			has(t, "RolloutBlocked without the DaemonSet", w.blocked("worker"), "True|Gate|", "n0", "there is no DaemonSet net/proxy")
			w.create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "net", Name: "proxy", UID: "1"}, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{}}})
			w.create(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "net", Name: "proxy-0", OwnerReferences: []metav1.OwnerReference{{UID: "1", Controller: new(true)}}},
				Spec:       corev1.PodSpec{NodeName: "n0"},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			})
			w.later(time.Minute)
			r.roll()
			r.roll()
			has(t, "RolloutBlocked without the job", w.blocked("worker"), "True|Gate|", "there is no CronJob net/smoke")
			equal(t, "the nodes", w.nodes(), "n0 v1>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			w.create(&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "net", Name: "smoke", Labels: map[string]string{v1alpha1.GateLabel: "true"}}})
			w.later(time.Minute)
			r.roll()
			var jobs batchv1.JobList
			if err := w.admin.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
				t.Fatalf("jobs %v, %v", jobs.Items, err)
			}
			report(w, &jobs.Items[0], func(j *batchv1.Job) {
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			})
			w.later(time.Minute)
			again := w.rollout()
			again.Gates = &controller.Gates{Live: w.admin, Client: w.through, Now: r.Now, Events: w.told}
			again.roll()
			again.roll()
			equal(t, "the nodes once the job is done", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted")
		}},
		"a policy that cannot be read stops its pool, and is told once": {broken, func(t *testing.T, w *world, r *rolling) {
			for range 3 {
				r.roll()
			}
			equal(t, "the nodes told", strings.Count(w.nodes(), "v0>v1"), 0)
			has(t, "RolloutBlocked", w.blocked("worker"), "True|Invalid|", "careful", "whenever")
			equal(t, "events", w.events("RolloutInvalid"), 1)
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := fleet(t, 3, tc.policy)
			tc.story(t, w, r)
		})
	}
}

// TestANewTargetSupersedes: nodes that were told the old one are told the new one as they become free, within the budget.
func TestANewTargetSupersedes(t *testing.T) {
	w, r := fleet(t, 4)
	r.roll()
	w.finish("n0")
	r.roll()
	w.aim("worker", "v2")
	for range 20 {
		r.roll()
		busy := 0
		for _, n := range strings.Split(w.nodes(), ", ") {
			name, rest, _ := strings.Cut(n, " ")
			configs, _, _ := strings.Cut(rest, " ")
			if current, desired, _ := strings.Cut(configs, ">"); current != desired {
				busy++
				w.finish(name)
			}
		}
		if busy > 1 {
			t.Fatalf("%d nodes at work at a time:\n%s", busy, w.nodes())
		}
	}
	equal(t, "in the end", w.nodes(), "n0 v2>v2, n1 v2>v2, n2 v2>v2, n3 v2>v2")
	equal(t, "status.configuration", w.pool("worker").Status.Configuration.Name, "v2")
}

// infra is a custom pool, and nodes i0… that run v0.
func (w *world) infra(size int) {
	w.create(pool("infra"))
	for i := range size {
		n := node(fmt.Sprintf("i%d", i), "v0", "v0")
		n.Labels["node-role.kubernetes.io/infra"] = ""
		w.create(n)
	}
}

// TestPoolsThatLookAtEachOther: what one does is an event for the other.
func TestPoolsThatLookAtEachOther(t *testing.T) {
	t.Run("a pool waits for another one, and is asked for once that is done", func(t *testing.T) {
		w, r := fleet(t, 1, rolloutPolicy("order", func(s *v1alpha1.RolloutPolicySpec) { s.After = []string{"infra"} }))
		w.infra(1)
		w.aim("infra", "v1")
		r.roll("worker", "infra", "worker")
		equal(t, "the nodes", w.nodes(), "i0 v0>v1, n0 v0>v0 tainted")
		has(t, "RolloutBlocked", w.blocked("worker"), "True|AfterPool|", "infra")
		r.feed()
		w.finish("i0")
		has(t, "the pools that i0 concerns", fmt.Sprint(r.feed()), "infra")
		r.roll("infra")
		equal(t, "the pools that the end of infra concerns", fmt.Sprint(r.feed()), "[infra worker]")
		r.roll("worker")
		equal(t, "the nodes then", w.nodes(), "i0 v1>v1, n0 v0>v1")
	})
	t.Run("pools that wait for each other say so", func(t *testing.T) {
		back := rolloutPolicy("back", func(s *v1alpha1.RolloutPolicySpec) { s.Pools, s.After = []string{"infra"}, []string{"worker"} })
		w, r := fleet(t, 1, rolloutPolicy("order", func(s *v1alpha1.RolloutPolicySpec) { s.After = []string{"infra"} }), back)
		w.infra(1)
		w.aim("infra", "v1")
		r.roll("worker", "infra")
		equal(t, "the nodes told", strings.Count(w.nodes(), "v0>v1"), 0)
		for _, p := range []string{"worker", "infra"} {
			has(t, "RolloutBlocked of "+p, w.blocked(p), "True|", "worker", "infra")
		}
	})
	t.Run("one budget across pools holds, even where the cache does not show what the other was told", func(t *testing.T) {
		w, r := fleet(t, 2, rolloutPolicy("one", func(s *v1alpha1.RolloutPolicySpec) {
			s.Pools, s.MaxUnavailableTogether = []string{"worker", "infra"}, new(intstr.FromInt32(1))
		}))
		w.infra(2)
		w.aim("infra", "v1")
		r.feed()
		r.late = true
		r.roll("worker", "infra", "worker")
		equal(t, "the nodes told with late informers", strings.Count(w.nodes(), "v0>v1"), 1)
		r.late = false
		r.roll("infra", "worker")
		equal(t, "the nodes told", strings.Count(w.nodes(), "v0>v1"), 1)
		has(t, "RolloutBlocked", w.blocked("infra"), "True|Together|", "one", "worker")
		r.feed()
		w.finish("n0")
		equal(t, "the pools that n0 concerns", fmt.Sprint(r.feed()), "[infra worker]")
		r.roll("infra")
		equal(t, "the nodes then", w.nodes(), "i0 v0>v1, i1 v0>v0 tainted, n0 v1>v1, n1 v0>v0 tainted")
	})
}

// TestNodesComeAndGo has what a roster must not be wrong about.
func TestNodesComeAndGo(t *testing.T) {
	t.Run("a node that vanishes while it is at work frees its place", func(t *testing.T) {
		w, r := fleet(t, 3)
		r.roll()
		w.remove(w.node("n0"))
		r.roll()
		equal(t, "the nodes", w.nodes(), "n1 v0>v1, n2 v0>v0 tainted")
	})
	t.Run("a node that vanishes before its write is shown holds nobody up", func(t *testing.T) {
		w, r := fleet(t, 3)
		r.roll()
		r.late = true
		w.remove(w.node("n0"))
		r.roll()
		r.late = false
		r.roll()
		equal(t, "the nodes", w.nodes(), "n1 v0>v1, n2 v0>v0 tainted")
	})
	t.Run("a node in two custom pools is touched by nobody until a person decides", func(t *testing.T) {
		w, r := fleet(t, 2)
		w.create(pool("infra"))
		w.create(pool("gpu"))
		w.aim("infra", "v1")
		w.aim("gpu", "v1")
		change(w, w.node("n0"), func(n *corev1.Node) {
			n.Labels["node-role.kubernetes.io/infra"], n.Labels["node-role.kubernetes.io/gpu"] = "", ""
		})
		r.roll("worker", "infra", "gpu")
		equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v1")
		equal(t, "machines of worker", w.pool("worker").Status.MachineCount, 1)
		r.feed()
		change(w, w.node("n0"), func(n *corev1.Node) { delete(n.Labels, "node-role.kubernetes.io/gpu") })
		equal(t, "the pools that the decision concerns", fmt.Sprint(r.feed()), "[infra]")
	})
	t.Run("an event of a node asks for its pool alone, and a heartbeat for none", func(t *testing.T) {
		w, r := fleet(t, 2)
		w.infra(1)
		r.feed()
		change(w, w.node("n1"), func(n *corev1.Node) {
			n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateWorking
		})
		equal(t, "the pools asked for", fmt.Sprint(r.feed()), "[worker]")
		report(w, w.node("n1"), func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(w.now) })
		equal(t, "the pools asked for after a heartbeat", fmt.Sprint(r.feed()), "[]")
		report(w, w.node("n1"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
		equal(t, "the pools asked for once it is not Ready", fmt.Sprint(r.feed()), "[worker]")
		change(w, w.node("n1"), func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/infra"] = "" })
		equal(t, "the pools asked for after a move", fmt.Sprint(r.feed()), "[infra worker]")
	})
}

// TestWhatElseIsWrittenToNodes: labels of a first boot, drains that are given up, and who comes after whom.
func TestWhatElseIsWrittenToNodes(t *testing.T) {
	t.Run("a machine that booted for a custom pool is labelled for it, once, and taken from there", func(t *testing.T) {
		booted := "rendered-infra-" + strings.Repeat("0", 32)
		w, r := fleet(t, 2, target(booted, "d", "boot"))
		w.create(pool("infra"))
		w.aim("infra", booted)
		w.create(&v1alpha1.ProvisioningToken{
			ObjectMeta: metav1.ObjectMeta{Name: "abcdefghij"},
			Spec:       v1alpha1.ProvisioningTokenSpec{Pool: "infra", Node: "n0"}, Status: v1alpha1.ProvisioningTokenStatus{Used: 1},
		})
		change(w, w.node("n0"), func(n *corev1.Node) {
			n.Annotations[v1alpha1.FirstPivotConfigAnnotation] = booted
			n.Annotations[v1alpha1.CurrentConfigAnnotation], n.Annotations[v1alpha1.DesiredConfigAnnotation] = booted, booted
		})
		r.roll("worker", "infra")
		_, early := w.node("n0").Labels["node-role.kubernetes.io/infra"]
		_, read := w.node("n0").Annotations[v1alpha1.AttestedPoolAnnotation]
		equal(t, "labelled before its record was read, and the record is read", fmt.Sprint(early, read), "false true")
		r.roll("worker", "infra", "worker", "infra")
		n := w.node("n0")
		_, labelled := n.Labels["node-role.kubernetes.io/infra"]
		_, applied := n.Annotations[v1alpha1.CustomPoolLabelsAppliedAnnotation]
		equal(t, "labelled, annotated", fmt.Sprint(labelled, applied), "true true")
		equal(t, "the nodes", w.nodes(), "n0 "+booted+">"+booted+", n1 v0>v1")
		change(w, w.node("n0"), func(n *corev1.Node) { delete(n.Labels, "node-role.kubernetes.io/infra") })
		r.roll("worker", "infra")
		_, labelled = w.node("n0").Labels["node-role.kubernetes.io/infra"]
		equal(t, "labelled again after somebody took the label away", labelled, false)
	})
	t.Run("a drain that is held up is given up for another node, where the policy says so", func(t *testing.T) {
		w, r := fleet(t, 2, rolloutPolicy("moves", func(s *v1alpha1.RolloutPolicySpec) {
			s.Drain = &v1alpha1.DrainPolicy{WhenBlocked: v1alpha1.DrainMoveOn, After: metav1.Duration{Duration: time.Hour}}
		}))
		r.roll()
		change(w, w.node("n0"), func(n *corev1.Node) {
			n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateWorking
			n.Annotations[v1alpha1.DesiredDrainAnnotation] = "drain-v1"
			n.Annotations[v1alpha1.DrainStartedAnnotation] = w.now.Format(time.RFC3339)
			n.Annotations[v1alpha1.CordonedAnnotation], n.Spec.Unschedulable = "v1", true
		})
		r.roll()
		equal(t, "the nodes at first", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted")
		w.later(61 * time.Minute)
		r.roll()
		has(t, "the nodes after an hour", w.nodes(), "n0 v0>v0")
		has(t, "the note on the node", w.node("n0").Annotations[v1alpha1.PostponedAnnotation], "v1 2026-01-02T13:01:00Z")
		equal(t, "events", w.events("DrainPostponed"), 1)
		change(w, w.node("n0"), func(n *corev1.Node) {
			n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDone
			delete(n.Annotations, v1alpha1.DesiredDrainAnnotation)
			delete(n.Annotations, v1alpha1.DrainStartedAnnotation)
			delete(n.Annotations, v1alpha1.CordonedAnnotation)
			n.Spec.Unschedulable = false
		})
		r.roll()
		has(t, "the nodes then", w.nodes(), "n1 v0>v1")
		w.finish("n1")
		r.roll()
		has(t, "the nodes in the end", w.nodes(), "n0 v0>v1")
		equal(t, "the note on the node then", w.node("n0").Annotations[v1alpha1.PostponedAnnotation], "")
	})
	t.Run("the arbiter comes after the masters", func(t *testing.T) {
		w, r := fleet(t, 0)
		w.create(pool("arbiter"))
		for _, name := range []string{"arbiter", "master"} {
			n := node(name, "v0", "v0")
			n.Labels = map[string]string{"node-role.kubernetes.io/" + name: ""}
			w.create(n)
			w.aim(name, "v1")
		}
		r.roll("arbiter", "master", "arbiter")
		equal(t, "the nodes", w.nodes(), "arbiter v0>v0 tainted, master v0>v1")
		w.finish("master")
		r.roll("master", "arbiter")
		equal(t, "the nodes then", w.nodes(), "arbiter v0>v1, master v1>v1")
	})
}
