package reconcile_test

import (
	"encoding/json"
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// canaryFirst is a policy with everything that needs a right of its own.
const canaryFirst = `-- cluster/rollout.yaml --
apiVersion: bunsen.dev/v1alpha1
kind: RolloutPolicy
metadata:
  name: canary-first
spec:
  pools: [worker]
  maxUnavailable: 2
  canary:
    nodes: 1
  gates:
    - name: proxy
      daemonSets:
        - {namespace: default, name: canary-proxy}
    - name: smoke
      job:
        cronJob: {namespace: default, name: smoke}
`

// carefulRollouts: a policy from the repository is obeyed; a failure halts the rollout, and says so to kubectl; the
// next commit heals the node that failed, and goes on step by step.
func (s *stage) carefulRollouts() {
	s.t.Helper()
	tree := func(motd string) []string {
		return []string{"worker/10-motd.bu=" + motd, "master/10-motd.bu=hello", clusterFiles, workerPool, canaryFirst}
	}
	pods := func(app string, policy corev1.RestartPolicy) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"only": "elsewhere"}, RestartPolicy: policy,
				Containers: []corev1.Container{{Name: "c", Image: "i"}},
			},
		}
	}
	edit(s, "default", &corev1.Namespace{}, func(n *corev1.Namespace) {
		metav1.SetMetaDataLabel(&n.ObjectMeta, v1alpha1.GateLabel, "true")
	})
	s.create(
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "canary-proxy", Namespace: "default"},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "canary"}},
				Template: pods("canary", corev1.RestartPolicyAlways),
			},
		},
		&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{
			Name: "smoke", Namespace: "default",
			Labels: map[string]string{v1alpha1.GateLabel: "true"},
		}, Spec: batchv1.CronJobSpec{
			Schedule: "@yearly", Suspend: new(true),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods("smoke",
				corev1.RestartPolicyNever)}},
		}},
	)
	s.push("bad news", tree("bad news")...)
	first := s.oneTold()
	failed := &mcfgv1.MachineConfigPool{}
	if err := s.get("worker", failed); err != nil {
		s.t.Fatal(err)
	}
	s.daemonSays(first, v1alpha1.StateDegraded, "no space left on device")
	s.kubectl("wait", "--for=condition=RolloutBlocked", "mcp/worker", "--timeout=30s")
	s.eventually("the words of the halt", func() error {
		p := &mcfgv1.MachineConfigPool{}
		if err := s.get("worker", p); err != nil {
			return err
		}
		text, err := json.Marshal(p.Status.Conditions)
		for _, part := range []string{`"reason":"Halted"`, first, "no space left on device", "bad news"} {
			if !strings.Contains(string(text), part) {
				return fmt.Errorf("%q is not in %s, %v", part, text, err)
			}
		}
		return nil
	})
	s.push("good news", tree("good news")...)
	target := ""
	s.eventually("the node that failed is told first", func() error {
		p, n := &mcfgv1.MachineConfigPool{}, &corev1.Node{}
		if err := s.get("worker", p); err != nil {
			return err
		}
		if target = p.Spec.Configuration.Name; target == failed.Spec.Configuration.Name {
			return fmt.Errorf("the target is still %s", target)
		}
		if err := s.get(first, n); err != nil || n.Annotations[v1alpha1.DesiredConfigAnnotation] != target ||
			!strings.Contains(p.Annotations[v1alpha1.RolloutAnnotation], target) {
			return fmt.Errorf("pool %s %s, node %s, %v", target, p.Annotations[v1alpha1.RolloutAnnotation],
				n.Annotations[v1alpha1.DesiredConfigAnnotation], err)
		}
		return nil
	})
	s.daemonSays(first, v1alpha1.StateWorking, "")
	s.finish(first)
	s.jobEnds()
	s.eventually("all nodes told once the job is done", func() error {
		for _, name := range []string{"n0", "n1"} {
			n := &corev1.Node{}
			if err := s.get(name, n); err != nil || n.Annotations[v1alpha1.DesiredConfigAnnotation] != target {
				return fmt.Errorf("%s wants %s, %v", name, n.Annotations[v1alpha1.DesiredConfigAnnotation], err)
			}
		}
		return nil
	})
	s.finish("n0")
	s.finish("n1")
	s.kubectl("wait", "--for=condition=Updated", "mcp/worker", "--timeout=30s")
	s.push("no policy", "worker/10-motd.bu=good news", "master/10-motd.bu=hello", clusterFiles, workerPool)
	s.eventually("the policy goes with its file", func() error {
		if err := s.get("canary-first", &v1alpha1.RolloutPolicy{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	s.eventually("the events", func() error {
		var list eventsv1.EventList
		if err := s.admin.List(s.t.Context(), &list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "RolloutHalted" && strings.Contains(e.Note, "bad news") && strings.Contains(e.Note, first) {
				return nil
			}
		}
		return fmt.Errorf("no RolloutHalted that names node and commit")
	})
}

// jobEnds waits for the job of the gate, and lets it succeed.
func (s *stage) jobEnds() {
	s.t.Helper()
	s.eventually("the job of the gate", func() error {
		var jobs batchv1.JobList
		if err := s.admin.List(s.t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
			p := &mcfgv1.MachineConfigPool{}
			return fmt.Errorf("%d jobs, %v, %v; the pool says %+v", len(jobs.Items), err, s.get("worker", p),
				p.Status.Conditions)
		}
		job := &jobs.Items[0]
		now := metav1.Now()
		job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
		job.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
		}
		return s.admin.Status().Update(s.t.Context(), job)
	})
}

// oneTold waits until exactly one of the nodes is told something, and names it.
func (s *stage) oneTold() string {
	s.t.Helper()
	var told []string
	s.eventually("telling one node", func() error {
		if told = s.told("n0", "n1"); len(told) != 1 {
			return fmt.Errorf("told: %v", told)
		}
		return nil
	})
	return told[0]
}

func (s *stage) daemonSays(node, state, reason string) {
	s.t.Helper()
	edit(s, node, &corev1.Node{}, func(n *corev1.Node) {
		n.Annotations[v1alpha1.StateAnnotation], n.Annotations[v1alpha1.ReasonAnnotation] = state, reason
	})
}
