package rollout

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// updatedTo counts the nodes that run a config, also those that failed another one.
func updatedTo(e evaluation, config string) int {
	count := 0
	for _, n := range e.Care.NodeConfigs.InTermsOf(e.Nodes, config) {
		if n.UpdatedTo(config) || n.Config.Current == config && n.Failing() {
			count++
		}
	}
	return count
}

// lastHealthy returns that of a record, or without one the config in use.
func lastHealthy(f poolstate.Facts, recorded string) string {
	if recorded != "" {
		return recorded
	}
	return configInUse(f)
}

// configInUse returns the config of a pool, other than its target, that most nodes run, or the first of them by name;
// empty if no node runs another. It replaces the last healthy config if no record names one, for example because the
// pool was deleted with its record.
func configInUse(f poolstate.Facts) string {
	runs := map[string]int{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		current := n.Config.Current
		if current == f.Target || !isConfigOf(current, f.Pool) || !f.Care.NodeConfigs.IsPools(current) {
			continue
		}
		// A node with another desired config counts: it got that while it ran its current one. Any other must be
		// healthy.
		if current != n.Config.Desired || n.State == v1alpha1.StateDone && n.Health.Trouble == "" {
			runs[current]++
		}
	}
	most := ""
	for config, n := range runs {
		if n > runs[most] || n == runs[most] && config < most {
			most = config
		}
	}
	return most
}

// isConfigOf reports whether a rendered config is the pool's, by its name. A node that has joined the pool may still
// run one of its earlier pool.
func isConfigOf(config, pool string) bool {
	hash, ok := strings.CutPrefix(v1alpha1.ConfigName(config), "rendered-"+pool+"-")
	return ok && hash != "" && !strings.Contains(hash, "-")
}

// mostOfOutcome limits a verdict's reason in the pool's history, in runes.
const mostOfOutcome = 200

// stamp has the precision of a record: whole seconds.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// stampUp rounds up to a whole second, so that no duration is too short.
func stampUp(t time.Time) *metav1.Time {
	up := stamp(t.Add(time.Second - 1))
	return &up
}
