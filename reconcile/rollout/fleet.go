package rollout

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/reconcile/gate"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	lru "github.com/hashicorp/golang-lru/v2"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

const (
	// for more events before a pool is reconciled: thousands of nodes may report at the same time, and each
	// reconciliation may write the pool's status
	coalesce = 100 * time.Millisecond
	// A decision reads all nodes of its pool. The pause after it is so much longer than it, that the decisions about a
	// large pool take about a hundredth of a processor, and a node costs the same in each rollout.
	share = 100
	// the longest pause
	maxPause = 500 * time.Millisecond
)

// Fleet has all pools and nodes in their last state from the informers, with which it shares them: it does not change
// them. It is complete before the first decision, because a controller starts its workers after all its sources have
// delivered all objects.
type Fleet struct {
	mu          sync.Mutex
	nodes       fleetNodes
	pools       map[string]*mcfgv1.MachineConfigPool
	membership  membership.Pools
	dependsOn   map[string][]string     // pool → pools that its last decision depended on
	unavailable map[string]int          // pool → nodes that counted against its budget at its last decision
	gatesDue    map[string]gatesDue     // pool → gates that its last decision depended on
	decided     map[string]lastDecision // by pool
	written     pendingWrites
	// need no lock
	secrets *SecretRevisions
	// of rendered configs; needs no lock
	rendered
	// heartbeats from the last read
	daemons *health.Heartbeats
	// checks the objects of the sources; needs no lock
	revisions revision.PoolCheck
}

// rendered is about rendered configs: those of single nodes, and the content.
type rendered struct {
	configs NodeConfigStore
	files   RemoteFiles
}

// fleetNode is as the informer last showed it.
type fleetNode struct {
	object *corev1.Node
	// what decisions read, and the number of its changes
	read    poolstate.Node
	changes int
	// the primary one; empty for none
	pool string
	// of the health gates
	gates nodeGatesAnswer
}

func poolKey(name string) objectKey { return objectKey{pool: true, name: name} }

// NewFleet returns a Fleet without pools and nodes. heartbeats has the heartbeats of the daemons.
func NewFleet(heartbeats *health.Heartbeats) *Fleet {
	f := &Fleet{
		pools: map[string]*mcfgv1.MachineConfigPool{}, dependsOn: map[string][]string{}, unavailable: map[string]int{},
		gatesDue: map[string]gatesDue{}, decided: map[string]lastDecision{}, secrets: NewSecretRevisions(),
		written: newPendingWrites(), daemons: heartbeats,
	}
	f.files = newRemoteFiles(f.configs.recheck)
	return f
}

func newPendingWrites() pendingWrites {
	return pendingWrites{byObject: map[objectKey]pendingWrite{}, byPool: map[string]map[objectKey]bool{}}
}

// SecretRevisions returns the published revisions of secrets, by rendered config.
func (f *Fleet) SecretRevisions() map[string]v1alpha1.SecretsRevision {
	return f.secrets.Published().Revisions
}

// fleetNodes are sorted by name.
type fleetNodes []*fleetNode

// find returns the index, or where to insert the node.
func (list fleetNodes) find(name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(n *fleetNode, name string) int {
		return strings.Compare(n.read.Name, name)
	})
}

// named is nil if there is none.
func (list fleetNodes) named(name string) *fleetNode {
	if i, found := list.find(name); found {
		return list[i]
	}
	return nil
}

func (list fleetNodes) in(pool string) fleetNodes {
	var out fleetNodes
	for _, n := range list {
		if n.pool == pool {
			out = append(out, n)
		}
	}
	return out
}

// primaryPool is "" for a node without one, for example in two custom pools.
func primaryPool(pools membership.Pools, n *corev1.Node) string {
	primary, _, _ := pools.For(n.Name, n.Labels) // The error only explains why there is no primary pool.
	return primary
}

// PutNode stores a node, and returns the pools that have to be reconciled.
func (f *Fleet) PutNode(n *corev1.Node) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := objectKey{name: n.Name}
	waited := f.written.byObject[key].pool
	f.written.shown(key, n.ResourceVersion)
	i, found := f.nodes.find(n.Name)
	if !found {
		f.nodes = slices.Insert(f.nodes, i, &fleetNode{
			object: n, read: poolstate.ReadNode(n),
			pool: primaryPool(f.membership, n),
		})
		return f.affectedPools(waited, f.nodes[i].pool)
	}
	known, read := f.nodes[i], poolstate.ReadNode(n)
	known.object = n
	// Most events are heartbeats, which change nothing that decisions read.
	if reflect.DeepEqual(read, known.read) {
		return f.affectedPools(waited)
	}
	was := known.pool
	known.read, known.pool = read, primaryPool(f.membership, n)
	known.changes++
	return f.affectedPools(waited, was, known.pool)
}

// DropNode removes a deleted node.
func (f *Fleet) DropNode(n *corev1.Node) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := objectKey{name: n.Name}
	waited, was := f.written.byObject[key].pool, ""
	f.written.remove(key)
	if i, found := f.nodes.find(n.Name); found {
		was = f.nodes[i].pool
		f.nodes = slices.Delete(f.nodes, i, i+1)
	}
	return f.affectedPools(waited, was)
}

// PutPool stores a pool. It parses selectors only if one changed.
func (f *Fleet) PutPool(p *mcfgv1.MachineConfigPool) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written.shown(poolKey(p.Name), p.ResourceVersion)
	old := f.pools[p.Name]
	f.pools[p.Name] = p
	if old != nil && equality.Semantic.DeepEqual(old.Spec.NodeSelector, p.Spec.NodeSelector) {
		return f.affectedPools(p.Name)
	}
	return f.regroup(p.Name)
}

// DropPool removes a deleted pool.
func (f *Fleet) DropPool(p *mcfgv1.MachineConfigPool) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pools, p.Name)
	delete(f.dependsOn, p.Name)
	delete(f.unavailable, p.Name)
	delete(f.gatesDue, p.Name)
	delete(f.decided, p.Name)
	f.written.remove(poolKey(p.Name))
	return f.regroup(p.Name)
}

// regroup determines the pool of each node again after a pool has changed. If any has another one now, all pools are
// returned to be reconciled.
func (f *Fleet) regroup(changed string) []string {
	f.membership = membership.New(sortedPools(f.pools))
	moved := false
	for _, n := range f.nodes {
		was := n.pool
		n.pool = primaryPool(f.membership, n.object)
		moved = moved || was != n.pool
	}
	if moved {
		return slices.Collect(maps.Keys(f.pools))
	}
	return f.affectedPools(changed)
}

func sortedPools(pools map[string]*mcfgv1.MachineConfigPool) []*mcfgv1.MachineConfigPool {
	return slices.SortedFunc(maps.Values(pools), func(a, b *mcfgv1.MachineConfigPool) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// affectedPools adds all pools whose decisions depend on the given ones, each once.
func (f *Fleet) affectedPools(pools ...string) []string {
	var out []string
	add := func(p string) {
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, p := range pools {
		add(p)
	}
	for dependent, on := range f.dependsOn {
		if slices.ContainsFunc(pools, func(p string) bool { return p != "" && slices.Contains(on, p) }) {
			add(dependent)
		}
	}
	return out
}

// freedPools stores how many places of a budget a pool takes, and returns the other pools that depend on it if these
// are fewer now: no event reports that a gate opened, or that a node was Ready for long enough.
func (f *Fleet) freedPools(pool string, places int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.unavailable[pool]
	if f.unavailable[pool] = places; places >= was {
		return nil
	}
	return slices.DeleteFunc(f.affectedPools(pool), func(p string) bool { return p == pool })
}

// lastDecision is when a decision ended, and how long it took.
type lastDecision struct {
	at   time.Time
	took time.Duration
}

// setDecided stores when the last decision about a pool began and ended.
func (f *Fleet) setDecided(pool string, began, ended time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decided[pool] = lastDecision{ended, ended.Sub(began)}
}

// wait is how long a pool waits for more events after one.
func (f *Fleet) wait(pool string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.decided[pool]
	pause := min(share*d.took, maxPause) - now.Sub(d.at)
	return min(max(coalesce, pause), maxPause) // A clock that is set back lengthens no pause.
}

// addWrite stores a write for the decisions about a pool until the informer shows it, unless it already has, or the
// object was deleted: the Fleet does not have it then, because the controller writes only to objects that an informer
// has shown. before and after are resource versions. After a write without an answer, the pool waits until the informer
// shows the object, or the server says that it has not changed.
func (f *Fleet) addWrite(pool string, key objectKey, before, after string, failed error, now time.Time) {
	what := pendingWrite{pool: pool, version: after, sure: true, at: now}
	if failed != nil {
		if !fault.IsUnknown(fault.APIRequest(failed)) {
			return // Nothing was written.
		}
		what.version, what.sure = before, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var version string
	if n := f.nodes.named(key.name); n != nil && !key.pool {
		version = n.object.ResourceVersion
	}
	if p := f.pools[key.name]; p != nil && key.pool {
		version = p.ResourceVersion
	}
	if version == "" || what.shownBy(version) {
		return
	}
	f.written.add(key, what)
}

// gatesDue are what a decision depends on; zero for none.
type gatesDue struct {
	// the queries of the pool, and the jobs at the end of the step; the other fields identify step and rollout
	queries, jobs bool
	config        v1alpha1.ConfigVersion
	began         int64
	step          int
}

func (d gatesDue) answeredBy(asked gatesDue) bool {
	return (!d.queries || asked.queries) && (!d.jobs || d == asked)
}

// gateQuestion is about the gates that the last decision about a pool depended on.
func (f *Fleet) gateQuestion(facts poolstate.Facts, now time.Time) (q gate.Question, due gatesDue) {
	f.mu.Lock()
	due = f.gatesDue[facts.Pool]
	f.mu.Unlock()
	record := facts.Care.Record
	if due.jobs && (due.config != record.Target() || due.began != record.Began.Unix() || due.step != record.Steps) {
		due = gatesDue{queries: due.queries} // The jobs are due for another step or another rollout.
	}
	return gate.Question{
		Pool: facts.Pool, Config: record.Config, Began: record.Began.Time, Step: record.Steps, Due: due.jobs,
		RetryAt: facts.Care.RetryAt, Pace: facts.Care.Pace, Now: now,
	}, due
}

// NodeConfigStore has the configs of single nodes. The zero value is empty and ready for use by several goroutines.
type NodeConfigStore struct {
	mu    sync.Mutex
	known map[string]entry
	// the deleted and the forgotten configs, and how many these were when those of all nodes of a rendered config
	// existed
	dropped  int
	complete map[string]int
}

type entry struct {
	text    string
	configs v1alpha1.NodeConfigs
}

// Put stores the configs of the nodes that a rendered config of a pool names; none for an invalid annotation. It
// returns nil: no decision depends on it before the pool names the config.
func (s *NodeConfigStore) Put(mc *mcfgv1.MachineConfig) []string {
	text := mc.Annotations[v1alpha1.NodeConfigsAnnotation]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[mc.Name].text == text {
		return nil
	}
	configs, err := v1alpha1.ParseNodeConfigs(text)
	delete(s.complete, mc.Name)
	if err != nil || configs.IsZero() {
		delete(s.known, mc.Name)
		return nil
	}
	if s.known == nil {
		s.known = map[string]entry{}
	}
	s.known[mc.Name] = entry{text, configs}
	return nil
}

// Drop removes a deleted config.
func (s *NodeConfigStore) Drop(mc *mcfgv1.MachineConfig) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, mc.Name)
	delete(s.complete, mc.Name)
	s.dropped++
	return nil
}

// recheck lets Complete ask for all configs again.
func (s *NodeConfigStore) recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped++
}

// Complete reports whether the configs of all nodes of a rendered config exist. It asks for them again only after a
// config was deleted: thousands of nodes have as many, and each decision about the pool wants to know.
func (s *NodeConfigStore) Complete(config string, exists func(own string) (bool, error)) (bool, error) {
	s.mu.Lock()
	all, dropped := s.known[config].configs.All(), s.dropped
	at, known := s.complete[config]
	s.mu.Unlock()
	if known && at == dropped {
		return true, nil
	}
	for _, own := range all {
		if there, err := exists(own); err != nil || !there {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complete == nil {
		s.complete = map[string]int{}
	}
	s.complete[config] = dropped
	return true, nil
}

// Of returns the configs of the nodes for a rendered config of a pool; the zero value if all nodes run that config.
func (s *NodeConfigStore) Of(config string) v1alpha1.NodeConfigs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[config].configs
}

// All returns a rendered config of a pool and the configs of single nodes that belong to it; none for no config.
func (s *NodeConfigStore) All(name string) []string {
	if all := s.Of(name).All(); len(all) > 0 || name == "" {
		return all
	}
	return []string{name}
}

// maxConfigs limits the rendered configs in memory. A pool has at most about 3,000.
const maxConfigs = 10000

// RemoteFiles has the hashes of the remote files, and the OS images, of rendered configs. It is safe for use by several
// goroutines.
type RemoteFiles struct{ of *lru.Cache[string, []string] }

// newRemoteFiles calls forgotten when the files of a config are forgotten.
func newRemoteFiles(forgotten func()) RemoteFiles {
	// It fails only for a size below 1.
	of, _ := lru.NewWithEvict(maxConfigs, func(string, []string) { forgotten() })
	return RemoteFiles{of}
}

// Examine stores the remote files of a rendered config, which never change.
func (f RemoteFiles) Examine(mc *mcfgv1.MachineConfig) {
	if _, known := f.of.Get(mc.Name); !known {
		f.of.Add(mc.Name, hashesOf(mc))
	}
}

// hashesOf includes the OS image. A config that cannot be parsed has none, and daemons refuse it.
func hashesOf(mc *mcfgv1.MachineConfig) (hashes []string) {
	if image := machineconfig.PulledImage(mc.Spec.OSImageURL); image != "" {
		hashes = append(hashes, "image:"+image)
	}
	// Most configs have none, and parsing takes long.
	if !bytes.Contains(mc.Spec.Config.Raw, []byte(`"hash"`)) {
		return hashes
	}
	c, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return hashes
	}
	for _, r := range machineconfig.RemoteFiles(c) {
		hashes = append(hashes, r.Hash)
	}
	return hashes
}

// New reports whether a config of a pool has remote files that nodes with another one may lack. Both are given with
// their configs of single nodes: one of target has a file that not all of before have. A config that was not examined
// has none.
func (f RemoteFiles) New(target, before []string) bool {
	had := map[string]int{}
	for _, config := range before {
		hashes, _ := f.of.Get(config)
		for hash := range setOf(hashes) {
			had[hash]++
		}
	}
	for _, config := range target {
		hashes, _ := f.of.Get(config)
		for _, hash := range hashes {
			if had[hash] == 0 || had[hash] < len(before) {
				return true
			}
		}
	}
	return false
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}
