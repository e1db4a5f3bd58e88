package revisions

import (
	"context"
	"errors"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"

	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/render"

	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/source"
)

// Setup is what a history begins with.
type Setup struct {
	// Sources is how many GitSources there are: 1 or 2.
	Sources int
	// Nodes are the labels of the nodes, as numbers of nodeLabels.
	Nodes []int
	// Foreign: a user has made pool gpu.
	Foreign bool
	// Stuck: the objects of the second GitSource stay as they are when the disturbances end, for the API server refuses
	// every write.
	Stuck bool
}

// nodeLabels are the roles that a node may have besides worker.
var nodeLabels = []string{"", "gpu", "infra", "accelerator"}

// poolNames are the pools that steps number.
var poolNames = []string{"worker", "gpu", "infra", "accel", "master"}

// rolePrefix is what the label of a node's role begins with.
const rolePrefix = "node-role.kubernetes.io/"

// noon is when every history begins.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// world is a cluster, its repositories, and all that a rule needs to know.
type world struct {
	setup   Setup
	core    Core
	now     time.Time
	api     *server
	remotes [2]*remote
	running running
	player  player
	ledger  ledger
	tale    tale
	broken  Rule
	how     string
}

// running are the controllers since their last start.
type running struct {
	process *process
	caches  [controllers]*cache
	source  *gitsource.Controller
	render  *render.Controller
	digests *revision.Digests
	active  int // the GitSource that is being reconciled; negative is none
	// overtaken is closed when a push overtakes the commit that is applied; nil while none is applied.
	overtaken chan struct{}
	isFrozen  bool
}

// remote is a repository.
type remote struct {
	w    *world
	repo int
	away bool
	// trees are its commits.
	trees []int
}

// errAway is what a remote answers that is away.
var errAway = errors.New("no route to host")

// hash of a commit.
func (r *remote) hash(commit int) string { return fmt.Sprintf("%039x%d", commit+1, r.repo) }

// revision of a commit.
func (r *remote) revision(commit int) string { return "main@sha1:" + r.hash(commit) }

// treeOf is the tree of a revision; negative where there is none.
func (r *remote) treeOf(revision string) int {
	for i, tree := range r.trees {
		if r.revision(i) == revision {
			return tree
		}
	}
	return none
}

// List returns the refs.
func (r *remote) List(_ context.Context, poll source.Poll) (source.Listing, error) {
	if r.away || len(r.trees) == 0 {
		return source.Listing{}, errAway
	}
	head := r.hash(len(r.trees) - 1)
	return source.Listing{At: poll.Now, Refs: []source.Ref{
		{Name: "HEAD", Hash: head, Target: "refs/heads/main"}, {Name: "refs/heads/main", Hash: head},
	}}, nil
}

// Tree returns the files of a commit, and hands their transpiled form to the source controller.
func (r *remote) Tree(_ context.Context, p source.Picked) (source.Tree, error) {
	if r.away {
		return source.Tree{}, errAway
	}
	for i, tree := range r.trees {
		if r.hash(i) != p.Hash {
			continue
		}
		b := build(r.repo, tree)
		r.w.running.source.Transpiler = b.transpiler
		out := b.tree
		out.Commit = source.Commit{
			Ref: p.Ref, Hash: p.Hash, Subject: fmt.Sprintf("commit %d", i),
			Author: "Ada <ada@example.com>", Time: noon.Add(time.Duration(i) * time.Minute),
		}
		return out, nil
	}
	return source.Tree{}, errors.New("no such commit")
}

// Evidence says nothing about the history.
func (r *remote) Evidence(context.Context, source.Picked) (source.Evidence, error) {
	return source.Evidence{}, nil
}

// noEvents drops all events.
type noEvents struct{}

func (noEvents) Send(kube.Event) {}

// sourceNames of the GitSources.
var sourceNames = [2]string{"base", "extra"}

// newWorld sets a cluster up.
func newWorld(s Setup, core Core) *world {
	w := &world{setup: s, core: core, now: noon, api: newServer(), ledger: newLedger()}
	for i := range s.Sources {
		w.remotes[i] = &remote{w: w, repo: i}
		w.api.put(&v1alpha1.GitSource{
			ObjectMeta: metav1.ObjectMeta{Name: sourceNames[i]},
			Spec: v1alpha1.GitSourceSpec{
				URL: sourceNames[i], Interval: metav1.Duration{Duration: time.Minute},
				Prune: new(bool),
			},
		})
		setPrune(w, i, true)
	}
	for _, name := range []string{"master", "worker"} {
		w.api.put(newPool(name, name, map[string]string{rolePrefix + name: ""}))
	}
	if s.Foreign {
		w.api.put(foreignPool())
	}
	for i, label := range s.Nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   nodeName(i),
			Labels: map[string]string{rolePrefix + "worker": ""},
		}}
		if label > 0 {
			n.Labels[rolePrefix+nodeLabels[label]] = ""
		}
		w.api.put(n)
	}
	w.restart()
	return w
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func newPool(name, role string, nodes map[string]string) *mcfgv1.MachineConfigPool {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.RoleLabel: role}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: nodes}
	return p
}

// foreignPool is the pool gpu that a user has made.
func foreignPool() *mcfgv1.MachineConfigPool {
	p := newPool("gpu", "gpu", map[string]string{rolePrefix + "gpu": ""})
	p.Labels = map[string]string{"team": "gpu"}
	return p
}

// restart ends the controllers and starts them again.
func (w *world) restart() {
	if w.running.process != nil {
		w.running.process.dead = true
	}
	active := w.running.active
	if w.running.process == nil {
		active = -1
	}
	p := &process{fetched: map[string]string{}, others: map[string]string{}}
	w.running = running{process: p, digests: &revision.Digests{}, active: active}
	for i := range w.running.caches {
		w.running.caches[i] = newCache(w.api)
	}
	clock := func() time.Time { return w.now }
	cached, live := w.session(theSource), w.session(theSource)
	live.cache = nil
	w.running.source = &gitsource.Controller{
		Client: cached, Live: live, Namespace: "bunsen-system", Now: clock, Events: noEvents{},
		// One write at a time, so that a history can be played again.
		Applier: &gitsource.Applier{Client: cached, Live: live, Now: clock, Events: noEvents{}, Parallel: 1},
		Newer: func(*v1alpha1.GitSource) (<-chan struct{}, func()) {
			overtaken := make(chan struct{})
			w.running.overtaken = overtaken
			return overtaken, func() { w.running.overtaken = nil }
		},
		Open: func(spec v1alpha1.GitSourceSpec, _ source.Secrets) (gitsource.Repository, error) {
			if spec.URL == sourceNames[1] {
				return w.remotes[1], nil
			}
			return w.remotes[0], nil
		},
	}
	renderSession := w.session(theRender)
	renderSession.process = &process{fetched: map[string]string{}}
	w.running.render = &render.Controller{
		Client: renderSession, Renderer: &render.Renderer{}, Version: "v1",
		Now: clock, Events: noEvents{},
	}
}

// session is a client with the cache of a controller.
func (w *world) session(who controllerID) *session {
	return &session{w: w, who: who, cache: w.running.caches[who], process: w.running.process}
}

// tale is the story of a history.
type tale struct {
	isOn  bool
	lines []string
	// events counts what happened, also where nobody listens.
	events int
}

// tell adds a sentence to the story.
func (w *world) tell(format string, args ...any) {
	w.tale.events++
	if w.tale.isOn {
		w.tale.lines = append(w.tale.lines, w.now.Format("15:04:05")+"  "+fmt.Sprintf(format, args...))
	}
}
