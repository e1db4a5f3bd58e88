package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/transpile"
)

// play lets people, controllers and daemons act in random order, with faults.
func (h *history) play() {
	for range 24 + h.random.IntN(24) {
		h.now = h.now.Add(time.Duration(1+h.random.IntN(40)) * time.Second)
		switch n := h.random.IntN(20); {
		case n < 4:
			h.commit()
		case n < 10:
			h.lookAtSource()
		case n < 13:
			h.lookAtPools()
		case n < 15:
			h.lookAtRollouts()
		case n < 17:
			h.daemon(fmt.Sprintf("node-%d", h.random.IntN(3)))
		case n < 18:
			h.edit()
		case n < 19:
			h.relabel()
		default:
			h.weather()
		}
		for _, kind := range cachedKinds {
			if h.random.IntN(3) > 0 {
				h.must(h.cache.refresh(h.ctx, kind))
			}
		}
		if h.t.Failed() {
			return
		}
	}
}

// commit changes a repository, in one or several ways, and pushes.
func (h *history) commit() {
	name := h.anySource()
	f := h.follows[name]
	m := &f.model
	m.broken = false
	for range 1 + h.random.IntN(3) {
		switch h.random.IntN(9) {
		case 0, 1: // an overlay: every document changes
			for k := range m.documents {
				m.documents[k] = fmt.Sprintf("%d", h.random.IntN(5))
			}
		case 2:
			m.documents[fmt.Sprintf("worker/%d0-%s.bu", 1+h.random.IntN(3), name)] = fmt.Sprint(h.random.IntN(5))
		case 3:
			if keys := sortedKeys(m.documents); len(keys) > 1 {
				delete(m.documents, keys[h.random.IntN(len(keys))])
			}
		case 4:
			if name == "os" {
				pool := []string{"gpu", "infra"}[h.random.IntN(2)]
				m.pools[pool] = customPool{inherits: h.random.IntN(2) == 0, byZone: h.random.IntN(2) == 0}
				m.documents[pool+"/20-"+pool+".bu"] = fmt.Sprint(h.random.IntN(5))
			}
		case 5:
			for pool := range m.pools {
				delete(m.pools, pool)
				for k := range m.documents {
					if strings.HasPrefix(k, pool+"/") {
						delete(m.documents, k)
					}
				}
				break
			}
			if len(m.documents) == 0 {
				m.documents["worker/10-"+name+".bu"] = "begin"
			}
		case 6:
			m.atMost = h.random.IntN(4)
		case 7:
			*m = f.pushed[h.random.IntN(len(f.pushed))].model.clone() // a revert
		case 8:
			m.broken = h.random.IntN(3) == 0
		}
	}
	h.push(name)
}

func (h *history) anySource() string {
	names := sortedKeys(h.follows)
	return names[h.random.IntN(len(names))]
}

// lookAtSource lets the source controller look, and perhaps die of it.
func (h *history) lookAtSource() {
	name := h.anySource()
	h.cache.lost = []float64{0, 0, 0.1}[h.random.IntN(3)]
	if h.random.IntN(3) == 0 {
		h.cache.left = h.random.IntN(9)
	}
	_, err := h.source.Reconcile(h.ctx, controllertest.Request(name))
	h.cache.lost = 0
	h.says("look at source %s: %v", name, err)
	h.tally.Restored += strings.Count(strings.Join(h.events.Lines, "\n"), " Restored: ")
	h.events.Lines = nil
	if h.cache.left == 0 {
		h.tally.Crashes++
		h.says("the controllers die")
		h.restart()
	}
	h.cache.left = -1
}

func (h *history) lookAtPools() {
	for _, p := range shuffled(h.random, []string{"worker", "gpu", "infra"}) {
		_, err := h.render.Reconcile(h.ctx, controllertest.Request(p))
		h.says("render pool %s: %v", p, err)
	}
}

// lookAtRollouts shows the rollout controller what its informers have, and lets it look at every pool.
func (h *history) lookAtRollouts() {
	nodes, pools := cachedAs[*corev1.Node](h), cachedAs[*mcfgv1.MachineConfigPool](h)
	controllertest.SendChanges(h.pools, pools, h.roll.Fleet.PutPool, h.roll.Fleet.DropPool)
	controllertest.SendChanges(h.shown, nodes, h.roll.Fleet.PutNode, h.roll.Fleet.DropNode)
	for _, p := range shuffled(h.random, []string{"worker", "gpu", "infra"}) {
		res, err := h.roll.Reconcile(h.ctx, controllertest.Request(p))
		h.says("roll out pool %s: %v %v", p, res, err)
	}
}

// cachedAs are the objects of one type as the cache has them.
func cachedAs[T client.Object](h *history) []T {
	var out []T
	for _, objects := range h.cache.caches {
		for _, o := range objects {
			if typed, ok := o.(T); ok {
				out = append(out, typed)
			}
		}
	}
	return out
}

// daemon lets a node reach what it was assigned.
func (h *history) daemon(name string) {
	n := &corev1.Node{}
	h.must(h.cache.live.Get(h.ctx, client.ObjectKey{Name: name}, n))
	before := n.DeepCopy()
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.CurrentConfigAnnotation,
		n.Annotations[v1alpha1.DesiredConfigAnnotation])
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.StateAnnotation, v1alpha1.StateDone)
	if n.Annotations[v1alpha1.CurrentConfigAnnotation] == "" {
		delete(n.Annotations, v1alpha1.CurrentConfigAnnotation)
	}
	h.must(h.cache.live.Patch(h.ctx, n, client.MergeFrom(before)))
}

// relabel moves a node to another pool.
func (h *history) relabel() {
	n := &corev1.Node{}
	h.must(h.cache.live.Get(h.ctx, client.ObjectKey{Name: fmt.Sprintf("node-%d", h.random.IntN(3))}, n))
	before := n.DeepCopy()
	for _, p := range []string{"gpu", "infra"} {
		delete(n.Labels, "node-role.kubernetes.io/"+p)
	}
	delete(n.Labels, "zone")
	switch p := []string{"gpu", "infra", ""}[h.random.IntN(3)]; {
	case p == "":
	case h.random.IntN(2) == 0:
		n.Labels["zone"] = p
	default:
		n.Labels["node-role.kubernetes.io/"+p] = ""
	}
	h.must(h.cache.live.Patch(h.ctx, n, client.MergeFrom(before)))
	h.says("%s gets the labels %v", n.Name, n.Labels)
}

// edit changes or deletes an object of a source by hand.
func (h *history) edit() {
	var configs mcfgv1.MachineConfigList
	h.must(h.cache.live.List(h.ctx, &configs, client.HasLabels{v1alpha1.SourceLabel}))
	var pools mcfgv1.MachineConfigPoolList
	h.must(h.cache.live.List(h.ctx, &pools, client.HasLabels{v1alpha1.SourceLabel}))
	h.tally.Edits++
	switch n := h.random.IntN(4); {
	case n == 0 && len(configs.Items) > 0:
		mc := &configs.Items[h.random.IntN(len(configs.Items))]
		mc.Spec.KernelArguments = append(mc.Spec.KernelArguments, "edited")
		h.must(client.IgnoreNotFound(h.cache.live.Update(h.ctx, mc)))
		h.says("somebody edits MachineConfig %s", mc.Name)
	case n == 1 && len(configs.Items) > 0:
		mc := &configs.Items[h.random.IntN(len(configs.Items))]
		h.must(client.IgnoreNotFound(h.cache.live.Delete(h.ctx, mc)))
		h.says("somebody deletes MachineConfig %s", mc.Name)
	case n == 2 && len(pools.Items) > 0:
		p := &pools.Items[h.random.IntN(len(pools.Items))]
		p.Spec.MachineConfigSelector = &metav1.LabelSelector{
			MatchLabels: map[string]string{v1alpha1.RoleLabel: "worker"},
		}
		if h.random.IntN(2) == 0 {
			p.Spec.NodeSelector = &metav1.LabelSelector{
				MatchLabels: map[string]string{"node-role.kubernetes.io/worker": "", "zone": "gpu"},
			}
		}
		h.must(h.cache.live.Update(h.ctx, p))
		h.says("somebody edits pool %s", p.Name)
	case n == 3 && len(pools.Items) > 0:
		p := &pools.Items[h.random.IntN(len(pools.Items))]
		h.must(client.IgnoreNotFound(h.cache.live.Delete(h.ctx, p)))
		h.says("somebody deletes pool %s", p.Name)
	}
}

// weather lets git come and go, and the API server change its mind.
func (h *history) weather() {
	f := h.follows[h.anySource()]
	if f.repo.Down == nil && h.random.IntN(2) == 0 {
		f.repo.Down = errNoGit
	} else {
		f.repo.Down = nil
	}
	if h.random.IntN(2) == 0 {
		h.cache.refusedAsked, h.cache.refusedTold = "", ""
	}
	h.says("git is down: %v", f.repo.Down != nil)
}

func (h *history) refreshAll() {
	for _, kind := range cachedKinds {
		h.must(h.cache.refresh(h.ctx, kind))
	}
}

// end stops the faults, and checks that the newest good revisions come into force, whole.
func (h *history) end() {
	if h.t.Failed() {
		return
	}
	h.says("the faults end")
	h.cache.refusedAsked, h.cache.refusedTold, h.cache.lost = "", "", 0
	h.restart()
	for name, f := range h.follows {
		f.repo.Down = nil
		if f.model.broken {
			f.model.broken = false
			h.push(name)
			h.cache.refusedAsked, h.cache.refusedTold = "", ""
		}
	}
	for quiet := 0; quiet < 2; quiet++ {
		h.now = h.now.Add(time.Minute)
		before := h.cache.writes
		for name := range h.follows {
			h.refreshAll()
			if _, err := h.source.Reconcile(h.ctx, controllertest.Request(name)); err != nil &&
				!apierrors.IsConflict(err) {
				h.t.Errorf("looking at source %s: %v", name, err)
			}
		}
		h.refreshAll()
		h.lookAtPools()
		h.refreshAll()
		h.lookAtRollouts()
		for i := range 3 {
			h.daemon(fmt.Sprintf("node-%d", i))
		}
		if h.cache.writes != before {
			quiet = -1
		}
		if h.rounds++; h.rounds > 30 {
			h.t.Errorf("the controllers still write after %d rounds", h.rounds)
			return
		}
	}
	h.inForce()
}

// inForce checks the pools, the nodes and the sources at the end.
func (h *history) inForce() {
	newest := transpile.Result{}
	for name, f := range h.follows {
		last := f.pushed[len(f.pushed)-1]
		newest.Fragments, newest.Cluster = append(newest.Fragments, last.result.Fragments...),
			append(newest.Cluster, last.result.Cluster...)
		src := &v1alpha1.GitSource{}
		h.must(h.cache.live.Get(h.ctx, client.ObjectKey{Name: name}, src))
		if src.Status.AppliedRevision != last.revision || src.Status.Applying != nil {
			h.t.Errorf("GitSource %s is at %s, applying %v, and the newest revision is %s: %+v", name,
				src.Status.AppliedRevision, src.Status.Applying, last.revision, src.Status.Conditions)
		}
	}
	for _, p := range cachedAs[*mcfgv1.MachineConfigPool](h) {
		want := renderedName(p.Name, newest)
		if want != "" && p.Spec.Configuration.Name != want {
			h.t.Errorf("pool %s is at %s, want %s: %+v", p.Name, p.Spec.Configuration.Name, want, p.Status.Conditions)
		}
		if p.Name != "worker" && !slices.ContainsFunc(newest.Cluster, func(o transpile.ClusterObject) bool {
			return o.Object.GetName() == p.Name
		}) {
			h.t.Errorf("pool %s is still there, and no revision has it", p.Name)
		}
	}
}

func (h *history) clean() {
	for _, o := range []client.Object{
		&v1alpha1.GitSource{}, &mcfgv1.MachineConfig{}, &mcfgv1.MachineConfigPool{}, &operatorv1.MachineConfiguration{},
		&v1alpha1.DriftPolicy{},
		&v1alpha1.RolloutPolicy{}, &mcfgv1.PinnedImageSet{}, &v1alpha1.RevisionContent{}, &corev1.Node{},
	} {
		h.must(h.cache.live.DeleteAllOf(h.ctx, o))
	}
}
