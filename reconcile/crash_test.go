package reconcile_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/transpile"
)

// state is everything that may not depend on whether a controller died: what is on the cluster, apart from versions.
func (w *world) state() string {
	var b strings.Builder
	configs := w.Configs()
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		mc := configs[name]
		fmt.Fprintf(&b, "%s %v %v %s %v\n", name, mc.Labels, mc.Annotations, mc.Spec.Config.Raw,
			mc.Spec.KernelArguments)
	}
	for _, name := range []string{"infra", "master", "worker"} {
		p := &mcfgv1.MachineConfigPool{}
		if err := w.Admin.Get(w.T.Context(), controllertest.Request(name).NamespacedName, p); err == nil {
			fmt.Fprintf(&b, "pool %s %v %v %v\n", name, p.Labels, p.Annotations, p.Spec.Configuration)
		}
	}
	s := w.GitSource().Status
	fmt.Fprintf(&b, "source %s %v %s\n", s.AppliedRevision, s.Inventory, w.Condition("Ready"))
	return b.String()
}

// attempt lets both controllers look, and does not mind if they die of it.
func (w *world) attempt(pools ...string) {
	_, _ = w.source.Reconcile(w.T.Context(), controllertest.Request("os")) // dead controllers return errCrash
	for _, p := range pools {
		_, _ = w.render.Reconcile(w.T.Context(), controllertest.Request(p))
	}
}

// settle brings the controllers back and lets them look until nothing moves any more.
func (w *world) settle(pools ...string) string {
	w.T.Helper()
	w.restart()
	before := ""
	for range 6 {
		w.follow()
		for _, p := range pools {
			if _, err := w.render.Reconcile(w.T.Context(), controllertest.Request(p)); err != nil {
				w.T.Fatalf("rendering pool %s: %v", p, err)
			}
		}
		w.follow()
		if after := w.state(); after == before {
			return after
		} else {
			before = after
		}
	}
	w.T.Fatalf("still moving:\n%s", before)
	return ""
}

// commits of a small repository: contents change, a document comes and another goes, so does a pool.
var commits = []string{
	controllertest.Files("worker/10-motd.bu=one", "worker/20-issue.bu=one", "master/10-motd.bu=one", clusterFiles),
	controllertest.Files("worker/10-motd.bu=two", "worker/30-limits.bu=two", "master/10-motd.bu=two",
		"infra/10-gpu.bu=two", clusterFiles),
	controllertest.Files("worker/10-motd.bu=three", "worker/20-issue.bu=three", "master/10-motd.bu=three"),
}

// TestACrashAfterEveryWrite kills the controllers after each single write on the way from one commit to the next, lets
// a renderer that survived look at what is left, and starts new controllers: they end where living ones end, and no
// pool ever gets a config that no commit asks for.
func TestACrashAfterEveryWrite(t *testing.T) {
	shared := &transpile.Transpiler{}
	for from := range commits {
		to := (from + 1) % len(commits)
		t.Run(fmt.Sprintf("from commit %d to commit %d", from+1, to+1), func(t *testing.T) {
			at := func() *world {
				w := newWorld(t)
				w.transpiler = shared
				w.repo.Push("from", commits[from])
				w.settle("master", "worker", "infra")
				w.repo.Push("to", commits[to])
				w.tick()
				return w
			}
			calm := at()
			before := targets(calm)
			want := calm.settle("master", "worker", "infra")
			after := targets(calm)
			for k := 0; ; k++ {
				w := at()
				w.Writes.Left, w.Writes.Done = k, nil
				w.attempt("worker", "master", "infra")
				if w.Writes.Left > 0 {
					if k < 6 {
						t.Fatalf("only %d writes: %v", k, w.Writes.Done)
					}
					return // lived through all of them
				}
				w.restart()
				for _, p := range []string{"worker", "master"} { // the source is not back yet
					if got := w.renderPool(p); got != before[p] && got != after[p] {
						t.Errorf("dead after %d writes (%s): pool %s gets %s, which neither commit asks for", k,
							w.Writes.Done[k-1], p, got)
					}
				}
				if diff := gocmp.Diff(want, w.settle("master", "worker", "infra")); diff != "" {
					t.Fatalf("dead after %d writes: another end (-want +got):\n%s", k, diff)
				}
			}
		})
	}
}

func targets(w *world) map[string]string {
	out := map[string]string{}
	for _, p := range []string{"worker", "master"} {
		out[p] = w.Pool(p).Spec.Configuration.Name
	}
	return out
}

// TestHalfACommitIsNeverRendered plays thousands of little things that happen in any order: commits, looks, deaths in
// the middle of an apply, edits and deletions by hand. Whatever pool is rendered, it is what one whole commit asks for.
func TestHalfACommitIsNeverRendered(t *testing.T) {
	whole := map[string]bool{"": true}
	for _, c := range commits {
		w := newWorld(t)
		w.repo.Push("alone", c)
		w.settle("master", "worker")
		for _, name := range targets(w) {
			whole[name] = true
		}
	}
	shared := &transpile.Transpiler{}
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t)
		w.transpiler = shared
		w.repo.Push("first", commits[0])
		var story []string
		for range 60 {
			story = append(story, w.something(rnd))
			for _, p := range []string{"worker", "master"} {
				if name := w.Pool(p).Spec.Configuration.Name; !whole[name] {
					t.Fatalf("seed %d: pool %s got %s after\n%s", seed, p, name, strings.Join(story, "\n"))
				}
			}
		}
	}
}

// something happens; it says what.
func (w *world) something(rnd *rand.Rand) string {
	pools := []string{"worker", "master"}
	switch n := rnd.IntN(10); {
	case n < 2:
		i := rnd.IntN(len(commits))
		w.repo.Push("next", commits[i])
		w.tick()
		return fmt.Sprintf("commit %d", i+1)
	case n == 2:
		w.repo.Push("oops", broken)
		w.tick()
		return "a broken commit"
	case n < 6:
		k := rnd.IntN(9)
		w.Writes.Left = k
		w.attempt(pools...)
		w.restart()
		return fmt.Sprintf("a death after %d writes", k)
	case n == 6:
		var mine []string
		for name, mc := range w.Configs() {
			if mc.Labels[v1alpha1.SourceLabel] != "" {
				mine = append(mine, name)
			}
		}
		if len(mine) == 0 {
			return "nothing"
		}
		slices.Sort(mine)
		name := mine[rnd.IntN(len(mine))]
		if rnd.IntN(2) == 0 {
			w.Remove(w.Config(name))
			return "deleted " + name
		}
		controllertest.Modify(w.Cluster, w.Config(name), func(mc *mcfgv1.MachineConfig) {
			mc.Spec.KernelArguments = []string{"quiet"}
		})
		return "edited " + name
	case n == 7:
		w.attempt(pools[rnd.IntN(2)])
		return "a look at all"
	default:
		p := pools[rnd.IntN(2)]
		_, _ = w.render.Reconcile(w.T.Context(), controllertest.Request(p))
		return "a look at pool " + p
	}
}
