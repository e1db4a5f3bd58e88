package measure_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/bench/measure"
)

func took(cpu time.Duration) measure.Sample {
	return measure.Sample{Cost: measure.Cost{CPU: cpu, Wall: 2 * cpu, Mem: 1_500_000}, Runs: 3}
}

// The table is what people read, so it stands here as it is printed.
func TestTable(t *testing.T) {
	table := measure.Table{Title: "Rendering", Explained: "of files", Of: "files", Parts: []string{"read"}}
	goal := measure.Goal{CPU: 10 * time.Millisecond, Growth: 1.05}
	peer := []measure.Peer{measure.Took("mco", 36*time.Millisecond)}
	table.Add(measure.Row{What: "cold", Size: 10, Sample: took(4 * time.Millisecond), Goal: goal, Peers: peer})
	table.Add(measure.Row{What: "cold", Size: 20, Sample: took(8 * time.Millisecond), Goal: goal})
	table.Add(measure.Row{What: "cold", Size: 100, Sample: took(100 * time.Millisecond), Goal: goal, Peers: peer})
	table.Add(measure.Row{
		What: "warm", Size: 100, Sample: took(1234 * time.Nanosecond),
		Goal: measure.Goal{CPU: 2 * time.Microsecond, Why: "2x its digest"},
	})
	table.Rows[0].Parts = []measure.Cost{{CPU: time.Millisecond}}
	var out strings.Builder
	if err := table.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := `
Rendering: of files
  files            CPU  read     wall   MB  growth  goal                    met                      peer                runs
     10  cold     4 ms  1 ms     8 ms  1.5       –  ≤ 10 ms, growth ≤ 1.05  yes                      0.11 × mco (36 ms)     3
     20  cold     8 ms     –    16 ms  1.5       –  ≤ 10 ms, growth ≤ 1.05  yes                      –                      3
    100  cold   100 ms     –   200 ms  1.5    1.57  ≤ 10 ms, growth ≤ 1.05  NO: 10.00 times, growth  2.78 × mco (36 ms)     3
    100  warm  1.23 µs     –  2.47 µs  1.5       –  ≤ 2 µs (2x its digest)  yes                      –                      3
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestColumnsAreAligned(t *testing.T) {
	g := measure.Grid{Head: []string{"n", "<name", "µs"}}
	g.Add("1", "a", "10")
	g.Add("1000", "–––", "1")
	var out strings.Builder
	if err := g.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := "     n  name  µs\n     1  a     10\n  1000  –––    1\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMedian(t *testing.T) {
	costs := []time.Duration{5, 1, 9, 2, 3}
	s, err := measure.Limit{Runs: len(costs), Time: time.Hour}.Median(func(run int) (measure.Sample, error) {
		return took(costs[run]), nil
	})
	if err != nil || s.CPU != 3 || s.Runs != 5 {
		t.Errorf("the median of %v is %v of %d runs, %v", costs, s.CPU, s.Runs, err)
	}
	if s, err = (measure.Limit{Runs: 5}).Median(func(run int) (measure.Sample, error) {
		return took(costs[run]), nil
	}); err != nil || s.Runs != 1 {
		t.Errorf("without time there are %d runs, %v", s.Runs, err)
	}
	boom := errors.New("boom")
	if _, err = (measure.Limit{Runs: 5}).Median(func(int) (measure.Sample, error) {
		return measure.Sample{}, boom
	}); !errors.Is(err, boom) {
		t.Errorf("the error of a run is %v", err)
	}
}

func TestTogetherTakesTurns(t *testing.T) {
	var order []string
	kind := func(name string) measure.Once {
		return func(run int) (measure.Sample, error) {
			order = append(order, fmt.Sprint(name, run))
			return took(1), nil
		}
	}
	if _, err := (measure.Limit{Runs: 2, Time: time.Hour}).Together(kind("ours"), kind("theirs")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ours0", "theirs0", "ours1", "theirs1"}, order); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOfAddsParts(t *testing.T) {
	var kept [][]byte
	part := func() error {
		kept = append(kept, make([]byte, 1<<20))
		return nil
	}
	s, err := measure.Of(part, part)
	if err != nil || len(s.Parts) != 2 || s.Mem < 2<<20 || s.Mem != s.Parts[0].Mem+s.Parts[1].Mem || len(kept) != 2 {
		t.Errorf("two parts of 1 MiB are %+v, %v", s, err)
	}
}

func TestProcess(t *testing.T) {
	for _, c := range []struct {
		name, script string
		fails        bool
	}{
		{"a program that prints is measured", "echo a", false},
		{"a harmless exit code is no failure", "echo a; exit 1", false},
		{"another exit code is one", "echo a; exit 2", true},
		{"and so is silence", "true", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := measure.Process(exec.CommandContext(t.Context(), "sh", "-c", c.script), 1)
			if (err != nil) != c.fails || !c.fails && s.Mem == 0 {
				t.Errorf("got %+v, %v", s, err)
			}
		})
	}
}

func TestAProcessCanBeAskedWhatItHasUsed(t *testing.T) {
	ours := os.Getpid()
	begin, err := measure.UsageOf(ours)
	if err != nil || begin.Held == 0 || begin.Peak < begin.Held/2 {
		t.Fatalf("this process: %+v, %v", begin, err)
	}
	for begun := time.Now(); time.Since(begun) < 100*time.Millisecond; {
	}
	if now, err := measure.UsageOf(ours); err != nil || now.CPU <= begin.CPU {
		t.Errorf("after a tenth of a second of work it has used %v, before %v; %v", now.CPU, begin.CPU, err)
	}
	if err := measure.Forget(ours); err != nil {
		t.Error(err)
	}
	if _, err := measure.UsageOf(0); err == nil {
		t.Error("a process that cannot be was measured")
	}
}

func TestNLogNLiesBetweenLinearAndQuadratic(t *testing.T) {
	if x := measure.NLogN(125, 1000); x <= 1 || x >= 1.3 || math.IsNaN(x) {
		t.Errorf("n log n grows with exponent %v", x)
	}
}

func TestSizes(t *testing.T) {
	for text, fine := range map[string]bool{
		"1": true, "1,10,100": true, "": false, "0": false, "10,1": false,
		"1,1": false, "a": false,
	} {
		var s measure.Sizes
		if err := s.Set(text); (err == nil) != fine || fine && s.String() != text {
			t.Errorf("%q gives %q, %v", text, s.String(), err)
		}
	}
}

func TestPercentiles(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i))
	}
	if p50, p99 := measure.Percentile(times, 50), measure.Percentile(times, 99); p50 != 51 || p99 != 100 {
		t.Errorf("of 1 to 100, half are below %d and 99 below %d", p50, p99)
	}
	if measure.Percentile(nil, 99) != 0 {
		t.Error("nothing has a percentile")
	}
}
