package main

import (
	"fmt"
	"io"
	"math"
	"time"
)

const preface = `From a commit to rendered configs, in one process: list refs, fetch the commit, write its files (fetch), transpile, render.
CPU is user and system time of the process with its garbage collection, the median of up to 5 runs. Growth is the exponent
between this size and the one before: 1 is in step with the number of fragments, 2 is quadratic.
`

// peers are quoted, not measured here.
const peers = `
What others took for parts of this way, measured on the same kind of machine in November 2026; fragments of 4 files of 1–4 KiB:
  machine-config-operator, rendering alone       100 fragments: 360 ms CPU, 259 MB allocated; 1000: 15.9 s, 17.3 GB; growth 1.65
  … after one of them changed                    the same again: nothing is kept
  Butane as a library, transpiling alone         1000 documents: 2.3 s; its command, once for each document: 8.7 s; growth 1.0
  Flux source-controller, clone of a new commit  10,000 files: 1.27 s CPU
`

func printTable(out io.Writer, s shape, rows []row) {
	fmt.Fprintf(out, "\n%s: %s\n", s.name, s.explained)
	fmt.Fprintf(out, "%9s  %-17s %9s %9s %9s %9s %9s %11s %10s %7s %6s\n",
		"fragments", "", "CPU ms", "fetch", "transpile", "render", "wall ms", "allocations", "MB", "growth", "runs")
	for i, r := range rows {
		t := r.total()
		fmt.Fprintf(out, "%9d  %-17s %9s %9s %9s %9s %9s %11d %10.1f %7s %6d\n", r.fragments, r.what,
			ms(t.cpu), ms(r.steps[stepFetch].cpu), ms(r.steps[stepTranspile].cpu), ms(r.steps[stepRender].cpu), ms(t.wall),
			t.allocations, float64(t.mem)/1e6, growth(rows[:i], r), r.runs)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }

// growth is the exponent from the last smaller row of the same kind.
func growth(before []row, r row) string {
	for i := len(before) - 1; i >= 0; i-- {
		if b := before[i]; b.what == r.what && b.fragments < r.fragments && b.total().cpu > 0 {
			return fmt.Sprintf("%.2f", exponent(b.fragments, r.fragments, float64(b.total().cpu), float64(r.total().cpu)))
		}
	}
	return "–"
}

// exponent is x in cost ~ n^x.
func exponent(n1, n2 int, cost1, cost2 float64) float64 {
	return math.Log(cost2/cost1) / math.Log(float64(n2)/float64(n1))
}
