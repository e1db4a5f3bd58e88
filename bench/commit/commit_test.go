package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

// The commands that people run print their table, also for sizes of their own.
func TestTheTableIsPrinted(t *testing.T) {
	var out bytes.Buffer
	measuretest.Figures(t, func() error {
		return run(t.Context(), []string{
			"-sizes", "1,4", "-time", "1ms", "-objects", "20", "-root", "../..",
		}, &out)
	})
	for _, want := range []string{
		"wide:", "deep:", "patched:", "from nothing", "one file changed",
		"machine-config-operator", "a server-side apply of each", "a revert in the middle",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table says nothing of %q:\n%s", want, &out)
		}
	}
	if err := run(t.Context(), []string{"-sizes", "many"}, &out); err == nil {
		t.Error("a size that is no number was taken")
	}
}

// stepTranspile is the second part of the way.
const stepTranspile = 1

// Growth is judged by allocated bytes: unlike time, they hardly depend on what else the machine does.
func TestCostGrowsInStepWithFragments(t *testing.T) {
	const small, large, limit = 10, 40, 1.25
	b := bench{dir: t.TempDir(), limit: measure.Limit{Runs: 1}}
	if _, err := b.measure(t.Context(), shapes[0].corpus(1)); err != nil { // loads kustomize's schema
		t.Fatal(err)
	}
	for _, s := range shapes {
		first, err := b.measure(t.Context(), s.corpus(small))
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.measure(t.Context(), s.corpus(large))
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			x := measure.Exponent(small, large, float64(first[i].Mem), float64(second[i].Mem))
			t.Logf("%s, %s: %d to %d fragments: memory grows with exponent %.2f", s.name, first[i].What, small, large,
				x)
			if x > limit {
				t.Errorf("%s, %s: memory grows with exponent %.2f, more than %.2f", s.name, first[i].What, x, limit)
			}
		}
		if cold, warm := second[0].Parts[stepTranspile].Mem, second[1].Parts[stepTranspile].Mem; warm > cold/5*3 {
			t.Errorf("%s: transpiling again after one changed file of %d fragments takes %d bytes, all of them %d: "+
				"too little was kept", s.name, large, warm, cold)
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range []struct {
		name      string
		fragments int
	}{{"10", 10}, {"100", 100}} {
		b.Run(n.name, func(b *testing.B) {
			repo := b.TempDir()
			if err := shapes[0].corpus(n.fragments).Git(b.Context(), repo, nil); err != nil {
				b.Fatal(err)
			}
			m := bench{dir: b.TempDir()}
			b.ReportAllocs()
			for b.Loop() {
				w, err := newWay(repo)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := m.once(b.Context(), w, "main"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
