package measuretest

import (
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// Figures runs a program of bench/, which has to write figures with a name and a size of their own, and returns them.
func Figures(t *testing.T, run func() error) []measure.Figure {
	t.Helper()
	path := filepath.Join(t.TempDir(), "figures")
	t.Setenv(measure.FiguresFile, path)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	all, err := measure.ReadFigures(path)
	if err != nil {
		t.Fatal(err)
	}
	seen, compared := map[string]bool{}, false
	for _, f := range all {
		key := f.What + ", " + f.At()
		if f.What == "" || seen[key] {
			t.Errorf("a figure has no name, or one that another figure has: %s", f)
		}
		seen[key] = true
		compared = compared || f.Ratios() != ""
	}
	if !compared {
		t.Errorf("no figure has a peer or a floor: %s", all)
	}
	return all
}
