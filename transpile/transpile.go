package transpile

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/origin"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// The directories of a repository that Bunsen reads.
const (
	poolsDir = "pools"
	// nodesDir is the directory of a pool with a directory for each node that has documents of its own. At the top of a
	// repository, Bunsen refuses it.
	nodesDir = "nodes"
)

// layout describes a repository, for messages.
const layout = "a repository has a directory for each pool (pools/worker/, pools/master/) with Butane documents " +
	"(*.bu) or a kustomization.yaml, and optionally cluster/ for MachineConfigPools"

// Fragments turns a tree into fragments, cluster objects and a report. The same tree gives the same bytes. For many
// calls, use a Transpiler, which caches results.
func Fragments(tree source.Tree) Result {
	return new(Transpiler).Fragments(tree)
}

// Transpiler runs Fragments with caches, by digest: of whole trees, of the fragments of single documents, and of what
// single files declare. A program that drops a Transpiler loses only the caches. The zero value of Transpiler is ready
// for use. Several goroutines may use one Transpiler. Results share memory: do not change them.
type Transpiler struct {
	// LargeFiles is true if machines can read files that are too large for a MachineConfig from the content store.
	// Otherwise such a file is an error. Set it before the first use.
	LargeFiles bool
	// ImagesByTag is true if images need no digest, as in a commit from before Bunsen required one. Set it before the
	// first use.
	ImagesByTag bool
	// Store has results of earlier processes; nil for none. Set it before the first use.
	Store Store
	// Keep reports whether a fragment may be in the Store, which outlives the repository; nil: each may.
	Keep func(Fragment) bool

	mu        sync.Mutex
	turn      int
	trees     map[string]treeEntry
	documents map[string]documentEntry
	declared  map[declaredKey]declaredEntry
	// declaredSize is the size of all files in declared, in bytes.
	declaredSize int
}

// Store stores results beyond the life of a process. It may forget any, and is used by several goroutines.
type Store interface {
	// Get returns the value that was put under a key, and whether there is one. Nobody changes it.
	Get(key string) ([]byte, bool)
	// Put stores a value under a key. The caller does not change it afterwards.
	Put(key string, value []byte)
}

// Fragments turns a tree into fragments, cluster objects and a report, as the function of that name does.
func (t *Transpiler) Fragments(tree source.Tree) Result {
	out, _ := t.FragmentsUntil(tree, nil) // There is no error, because a nil stop never ends the run.
	return out
}

// FragmentsUntil is Fragments, but ends early if stop returns an error. FragmentsUntil calls stop before each pool and
// each document. If stop returns an error, FragmentsUntil returns this error with an empty result, and does not cache
// the tree. If stop is nil, FragmentsUntil never ends early.
func (t *Transpiler) FragmentsUntil(tree source.Tree, stop func() error) (Result, error) {
	key := treeKey(tree)
	if hit, ok := t.tree(key); ok {
		return hit, nil
	}
	asked := &stopper{ask: stop}
	out := t.isolated(openRepository(tree), asked)
	if asked.err != nil {
		return Result{}, asked.err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trees == nil {
		t.trees = map[string]treeEntry{}
	}
	if key != "" {
		t.trees[key] = treeEntry{out, t.turn}
	}
	t.forget()
	return out, nil
}

// isolated calls fragments, and turns a panic into an error in the tree's report.
func (t *Transpiler) isolated(repo repository, stop *stopper) (out Result) {
	var found origin.Findings
	defer func() {
		if p := recover(); p != nil {
			found.Errorf(origin.Pos{}, "internal", "reading the repository: %v", fault.NewPanic(p))
			out = Result{Report: report(found.List)}
		}
	}()
	return t.fragments(repo, stop, &found)
}

// fragments turns the files of a repository into a result. It uses and fills the cache of documents.
func (t *Transpiler) fragments(repo repository, stop *stopper, found *origin.Findings) Result {
	out := Result{Reads: map[string][]string{}}
	reportRefused(repo, found)
	out.Pools = findPools(repo, found)
	reads := map[string]bool{} // reads has the files that the pools were built from.
	for _, pool := range out.Pools {
		if stop.isStopped() {
			return Result{}
		}
		built := t.buildPool(repo, pool, stop)
		out.Fragments = append(out.Fragments, built.fragments...)
		found.Add(built.findings...)
		own := map[string]bool{}
		built.addReads(own)
		maps.Copy(reads, own)
		out.Reads[pool] = slices.Sorted(maps.Keys(own))
	}
	for _, step := range []func(){
		func() { checkNodesDirectory(repo, reads, found) },
		func() { warnUnusedFiles(repo, reads, found) },
		func() { out.Cluster = cluster.Read(repo.fs, out.Pools, stop.isStopped, found) },
		func() { checkNames(out.Fragments, found) },
		func() { checkNodesOnce(out.Fragments, found) },
		func() { checkPools(repo, out, found) },
		func() { t.checkLargeFiles(out.Fragments, found) },
		func() { t.checkImages(out.Fragments, found) },
	} {
		if stop.isStopped() {
			return Result{}
		}
		step()
	}
	if out.Report = report(found.List); out.Report.Fatal() {
		out.Fragments, out.Cluster = nil, nil
		return out
	}
	out.Fragments = withFiles(inOrder(out.Fragments), repo.tree.FS)
	return out
}

// withFiles returns fragments whose large files are read from a tree. A cached fragment may be from another tree.
func withFiles(fragments []Fragment, files fs.FS) []Fragment {
	for i := range fragments {
		fragments[i].Contents = slices.Clone(fragments[i].Contents)
		for k := range fragments[i].Contents {
			fragments[i].Contents[k].FS = files
		}
		withFiles(fragments[i].Documents, files)
	}
	return fragments
}

// inOrder returns the fragments sorted by pool, then name.
func inOrder(fragments []Fragment) []Fragment {
	slices.SortStableFunc(fragments, func(a, b Fragment) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name))
	})
	return fragments
}

// openRepository prepares a tree for reading.
func openRepository(tree source.Tree) repository {
	refused := map[string]string{}
	for _, r := range tree.Refused {
		refused[r.Path] = r.Why
	}
	return repository{tree, cleanFS{tree.FS, refused, &sync.Map{}}, refused, map[string]includedFiles{}}
}

// stopper calls a function that decides whether to stop, until it returns an error.
type stopper struct {
	ask func() error
	err error
}

// isStopped reports whether the run must stop. After that, no one uses the result of the run.
func (s *stopper) isStopped() bool {
	if s.err == nil && s.ask != nil {
		s.err = s.ask()
	}
	return s.err != nil
}

// Result is the result of translating one tree.
type Result struct {
	// Pools are the pools that have a directory, in lexical order. Pools also contains pools without any fragment.
	Pools []string
	// Fragments are the fragments of all pools, ordered by pool, then name; nil if the report is fatal.
	Fragments []Fragment
	// Cluster has the objects of cluster/, ordered by kind, then name; nil if the report is fatal.
	Cluster []ClusterObject
	// Reads maps each pool that has a directory to the files that its fragments were built from, in lexical order and
	// relative to the source's path. The lists contain kustomization files, patches and the files that documents
	// include.
	Reads map[string][]string
	// Report has all errors and warnings.
	Report Report
}

// Fragment is one document of one pool as a MachineConfig, before rendering.
type Fragment struct {
	// Pool is the pool whose directory contains the document.
	Pool string
	// Name is the name of the MachineConfig, such as `10-worker-chrony`.
	Name string
	// MachineConfig is the object to apply. MachineConfig has only a name, the role label, the annotation for secret
	// paths and the spec. The Ignition config in the spec has version 3.5.0, in canonical JSON.
	MachineConfig *mcfgv1.MachineConfig
	// Digest is `sha256:<hex>` of the object's canonical JSON. The digest does not depend on the commit.
	Digest string
	// Contents are the files of the MachineConfig that are in the content store, because they are too large for the
	// object.
	Contents []machineconfig.LargeFile
	// File is the file that declares the document, relative to the source's path. Files other than File may have
	// patched the document.
	File string
	// Documents are the documents of single nodes that the fragment stores, with their origins. Nodes are the positions
	// of the nodes that it is about. Both are empty for other fragments.
	Documents []Fragment
	Nodes     map[string]origin.Pos
	// Node is the node that a document is for; empty for documents of all nodes with facts, and for other fragments.
	Node string
	// Origin maps each value of the fragment to its place in the repository.
	Origin origin.Map
}

// ClusterObject is one object of the repository's `cluster/` directory. The controller applies the object without
// changes.
type ClusterObject = cluster.Object

// ClusterDir is the directory of a repository that contains cluster objects.
const ClusterDir = cluster.Dir

// findPools returns the names of the pools' directories.
func findPools(repo repository, found *origin.Findings) []string {
	entries, err := fs.ReadDir(repo.fs, poolsDir)
	if err != nil {
		found.Errorf(origin.Pos{}, "no-pools", "there is no directory %s/ here: %s", poolsDir, layout)
		return nil
	}
	var pools []string
	for _, e := range entries {
		name := e.Name()
		at := origin.Pos{File: poolsDir + "/" + name}
		switch {
		case strings.HasPrefix(name, "."):
		case !e.IsDir():
			found.Warnf(at, cluster.UnusedFile, "not read: only directories below %s/ are pools; move it into one",
				poolsDir)
		case len(validation.IsDNS1123Label(name)) > 0:
			found.Errorf(at, "pool-name", "%q is no name for a pool: use lower-case letters, digits and -", name)
		default:
			pools = append(pools, name)
		}
	}
	if len(pools) == 0 && !found.HasErrors() {
		found.Errorf(origin.Pos{File: poolsDir}, "no-pools", "%s/ has no pool in it: %s", poolsDir, layout)
	}
	return pools
}
