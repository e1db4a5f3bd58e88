package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// FiguresFile is the environment variable with the path of the file to which a program writes its figures. If it is not
// set, the program only prints.
const FiguresFile = "BENCH_FIGURES"

// Finish prints the figures, and which goals are missed, also those of the tables, which the program has printed. It
// writes the figures to the file of FiguresFile, with the rows of tables that have a goal or a peer. A program calls it
// as its last act, so that a program that fails writes nothing.
func Finish(out io.Writer, figures []Figure, tables ...*Table) error {
	g := Grid{Head: Heads()}
	for _, f := range figures {
		g.Add(f.Cells()...)
	}
	if len(figures) > 0 {
		fmt.Fprint(out, "\nFigures\n")
		if err := g.Print(out); err != nil {
			return err
		}
	}
	var all []Figure
	for _, t := range tables {
		all = append(all, t.figures()...)
	}
	all = append(all, figures...)
	missed := ""
	for _, f := range all {
		if !f.Verdict().Met() {
			missed += "  " + f.String() + "\n"
		}
	}
	end := "\nEvery goal is met.\n"
	if missed != "" {
		end = "\nNot met:\n" + missed
	}
	if _, err := fmt.Fprint(out, end); err != nil {
		return err
	}
	return writeFigures(all)
}

func writeFigures(all []Figure) error {
	name := os.Getenv(FiguresFile)
	if name == "" {
		return nil
	}
	for _, f := range all {
		for _, x := range append([]float64{f.Now.N, f.Growth}, peerNumbers(f)...) {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("writing the figure %q: it is no number: %+v", f.What, f)
			}
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(name, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing figures: %w", err)
	}
	return nil
}

func peerNumbers(f Figure) (out []float64) {
	for _, b := range f.Peers {
		out = append(out, b.Now.N, b.Ratio)
	}
	return out
}

// ReadFigures reads the figures that a program wrote to a file. A program without figures is an error.
func ReadFigures(name string) (all []Figure, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading figures: %w", err)
	}
	if err = json.Unmarshal(text, &all); err == nil && len(all) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the figures in %s: %w", name, err)
	}
	return all, nil
}
