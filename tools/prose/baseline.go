package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// baseline is the allowed number of offences in each file, by the file's path.
type baseline map[string]int

func counts(found []offence) baseline {
	out := baseline{}
	for _, o := range found {
		out[o.file]++
	}
	return out
}

func parseBaseline(text string) (baseline, error) {
	out := baseline{}
	for l := range strings.Lines(text) {
		var n int
		var file string
		if _, err := fmt.Sscanf(l, "%d %s", &n, &file); err != nil {
			return nil, fmt.Errorf("line %q: %w", strings.TrimSpace(l), err)
		}
		out[file] = n
	}
	return out, nil
}

// allows reports whether a file has no more offences than the baseline allows. A Go file without a baseline may have
// been moved. So it may have offences if the sum of all offences does not grow.
func (b baseline) allows(file string, allowed baseline) bool {
	n, known := allowed[file]
	return b[file] <= n || !known && strings.HasSuffix(file, ".go") && b.sum() <= allowed.sum()
}

func (b baseline) sum() int {
	n := 0
	for _, c := range b {
		n += c
	}
	return n
}

func (b baseline) String() string {
	var out strings.Builder
	for _, file := range slices.Sorted(maps.Keys(b)) {
		fmt.Fprintf(&out, "%d %s\n", b[file], file)
	}
	return out.String()
}
