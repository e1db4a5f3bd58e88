package transpile

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Directories of a repository that mean something; all others are the repository's own affair.
const (
	poolsDir   = "pools"
	clusterDir = "cluster"
	// nodesDir is refused: it is where a later version will read documents of single nodes.
	nodesDir = "nodes"
)

// layout is what a repository looks like, for whoever has another one.
const layout = "a repository has a directory pools/<pool>/ for each pool (pools/worker/, pools/master/) with Butane documents (*.bu) or a kustomization.yaml in it, and may have cluster/ for MachineConfigPools"

// unusedFile is the rule of files that nothing reads.
const unusedFile = "unused-file"

// maxRefusedWarnings is how many entries of a tree that nothing refers to are named one by one.
const maxRefusedWarnings = 20

// Fragments turns a tree into fragments, cluster objects and a report. The same tree gives the same bytes. To do it
// often, keep a Transpiler.
func Fragments(tree source.Tree) Result {
	return new(Transpiler).Fragments(tree)
}

// run is one pass over one tree.
type run struct {
	tree     source.Tree
	fs       fs.FS
	refused  map[string]string
	cache    *Transpiler
	digests  map[string]string
	taken    map[string]taken
	kept     []string        // keys of the pools' entries on the shelf
	reads    map[string]bool // files that the pools are made of
	findings []origin.Finding
	out      Result
	stop     func() error // see Transpiler.FragmentsUntil
	stopped  error        // what stop returned
}

// isStopped reports whether the run has to end. Its result is then not used.
func isStopped(r *run) bool {
	if r.stopped == nil && r.stop != nil {
		r.stopped = r.stop()
	}
	return r.stopped != nil
}

func (r *run) fatal(at origin.Pos, rule, format string, args ...any) {
	r.findings = append(r.findings, origin.Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: at})
}

func (r *run) warn(at origin.Pos, rule, format string, args ...any) {
	r.findings = append(r.findings, origin.Finding{Warning: true, Rule: rule, Message: fmt.Sprintf(format, args...), At: at})
}

func (r *run) do() Result {
	r.refusedEntries()
	pools := r.pools()
	for _, p := range pools {
		if isStopped(r) {
			return Result{}
		}
		r.pool(p)
	}
	for _, step := range []func(*run){overridesOfNodes, strays, (*run).cluster, (*run).names, (*run).inheritance} {
		if isStopped(r) {
			return Result{}
		}
		step(r)
	}
	r.out.Report = report(r.findings)
	if r.out.Report.Fatal() {
		r.out.Fragments, r.out.Cluster = nil, nil
		return r.out
	}
	r.out.Fragments = inOrder(r.out.Fragments)
	return r.out
}

// inOrder sorts fragments as a result has them.
func inOrder(fragments []Fragment) []Fragment {
	slices.SortStableFunc(fragments, func(a, b Fragment) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name))
	})
	return fragments
}

// pools lists the pools' directories.
func (r *run) pools() []string {
	entries, err := fs.ReadDir(r.fs, poolsDir)
	if err != nil {
		r.fatal(origin.Pos{}, "no-pools", "there is no directory %s/ here: %s", poolsDir, layout)
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		at := origin.Pos{File: poolsDir + "/" + name}
		switch {
		case strings.HasPrefix(name, "."):
		case !e.IsDir():
			r.warn(at, unusedFile, "not read: only directories below %s/ are pools; move it into one", poolsDir)
		case len(validation.IsDNS1123Label(name)) > 0:
			r.fatal(at, "pool-name", "%q is no name for a pool: use lower-case letters, digits and -", name)
		default:
			r.out.Pools = append(r.out.Pools, name)
		}
	}
	if len(r.out.Pools) == 0 && !origin.Fatal(r.findings) {
		r.fatal(origin.Pos{File: poolsDir}, "no-pools", "%s/ has no pool in it: %s", poolsDir, layout)
	}
	return r.out.Pools
}

// refusedEntries says what the tree left out. Below pools/ and cluster/ that is fatal, as a document would be missing
// in silence; elsewhere whatever refers to it says so at its line.
func (r *run) refusedEntries() {
	rest := 0
	for _, e := range r.tree.Refused {
		at := origin.Pos{File: e.Path}
		top, _, _ := strings.Cut(e.Path, "/")
		switch {
		case isDocument(e.Path) && (top == poolsDir || top == clusterDir) || strings.Count(e.Path, "/") == 1 && top == poolsDir || e.Path == poolsDir || e.Path == clusterDir:
			r.fatal(at, "refused-entry", "%s: not read; put the file or directory itself here", e.Why)
		case rest < maxRefusedWarnings:
			rest++
			r.warn(at, "refused-entry", "%s: left out of the tree; nothing may refer to it", e.Why)
		default:
			rest++
		}
	}
	if rest > maxRefusedWarnings {
		r.warn(origin.Pos{}, "refused-entry", "%d more entries are left out of the tree (symbolic links, submodules, hostile names)", rest-maxRefusedWarnings)
	}
}

// names finds fragments of one name: MachineConfigs have one name space for all pools.
func (r *run) names() {
	first := map[string]Fragment{}
	for _, f := range r.out.Fragments {
		before, twice := first[f.Name]
		if !twice {
			first[f.Name] = f
			continue
		}
		r.fatal(origin.Pos{File: f.File}, "duplicate-name", "the MachineConfig %s comes from %s and from %s; rename one of the files", f.Name, before.File, f.File)
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
		e := Entry{Severity: Fatal, Rule: f.Rule, Message: strings.TrimSpace(safetext.OneLine(f.Message)), File: f.At.File, Line: f.At.Line, Column: f.At.Column}
		if f.Warning {
			e.Severity = Warning
		}
		out = append(out, e)
	}
	return out
}
