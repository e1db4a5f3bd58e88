package controller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// poolLabel of a gate's job names the pool, beside v1alpha1.GateLabel and the labels of the CronJob's template.
const poolLabel = "bunsen.dev/pool"

// configAnnotation of a gate's job names the rendered config, which a label would be too short for.
const configAnnotation = "bunsen.dev/config"

// jobAnswer is what a job said last.
type jobAnswer struct {
	verdict   verdict
	nextAfter time.Time
}

// job answers a job gate: it makes the job that the step needs, unless it is there, and reads how it ended. The job is
// known by its name, so that a restarted controller finds it; one that somebody deleted is made again.
func (g *Gates) job(ctx context.Context, q GateQuestion, gate *v1alpha1.HealthGate) verdict {
	first := types.NamespacedName{Namespace: gate.Job.CronJob.Namespace, Name: jobName(q, gate, time.Time{})}
	if q.RetryAt.IsZero() {
		v, _ := g.attempt(ctx, q, gate, first)
		return v
	}
	again := types.NamespacedName{Namespace: first.Namespace, Name: jobName(q, gate, q.RetryAt)}
	if err := g.Live.Get(ctx, again, &batchv1.Job{}); err == nil {
		v, _ := g.attempt(ctx, q, gate, again)
		return v
	}
	v, ended := g.attempt(ctx, q, gate, first)
	if v.failed && !ended.After(q.RetryAt) {
		v, _ = g.attempt(ctx, q, gate, again)
	}
	return v
}

// attempt reads the job of that name, or makes it. ended is when it failed, where it did.
func (g *Gates) attempt(ctx context.Context, q GateQuestion, gate *v1alpha1.HealthGate, key types.NamespacedName) (v verdict, ended time.Time) {
	if a, ok := g.jobs.Load(key); ok && q.Now.Before(a.(jobAnswer).nextAfter) {
		return a.(jobAnswer).verdict, time.Time{}
	}
	job := &batchv1.Job{}
	switch err := g.Live.Get(ctx, key, job); {
	case err == nil:
		v, ended = judgeJob(job)
	case client.IgnoreNotFound(err) != nil:
		v = waits("job %s cannot be read: %v", key, err)
	default:
		v = g.start(ctx, q, gate, key)
	}
	if !v.open && !v.failed {
		g.jobs.Store(key, jobAnswer{v, q.Now.Add(keepJob)})
	} else {
		g.jobs.Delete(key) // a job's end is read each time: it is asked for once, and a retry needs its time
	}
	return v, ended
}

// start makes the job from its CronJob, as `kubectl create job --from` does. The CronJob has to say that gates may run it:
// else whoever may write RolloutPolicies, and nothing else, could run any CronJob of any namespace.
func (g *Gates) start(ctx context.Context, q GateQuestion, gate *v1alpha1.HealthGate, key types.NamespacedName) verdict {
	from := types.NamespacedName{Namespace: key.Namespace, Name: gate.Job.CronJob.Name}
	cron := &batchv1.CronJob{}
	if err := g.Live.Get(ctx, from, cron); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return waits("there is no CronJob %s: correct the gate in the RolloutPolicy, or make it", from)
		}
		return waits("CronJob %s cannot be read: %v", from, err)
	}
	if cron.Labels[v1alpha1.GateLabel] != "true" {
		return waits("CronJob %s does not let health gates run it: label it with %s=true, or correct the gate in the RolloutPolicy", from, v1alpha1.GateLabel)
	}
	job := jobFor(cron, key.Name, q, gate.Name)
	if err := g.Client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return waits("job %s cannot be made from CronJob %s: %v", key, from, err)
	}
	g.Events.Eventf(cron, job, corev1.EventTypeNormal, "GateJobStarted", "Rollout", "job %s asks for step %d of %s in pool %s", key, q.Step+1, q.Config, q.Pool)
	return waits("job %s runs", key)
}

// jobFor is the job that a CronJob describes, told what it is asked about. It belongs to the CronJob, whose history
// limits count for it.
func jobFor(cron *batchv1.CronJob, name string, q GateQuestion, gate string) *batchv1.Job {
	yes := true
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cron.Namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob", Name: cron.Name, UID: cron.UID, Controller: &yes,
			}},
		},
		Spec: template.Spec,
	}
	maps.Copy(job.Labels, template.Labels)
	maps.Copy(job.Annotations, template.Annotations)
	job.Labels[v1alpha1.GateLabel], job.Labels[poolLabel] = label(gate), label(q.Pool)
	job.Annotations["cronjob.kubernetes.io/instantiate"], job.Annotations[configAnnotation] = "manual", q.Config
	env := []corev1.EnvVar{
		{Name: "BUNSEN_POOL", Value: q.Pool}, {Name: "BUNSEN_CONFIG", Value: q.Config}, {Name: "BUNSEN_STEP", Value: strconv.Itoa(q.Step)},
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

// withEnv puts variables before those of a container, so that its others may refer to them.
func withEnv(have, add []corev1.EnvVar) []corev1.EnvVar {
	out := append([]corev1.EnvVar{}, add...)
	for _, e := range have {
		if !strings.HasPrefix(e.Name, "BUNSEN_") || e.Name != add[0].Name && e.Name != add[1].Name && e.Name != add[2].Name {
			out = append(out, e)
		}
	}
	return out
}

// judgeJob reads how a job ended; failed at is the time of its failure.
func judgeJob(job *batchv1.Job) (v verdict, failedAt time.Time) {
	name := job.Namespace + "/" + job.Name
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return opens(), time.Time{}
		case batchv1.JobFailed:
			why := clipLine(fmt.Sprintf("job %s failed: %s", name, cmp.Or(c.Reason, "no reason given")+after(": ", c.Message)))
			return verdict{failed: true, why: why}, c.LastTransitionTime.Time
		case batchv1.JobSuspended:
			return waits("job %s is suspended: the template of its CronJob, or somebody, says so", name), time.Time{}
		}
	}
	if n := job.Status.Failed; n > 0 {
		return waits("job %s runs, %d of its pods failed so far", name, n), time.Time{}
	}
	return waits("job %s runs", name), time.Time{}
}

// jobName is the same for the same question and attempt, and for no other; when the rollout began is part of it, since a
// config's name is a hash of its content, and comes back with it. A job's name is a label of its pods: at most
// 63 characters.
func jobName(q GateQuestion, gate *v1alpha1.HealthGate, attempt time.Time) string {
	text := strings.Join([]string{q.Pool, q.Config, q.Began.UTC().Format(time.RFC3339), strconv.Itoa(q.Step), gate.Name, gate.Job.CronJob.Name}, "\n")
	if !attempt.IsZero() {
		text += "\n" + attempt.UTC().Format(time.RFC3339)
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("bunsen-%s-%d-%s", dns(q.Pool, 36), q.Step, hex.EncodeToString(sum[:5]))
}

// dns is a text as part of a name: lower case letters, digits and dashes, at most that many.
func dns(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(clean[:min(len(clean), most)], "-")
}

// label is a text as the value of a label.
func label(text string) string { return dns(text, 63) }
