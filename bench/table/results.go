package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// results are the last results of each program, in the file of the figures.
type results struct {
	Programs map[string]result
}

// result is one run of a program.
type result struct {
	Host, Commit string
	// Flags are those of a quick run.
	Flags []string `json:",omitempty"`
	// Load is the load average of one minute when it began.
	Load  float64
	Began time.Time
	Took  time.Duration
	// Failed says why it did not run to its end.
	Failed  string           `json:",omitempty"`
	Figures []measure.Figure `json:",omitempty"`
}

// readResults reads the file; without one there are no results yet.
func readResults(file string) (results, error) {
	r := results{Programs: map[string]result{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("reading the figures of earlier runs: %w; remove %s and run the programs again", err, file)
	}
	return r, nil
}

func (r results) write(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}

// failed names those of the programs that did not run to their end.
func (r results) failed(todo []program) (names []string) {
	for _, p := range todo {
		if r.Programs[p.name].Failed != "" {
			names = append(names, p.name)
		}
	}
	return names
}

// rows are the cells of the table: the program, and those of its figures.
func (r results) rows() (rows [][]string) {
	for _, p := range programs {
		of, ran := r.Programs[p.name]
		if !ran {
			continue
		}
		if of.Failed != "" {
			rows = append(rows, []string{p.name, "not run to the end: " + of.Failed, "–", "–", "–", "–", "–", "NO"})
		}
		for _, f := range shown(of.Figures) {
			rows = append(rows, append([]string{p.name}, f.Cells()...))
		}
	}
	return rows
}

// shown are the figures at the largest size, which have the growth from the smaller ones, and all that miss a goal.
func shown(figures []measure.Figure) (out []measure.Figure) {
	largest := map[string]int{}
	for _, f := range figures {
		largest[f.What] = max(largest[f.What], f.Size)
	}
	for _, f := range figures {
		if f.Size == largest[f.What] || !f.Verdict().Met() {
			out = append(out, f)
		}
	}
	return out
}

// goals counts the figures with a goal at any size, and those that meet it.
func (r results) goals() (met, all int) {
	for _, of := range r.Programs {
		for _, f := range of.Figures {
			if v := f.Verdict(); v.Judged {
				all++
				if v.Met() {
					met++
				}
			}
		}
	}
	return met, all
}

// print writes the table for a terminal.
func (r results) print(out io.Writer) error {
	g := measure.Grid{Head: append([]string{"<program"}, measure.Heads()...)}
	for _, row := range r.rows() {
		g.Add(row...)
	}
	if err := g.Print(out); err != nil {
		return err
	}
	met, all := r.goals()
	_, err := fmt.Fprintf(out, "\n%d of %d goals are met.\n", met, all)
	return err
}

const preface = `# Performance

For operators who plan a large installation, and contributors who change what is measured. You learn
what each part costs, how that compares with other programs in the same run, and whether it meets
its goals. [Measurements](measurements.md) says how each cost is measured, and explains the results.

` + "`make performance`" + ` writes this page from the results of the last ` + "`make bench`" + `. If a program measures
several sizes, the table has the largest one, and those that miss a goal. *Growth* compares a size
with a smaller one: 1 is in proportion to the size, 2 is quadratic. *Beside it* compares the cost
with that of another program, or with that of the least work that the task needs, such as hashing
the bytes.
`

// page writes the table as a page.
func (r results) page() (string, error) {
	rows := r.rows()
	if len(rows) == 0 {
		return "", errors.New("there are no figures yet: make bench measures them")
	}
	hosts := map[string]bool{}
	for _, of := range r.Programs {
		hosts[of.Host] = true
	}
	if len(hosts) > 1 {
		return "", fmt.Errorf("the figures are of %d machines: run all programs on one", len(hosts))
	}
	var b strings.Builder
	b.WriteString(preface)
	met, all := r.goals()
	fmt.Fprintf(&b, "\nOn %s, %d of %d goals are met:\n\n", slices.Collect(maps.Keys(hosts))[0], met, all)
	b.WriteString("| Program | What | Size | Now | Growth | Beside it | Goal | Met |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, row := range rows {
		for i := range row {
			row[i] = strings.ReplaceAll(row[i], "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n## The runs\n\n" +
		"*Load* is the load average of the minute before a program began, for all cores together.\n\n" +
		"| Program | Commit | Began | Load | Took |\n|---|---|---|---|---|\n")
	for _, p := range programs {
		of, ran := r.Programs[p.name]
		if !ran {
			continue
		}
		name := strings.Join(append([]string{p.name}, of.Flags...), " ")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %.1f | %s |\n", name, of.Commit,
			of.Began.UTC().Format("2006-01-02 15:04"), of.Load, measure.Duration(of.Took))
	}
	return b.String(), nil
}
