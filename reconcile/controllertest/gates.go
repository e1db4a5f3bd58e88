package controllertest

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/gate"
)

// DaemonSetPace returns a pace with a gate on the DaemonSet that the function DaemonSet returns.
func DaemonSetPace() schedule.Pace {
	return schedule.Pace{Gates: []v1alpha1.HealthGate{{
		Name:       "network",
		DaemonSets: []v1alpha1.ObjectName{{Namespace: "kube-system", Name: "cni"}},
	}}}
}

// DaemonSet returns the DaemonSet kube-system/cni with the given numbers of ready and desired pods.
func DaemonSet(ready, desired int32, change func(*corev1.PodSpec)) *appsv1.DaemonSet {
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

// GateNode returns a Node that has been Ready for the given duration.
func GateNode(ready time.Duration, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "uid of n1",
			Labels: map[string]string{"kubernetes.io/os": "linux", "rack": "7"},
		},
		Spec: corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(Noon.Add(-ready)),
			},
		}},
	}
}

// GatePod returns the pod on a node of the DaemonSet that the function DaemonSet returns.
func GatePod(name, node string, change func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: name, Labels: map[string]string{"app": "cni"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "cni", UID: "uid of cni", Controller: &yes},
			},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	if change != nil {
		change(p)
	}
	return p
}

// Ready makes a pod ready since Noon.
func Ready(p *corev1.Pod) { ReadySince(Noon)(p) }

// ReadySince makes a pod ready since a time.
func ReadySince(when time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(when),
		}}
	}
}

// Crashing makes a container of a pod crash.
func Crashing(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"},
	}}}
}

// CronJob returns a CronJob that health gates may run.
func CronJob() *batchv1.CronJob {
	yes := true
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "checks", Name: "smoke", UID: "uid of smoke",
			Labels: map[string]string{"bunsen.dev/gate": "true"},
		},
		Spec: batchv1.CronJobSpec{Schedule: "@yearly", Suspend: &yes, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{"team": "storage"},
				Annotations: map[string]string{"note": "mine"},
			},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:  corev1.RestartPolicyNever,
				InitContainers: []corev1.Container{{Name: "wait", Image: "example.com/wait"}},
				Containers: []corev1.Container{{
					Name: "smoke", Image: "example.com/smoke",
					Env: []corev1.EnvVar{
						{Name: "BUNSEN_POOL", Value: "mine"},
						{Name: "URL", Value: "http://$(BUNSEN_POOL)"},
					},
				}},
			}}},
		}},
	}
}

// JobQuestion returns a question with one gate, which runs the CronJob that the function CronJob returns.
func JobQuestion() gate.Question {
	return gate.Question{
		Pool: "worker", Config: "rendered-worker-1", Step: 1, Due: true,
		Pace: schedule.Pace{Gates: []v1alpha1.HealthGate{
			{Name: "smoke test", Job: &v1alpha1.JobGate{CronJob: v1alpha1.ObjectName{
				Namespace: "checks",
				Name:      "smoke",
			}}},
		}},
	}
}
