package measure_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// What programs compare with goals: a time, a count, a ratio to a peer or to the same at another size, a growth.
func TestAFigureIsJudgedByEachOfItsGoals(t *testing.T) {
	ls := []measure.Peer{{Name: "git ls-remote", Now: measure.Time(20 * time.Millisecond)}}
	for name, c := range map[string]struct {
		figure measure.Figure
		want   string
	}{
		"a time within its limit": {
			measure.Figure{
				What: "an event reaches 50 pages", Now: measure.Time(210 * time.Millisecond),
				Goals: []measure.Bound{measure.AtMost(measure.Time(300 * time.Millisecond))},
			},
			"an event reaches 50 pages: 210 ms; goal ≤ 300 ms, yes",
		},
		"a count of which none is allowed": {
			measure.Figure{
				What: "a storm", Size: 5000, Of: "machines", Now: measure.Number(3, "without a config"),
				Goals: []measure.Bound{measure.AtMost(measure.Number(0, "without a config"))},
			},
			"a storm, 5,000 machines: 3 without a config; goal ≤ 0 without a config, NO: amount",
		},
		"a ratio to a program of the same run": {
			measure.Figure{
				What: "CPU of a poll", Now: measure.Time(12 * time.Millisecond), Peers: ls,
				Goals: []measure.Bound{measure.RatioAtMost(0.5)},
			},
			"CPU of a poll: 12 ms = 0.60 × git ls-remote; goal ≤ 0.50 × git ls-remote, NO: 1.20 times",
		},
		"a ratio to the same at another size": {
			measure.Figure{
				What: "CPU for each node", Size: 5000, Of: "nodes", Now: measure.Time(1199 * time.Microsecond),
				Goals: []measure.Bound{measure.RatioAtMost(1.2)},
				Peers: []measure.Peer{{Name: "at 500 nodes", Now: measure.Time(time.Millisecond)}},
			},
			"CPU for each node, 5,000 nodes: 1.20 ms = 1.20 × at 500 nodes; goal ≤ 1.20 × at 500 nodes, yes",
		},
		"a rate that has to be almost that of the peer, by the median of the ratios": {
			measure.Figure{
				What: "requests", Now: measure.Number(950, "/s"), Goals: []measure.Bound{measure.RatioAtLeast(0.9)},
				Peers: []measure.Peer{{Name: "net/http", Now: measure.Number(1000, "/s"), Ratio: 0.89}},
			},
			"requests: 950 /s = 0.89 × net/http; goal ≥ 0.90 × net/http, NO: 0.99 times",
		},
		"a growth, and why it may be so large": {
			measure.Figure{
				What: "a build", Size: 1000, Of: "documents", Now: measure.Time(time.Second), Growth: 1.301,
				Goals: []measure.Bound{{
					Of: measure.OfGrowth, Limit: measure.Number(1.2, ""), Why: "n log n",
				}},
			},
			"a build, 1,000 documents: 1 s, growth 1.30; goal growth ≤ 1.20 (n log n), NO: growth",
		},
		"a growth that the smallest size cannot have": {
			measure.Figure{
				What: "a build", Size: 10, Of: "documents", Now: measure.Bytes(1_500_000),
				Goals: []measure.Bound{measure.GrowthAtMost(1)},
			},
			"a build, 10 documents: 1.50 MB; goal growth ≤ 1.00, –",
		},
		"several goals, some of them missed": {
			measure.Figure{
				What: "a poll", Now: measure.Bytes(5000), Peers: ls,
				Goals: []measure.Bound{
					measure.AtLeast(measure.Bytes(2000)), measure.AtMost(measure.Bytes(4000)),
				},
			},
			"a poll: 5 KB = 250000 × git ls-remote; goal ≥ 2 KB, ≤ 4 KB, NO: 1.25 times",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.figure.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFiguresGrowFromTheSmallestSize(t *testing.T) {
	figures := []measure.Figure{
		{What: "CPU", Size: 10, Now: measure.Time(time.Second)},
		{What: "memory", Size: 10, Now: measure.Bytes(5)},
		{What: "CPU", Size: 100, Now: measure.Time(10 * time.Second)},
		{What: "memory", Size: 1000, Now: measure.Bytes(5)},
		{What: "CPU", Size: 1000, Now: measure.Time(10 * time.Second)},
	}
	measure.Grow(figures)
	var got []float64
	for _, f := range figures {
		got = append(got, math.Round(f.Growth*100)/100)
	}
	if diff := cmp.Diff([]float64{0, 0, 1, 0, 0.5}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A program writes rows that have a goal or a peer, and its other figures.
func TestAProgramWritesItsFigures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures")
	t.Setenv(measure.FiguresFile, file)
	table := &measure.Table{Title: "Rendering", Of: "files"}
	goal := measure.Goal{CPU: 5 * time.Millisecond, Wall: time.Second, Ratio: 0.5}
	peers := []measure.Peer{measure.Took("mco", 16*time.Millisecond)}
	table.Add(measure.Row{What: "cold", Size: 10, Sample: took(8 * time.Millisecond), Goal: goal, Peers: peers})
	table.Add(measure.Row{What: "read", Size: 10, Sample: took(time.Millisecond)})
	table.Add(measure.Row{What: "warm", Size: 10, Sample: took(time.Millisecond), Peers: peers})
	polls := measure.Figure{
		What: "polls", Now: measure.Number(2, "requests"),
		Goals: []measure.Bound{measure.AtMost(measure.Number(2, "requests"))},
	}
	var out strings.Builder
	if err := measure.Finish(&out, []measure.Figure{polls}, table); err != nil {
		t.Fatal(err)
	}
	want := "\nFigures\n" +
		"  what   size         now  growth  beside  goal          met\n" +
		"  polls     –  2 requests       –  –       ≤ 2 requests  yes\n" +
		"\nNot met:\n  Rendering: cold, 10 files: 8 ms = 0.50 × mco; goal ≤ 5 ms, ≤ 0.50 × mco, NO: 1.60 times\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	all, err := measure.ReadFigures(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all {
		got = append(got, f.String())
	}
	if diff := cmp.Diff([]string{
		"Rendering: cold, 10 files: 8 ms = 0.50 × mco; goal ≤ 5 ms, ≤ 0.50 × mco, NO: 1.60 times",
		"Rendering: cold, elapsed time, 10 files: 16 ms; goal ≤ 1 s, yes",
		"Rendering: warm, 10 files: 1 ms = 0.062 × mco; goal –, –",
		"polls: 2 requests; goal ≤ 2 requests, yes",
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	polls.Now.N = math.NaN()
	if err := measure.Finish(&out, []measure.Figure{polls}); err == nil {
		t.Error("a figure that is no number was written")
	}
	if err := os.WriteFile(file, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := measure.ReadFigures(file); err == nil {
		t.Errorf("a program without figures gives %s", all)
	}
}

func TestAProgramWithoutMissedGoalsSaysSo(t *testing.T) {
	var out strings.Builder
	if err := measure.Finish(&out, nil, &measure.Table{}); err != nil || out.String() != "\nEvery goal is met.\n" {
		t.Errorf("it says %q, %v", &out, err)
	}
}
