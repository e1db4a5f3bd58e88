package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// mostWithRepository is the growth with the repository up to which time is said to grow with the change instead.
const mostWithRepository = 0.5

// cell is a size of the repository and one of the change.
type cell [2]int

// grid is a table of repository sizes and change sizes.
type grid struct {
	title string
	table measure.Grid
	cpu   map[cell]time.Duration
	// missed are the cells that grow too much with the repository, one a line.
	missed string
}

func newGrid(title string) *grid {
	head := []string{"documents", "changed", "CPU", "wall", "growth with change", "growth with repository", "<goal", "<met", "runs"}
	return &grid{title: title, table: measure.Grid{Head: head}, cpu: map[cell]time.Duration{}}
}

// add adds a cell; smaller is the next smaller one on each axis.
func (g *grid) add(at, smaller cell, s measure.Sample) {
	g.cpu[at] = s.CPU
	repository := g.growth(cell{smaller[0], at[1]}, at, 0)
	met := "–"
	if !math.IsNaN(repository) {
		if met = "yes"; repository > mostWithRepository {
			met = "NO"
			g.missed += fmt.Sprintf("  %s, %d of %d documents changed: growth %.2f with the repository\n", g.title, at[1], at[0], repository)
		}
	}
	g.table.Add(fmt.Sprint(at[0]), fmt.Sprint(at[1]), measure.Duration(s.CPU), measure.Duration(s.Wall), measure.Power(g.growth(cell{at[0], smaller[1]}, at, 1)),
		measure.Power(repository), fmt.Sprintf("≤ %.2f", mostWithRepository), met, fmt.Sprint(s.Runs))
}

// growth is the exponent between two cells that differ on one axis; NaN where one of them is not there.
func (g *grid) growth(from, to cell, axis int) float64 {
	before, ok := g.cpu[from]
	if !ok || before <= 0 || from == to {
		return math.NaN()
	}
	return measure.Exponent(from[axis], to[axis], float64(before), float64(g.cpu[to]))
}

// grids print the two tables of repository sizes and change sizes, and return what misses a goal.
func (b *bench) grids(ctx context.Context, out io.Writer) (missed string, err error) {
	program, head := newGrid("The program, warm"), newGrid("The branch alone, with main in memory")
	for i, size := range b.sizes {
		repo, err := b.repository(ctx, size)
		if err != nil {
			return "", err
		}
		warm := b.folder("cache")
		if _, err := b.diff(ctx, repo, "main", warm); err != nil {
			return "", err
		}
		for j, n := range b.changesFor(size) {
			at, smaller := cell{size, n}, cell{size, n}
			if i > 0 {
				smaller[0] = b.sizes[i-1]
			}
			if j > 0 {
				smaller[1] = b.change[j-1]
			}
			both, err := b.limit.Together(
				func(run int) (measure.Sample, error) { return b.diff(ctx, repo, branch(n, run), warm) },
				func(run int) (measure.Sample, error) { return b.head(ctx, repo, branch(n, run)) },
			)
			if err != nil {
				return "", err
			}
			program.add(at, smaller, both[0])
			head.add(at, smaller, both[1])
		}
	}
	for _, g := range []*grid{program, head} {
		fmt.Fprintf(out, "\n%s: the size of the change against that of the repository\n", g.title)
		if err := g.table.Print(out); err != nil {
			return "", err
		}
	}
	return program.missed + head.missed, nil
}

// head is what a branch costs where main is known: transpiling, rendering, comparing and printing.
func (b *bench) head(ctx context.Context, repo, branch string) (measure.Sample, error) {
	whole, err := b.once(ctx, repo, branch, b.folder("shelf"))
	s := measure.Sample{Runs: 1}
	if err == nil {
		for _, part := range whole.Parts[ofBranch:] {
			s.Cost = s.Plus(part)
		}
	}
	return s, err
}
