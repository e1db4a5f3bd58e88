package revisions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// none is the tree before the first revision.
const none = -1

// ledger remembers what rules are about.
type ledger struct {
	// applied are the trees that were ever recorded as applied, none first.
	applied [2][]int
	// before are the objects that there were when the GitSource began to apply, and that were not its own.
	before [2]map[string]bool
	// kept: the GitSource did not always prune.
	kept [2]bool
	// deleted: a user has deleted pool gpu.
	deleted bool
	// assignments and restores are counted, for statistics.
	assignments, restores, applies int
}

func newLedger() ledger { return ledger{applied: [2][]int{{none}, {none}}} }

// record is the source controller's write of a GitSource's status.
func (w *world) record(s *session, src *v1alpha1.GitSource) error {
	next := src.DeepCopy()
	if w.core.Record != nil {
		w.core.Record(s, &next.Status)
	}
	next.Status.AppliedContent = cmp.Or(s.process.others[next.Status.AppliedContent], next.Status.AppliedContent)
	if a := next.Status.Applying; a != nil {
		a.Base = cmp.Or(s.process.others[a.Base], a.Base)
	}
	old, _ := w.api.objects[kindSource][src.Name].(*v1alpha1.GitSource)
	if err := w.api.updateStatus(next); err != nil {
		return err
	}
	src.ResourceVersion, src.Status = next.ResourceVersion, *next.Status.DeepCopy()
	repo := slices.Index(sourceNames[:], src.Name)
	r, now := w.remotes[repo], next.Status
	switch {
	case now.Applying == nil:
		w.ledger.before[repo] = nil
	case old.Status.Applying == nil:
		w.ledger.before[repo] = map[string]bool{}
		for _, key := range liveNow(w).keys() {
			kind, name := revision.SplitKey(key)
			w.ledger.before[repo][key] = w.api.objects[kind][name].GetLabels()[v1alpha1.SourceLabel] != src.Name
		}
	}
	if a := now.Applying; a != nil {
		w.tell("GitSource %s: applying %s", src.Name, w.name(repo, a.Revision))
		if tree := r.treeOf(a.Revision); tree >= 0 && slices.Contains([]int{dryPolicy, dryConfig},
			value(repo, tree, "flaw")) {
			w.fail(RefusedFirst, "GitSource %s begins to apply %s", src.Name, w.name(repo, a.Revision))
		}
	} else if old.Status.Applying != nil {
		w.tell("GitSource %s: applied is %s", src.Name, w.name(repo, now.AppliedRevision))
		w.ledger.restores++
	}
	if tree := r.treeOf(now.AppliedRevision); now.AppliedRevision != old.Status.AppliedRevision &&
		!slices.Contains(w.ledger.applied[repo], tree) {
		w.ledger.applied[repo] = append(w.ledger.applied[repo], tree)
	}
	if now.AppliedRevision != old.Status.AppliedRevision {
		w.ledger.applies++
	}
	return nil
}

// name of a revision in stories.
func (w *world) name(repo int, revision string) string {
	for i := range w.remotes[repo].trees {
		if w.remotes[repo].revision(i) == revision {
			return fmt.Sprintf("commit %d", i+1)
		}
	}
	return "nothing"
}

// liveNow are the objects on the server.
func liveNow(w *world) *live {
	l, _ := readLive(&session{w: &world{api: w.api}, process: &process{}}) // no read of a living process fails
	return l
}

// deletes is called before the source controller deletes an object.
func (w *world) deletes(kind, name string) {
	repo := w.running.active
	if repo < 0 || kind == kindContent {
		return
	}
	s := w.api.objects[kindSource][sourceNames[repo]].(*v1alpha1.GitSource).Status
	if a := s.Applying; a != nil && a.Revision == s.AppliedRevision && w.ledger.before[repo][revision.Key(kind, name)] {
		w.fail(KeptObjects, "restoring GitSource %s deletes %s %s, which was there before", sourceNames[repo], kind,
			name)
	}
}

// assigned is called when a node is assigned the config of a pool.
func (w *world) assigned(node *corev1.Node, pool, config string) {
	w.ledger.assignments++
	mc := w.api.objects[revision.KindMachineConfig][config].(*mcfgv1.MachineConfig)
	if mc == nil {
		w.fail(WholeRevision, "%s is assigned %s, which does not exist", node.Name, config)
		return
	}
	inputs := inputsOf(mc)
	isWhole, isOwn := false, false
	for _, a := range w.ledger.applied[0] {
		for _, b := range w.ledger.applied[1] {
			pair := [2]int{a, b}
			renders := rendersTo(w, pair, pool, inputs)
			isWhole = isWhole || renders
			// A pool that selects nothing any more keeps its config.
			if (renders || rendersTo(w, pair, pool, map[string]string{})) && isVisible(w, pair) {
				isOwn = isOwn || mayBeMember(w, pair, node, pool)
			}
		}
	}
	switch {
	case !isWhole:
		w.fail(WholeRevision, "%s of pool %s is assigned %s, made of %s; no applied revisions have just these",
			node.Name, pool, config, describeInputs(inputs))
	case !isOwn:
		w.fail(OwnPool, "%s, with labels %v, is assigned %s of pool %s", node.Name,
			slices.Sorted(maps.Keys(node.Labels)), config, pool)
	}
}

// isVisible reports whether the rollout controller may believe that these are the applied trees: it does not where one
// of them is none, and it has seen that a revision was applied.
func isVisible(w *world, pair [2]int) bool {
	for repo, tree := range pair[:w.setup.Sources] {
		src := w.running.caches[theRollout].objects[kindSource][sourceNames[repo]].(*v1alpha1.GitSource)
		if tree == none && src.Status.AppliedRevision != "" {
			return false
		}
	}
	return true
}

// inputsOf are the MachineConfigs that a rendered config was made of, name to digest.
func inputsOf(mc *mcfgv1.MachineConfig) map[string]string {
	out := map[string]string{}
	_ = json.Unmarshal([]byte(mc.Annotations[v1alpha1.InputsAnnotation]), &out)
	return out
}

func describeInputs(inputs map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		out = append(out, name+" "+nickname(inputs[name]))
	}
	return strings.Join(out, ", ")
}

// nickname is a digest as stories have it.
func nickname(digest string) string {
	return strings.TrimPrefix(digest, "sha256:")[:min(6, len(strings.TrimPrefix(digest, "sha256:")))]
}

// definitions of a pool that two trees may lead to; nil stands for none.
func definitions(w *world, pair [2]int, pool string) []*mcfgv1.MachineConfigPool {
	if pool == "worker" || pool == "master" {
		return []*mcfgv1.MachineConfigPool{newPool(pool, pool, map[string]string{rolePrefix + pool: ""})}
	}
	var out []*mcfgv1.MachineConfigPool
	for repo, tree := range pair {
		if tree != none && build(repo, tree).pools[pool] != nil {
			return []*mcfgv1.MachineConfigPool{build(repo, tree).pools[pool]}
		}
		for _, earlier := range w.ledger.applied[repo] {
			if w.ledger.kept[repo] && earlier != none && build(repo, earlier).pools[pool] != nil {
				out = append(out, build(repo, earlier).pools[pool])
			}
		}
	}
	if w.setup.Foreign && pool == "gpu" {
		out = append(out, foreignPool())
	}
	return append(out, nil)
}

// rendersTo reports whether two trees render to a config of a pool that is made of these inputs.
func rendersTo(w *world, pair [2]int, pool string, inputs map[string]string) bool {
	return slices.ContainsFunc(definitions(w, pair, pool), func(def *mcfgv1.MachineConfigPool) bool {
		return def != nil && selectsExactly(w, pair, def, inputs)
	})
}

// selectsExactly reports whether a pool selects exactly the inputs of the fragments of two trees. Of a source that does
// not always prune, fragments of earlier trees may be among them.
func selectsExactly(w *world, pair [2]int, def *mcfgv1.MachineConfigPool, inputs map[string]string) bool {
	selector, err := revision.Selector(def)
	if err != nil {
		return false
	}
	rest := maps.Clone(inputs)
	for repo, tree := range pair {
		if tree == none {
			continue
		}
		for name, c := range build(repo, tree).configs {
			if !revision.Selects(selector, c.role) {
				continue
			}
			if rest[name] != c.digest {
				return false
			}
			delete(rest, name)
		}
	}
	for name, digest := range rest {
		if !isKept(w, name, digest) {
			return false
		}
	}
	return true
}

// isKept reports whether a fragment may be left from an earlier tree of a source that does not always prune.
func isKept(w *world, name, digest string) bool {
	for repo, applied := range w.ledger.applied {
		for _, tree := range applied {
			if w.ledger.kept[repo] && tree != none && build(repo, tree).configs[name].digest == digest {
				return true
			}
		}
	}
	return false
}

// mayBeMember reports whether two trees may make a node a member of a pool.
func mayBeMember(w *world, pair [2]int, node *corev1.Node, pool string) bool {
	choices := make([][]*mcfgv1.MachineConfigPool, len(poolNames))
	for i, name := range poolNames {
		choices[i] = definitions(w, pair, name)
	}
	var try func(at int, chosen []*mcfgv1.MachineConfigPool) bool
	try = func(at int, chosen []*mcfgv1.MachineConfigPool) bool {
		if at == len(choices) {
			primary, _, err := membership.New(chosen).For(node.Name, node.Labels)
			return err == nil && primary == pool
		}
		for _, p := range choices[at] {
			next := chosen
			if p != nil {
				next = append(slices.Clone(chosen), p)
			}
			if try(at+1, next) {
				return true
			}
		}
		return false
	}
	return try(0, nil)
}
