package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// For which an answer is valid: the controller decides far more often than a gate needs to be evaluated.
const (
	queryValid     = 15 * time.Second
	daemonSetValid = 5 * time.Second // The time counts from the read of the DaemonSet.
	jobValid       = 5 * time.Second
)

type cachedAnswer struct {
	answer poolstate.Gate
	until  time.Time
}

// Evaluator evaluates the health gates of a pool. Everything is in memory: after a restart, it reads again, and finds
// the jobs that it created.
//
// Reads: DaemonSet, Pod, CronJob, Job, servers that speak Prometheus' HTTP API
// Writes: Job
type Evaluator struct {
	// Live keeps pods and jobs out of memory.
	Live client.Reader
	// for jobs
	Client client.Client
	Now    func() time.Time
	Events kube.Events

	daemonSets sync.Map // types.NamespacedName → *daemonSetReads
	queries    sync.Map // v1alpha1.PrometheusGate → cachedAnswer
	jobs       sync.Map // types.NamespacedName → cachedAnswer
}

// Pool evaluates the job and prometheus gates, in the order of the pace. A job gate is left out until the step is due,
// and its job created then. A gate that cannot be evaluated stays closed, with the reason.
func (g *Evaluator) Pool(ctx context.Context, q Question) []poolstate.Gate {
	answers := make([]poolstate.Gate, len(q.Pace.Gates))
	var all sync.WaitGroup
	for i := range q.Pace.Gates {
		switch health := &q.Pace.Gates[i]; {
		case health.Prometheus != nil:
			all.Go(func() { answers[i] = g.query(ctx, *health.Prometheus, q.Now) })
		case health.Job != nil && q.Due:
			all.Go(func() { answers[i] = g.job(ctx, q, health) })
		}
	}
	all.Wait()
	var out []poolstate.Gate
	for i, a := range answers {
		if a.Name = q.Pace.Gates[i].Name; a.Verdict != "" {
			out = append(out, a)
		}
	}
	return out
}

// Nodes returns for each node why its own gates are closed, or empty, without those that require a node to be Ready for
// a duration. It sends two requests per DaemonSet for any number of nodes: for the DaemonSet, and for its pods, which
// the API server answers from its cache.
func (g *Evaluator) Nodes(ctx context.Context, nodes []*corev1.Node, p schedule.Pace) []string {
	why, now := make([][]string, len(nodes)), g.Now()
	for _, health := range p.Gates {
		for _, ds := range health.DaemonSets {
			for i, closed := range g.daemonSet(ctx, types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}, nodes,
				now) {
				if closed != "" {
					why[i] = append(why[i], fmt.Sprintf("gate %s: %s", cmp.Or(health.Name, "without a name"), closed))
				}
			}
		}
	}
	out := make([]string, len(nodes))
	for i := range nodes {
		out[i] = strings.Join(why[i], "; ")
	}
	return out
}

// job answers a job gate: it creates the job that the step needs, unless it exists, and reads its result. The job's
// name follows from the question, so a restarted controller finds it. If a user deletes it, it is created again.
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

// attempt reads the job with a name, or creates it. ended is the time of a failure.
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

// start creates the job from its CronJob, as `kubectl create job --from` does. A label of the CronJob must allow that:
// otherwise, users with write access only to RolloutPolicies could run any CronJob of any namespace.
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

// daemonSetReads are the last reads of a DaemonSet and of its pods.
type daemonSetReads struct {
	mu sync.Mutex // One goroutine reads, and the other goroutines wait for the result.
	// nil if it could not be read; why is the reason
	set   *appsv1.DaemonSet
	why   string
	until time.Time
	// by node; nil if they could not be read, and podsWhy is the reason
	pods      map[string][]Pod
	podsWhy   string
	podsUntil time.Time
}

// daemonSet returns for each node why the DaemonSet's pod there is not ready; empty if it is, or if none is required.
func (g *Evaluator) daemonSet(ctx context.Context, key types.NamespacedName, nodes []*corev1.Node,
	now time.Time,
) []string {
	ds, why := g.readDaemonSet(ctx, key)
	if why != "" {
		return slices.Repeat([]string{why}, len(nodes))
	}
	var pods map[string][]Pod
	out := make([]string, len(nodes))
	for i, n := range nodes {
		if !NeedsPods(ds, n, now) {
			continue
		}
		if pods == nil && why == "" {
			pods, why = g.readPods(ctx, ds)
		}
		if out[i] = why; why == "" {
			out[i] = DaemonSet(ds, pods[n.Name], n, now)
		}
	}
	return out
}

// readDaemonSet reads again after some seconds. why is the reason of a failure.
func (g *Evaluator) readDaemonSet(ctx context.Context, key types.NamespacedName) (_ *appsv1.DaemonSet, why string) {
	reads := g.reads(key)
	reads.mu.Lock()
	defer reads.mu.Unlock()
	if g.Now().Before(reads.until) {
		return reads.set, reads.why
	}
	ds := &appsv1.DaemonSet{}
	reads.set, reads.why = nil, ""
	switch err := g.Live.Get(ctx, key, ds); {
	case err == nil:
		reads.set = ds
	case client.IgnoreNotFound(err) == nil:
		reads.why = fmt.Sprintf("there is no DaemonSet %s: correct the gate in the RolloutPolicy, or create it", key)
	default:
		reads.why = fmt.Sprintf("DaemonSet %s cannot be read: %v", key, err)
	}
	reads.until = g.Now().Add(daemonSetValid)
	return reads.set, reads.why
}

// readPods reads all pods of a DaemonSet again after some seconds. why is the reason of a failure.
func (g *Evaluator) readPods(ctx context.Context, ds *appsv1.DaemonSet) (_ map[string][]Pod, why string) {
	reads := g.reads(client.ObjectKeyFromObject(ds))
	reads.mu.Lock()
	defer reads.mu.Unlock()
	if g.Now().Before(reads.podsUntil) {
		return reads.pods, reads.podsWhy
	}
	reads.pods, reads.podsWhy = g.listPods(ctx, ds)
	reads.podsUntil = g.Now().Add(daemonSetValid)
	return reads.pods, reads.podsWhy
}

// listPods sends one request, which the API server answers from its cache.
func (g *Evaluator) listPods(ctx context.Context, ds *appsv1.DaemonSet) (_ map[string][]Pod, why string) {
	selector, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	if err != nil {
		return nil, fmt.Sprintf("the selector of DaemonSet %s/%s cannot be read: %v", ds.Namespace, ds.Name, err)
	}
	var pods corev1.PodList
	err = g.Live.List(ctx, &pods, client.InNamespace(ds.Namespace), client.MatchingLabelsSelector{Selector: selector},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	if err != nil {
		return nil, fmt.Sprintf("the pods of namespace %s cannot be read: %v", ds.Namespace, err)
	}
	return PodsByNode(ds, pods.Items), ""
}

func (g *Evaluator) reads(key types.NamespacedName) *daemonSetReads {
	reads, _ := g.daemonSets.LoadOrStore(key, &daemonSetReads{})
	return reads.(*daemonSetReads)
}
