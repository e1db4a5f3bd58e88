package revisions

import (
	"maps"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// mostRounds is how often every controller looks at everything before the cluster has to be quiet.
const mostRounds = 12

// everything is all kinds, as bits.
const everything = 1<<8 - 1

// finish ends the disturbances, lets the controllers work until nothing moves, and checks what has to hold then.
func finish(w *world) {
	w.tell("the disturbances end")
	w.running.isFrozen = true
	for repo := range w.setup.Sources {
		if !isStuck(w, repo) {
			toggle(w, Git, repo, false)
			toggle(w, Suspend, repo, false)
		}
	}
	if w.remotes[1] != nil && w.setup.Stuck {
		toggle(w, Git, 1, true)
	}
	for round := 0; ; round++ {
		before := w.api.version
		lookAtAll(w, round)
		if w.broken != "" {
			return
		}
		if w.api.version == before && round > 1 {
			break
		}
		if round == mostRounds {
			w.fail(Quiet, "after %d rounds the controllers still write", mostRounds)
			return
		}
	}
	l := liveNow(w)
	for repo := range w.setup.Sources {
		if !isStuck(w, repo) {
			checkSource(w, repo, l)
		}
	}
	checkLeftovers(w, l)
	checkPools(w, l)
}

// isStuck reports whether the disturbances of a source do not end.
func isStuck(w *world, repo int) bool { return w.setup.Stuck && repo == 1 }

// lookAtAll lets every controller look at everything once.
func lookAtAll(w *world, number int) {
	pause := 11 * time.Minute // longer than any pause of the source controller
	if number > 0 {
		pause = 20 * time.Second
	}
	for repo := range w.setup.Sources {
		syncAll(w)
		reconcileSource(w, repo, pause, 1<<20)
	}
	for _, pool := range poolNames {
		syncAll(w)
		reconcileRender(w, pool, 0, 0)
	}
	for _, pool := range poolNames {
		syncAll(w)
		for w.broken == "" && rolloutOnce(w, pool, 0) {
			w.sync(theRollout, everything, -1)
		}
	}
}

func syncAll(w *world) {
	for who := range controllers {
		w.sync(who, everything, -1)
	}
}

// status of a GitSource on the server.
func (w *world) status(repo int) v1alpha1.GitSourceStatus {
	return w.api.objects[kindSource][sourceNames[repo]].(*v1alpha1.GitSource).Status
}

// isGood reports whether a tree can be applied as things are.
func isGood(w *world, repo, tree int, l *live) bool {
	if value(repo, tree, "flaw") != sound {
		return false
	}
	b, cluster := build(repo, tree), l.cluster()
	for _, pool := range b.needs {
		if _, exists := cluster[revision.Key(revision.KindMachineConfigPool, pool)]; !exists && b.pools[pool] == nil {
			return false
		}
	}
	return true
}

// checkSource checks that a source has its newest good revision, and its objects are whole.
func checkSource(w *world, repo int, l *live) {
	r, s := w.remotes[repo], w.status(repo)
	if len(r.trees) == 0 {
		return
	}
	last := len(r.trees) - 1
	if isGood(w, repo, r.trees[last], l) && s.AppliedRevision != r.revision(last) {
		w.fail(NewestApplied, "GitSource %s: applied is %s, the newest is commit %d: %v", sourceNames[repo],
			w.name(repo, s.AppliedRevision), last+1, messages(s))
	}
	if s.Applying != nil {
		w.fail(WholeObjects, "GitSource %s: %s is still being applied: %v", sourceNames[repo],
			w.name(repo, s.Applying.Revision), messages(s))
	}
	if all := revision.Differences(s.Inventory, l.owned(sourceNames[repo], &revision.Digests{})); len(all) > 0 {
		w.fail(WholeObjects, "GitSource %s: %s is not as %s has it: %v", sourceNames[repo], all[0],
			w.name(repo, s.AppliedRevision), messages(s))
	}
	if w.ledger.kept[repo] || s.AppliedRevision == "" {
		return
	}
	configs := build(repo, r.treeOf(s.AppliedRevision)).configs
	for i := range l.configs.Items {
		mc := &l.configs.Items[i]
		if mc.Labels[v1alpha1.SourceLabel] != sourceNames[repo] {
			continue
		}
		if _, has := configs[mc.Name]; !has {
			w.fail(NoLeftovers, "GitSource %s: MachineConfig %s is not of %s", sourceNames[repo], mc.Name,
				w.name(repo, s.AppliedRevision))
		}
	}
}

// messages of the conditions.
func messages(s v1alpha1.GitSourceStatus) []string {
	var out []string
	for _, c := range s.Conditions {
		out = append(out, c.Type+": "+c.Message)
	}
	return out
}

// isFedByStuck reports whether the stuck source has a say in a pool: nothing can be expected of the pool then.
func isFedByStuck(w *world, p *mcfgv1.MachineConfigPool, l *live) bool {
	if !w.setup.Stuck || w.setup.Sources < 2 {
		return false
	}
	selector, err := revision.Selector(p)
	if err != nil {
		return true
	}
	s := w.status(1)
	owned := l.owned(sourceNames[1], &revision.Digests{})
	if revision.Moving([]revision.State{{
		Source: w.api.objects[kindSource][sourceNames[1]].(*v1alpha1.GitSource),
		Live:   owned,
	}}) != "" {
		return true
	}
	entries := slices.Concat(s.Inventory, owned)
	if s.Applying != nil {
		entries = append(entries, s.Applying.Inventory...)
	}
	return slices.ContainsFunc(entries, func(e v1alpha1.InventoryEntry) bool {
		switch e.Kind {
		case revision.KindMachineConfig:
			return revision.Selects(selector, e.Role)
		case revision.KindMachineConfigPool:
			return e.Name == p.Name
		}
		return e.Kind != revision.KindDriftPolicy
	})
}

// checkPools checks that every pool has the config of the applied revisions, and each of its nodes has that.
func checkPools(w *world, l *live) {
	pair := [2]int{none, none}
	for repo := range w.setup.Sources {
		pair[repo] = w.remotes[repo].treeOf(w.status(repo).AppliedRevision)
	}
	var pools []*mcfgv1.MachineConfigPool
	for i := range l.pools.Items {
		pools = append(pools, &l.pools.Items[i])
	}
	members := membership.New(pools)
	for _, p := range pools {
		config := p.Spec.Configuration.Name
		mc, _ := w.api.objects[revision.KindMachineConfig][config].(*mcfgv1.MachineConfig)
		if isFedByStuck(w, p, l) {
			continue
		}
		if mc == nil {
			if !rendersTo(w, pair, p.Name, map[string]string{}) && !rendersTo(w, [2]int{none, none}, p.Name,
				map[string]string{}) {
				w.fail(NewestRuns, "pool %s has no config", p.Name)
			}
			continue
		}
		if !rendersTo(w, pair, p.Name, inputsOf(mc)) && !rendersTo(w, pair, p.Name, map[string]string{}) {
			w.fail(NewestRuns, "pool %s has %s, which is made of %s", p.Name, config, describeInputs(inputsOf(mc)))
		}
		for _, name := range w.api.objects[kindNode].sorted() {
			n := w.api.objects[kindNode][name].(*corev1.Node)
			primary, _, err := members.For(name, n.Labels)
			if err == nil && primary == p.Name && n.Annotations[v1alpha1.DesiredConfigAnnotation] != config {
				w.fail(NewestRuns, "%s of pool %s has %s, and not %s", name, p.Name,
					n.Annotations[v1alpha1.DesiredConfigAnnotation], config)
			}
		}
	}
}

// checkLeftovers checks the objects that no source owns.
func checkLeftovers(w *world, l *live) {
	wasOurs := slices.ContainsFunc(w.ledger.applied[0], func(tree int) bool {
		return tree != none && build(0, tree).pools["gpu"] != nil
	})
	if w.setup.Foreign && !wasOurs && !w.ledger.deleted {
		p, _ := w.api.objects[revision.KindMachineConfigPool]["gpu"].(*mcfgv1.MachineConfigPool)
		want := foreignPool()
		if p == nil || !maps.Equal(p.Labels, want.Labels) || !equality.Semantic.DeepEqual(p.Spec.NodeSelector,
			want.Spec.NodeSelector) ||
			!equality.Semantic.DeepEqual(p.Spec.MachineConfigSelector, want.Spec.MachineConfigSelector) {
			w.fail(HandedBack, "no applied revision has pool gpu, and it is %v", p)
		}
	}
	for _, key := range l.keys() {
		kind, name := revision.SplitKey(key)
		o := w.api.objects[kind][name]
		isExpected := name == "worker" || name == "master" || kind == revision.KindMachineConfiguration ||
			strings.HasPrefix(name, "rendered-") || w.setup.Foreign && name == "gpu"
		if o.GetLabels()[v1alpha1.SourceLabel] == "" && !isExpected {
			w.fail(NoLeftovers, "%s %s belongs to nobody", kind, name)
		}
	}
}
