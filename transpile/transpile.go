package transpile

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/origin"
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

// maxRefusedWarnings is how many refused entries of a tree get a warning of their own.
const maxRefusedWarnings = 20

// Fragments turns a tree into fragments, cluster objects and a report. The same tree gives the same bytes. For many
// calls, use a Transpiler, which caches results.
func Fragments(tree source.Tree) Result {
	return new(Transpiler).Fragments(tree)
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

// fragmentsOf turns the files of a repository into a result. fragmentsOf uses and fills the cache of documents.
func fragmentsOf(repo repository, cache *Transpiler, stop *stopper, found *origin.Findings) Result {
	out := Result{Reads: map[string][]string{}}
	reportRefused(repo, found)
	out.Pools = findPools(repo, found)
	reads := map[string]bool{} // reads has the files that the pools were built from.
	for _, pool := range out.Pools {
		if stop.isStopped() {
			return Result{}
		}
		built := cache.buildPool(repo, pool, stop)
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
		func() { cache.checkLargeFiles(out.Fragments, found) },
		func() { cache.checkImages(out.Fragments, found) },
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

// inOrder returns the fragments sorted by pool, then name.
func inOrder(fragments []Fragment) []Fragment {
	slices.SortStableFunc(fragments, func(a, b Fragment) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name))
	})
	return fragments
}

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

// reportRefused reports the entries that are not in the tree. A refused entry that Bunsen would read by its place is an
// error, because a document would be missing silently: an object of cluster/, the directory of a pool, its documents,
// its directory nodes/ and the directories there. Elsewhere, it is a warning, because a document that refers to it has
// an error of its own.
func reportRefused(repo repository, found *origin.Findings) {
	rest := 0
	for _, e := range repo.tree.Refused {
		at := origin.Pos{File: e.Path}
		names := strings.Split(e.Path, "/")
		isBelow := names[0] == poolsDir || names[0] == cluster.Dir
		isNodes := names[0] == poolsDir && len(names) <= 4 && len(names) > 2 && names[2] == nodesDir
		switch {
		case isBelow && (len(names) == 1 || isDocument(e.Path)), len(names) == 2 && names[0] == poolsDir, isNodes:
			found.Errorf(at, "refused-entry", "%s: not read; put the file or directory itself here", e.Why)
		case rest < maxRefusedWarnings:
			rest++
			found.Warnf(at, "refused-entry", "%s: left out of the tree; nothing may refer to it", e.Why)
		default:
			rest++
		}
	}
	if rest > maxRefusedWarnings {
		found.Warnf(origin.Pos{}, "refused-entry", "%d more entries are left out of the tree (symbolic links, "+
			"submodules, hostile names)", rest-maxRefusedWarnings)
	}
}

// checkNames refuses two fragments with one name: names of MachineConfigs are unique across pools.
func checkNames(fragments []Fragment, found *origin.Findings) {
	first := map[string]Fragment{}
	for _, f := range fragments {
		before, twice := first[f.Name]
		if !twice {
			first[f.Name] = f
			continue
		}
		found.Errorf(origin.Pos{File: f.File}, "duplicate-name", "the MachineConfig %s comes from %s and from %s; "+
			"rename one of the files", f.Name, before.File, f.File)
	}
}

// report sorts findings by file, line and column and drops repetitions.
func report(findings []origin.Finding) Report {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b origin.Finding) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Message, b.Message))
	})
	var out Report
	for _, f := range slices.Compact(sorted) {
		e := Entry{
			Severity: Fatal, Rule: f.Rule, Message: strings.TrimSpace(safetext.OneLine(f.Message)),
			File: f.At.File, Line: f.At.Line, Column: f.At.Column,
		}
		if f.Warning {
			e.Severity = Warning
		}
		out = append(out, e)
	}
	return out
}
