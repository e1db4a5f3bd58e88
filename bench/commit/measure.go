package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

// The steps of the way, and the two states in which it is gone.
const (
	stepFetch = iota
	stepTranspile
	stepRender
	steps
)

const (
	cold    = "from nothing"
	changed = "one file changed"
)

// mostRuns is how often a row is repeated at most.
const mostRuns = 5

// cost is what something took. CPU is of the whole process, garbage collection included.
type cost struct {
	cpu, wall        time.Duration
	allocations, mem uint64
}

func (c cost) plus(d cost) cost {
	return cost{c.cpu + d.cpu, c.wall + d.wall, c.allocations + d.allocations, c.mem + d.mem}
}

// row is one line of the table: the run of median CPU of several.
type row struct {
	fragments int
	what      string
	steps     [steps]cost
	runs      int
}

func (r row) total() (sum cost) {
	for _, c := range r.steps {
		sum = sum.plus(c)
	}
	return sum
}

// bench measures in a directory of its own.
type bench struct {
	dir  string
	time time.Duration
	next int
}

// way is what the controller keeps between two commits.
type way struct {
	remote     *git.Remote
	transpiler transpile.Transpiler
	renderer   render.Renderer
}

// measure returns the rows of a corpus: cold, and after one changed file.
func (b *bench) measure(ctx context.Context, c corpus) ([]row, error) {
	repo, err := b.folder("repo")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(repo)
	if err := c.repository(ctx, repo, mostRuns); err != nil {
		return nil, err
	}
	first, err := b.repeat(func(int) ([steps]cost, error) {
		w, err := newWay(repo)
		if err != nil {
			return [steps]cost{}, err
		}
		return b.once(ctx, w, "main")
	})
	if err != nil {
		return nil, err
	}
	w, err := newWay(repo)
	if err != nil {
		return nil, err
	}
	if _, err := b.once(ctx, w, "main"); err != nil {
		return nil, err
	}
	second, err := b.repeat(func(run int) ([steps]cost, error) { return b.once(ctx, w, branch(run)) })
	first.fragments, first.what = c.fragments, cold
	second.fragments, second.what = c.fragments, changed
	return []row{first, second}, err
}

// repeat runs until the time is up or there are enough, and returns the run of median CPU.
func (b *bench) repeat(once func(run int) ([steps]cost, error)) (row, error) {
	var all []row
	begun := time.Now()
	for run := 0; run < mostRuns && (run == 0 || time.Since(begun) < b.time); run++ {
		costs, err := once(run)
		if err != nil {
			return row{}, err
		}
		all = append(all, row{steps: costs})
	}
	slices.SortFunc(all, func(x, y row) int { return cmp.Compare(x.total().cpu, y.total().cpu) })
	median := all[len(all)/2]
	median.runs = len(all)
	return median, nil
}

func newWay(repo string) (*way, error) {
	remote, err := git.New(git.Config{URL: repo})
	if err != nil {
		return nil, err
	}
	return &way{remote: remote}, nil
}

// once goes the whole way for a branch.
func (b *bench) once(ctx context.Context, w *way, branch string) (out [steps]cost, err error) {
	into, err := b.folder("tree")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(into)
	runtime.GC()
	var tree source.Tree
	if out[stepFetch], err = charge(func() (err error) {
		refs, err := w.remote.List(ctx)
		if err != nil {
			return err
		}
		picked, err := source.Pick(refs, v1alpha1.GitRef{Branch: branch})
		if err != nil {
			return err
		}
		tree, err = w.remote.Tree(ctx, picked, "", into)
		return err
	}); err != nil {
		return out, err
	}
	var result transpile.Result
	if out[stepTranspile], err = charge(func() error {
		if result = w.transpiler.Fragments(tree); result.Report.Fatal() {
			return fmt.Errorf("transpiling: %s", result.Report)
		}
		return nil
	}); err != nil {
		return out, err
	}
	out[stepRender], err = charge(func() error {
		for pool, mcs := range byPool(result) {
			if _, err := w.renderer.Merge(pool, mcs, render.Defaults{}); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// byPool sorts fragments as pool selectors would.
func byPool(result transpile.Result) map[string][]*mcfgv1.MachineConfig {
	out := map[string][]*mcfgv1.MachineConfig{}
	for _, f := range result.Fragments {
		out[f.Pool] = append(out[f.Pool], f.MachineConfig)
	}
	return out
}

// charge measures what do costs.
func charge(do func() error) (cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, wall := cpuTime(), time.Now()
	err := do()
	c := cost{cpu: cpuTime() - cpu, wall: time.Since(wall)}
	runtime.ReadMemStats(&after)
	c.allocations, c.mem = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return c, err
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (b *bench) folder(name string) (string, error) {
	b.next++
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, b.next))
	return dir, os.MkdirAll(dir, 0o755)
}
