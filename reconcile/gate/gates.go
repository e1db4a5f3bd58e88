package gate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/kube"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// The durations for which the answer of a gate is valid. Answers are cached because the controller decides far more
// often than a gate needs to be evaluated.
const (
	queryValid     = 15 * time.Second
	daemonSetValid = 5 * time.Second // The time counts from the read of the DaemonSet.
	jobValid       = 5 * time.Second
)

// cachedAnswer is an answer with the time at which it expires.
type cachedAnswer struct {
	answer poolstate.Gate
	until  time.Time
}

// Evaluator evaluates the health gates of a pool. Evaluator stores data only in memory: after a restart, it reads
// everything again, and finds the jobs that it created.
//
// Reads: DaemonSet, Pod, CronJob, Job, servers that speak Prometheus' HTTP API
// Writes: Job
type Evaluator struct {
	// Live reads from the API server, so that pods and jobs do not stay in memory.
	Live client.Reader
	// Client creates jobs.
	Client client.Client
	// Now is the clock.
	Now func() time.Time
	// Events creates events about jobs.
	Events kube.Events

	daemonSets sync.Map // types.NamespacedName → *daemonSetReads
	queries    sync.Map // v1alpha1.PrometheusGate → keptAnswer
	jobs       sync.Map // types.NamespacedName → keptAnswer
}

// Pool evaluates the job and prometheus gates, in the order of the pace. Pool creates and reads the job of a gate only
// if the step is due; before that, Pool omits the gate. A gate that cannot be evaluated stays closed, with the reason.
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

// Nodes returns for each node why its own gates are closed; empty if they are open. Nodes does not evaluate gates that
// require a node to be Ready for a duration. Nodes sends two requests per DaemonSet for any number of nodes: one for
// the DaemonSet, and one for its pods. The API server answers the request for the pods from its cache.
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
