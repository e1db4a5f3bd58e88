package gate

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// job answers a job gate: it creates the job that the step needs, unless it exists, and reads its result. The job's
// name follows from the question, so a restarted controller finds the job. If a user deletes the job, the controller
// creates it again.
func (g *Evaluator) job(ctx context.Context, q Question, health *v1alpha1.HealthGate) poolstate.Gate {
	first := types.NamespacedName{Namespace: health.Job.CronJob.Namespace, Name: JobName(q, health, time.Time{})}
	if q.RetryAt.IsZero() {
		v, _ := g.attempt(ctx, q, health, first)
		return v
	}
	again := types.NamespacedName{Namespace: first.Namespace, Name: JobName(q, health, q.RetryAt)}
	if err := g.Live.Get(ctx, again, &batchv1.Job{}); err == nil {
		v, _ := g.attempt(ctx, q, health, again)
		return v
	}
	v, ended := g.attempt(ctx, q, health, first)
	if v.Verdict == poolstate.GateFailed && !ended.After(q.RetryAt) {
		v, _ = g.attempt(ctx, q, health, again)
	}
	return v
}

// attempt reads the job with a name, or creates it. If the job failed, ended is the time of the failure.
func (g *Evaluator) attempt(ctx context.Context, q Question, health *v1alpha1.HealthGate,
	key types.NamespacedName,
) (v poolstate.Gate, ended time.Time) {
	if a, ok := g.jobs.Load(key); ok && q.Now.Before(a.(cachedAnswer).until) {
		return a.(cachedAnswer).answer, time.Time{}
	}
	job := &batchv1.Job{}
	switch err := g.Live.Get(ctx, key, job); {
	case err == nil:
		v, ended = Job(job)
	case client.IgnoreNotFound(err) != nil:
		v = Waits("job %s cannot be read: %v", key, err)
	default:
		v = g.start(ctx, q, health, key)
	}
	if v.Verdict == poolstate.GateWaits {
		g.jobs.Store(key, cachedAnswer{v, q.Now.Add(jobValid)})
	} else {
		g.jobs.Delete(key) // The result of an ended job is not cached, because a retry needs the time of the end.
	}
	return v, ended
}

// start creates the job from its CronJob, as `kubectl create job --from` does. A label of the CronJob must allow gates
// to run it. Otherwise, users with write access only to RolloutPolicies could run any CronJob of any namespace.
func (g *Evaluator) start(ctx context.Context, q Question, health *v1alpha1.HealthGate,
	key types.NamespacedName,
) poolstate.Gate {
	from := types.NamespacedName{Namespace: key.Namespace, Name: health.Job.CronJob.Name}
	cron := &batchv1.CronJob{}
	if err := g.Live.Get(ctx, from, cron); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return Waits("there is no CronJob %s: correct the gate in the RolloutPolicy, or create it", from)
		}
		return Waits("CronJob %s cannot be read: %v", from, err)
	}
	if cron.Labels[v1alpha1.GateLabel] != "true" {
		return Waits("CronJob %s does not let health gates run it: label it with %s=true, or correct the gate "+
			"in the RolloutPolicy", from, v1alpha1.GateLabel)
	}
	job := NewJob(cron, key.Name, q, health.Name)
	if err := g.Client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return Waits("job %s cannot be created from CronJob %s: %v", key, from, err)
	}
	g.Events.Send(kube.Event{
		Object: cron, Related: job, Reason: "GateJobStarted", Action: "Rollout",
		Note: fmt.Sprintf("job %s asks for step %d of %s in pool %s", key, q.Step+1, q.Config, q.Pool),
	})
	return Waits("job %s runs", key)
}
