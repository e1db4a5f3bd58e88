package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// mostWithRepository is the maximum growth with the repository. Up to this value, the time depends mostly on the
// change.
const mostWithRepository = 0.5

// cell is a size of the repository and a size of the change.
type cell [2]int

// grid is a table of repository sizes and change sizes.
type grid struct {
	title string
	table measure.Grid
	cpu   map[cell]time.Duration
	// figures are those of all cells.
	figures []measure.Figure
}

func newGrid(title string) *grid {
	head := []string{
		"documents", "changed", "CPU", "wall", "growth with change", "growth with repository", "runs",
	}
	return &grid{title: title, table: measure.Grid{Head: head}, cpu: map[cell]time.Duration{}}
}

// add adds a cell; smaller has the next smaller size on each axis.
func (g *grid) add(at, smaller cell, s measure.Sample) {
	g.cpu[at] = s.CPU
	repository := g.growth(cell{smaller[0], at[1]}, at, 0)
	f := measure.Figure{
		What: fmt.Sprintf("%s: %d changed", g.title, at[1]), Size: at[0], Of: "documents", Now: measure.Time(s.CPU),
		Goals: []measure.Bound{measure.GrowthAtMost(mostWithRepository)},
	}
	if !math.IsNaN(repository) {
		f.Growth = repository
	}
	g.figures = append(g.figures, f)
	g.table.Add(fmt.Sprint(at[0]), fmt.Sprint(at[1]), measure.Duration(s.CPU), measure.Duration(s.Wall),
		measure.Power(g.growth(cell{at[0], smaller[1]}, at, 1)),
		measure.Power(repository), fmt.Sprint(s.Runs))
}

// growth returns the exponent between two cells that differ on one axis; NaN if one of them is missing.
func (g *grid) growth(from, to cell, axis int) float64 {
	before, ok := g.cpu[from]
	if !ok || before <= 0 || from == to {
		return math.NaN()
	}
	return measure.Exponent(from[axis], to[axis], float64(before), float64(g.cpu[to]))
}

// grids prints the table of repository sizes and change sizes, and returns its figures.
func (b *bench) grids(ctx context.Context, out io.Writer) ([]measure.Figure, error) {
	g := newGrid("The branch alone, with main in memory")
	for i, size := range b.sizes {
		repo, err := b.repository(ctx, size)
		if err != nil {
			return nil, err
		}
		for j, n := range b.changesFor(size) {
			at, smaller := cell{size, n}, cell{size, n}
			if i > 0 {
				smaller[0] = b.sizes[i-1]
			}
			if j > 0 {
				smaller[1] = b.change[j-1]
			}
			s, err := b.limit.Median(func(run int) (measure.Sample, error) { return b.head(ctx, repo, branch(n, run)) })
			if err != nil {
				return nil, err
			}
			g.add(at, smaller, s)
		}
	}
	fmt.Fprintf(out, "\n%s: the size of the change against that of the repository\n", g.title)
	return g.figures, g.table.Print(out)
}

// head measures a branch if main is in the cache: transpile, render, compare and print.
func (b *bench) head(ctx context.Context, repo, branch string) (measure.Sample, error) {
	whole, err := b.once(ctx, repo, branch)
	s := measure.Sample{Runs: 1}
	if err == nil {
		for _, part := range whole.Parts[ofBranch:] {
			s.Cost = s.Plus(part)
		}
	}
	return s, err
}
