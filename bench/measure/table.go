package measure

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Peer is the figure of another program for the same task.
type Peer struct {
	// Name as the table shows it.
	Name string
	// CPU is the CPU time of that program.
	CPU time.Duration
	// Quoted: the figure is from another source, and was not measured in this run or on this machine.
	Quoted bool
}

// Row is one line of a table.
type Row struct {
	// What is measured. Rows with the same What have growing sizes.
	What string
	Size int
	Sample
	Goal Goal
	Peer Peer
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
		g.Add(append(cells, Duration(r.Wall), fmt.Sprintf("%.1f", float64(r.Mem)/1e6), Power(growth),
			cmp.Or(r.Goal.String(), "–"), cmp.Or(r.Goal.judge(r.Cost, growth), "–"), r.peer(), fmt.Sprint(r.Runs))...)
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

// peer returns the figure of another program, and its ratio to the measured one.
func (r Row) peer() string {
	if r.Peer.CPU <= 0 {
		return "–"
	}
	quoted := ""
	if r.Peer.Quoted {
		quoted = "*"
	}
	return fmt.Sprintf("%s%s %s = %s", r.Peer.Name, quoted, Duration(r.Peer.CPU),
		Times(float64(r.Peer.CPU)/float64(max(r.CPU, 1))))
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

// Missed lists the missed goals, one per line.
func (t *Table) Missed() (out []string) {
	for i, r := range t.Rows {
		if verdict := r.Goal.judge(r.Cost, t.growth(i)); strings.HasPrefix(verdict, "NO") {
			out = append(out, fmt.Sprintf("%s: %s, %d %s: %s; goal %s, %s", t.Title, r.What, r.Size, t.Of,
				Duration(r.CPU), r.Goal, verdict))
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
