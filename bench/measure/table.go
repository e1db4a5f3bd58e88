package measure

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Row is one line of a table.
type Row struct {
	// What is measured. Rows with the same What have growing sizes.
	What string
	Size int
	Sample
	Goal Goal
	// Peers are the CPU times of others for the same task. Goal.Ratio is about the first one.
	Peers []Peer
}

// Table has rows with a title and explanations.
type Table struct {
	// Title is the heading, and Explained the text below it.
	Title, Explained string
	// Of is the unit of the sizes.
	Of string
	// Parts are the names of the shown parts of samples.
	Parts []string
	// Peak: memory is the maximum at one time, and not the sum of allocations.
	Peak bool
	Rows []Row
}

// Add adds a row.
func (t *Table) Add(r Row) { t.Rows = append(t.Rows, r) }

// Print writes the table in columns. Part columns are CPU time, as CPU is.
func (t *Table) Print(out io.Writer) error {
	mem := "MB"
	if t.Peak {
		mem = "peak MB"
	}
	head := append([]string{t.Of, "<", "CPU"}, t.Parts...)
	g := Grid{Head: append(head, "wall", mem, "growth", "<goal", "<met", "<peer", "runs")}
	for i, r := range t.Rows {
		growth := t.growth(i)
		cells := []string{fmt.Sprint(r.Size), r.What, Duration(r.CPU)}
		for p := range t.Parts {
			part := "–"
			if p < len(r.Parts) {
				part = Duration(r.Parts[p].CPU)
			}
			cells = append(cells, part)
		}
		goal, verdict := t.judge(i)
		g.Add(append(cells, Duration(r.Wall), fmt.Sprintf("%.1f", float64(r.Mem)/1e6), Power(growth),
			cmp.Or(goal, "–"), verdict, cmp.Or(r.peers(), "–"), fmt.Sprint(r.Runs))...)
	}
	if _, err := fmt.Fprintf(out, "\n%s", t.Title); err != nil {
		return err
	}
	if t.Explained != "" {
		fmt.Fprintf(out, ": %s", t.Explained)
	}
	fmt.Fprintln(out)
	return g.Print(out)
}

// peers returns the ratio to each peer, and the figure of that peer.
func (r Row) peers() string {
	var parts []string
	for _, p := range r.Peers {
		parts = append(parts, fmt.Sprintf("%s × %s (%s)", ratioText(r.CPU.Seconds()/p.Now.N), p.Name, p.Now))
	}
	return strings.Join(parts, ", ")
}

// smaller is the minimum ratio of two sizes between which growth is measured. A smaller ratio would give mostly noise.
const smaller = 4

// growth returns the exponent from the last row of the same kind that is small enough, or NaN.
func (t *Table) growth(i int) float64 {
	r := t.Rows[i]
	for _, b := range slices.Backward(t.Rows[:i]) {
		if b.What == r.What && b.Size > 0 && b.Size*smaller <= r.Size && b.CPU > 0 {
			return Exponent(b.Size, r.Size, float64(b.CPU), float64(r.CPU))
		}
	}
	return math.NaN()
}

// of returns row i as figures: its CPU time, and its elapsed time if that has a goal.
func (t *Table) of(i int) []Figure {
	r := t.Rows[i]
	cpu, wall := r.Goal.bounds()
	f := Figure{What: t.Title + ": " + r.What, Size: r.Size, Of: t.Of, Now: Time(r.CPU), Goals: cpu, Peers: r.Peers}
	if growth := t.growth(i); !math.IsNaN(growth) && !math.IsInf(growth, 0) {
		f.Growth = growth
	}
	if len(wall) == 0 {
		return []Figure{f}
	}
	return []Figure{f, {What: f.What + ", elapsed time", Size: r.Size, Of: t.Of, Now: Time(r.Wall), Goals: wall}}
}

// judge returns the goals of row i, and whether it meets them.
func (t *Table) judge(i int) (goal, verdict string) {
	var goals []string
	var both Verdict
	for n, f := range t.of(i) {
		if text := f.Goal(); n > 0 {
			goals = append(goals, "wall "+text)
		} else if text != "" {
			goals = append(goals, text)
		}
		v := f.Verdict()
		both.Judged, both.Missed = both.Judged || v.Judged, append(both.Missed, v.Missed...)
	}
	return strings.Join(goals, ", "), both.String()
}

// figures returns the rows that have a goal or a peer of this run.
func (t *Table) figures() (out []Figure) {
	for i := range t.Rows {
		for _, f := range t.of(i) {
			if f.Verdict().Judged || len(f.Peers) > 0 {
				out = append(out, f)
			}
		}
	}
	return out
}

// Grid has cells in aligned columns: to the right, or to the left if the heading begins with <.
type Grid struct {
	Head []string
	rows [][]string
}

// Add adds a row with a cell for each heading.
func (g *Grid) Add(cells ...string) { g.rows = append(g.rows, cells) }

// Print writes the columns with the width of their longest cell.
func (g *Grid) Print(out io.Writer) error {
	head := make([]string, len(g.Head))
	width := make([]int, len(g.Head))
	for i, h := range g.Head {
		head[i] = strings.TrimPrefix(h, "<")
		width[i] = utf8.RuneCountInString(head[i])
		for _, r := range g.rows {
			width[i] = max(width[i], utf8.RuneCountInString(r[i]))
		}
	}
	for _, cells := range append([][]string{head}, g.rows...) {
		var line strings.Builder
		for i, c := range cells {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if strings.HasPrefix(g.Head[i], "<") {
				c += pad
			} else {
				c = pad + c
			}
			line.WriteString("  " + c)
		}
		if _, err := fmt.Fprintln(out, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
