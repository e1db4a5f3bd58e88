package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// poolLabel is the label with the pool on a gate's job. The job also has v1alpha1.GateLabel and the labels of the
// CronJob's template.
const poolLabel = "bunsen.dev/pool"

// configAnnotation is the annotation with the rendered config on a gate's job. The config's name is too long for a
// label, so it is an annotation.
const configAnnotation = "bunsen.dev/config"

// NewJob returns the job that a CronJob describes, with the question in its environment. The CronJob owns the job, so
// the CronJob's history limits apply.
func NewJob(cron *batchv1.CronJob, name string, q Question, gate string) *batchv1.Job {
	yes := true
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cron.Namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob", Name: cron.Name, UID: cron.UID,
				Controller: &yes,
			}},
		},
		Spec: template.Spec,
	}
	maps.Copy(job.Labels, template.Labels)
	maps.Copy(job.Annotations, template.Annotations)
	job.Labels[v1alpha1.GateLabel], job.Labels[poolLabel] = label(gate), label(q.Pool)
	job.Annotations["cronjob.kubernetes.io/instantiate"], job.Annotations[configAnnotation] = "manual", q.Config
	env := []corev1.EnvVar{
		{Name: "BUNSEN_POOL", Value: q.Pool},
		{Name: "BUNSEN_CONFIG", Value: q.Config},
		{Name: "BUNSEN_STEP", Value: strconv.Itoa(q.Step)},
	}
	pod := &job.Spec.Template.Spec
	for i := range pod.InitContainers {
		pod.InitContainers[i].Env = withEnv(pod.InitContainers[i].Env, env)
	}
	for i := range pod.Containers {
		pod.Containers[i].Env = withEnv(pod.Containers[i].Env, env)
	}
	return job
}

// withEnv puts variables before those of a container, so that the container's other variables may refer to them.
func withEnv(have, add []corev1.EnvVar) []corev1.EnvVar {
	out := append([]corev1.EnvVar{}, add...)
	for _, e := range have {
		if !strings.HasPrefix(e.Name, "BUNSEN_") || e.Name != add[0].Name && e.Name != add[1].Name &&
			e.Name != add[2].Name {
			out = append(out, e)
		}
	}
	return out
}

// Job returns the result of a job. If the job failed, failedAt is the time of the failure.
func Job(job *batchv1.Job) (answer poolstate.Gate, failedAt time.Time) {
	name := job.Namespace + "/" + job.Name
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return Open(), time.Time{}
		case batchv1.JobFailed:
			why := poolstate.ShortLine(fmt.Sprintf("job %s failed: %s", name, cmp.Or(c.Reason, "no reason given")+
				prefixed(": ", c.Message)))
			return poolstate.Gate{Verdict: poolstate.GateFailed, Why: why}, c.LastTransitionTime.Time
		case batchv1.JobSuspended:
			return Waits("job %s is suspended: the template of its CronJob or a user suspended it", name), time.Time{}
		}
	}
	if n := job.Status.Failed; n > 0 {
		return Waits("job %s runs, %d of its pods failed so far", name, n), time.Time{}
	}
	return Waits("job %s runs", name), time.Time{}
}

// JobName returns a name that is unique for a question and an attempt. The name depends on the begin of the rollout,
// because a later rollout may have a config with the same name. A job's name is a label of its pods, so it has at most
// 63 characters.
func JobName(q Question, gate *v1alpha1.HealthGate, attempt time.Time) string {
	text := strings.Join([]string{
		q.Pool, q.Config, q.Began.UTC().Format(time.RFC3339), strconv.Itoa(q.Step), gate.Name,
		gate.Job.CronJob.Name,
	}, "\n")
	if !attempt.IsZero() {
		text += "\n" + attempt.UTC().Format(time.RFC3339)
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("bunsen-%s-%d-%s", dns(q.Pool, 36), q.Step, hex.EncodeToString(sum[:5]))
}

// dns converts a text to a part of an object's name: lower case letters, digits and dashes, with a maximum length.
func dns(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(clean[:min(len(clean), most)], "-")
}

// label converts a text to a valid value of a label.
func label(text string) string { return dns(text, 63) }
