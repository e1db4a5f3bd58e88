package reconcile_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/reconcile/health"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/rollout"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

var (
	manyHistories = flag.Int("revisions.histories", 16, "how many random histories of repositories are played on "+
		"the real API server")
	oneHistory = flag.Int("revisions.seed", -1, "play the history of this seed alone, and print it")
)

// TestAssignedConfigsAreRevisions plays random histories of repositories on a real API server, with controllers that
// die and are refused between any two writes, and read from caches of different ages. Every config that a node is ever
// assigned is what some pushed revision renders to; and once the faults end, the newest good revision is in force.
//
// The histories are divided among several API servers, which nothing else uses at the same time.
func TestAssignedConfigsAreRevisions(t *testing.T) {
	first, last := 0, *manyHistories
	if *oneHistory >= 0 {
		first, last = *oneHistory, *oneHistory+1
	}
	for server := range min(historyServers, last-first) {
		t.Run(fmt.Sprintf("server %d", server), func(t *testing.T) {
			t.Parallel()
			playHistories(t, first+server, last)
		})
	}
}

// historyServers is how many API servers play histories at a time, with a controller each.
const historyServers = 2

// playHistories plays each history of the seeds first, first+historyServers and so on before last, on a server of its
// own. The server has no watch cache: with it, a list after a write waits up to 100 ms for the cache to be as new as
// the write.
func playHistories(t *testing.T, first, last int) {
	t.Helper()
	env, rc := startServer(t, map[string]string{"watch-cache": "false"})
	live, err := client.NewWithWatch(rc, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	total, played := tally{}, 0
	for seed := first; seed < last; seed += historyServers {
		h := newHistory(t, live, seed)
		h.play()
		h.end()
		total.add(h.tally)
		played++
		if *oneHistory >= 0 {
			t.Log(strings.Join(h.story, "\n"))
		}
		if t.Failed() {
			t.Fatalf("history %d; play it again with -revisions.seed=%d:\n%s", seed, seed, strings.Join(h.story, "\n"))
		}
		h.clean()
	}
	t.Logf("%d histories: %+v", played, total)
}

// tally says what histories were made of, so that a reader sees that they were not empty.
type tally struct{ Commits, Refused, Crashes, Edits, Assigned, Restored int }

func (t *tally) add(o tally) {
	a, b := reflect.ValueOf(t).Elem(), reflect.ValueOf(o)
	for i := range a.NumField() {
		a.Field(i).SetInt(a.Field(i).Int() + b.Field(i).Int())
	}
}

// repoModel is what a repository holds.
type repoModel struct {
	name string
	// documents by `pool/file`.
	documents map[string]string
	// pools: custom pools, each with what it selects and which nodes it takes.
	pools map[string]customPool
	// atMost is the maxUnavailable of the RolloutPolicy; 0: there is none.
	atMost int
	// broken: the newest document is no Butane.
	broken bool
}

type customPool struct{ inherits, byZone bool }

// files are the repository as a txtar archive.
func (m repoModel) files() string {
	var parts []string
	for _, name := range sortedKeys(m.documents) {
		parts = append(parts, name+"="+m.documents[name])
	}
	for _, name := range sortedKeys(m.pools) {
		p := m.pools[name]
		roles, nodes := name, "node-role.kubernetes.io/"+name+`: ""`
		if p.inherits {
			roles = "worker, " + name
		}
		if p.byZone {
			nodes = "zone: " + name
		}
		parts = append(parts, fmt.Sprintf(`-- cluster/%s.yaml --
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: %s}
spec:
  machineConfigSelector:
    matchExpressions: [{key: machineconfiguration.openshift.io/role, operator: In, values: [%s]}]
  nodeSelector:
    matchLabels: {%s}
`, name, name, roles, nodes))
	}
	if m.atMost > 0 {
		parts = append(parts, fmt.Sprintf("-- cluster/policy.yaml --\napiVersion: bunsen.dev/v1alpha1\n"+
			"kind: RolloutPolicy\nmetadata: {name: %s}\nspec: {maxUnavailable: %d}\n", m.name, m.atMost))
	}
	if m.broken {
		parts = append(parts, "-- pools/worker/99-broken.bu --\nvariant: fcos\nversion: 1.6.0\n"+
			"storage: {files: [{path: relative}]}\n")
	}
	return controllertest.Files(parts...)
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// pushed is a revision of a repository, and what it holds.
type pushed struct {
	revision string
	model    repoModel
	result   transpile.Result
	// refused: the API server does not take it.
	refused bool
}

// follower is one source: its repository, and what was pushed to it.
type follower struct {
	repo   *controllertest.Repository
	model  repoModel
	pushed []pushed
}

// history is one random history.
type history struct {
	t       *testing.T
	ctx     context.Context
	random  *rand.Rand
	cache   *lagging
	now     time.Time
	follows map[string]*follower
	story   []string
	tally   tally
	// allowed are the names of all configs that pushed revisions render to.
	allowed map[string]bool
	events  *controllertest.Events
	// rounds since the faults ended.
	rounds int
	crew
}

// crew are the controllers between two restarts.
type crew struct {
	source *gitsource.Controller
	render *render.Controller
	roll   *rollout.Controller
	shown  map[string]*corev1.Node
	pools  map[string]*mcfgv1.MachineConfigPool
}

func newHistory(t *testing.T, live client.WithWatch, seed int) *history {
	t.Helper()
	h := &history{
		t: t, ctx: t.Context(), random: rand.New(rand.NewPCG(uint64(seed), 20)), now: controllertest.Noon,
		allowed: map[string]bool{}, follows: map[string]*follower{},
	}
	h.cache = newLagging(live, h.random, h.assigned)
	live = h.cache.live
	names := []string{"os"}
	if h.random.IntN(3) == 0 {
		names = append(names, "extra")
	}
	for _, name := range names {
		h.follows[name] = &follower{
			repo: &controllertest.Repository{T: t, Trees: map[string]source.Tree{}},
			model: repoModel{
				name: name, documents: map[string]string{"worker/10-" + name + ".bu": "begin"},
				pools: map[string]customPool{},
			},
		}
		h.must(live.Create(h.ctx, &v1alpha1.GitSource{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.GitSourceSpec{URL: "https://git.example.com/" +
				name, Interval: metav1.Duration{Duration: 10 * time.Second}},
		}))
	}
	h.must(live.Create(h.ctx, controllertest.Pool("worker")))
	for i := range 3 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("node-%d", i),
			Labels: map[string]string{"node-role.kubernetes.io/worker": ""},
		}}
		h.must(live.Create(h.ctx, n))
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(controllertest.Noon.Add(-time.Hour)),
		}}
		h.must(live.Status().Update(h.ctx, n))
		h.daemon(n.Name)
	}
	h.restart()
	h.refreshAll()
	for _, name := range names {
		h.push(name)
	}
	return h
}

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) says(format string, args ...any) {
	h.story = append(h.story, fmt.Sprintf(format, args...))
}

// restart brings new controllers, which remember nothing.
func (h *history) restart() {
	h.cache.left = -1
	c, clock, silent := h.cache.client(), func() time.Time { return h.now }, &controllertest.Events{}
	h.events = silent
	live := client.Reader(h.cache.live)
	h.crew = crew{
		source: &gitsource.Controller{
			Client: c, Live: live, Applier: &gitsource.Applier{Client: c, Live: live, Now: clock, Events: silent},
			Transpiler: &transpile.Transpiler{},
			Namespace:  "bunsen-system", Now: clock, Events: silent,
			Open: func(spec v1alpha1.GitSourceSpec, _ source.Secrets) (gitsource.Repository, error) {
				return h.follows[strings.TrimPrefix(spec.URL, "https://git.example.com/")].repo, nil
			},
		},
		render: &render.Controller{
			Client: c, Renderer: &render.Renderer{}, Version: "v1", Now: clock,
			Events: silent,
		},
		roll: &rollout.Controller{
			Client: c, Live: live, Fleet: rollout.NewFleet(&health.Heartbeats{}), Now: clock,
			Events: silent, Writers: 1,
		},
		shown: map[string]*corev1.Node{}, pools: map[string]*mcfgv1.MachineConfigPool{},
	}
}

// assigned checks the invariant.
func (h *history) assigned(node, config string) {
	h.tally.Assigned++
	h.says("  %s is assigned %s", node, config)
	if config != "" && !h.allowed[config] {
		h.t.Errorf("%s is assigned %s, which no pushed revision renders to", node, config)
	}
}

// push commits what a repository's model holds. A revision that the API server refuses is none that nodes may run.
func (h *history) push(name string) {
	f := h.follows[name]
	h.tally.Commits++
	p := pushed{model: f.model.clone()}
	p.revision = f.repo.Push(fmt.Sprint("commit ", len(f.pushed)), f.model.files())
	p.result = (&transpile.Transpiler{}).Fragments(f.repo.Trees[f.repo.Head])
	p.refused = p.result.Report.Fatal()
	refusable := sortedKeys(p.model.documents)
	if kind := h.random.IntN(8); kind < 2 && !p.refused && len(f.pushed) > 0 {
		object := fragmentName(refusable[h.random.IntN(len(refusable))])
		if kind == 0 {
			h.cache.refusedAsked = object
		} else {
			h.cache.refusedTold = object
		}
		h.says("the API server refuses %s (asked: %t)", object, kind == 0)
		h.tally.Refused++
	}
	f.pushed = append(f.pushed, p)
	h.says("push to %s: %s\n%s", name, p.revision, indented(f.model.files()))
	h.allow(name)
}

// fragmentName is the MachineConfig of a document `pool/10-x.bu`.
func fragmentName(document string) string {
	dir, file, _ := strings.Cut(document, "/")
	number, rest, _ := strings.Cut(strings.TrimSuffix(file, ".bu"), "-")
	return number + "-" + dir + "-" + rest
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}

func (m repoModel) clone() repoModel {
	c := m
	c.documents, c.pools = map[string]string{}, map[string]customPool{}
	for k, v := range m.documents {
		c.documents[k] = v
	}
	for k, v := range m.pools {
		c.pools[k] = v
	}
	return c
}

// allow adds the names of the configs of a source's newest revision, and of its pairs with the revisions of the other
// source, one of which may have applied nothing yet.
func (h *history) allow(name string) {
	add := func(results ...transpile.Result) {
		all := transpile.Result{}
		for _, r := range results {
			all.Fragments, all.Cluster = append(all.Fragments, r.Fragments...), append(all.Cluster, r.Cluster...)
		}
		for _, pool := range []string{"worker", "gpu", "infra"} {
			if name := renderedName(pool, all); name != "" {
				h.allowed[name] = true
			}
		}
	}
	newest := h.follows[name].pushed[len(h.follows[name].pushed)-1]
	if newest.refused {
		return
	}
	add(newest.result)
	other := h.follows[map[string]string{"os": "extra", "extra": "os"}[name]]
	if other == nil {
		return
	}
	for _, p := range other.pushed {
		switch {
		case p.refused:
		case name == "os":
			add(newest.result, p.result)
		default:
			add(p.result, newest.result)
		}
	}
}

// renderedName is the config that a pool gets of a revision; empty for none.
func renderedName(pool string, of transpile.Result) string {
	selected, err := transpile.Select(of, pool)
	if err != nil || len(selected) == 0 {
		return ""
	}
	rendered, err := render.Merge(pool, transpile.MachineConfigs(selected), render.Defaults{})
	if err != nil {
		return ""
	}
	return rendered.Name
}

var errNoGit = errors.New("no route to host")
