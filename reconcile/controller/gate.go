package controller

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

	"github.com/bunsen-os/bunsen/policy/pace"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// How long answers count before somebody is asked again: a rollout looks far more often.
const (
	keepQuery     = 15 * time.Second
	keepDaemonSet = 5 * time.Second // from when it was read
	keepJob       = 5 * time.Second
)

// Gates asks the questions of a pool's health gates. Nothing of what it remembers is needed: a restart asks again, and
// finds the jobs that it made.
//
// Reads: DaemonSet, Pod, CronJob, Job, servers that speak Prometheus' HTTP API
// Writes: Job
type Gates struct {
	// Live reads past the cache: no controller keeps every pod and job of a cluster in memory.
	Live client.Reader
	// Client makes jobs.
	Client client.Client
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events

	daemonSets sync.Map // types.NamespacedName → *seenDaemonSet
	queries    sync.Map // question → queryAnswer
	jobs       sync.Map // types.NamespacedName → jobAnswer
}

// GateQuestion asks for the gates of a pool as a whole.
type GateQuestion struct {
	// Pool that rolls out Config, and the Step that is under way, counted from 0.
	Pool, Config string
	Step         int
	// Began is when the rollout did: a config that comes back later is asked about anew.
	Began time.Time
	// Due: the step's nodes are well, so that its jobs are run now.
	Due bool
	// RetryAt: a job that failed before this time is run once more; zero for none.
	RetryAt time.Time
	// Pace has the gates.
	Pace pace.Pace
	// Now is the time.
	Now time.Time
}

// verdict is the answer of one gate.
type verdict struct {
	open, failed bool
	why          string
}

// opens is the answer of a gate that holds nobody up.
func opens() verdict { return verdict{open: true} }

// waits is the answer of a gate that may open by itself.
func waits(format string, args ...any) verdict { return verdict{why: fmt.Sprintf(format, args...)} }

// Pool answers the job and prometheus gates, in the order of the pace. A job is asked, and made, only where the step is
// due; before that its gate is left out. What cannot be asked waits, and says why: the error is always nil as of now.
func (g *Gates) Pool(ctx context.Context, q GateQuestion) ([]rollout.Gate, error) {
	answers := make([]*verdict, len(q.Pace.Gates))
	var all sync.WaitGroup
	for i := range q.Pace.Gates {
		switch gate := &q.Pace.Gates[i]; {
		case gate.Prometheus != nil:
			all.Go(func() {
				v := g.query(ctx, *gate.Prometheus, q.Now)
				answers[i] = &v
			})
		case gate.Job != nil && q.Due:
			all.Go(func() {
				v := g.job(ctx, q, gate)
				answers[i] = &v
			})
		}
	}
	all.Wait()
	var out []rollout.Gate
	for i, a := range answers {
		if a == nil {
			continue
		}
		gate := rollout.Gate{Name: q.Pace.Gates[i].Name, Verdict: rollout.GateWaits, Why: a.why}
		switch {
		case a.open:
			gate.Verdict = rollout.GateOpen
		case a.failed:
			gate.Verdict = rollout.GateFailed
		}
		out = append(out, gate)
	}
	return out, nil
}

// Nodes says of each node why the gates that are asked of each node do not hold on it; empty: they do. How long a node has
// to be Ready is not asked here. It reads each DaemonSet and all of its pods at most once, however many nodes there are: at
// 5,000 nodes two requests per DaemonSet, the second of which the API server answers from its memory.
func (g *Gates) Nodes(ctx context.Context, nodes []*corev1.Node, p pace.Pace) []string {
	out, round := make([]string, len(nodes)), daemonSetRound{gates: g, now: g.Now(), seen: map[types.NamespacedName]*daemonSetView{}}
	for i, n := range nodes {
		var why []string
		for j := range p.Gates {
			for _, ds := range p.Gates[j].DaemonSets {
				if words := round.why(ctx, n, types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}); words != "" {
					why = append(why, fmt.Sprintf("gate %s: %s", cmp.Or(p.Gates[j].Name, "without a name"), words))
				}
			}
		}
		out[i] = strings.Join(why, "; ")
	}
	return out
}
