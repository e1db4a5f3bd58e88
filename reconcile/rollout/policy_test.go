package rollout_test

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
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gate"
)

func rolloutPolicy(name string, change func(*v1alpha1.RolloutPolicySpec)) *v1alpha1.RolloutPolicy {
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RolloutPolicySpec{
		RolloutPools: v1alpha1.RolloutPools{Pools: []string{"worker"}},
		Failures:     &v1alpha1.FailureBudget{After: 1, Action: v1alpha1.FailureHalt},
	}}
	change(&p.Spec)
	return p
}

// blocked is the pool's RolloutBlocked condition as `Status|Reason|Message`.
func (w *rolloutWorld) blocked(pool string) string {
	for _, c := range w.Pool(pool).Status.Conditions {
		if c.Type == v1alpha1.RolloutBlockedCondition {
			return fmt.Sprintf("%s|%s|%s", c.Status, c.Reason, c.Message)
		}
	}
	return "absent"
}

// retry asks to try again, as `bunsen retry pool/NAME` does.
func (w *rolloutWorld) retry(pool string) {
	controllertest.Modify(w.Cluster, w.Pool(pool), func(p *mcfgv1.MachineConfigPool) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.RetryAnnotation, w.Now.Format(time.RFC3339))
	})
}

// failAgain is what the daemon reports that tried once more at once, and failed.
func (w *rolloutWorld) failAgain(name, config string) {
	asked := metav1.NewTime(w.Now)
	controllertest.Modify(w.Cluster, w.Node(name), func(n *corev1.Node) {
		n.Annotations[v1alpha1.RetryAnnotation] = w.Now.Format(time.RFC3339)
		n.Annotations[v1alpha1.FailureAnnotation] = v1alpha1.Failure{
			Config: config, Cause: v1alpha1.FailureDiskFull,
			Since: asked, Retry: &asked,
		}.String()
	})
}

func (w *rolloutWorld) later(d time.Duration) { w.Now = w.Now.Add(d) }

func (w *rolloutWorld) record(pool string) v1alpha1.RolloutRecord {
	w.T.Helper()
	r, err := v1alpha1.ParseRolloutRecord(w.Pool(pool).Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		w.T.Fatal(err)
	}
	return r
}

// TestRolloutPolicies is what a policy makes of a rollout, a sentence each.
func TestRolloutPolicies(t *testing.T) {
	halts := rolloutPolicy("careful", func(*v1alpha1.RolloutPolicySpec) {})
	reverts := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.Failures.Action = v1alpha1.FailureRevert
	})
	canary := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.MaxUnavailable = new(intstr.FromInt32(3))
		s.Canary = &v1alpha1.RolloutCanary{
			Nodes: new(intstr.FromInt32(1)),
			Soak:  metav1.Duration{Duration: 10 * time.Minute},
		}
	})
	nightly := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.Windows = []v1alpha1.MaintenanceWindow{{
			Name: "night", Kind: v1alpha1.WindowAllow, Schedule: "0 22 * * *",
			Duration: metav1.Duration{Duration: time.Hour},
		}}
	})
	broken := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.Windows = []v1alpha1.MaintenanceWindow{{
			Name: "night", Kind: v1alpha1.WindowAllow, Schedule: "whenever",
			Duration: metav1.Duration{Duration: time.Hour},
		}}
	})
	gated := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.Canary = &v1alpha1.RolloutCanary{Nodes: new(intstr.FromInt32(1))}
		s.Gates = []v1alpha1.HealthGate{
			{Name: "proxy", DaemonSets: []v1alpha1.ObjectName{{Namespace: "net", Name: "proxy"}}},
			{Name: "smoke", Job: &v1alpha1.JobGate{CronJob: v1alpha1.ObjectName{Namespace: "net", Name: "smoke"}}},
		}
	})
	gatedAtOnce := rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) { s.Gates = gated.Spec.Gates[:1] })
	for sentence, tc := range map[string]struct {
		policy *v1alpha1.RolloutPolicy
		story  func(t *testing.T, w *rolloutWorld, r *rolloutsRolling)
	}{
		"the pool records the closed gates of a node without a step": {gatedAtOnce, func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			r.Gates = &gate.Evaluator{Live: w.Admin, Client: w.Client, Now: r.Now, Events: w.Events}
			r.roll()
			w.finish("n0")
			r.roll()
			controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "True|Budget|", "n0",
				"there is no DaemonSet net/proxy")
			controllertest.Contains(t, "the closed gates", w.Pool("worker").Annotations[v1alpha1.ClosedGatesAnnotation],
				`{"node":"n0","why":"gate `, "there is no DaemonSet net/proxy")
		}},
		"the first failure halts; a restart remembers; retry goes on": {halts, func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			r.roll()
			w.later(time.Minute)
			w.fail("n0", "no space")
			r.roll()
			r.roll()
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			controllertest.Equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutHalted)
			controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "True|Halted|", "n0")
			controllertest.Contains(t, "Degraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolDegraded), "True|", "n0", "no space")
			controllertest.Equal(t, "Updating", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolUpdating), "False|Rollout is halted; will not update to MachineConfig v1")
			controllertest.Equal(t, "events of the halt", w.countEvents("RolloutHalted"), 1)
			again := w.rollout()
			again.roll()
			again.roll()
			controllertest.Equal(t, "the nodes after a restart", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 "+
				"tainted")
			controllertest.Equal(t, "events of the halt after a restart", w.countEvents("RolloutHalted"), 1)
			w.later(time.Minute)
			w.finish("n0")
			w.retry("worker")
			r.roll()
			r.roll()
			controllertest.Equal(t, "the nodes after a retry", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted")
			controllertest.Equal(t, "events of the resumption", w.countEvents("RolloutResumed"), 1)
			controllertest.Equal(t, "RolloutBlocked after a retry", w.blocked("worker"), "False||")
			past, err := v1alpha1.ParseRolloutHistory(w.Pool("worker").Annotations[v1alpha1.RolloutHistoryAnnotation])
			if err != nil || len(past) != 1 {
				t.Fatalf("the history has not the one outcome before the retry: %v %v", past, err)
			}
			controllertest.Equal(t, "the outcome before the retry", string(past[0].Result)+" "+past[0].Config,
				"Halted v1")
			asked := controllertest.Get(w.Cluster, "n1", &corev1.Node{}).Annotations[v1alpha1.RequestAnnotation]
			controllertest.Equal(t, "who asked for the config of a node", v1alpha1.ParseConfigRequest(asked,
				"v1").Revision, w.Config("v1").Annotations[v1alpha1.RevisionAnnotation])
		}},
		"a retry that failed before anybody looked is told as resumed and halted": {
			halts,
			func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
				r.roll()
				w.fail("n0", "no space")
				r.roll()
				r.roll()
				w.later(time.Minute)
				w.retry("worker")
				w.failAgain("n0", "v1")
				r.roll()
				controllertest.Equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutHalted)
				controllertest.Equal(t, "events of the resumption", w.countEvents("RolloutResumed"), 1)
				controllertest.Equal(t, "events of the halts", w.countEvents("RolloutHalted"), 2)
				r.roll()
				controllertest.Equal(t, "events of the halts after another look", w.countEvents("RolloutHalted"), 2)
			},
		},
		"a new commit lifts the verdict, and the broken node is told first": {halts, func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			r.roll()
			w.fail("n0", "no space")
			r.roll()
			w.aim("worker", "v2")
			r.roll()
			controllertest.Contains(t, "the nodes", w.nodes(), "n0 v0>v2", "n2 v0>v0 tainted")
			controllertest.Equal(t, "the verdict", w.record("worker").Verdict, "")
			controllertest.Equal(t, "the config of the record", w.record("worker").Config, "v2")
		}},
		"too many failures revert the pool to what all of it ran": {reverts, func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			w.aim("worker", "v0")
			r.roll()
			controllertest.Equal(t, "what all of it runs", w.Pool("worker").Status.Configuration.Name, "v0")
			w.aim("worker", "v1")
			r.roll()
			w.later(time.Minute)
			w.fail("n0", "no space")
			r.roll()
			r.roll()
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			controllertest.Equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutReverted)
			controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "True|Reverted|", "n0")
			controllertest.Equal(t, "events of the revert", w.countEvents("RolloutReverted"), 1)
			controllertest.Contains(t, "the order to go back", strings.Join(w.Events.Lines, "\n"),
				`updating node n0 to v0 (main@sha1:aaaaaaaa "say nothing")`)
			w.finish("n0")
			r.roll()
			w.aim("worker", "v2")
			r.roll()
			controllertest.Contains(t, "the nodes after a new commit", w.nodes(), "v0>v2")
		}},
		"a revert keeps how many nodes ran the config, and its end is told": {
			reverts,
			func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
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
				controllertest.Equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutReverted)
				controllertest.Equal(t, "nodes that ran it", w.record("worker").Updated, 1)
				w.aim("worker", "v0")
				r.roll()
				past, err := v1alpha1.ParseRolloutHistory(
					w.Pool("worker").Annotations[v1alpha1.RolloutHistoryAnnotation])
				if err != nil || len(past) == 0 {
					t.Fatalf("the history is %v, %v", past, err)
				}
				controllertest.Equal(t, "nodes that ran it, in the history", past[0].Updated, 1)
				before := w.countEvents("Completed")
				for _, name := range []string{"n0", "n1", "n2"} {
					w.finish(name)
					r.roll()
				}
				controllertest.Equal(t, "Updated", controllertest.PoolCondition(w.Pool("worker"),
					mcfgv1.MachineConfigPoolUpdated), "True|All nodes are updated with MachineConfig v0")
				controllertest.Equal(t, "events of the end of the undo", w.countEvents("Completed")-before, 1)
			},
		},
		"a pool does not go back to what is not there any more": {reverts, func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			w.aim("worker", "v0")
			r.roll()
			w.aim("worker", "v1")
			r.roll()
			w.Remove(w.Config("v0"))
			w.later(time.Minute)
			w.fail("n0", "no space")
			r.roll()
			r.roll()
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			controllertest.Equal(t, "the verdict", w.record("worker").Verdict, v1alpha1.RolloutHalted)
		}},
		"nor goes on to go back once it is not": {reverts, func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			w.aim("worker", "v0")
			r.roll()
			w.aim("worker", "v1")
			r.roll()
			w.later(time.Minute)
			w.fail("n0", "no space")
			w.Writes.Left = 1 // the record, and nobody is told
			_, _ = r.look("worker")
			w.Writes.Left = -1
			v0 := w.Config("v0")
			w.Remove(v0)
			again := w.rollout()
			again.roll()
			controllertest.Contains(t, "the nodes", w.nodes(), "n0 v0>v1")
			controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "True|Invalid|MachineConfig v0")
			v0.ResourceVersion = ""
			w.Create(v0)
			again.roll()
			controllertest.Contains(t, "the nodes once it is made again", w.nodes(), "n0 v0>v0")
		}},
		"the canary comes first, and soaks": {canary, func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			r.roll()
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			w.finish("n0")
			soaking := r.roll()
			r.roll()
			controllertest.Equal(t, "the nodes while it soaks", w.nodes(), "n0 v1>v1, n1 v0>v0 tainted, n2 v0>v0 "+
				"tainted")
			controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "True|Soak|")
			if soaking.RequeueAfter <= 0 || soaking.RequeueAfter > 10*time.Minute {
				t.Errorf("the next look comes after %s; the soak ends in 10m", soaking.RequeueAfter)
			}
			w.later(11 * time.Minute)
			w.rollout().roll()
			controllertest.Equal(t, "the nodes after it", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v1")
			controllertest.Equal(t, "events of the step", w.countEvents("StepDone"), 1)
		}},
		"outside of its window a pool waits; the opening is told; the next night comes by itself": {
			nightly,
			func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
				for range 3 {
					r.roll()
				}
				controllertest.Equal(t, "the nodes told at noon", strings.Count(w.nodes(), "v0>v1"), 0)
				controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "True|Window|", "night")
				controllertest.Equal(t, "events of the closed window", w.countEvents("WindowClosed"), 1)
				again := w.rollout()
				again.roll()
				controllertest.Equal(t, "events of the closed window after a restart", w.countEvents("WindowClosed"), 1)
				w.later(10*time.Hour + time.Minute)
				again.roll()
				again.roll()
				controllertest.Contains(t, "the nodes at night", w.nodes(), "n0 v0>v1")
				controllertest.Equal(t, "events of the open window", w.countEvents("WindowOpened"), 1)
				w.later(2 * time.Hour)
				w.finish("n0")
				again.roll()
				controllertest.Equal(t, "the nodes told after the window closed", strings.Count(w.nodes(), "v0>v1"), 0)
			},
		},
		"somebody may open the window for a while": {nightly, func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.OpenUntilAnnotation,
					w.Now.Add(time.Hour).Format(time.RFC3339))
			})
			r.roll()
			controllertest.Contains(t, "the nodes", w.nodes(), "n0 v0>v1")
		}},
		"nodes are asked for their DaemonSets, and then a job is run, before the next step": {
			gated,
			func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
				r.Gates = &gate.Evaluator{Live: w.Admin, Client: w.Client, Now: r.Now, Events: w.Events}
				r.roll()
				w.finish("n0")
				r.roll()
				controllertest.Contains(t, "RolloutBlocked without the DaemonSet", w.blocked("worker"), "True|Gate|",
					"n0",
					"there is no DaemonSet net/proxy")
				controllertest.Contains(t, "the closed gates without the DaemonSet",
					w.Pool("worker").Annotations[v1alpha1.ClosedGatesAnnotation], `{"node":"n0","why":"gate `,
					"there is no DaemonSet net/proxy")
				w.Create(&appsv1.DaemonSet{
					ObjectMeta: metav1.ObjectMeta{Namespace: "net", Name: "proxy", UID: "1"},
					Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{}},
				})
				w.Create(&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: "net", Name: "proxy-0",
						OwnerReferences: []metav1.OwnerReference{{UID: "1", Controller: new(true)}},
					},
					Spec: corev1.PodSpec{NodeName: "n0"},
					Status: corev1.PodStatus{
						Phase:      corev1.PodRunning,
						Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
					},
				})
				w.later(time.Minute)
				r.roll()
				r.roll()
				controllertest.Contains(t, "RolloutBlocked without the job", w.blocked("worker"), "True|Gate|",
					"there is no CronJob net/smoke")
				controllertest.Contains(t, "the closed gates without the job",
					w.Pool("worker").Annotations[v1alpha1.ClosedGatesAnnotation],
					`[{"gate":"smoke","why":"there is no CronJob net/smoke`)
				controllertest.Equal(t, "the nodes", w.nodes(), "n0 v1>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
				w.Create(&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{
					Namespace: "net", Name: "smoke",
					Labels: map[string]string{v1alpha1.GateLabel: "true"},
				}})
				w.later(time.Minute)
				r.roll()
				var jobs batchv1.JobList
				if err := w.Admin.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
					t.Fatalf("jobs %v, %v", jobs.Items, err)
				}
				report(w.Cluster, &jobs.Items[0], func(j *batchv1.Job) {
					j.Status.Conditions = []batchv1.JobCondition{{
						Type:   batchv1.JobComplete,
						Status: corev1.ConditionTrue,
					}}
				})
				w.later(time.Minute)
				again := w.rollout()
				again.Gates = &gate.Evaluator{Live: w.Admin, Client: w.Client, Now: r.Now, Events: w.Events}
				again.roll()
				again.roll()
				controllertest.Equal(t, "the nodes once the job is done", w.nodes(),
					"n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted")
				controllertest.Equal(t, "the closed gates once the job is done",
					w.Pool("worker").Annotations[v1alpha1.ClosedGatesAnnotation], "")
			},
		},
		"a policy that cannot be read stops its pool, and is told once": {broken, func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			for range 3 {
				r.roll()
			}
			controllertest.Equal(t, "the nodes told", strings.Count(w.nodes(), "v0>v1"), 0)
			controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "True|Invalid|", "careful", "whenever")
			controllertest.Equal(t, "events", w.countEvents("RolloutInvalid"), 1)
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := rolloutsFleet(t, 3, tc.policy)
			tc.story(t, w, r)
		})
	}
}

// TestANewTargetSupersedes: nodes that were told the old one are told the new one as they become free, within the
// budget.
func TestANewTargetSupersedes(t *testing.T) {
	w, r := rolloutsFleet(t, 4)
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
	controllertest.Equal(t, "in the end", w.nodes(), "n0 v2>v2, n1 v2>v2, n2 v2>v2, n3 v2>v2")
	controllertest.Equal(t, "status.configuration", w.Pool("worker").Status.Configuration.Name, "v2")
}

// infra is a custom pool, and nodes i0… that run v0.
func (w *rolloutWorld) infra(size int) {
	w.Create(controllertest.Pool("infra"))
	for i := range size {
		n := controllertest.Node(fmt.Sprintf("i%d", i), "v0", "v0")
		n.Labels["node-role.kubernetes.io/infra"] = ""
		w.Create(n)
	}
}

// TestPoolsThatLookAtEachOther: what one does is an event for the other.
func TestPoolsThatLookAtEachOther(t *testing.T) {
	t.Run("a pool waits for another one, and is asked for once that is done", func(t *testing.T) {
		w, r := rolloutsFleet(t, 1, rolloutPolicy("order", func(s *v1alpha1.RolloutPolicySpec) { s.After = []string{"infra"} }))
		w.infra(1)
		w.aim("infra", "v1")
		r.roll("worker", "infra", "worker")
		controllertest.Equal(t, "the nodes", w.nodes(), "i0 v0>v1, n0 v0>v0 tainted")
		controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "True|AfterPool|", "infra")
		r.feed()
		w.finish("i0")
		controllertest.Contains(t, "the pools that i0 concerns", fmt.Sprint(r.feed()), "infra")
		r.roll("infra")
		controllertest.Equal(t, "the pools that the end of infra concerns", fmt.Sprint(r.feed()), "[infra worker]")
		r.roll("worker")
		controllertest.Equal(t, "the nodes then", w.nodes(), "i0 v1>v1, n0 v0>v1")
	})
	t.Run("pools that wait for each other say so", func(t *testing.T) {
		back := rolloutPolicy("back", func(s *v1alpha1.RolloutPolicySpec) {
			s.Pools, s.After = []string{"infra"}, []string{"worker"}
		})
		w, r := rolloutsFleet(t, 1, rolloutPolicy("order", func(s *v1alpha1.RolloutPolicySpec) { s.After = []string{"infra"} }),
			back)
		w.infra(1)
		w.aim("infra", "v1")
		r.roll("worker", "infra")
		controllertest.Equal(t, "the nodes told", strings.Count(w.nodes(), "v0>v1"), 0)
		for _, p := range []string{"worker", "infra"} {
			controllertest.Contains(t, "RolloutBlocked of "+p, w.blocked(p), "True|", "worker", "infra")
		}
	})
	t.Run("one budget across pools holds, even where the cache does not show what the other was told",
		func(t *testing.T) {
			w, r := rolloutsFleet(t, 2, rolloutPolicy("one", func(s *v1alpha1.RolloutPolicySpec) {
				s.Pools, s.MaxUnavailableTogether = []string{"worker", "infra"}, new(intstr.FromInt32(1))
			}))
			w.infra(2)
			w.aim("infra", "v1")
			r.feed()
			r.late = true
			r.roll("worker", "infra", "worker")
			controllertest.Equal(t, "the nodes told with late informers", strings.Count(w.nodes(), "v0>v1"), 1)
			r.late = false
			r.roll("infra", "worker")
			controllertest.Equal(t, "the nodes told", strings.Count(w.nodes(), "v0>v1"), 1)
			controllertest.Contains(t, "RolloutBlocked", w.blocked("infra"), "True|Together|", "one", "worker")
			r.feed()
			w.finish("n0")
			controllertest.Equal(t, "the pools that n0 concerns", fmt.Sprint(r.feed()), "[infra worker]")
			r.roll("infra")
			controllertest.Equal(t, "the nodes then", w.nodes(), "i0 v0>v1, i1 v0>v0 tainted, n0 v1>v1, n1 v0>v0 "+
				"tainted")
		})
}

// TestNodesComeAndGo has what a fleet must not be wrong about.
func TestNodesComeAndGo(t *testing.T) {
	t.Run("a node that vanishes while it is at work frees its place", func(t *testing.T) {
		w, r := rolloutsFleet(t, 3)
		r.roll()
		w.Remove(w.Node("n0"))
		r.roll()
		controllertest.Equal(t, "the nodes", w.nodes(), "n1 v0>v1, n2 v0>v0 tainted")
	})
	t.Run("a node that vanishes before its write is shown holds nobody up", func(t *testing.T) {
		w, r := rolloutsFleet(t, 3)
		r.roll()
		r.late = true
		w.Remove(w.Node("n0"))
		r.roll()
		r.late = false
		r.roll()
		controllertest.Equal(t, "the nodes", w.nodes(), "n1 v0>v1, n2 v0>v0 tainted")
	})
	t.Run("a node in two custom pools is touched by nobody until a person decides", func(t *testing.T) {
		w, r := rolloutsFleet(t, 2)
		w.Create(controllertest.Pool("infra"))
		w.Create(controllertest.Pool("gpu"))
		w.aim("infra", "v1")
		w.aim("gpu", "v1")
		controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
			n.Labels["node-role.kubernetes.io/infra"], n.Labels["node-role.kubernetes.io/gpu"] = "", ""
		})
		r.roll("worker", "infra", "gpu")
		controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v1")
		controllertest.Equal(t, "machines of worker", w.Pool("worker").Status.MachineCount, 1)
		r.feed()
		controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
			delete(n.Labels, "node-role.kubernetes.io/gpu")
		})
		controllertest.Equal(t, "the pools that the decision concerns", fmt.Sprint(r.feed()), "[infra]")
	})
	t.Run("an event of a node asks for its pool alone, and a heartbeat for none", func(t *testing.T) {
		w, r := rolloutsFleet(t, 2)
		w.infra(1)
		r.feed()
		controllertest.Modify(w.Cluster, w.Node("n1"), func(n *corev1.Node) {
			n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateWorking
		})
		controllertest.Equal(t, "the pools asked for", fmt.Sprint(r.feed()), "[worker]")
		report(w.Cluster, w.Node("n1"), func(n *corev1.Node) {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(w.Now)
		})
		controllertest.Equal(t, "the pools asked for after a heartbeat", fmt.Sprint(r.feed()), "[]")
		report(w.Cluster, w.Node("n1"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
		controllertest.Equal(t, "the pools asked for once it is not Ready", fmt.Sprint(r.feed()), "[worker]")
		controllertest.Modify(w.Cluster, w.Node("n1"), func(n *corev1.Node) {
			n.Labels["node-role.kubernetes.io/infra"] = ""
		})
		controllertest.Equal(t, "the pools asked for after a move", fmt.Sprint(r.feed()), "[infra worker]")
	})
}

// TestWhatElseIsWrittenToNodes: labels of a first boot, drains that are given up, and who comes after whom.
func TestWhatElseIsWrittenToNodes(t *testing.T) {
	t.Run("a machine that booted for a custom pool is labelled for it, once, and taken from there", func(t *testing.T) {
		booted := "rendered-infra-" + strings.Repeat("0", 32)
		w, r := rolloutsFleet(t, 2, targetConfig(booted, "d", "boot"))
		w.Create(controllertest.Pool("infra"))
		w.aim("infra", booted)
		w.Create(&v1alpha1.ProvisioningToken{
			ObjectMeta: metav1.ObjectMeta{Name: "abcdefghij"},
			Spec:       v1alpha1.ProvisioningTokenSpec{Pool: "infra", Node: "n0"},
			Status:     v1alpha1.ProvisioningTokenStatus{Used: 1},
		})
		controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
			n.Annotations[v1alpha1.FirstPivotConfigAnnotation] = booted
			n.Annotations[v1alpha1.CurrentConfigAnnotation], n.Annotations[v1alpha1.DesiredConfigAnnotation] = booted,
				booted
		})
		r.roll("worker", "infra")
		_, early := w.Node("n0").Labels["node-role.kubernetes.io/infra"]
		_, read := w.Node("n0").Annotations[v1alpha1.AttestedPoolAnnotation]
		controllertest.Equal(t, "labelled before its record was read, and the record is read", fmt.Sprint(early, read),
			"false true")
		r.roll("worker", "infra", "worker", "infra")
		n := w.Node("n0")
		_, labelled := n.Labels["node-role.kubernetes.io/infra"]
		_, applied := n.Annotations[v1alpha1.CustomPoolLabelsAppliedAnnotation]
		controllertest.Equal(t, "labelled, annotated", fmt.Sprint(labelled, applied), "true true")
		controllertest.Equal(t, "the nodes", w.nodes(), "n0 "+booted+">"+booted+", n1 v0>v1")
		controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
			delete(n.Labels, "node-role.kubernetes.io/infra")
		})
		r.roll("worker", "infra")
		_, labelled = w.Node("n0").Labels["node-role.kubernetes.io/infra"]
		controllertest.Equal(t, "labelled again after somebody took the label away", labelled, false)
	})
	t.Run("a drain that is held up is given up for another node, where the policy says so", func(t *testing.T) {
		w, r := rolloutsFleet(t, 2, rolloutPolicy("moves", func(s *v1alpha1.RolloutPolicySpec) {
			s.Drain = &v1alpha1.DrainPolicy{
				WhenBlocked: v1alpha1.DrainMoveOn,
				After:       metav1.Duration{Duration: time.Hour},
			}
		}))
		r.roll()
		controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
			n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateWorking
			n.Annotations[v1alpha1.DesiredDrainAnnotation] = "drain-v1"
			n.Annotations[v1alpha1.DrainStartedAnnotation] = w.Now.Format(time.RFC3339)
			n.Annotations[v1alpha1.CordonedAnnotation], n.Spec.Unschedulable = "v1", true
		})
		r.roll()
		controllertest.Equal(t, "the nodes at first", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted")
		w.later(61 * time.Minute)
		r.roll()
		controllertest.Contains(t, "the nodes after an hour", w.nodes(), "n0 v0>v0")
		controllertest.Contains(t, "the note on the node", w.Node("n0").Annotations[v1alpha1.PostponedAnnotation],
			"v1 2026-01-02T13:01:00Z")
		controllertest.Equal(t, "events", w.countEvents("DrainPostponed"), 1)
		controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
			n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDone
			delete(n.Annotations, v1alpha1.DesiredDrainAnnotation)
			delete(n.Annotations, v1alpha1.DrainStartedAnnotation)
			delete(n.Annotations, v1alpha1.CordonedAnnotation)
			n.Spec.Unschedulable = false
		})
		r.roll()
		controllertest.Contains(t, "the nodes then", w.nodes(), "n1 v0>v1")
		w.finish("n1")
		r.roll()
		controllertest.Contains(t, "the nodes in the end", w.nodes(), "n0 v0>v1")
		controllertest.Equal(t, "the note on the node then", w.Node("n0").Annotations[v1alpha1.PostponedAnnotation], "")
	})
	t.Run("the arbiter comes after the masters", func(t *testing.T) {
		w, r := arbiterCluster(t)
		r.roll("arbiter", "master", "arbiter")
		controllertest.Equal(t, "the nodes", w.nodes(),
			"arbiter v0>v0 tainted, master-0 v0>v1, master-1 v0>v0 tainted")
		for _, name := range []string{"master-0", "master-1"} {
			w.finish(name)
			r.roll("master", "arbiter")
		}
		controllertest.Equal(t, "the nodes then", w.nodes(), "arbiter v0>v1, master-0 v1>v1, master-1 v1>v1")
	})
}
