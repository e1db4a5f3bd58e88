package main

import (
	"fmt"
	"math"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// figures are the results of Bunsen's server beside those of the other one.
func figures(rows []row, memory []held, storms []weather) (all []measure.Figure) {
	for _, r := range rows {
		for _, f := range []struct {
			what        string
			now, static measure.Amount
			ratio       float64
			goals       []measure.Bound
		}{
			{
				"requests", measure.Number(r.ours.persecond, "/s"), measure.Number(r.static.persecond, "/s"),
				r.ratio.persecond,
				[]measure.Bound{measure.RatioAtLeast(leastRate)},
			},
			{
				"99 % of the answers", inSeconds(r.ours.p99), inSeconds(r.static.p99), r.ratio.p99,
				[]measure.Bound{measure.RatioAtMost(mostLatency)},
			},
			{"CPU time for each", inSeconds(r.ours.cpu), inSeconds(r.static.cpu), r.ratio.cpu, nil},
		} {
			if math.IsNaN(f.ratio) || math.IsInf(f.ratio, 0) { // there was too little CPU time to count
				f.ratio = 0
			}
			all = append(all, measure.Figure{
				What: r.String() + ": " + f.what, Now: f.now, Goals: f.goals,
				Peers: []measure.Peer{{Name: "net/http", Now: f.static, Ratio: f.ratio}},
			})
		}
	}
	for i, h := range memory {
		if h.name == oursName {
			static := memory[len(memory)-1-i]
			all = append(all, measure.Figure{
				What: "peak memory", Size: 10 * h.requests, Of: "requests", Now: measure.Bytes(h.many.Peak),
				Peers: []measure.Peer{
					{Name: fmt.Sprintf("after %d", h.requests), Now: measure.Bytes(h.few.Peak)},
					{Name: "net/http", Now: measure.Bytes(static.many.Peak)},
				},
				Goals: []measure.Bound{measure.RatioAtMost(mostGrowth)},
			})
		}
	}
	for _, w := range storms {
		if w.server == oursName {
			all = append(all, stormFigures(w, storms)...)
		}
	}
	return all
}

func inSeconds(s float64) measure.Amount {
	return measure.Time(time.Duration(s * float64(time.Second)))
}

// stormFigures are the results of a storm on Bunsen's server, beside that of the same machines on the other one. A
// storm behind one address stands first beside that of as many addresses.
func stormFigures(w weather, all []weather) []measure.Figure {
	name := func(what string) string {
		return "a boot storm, addresses " + w.from + ", tokens " + w.tokens + ": " + what
	}
	many := w.floor(all)
	figure := func(what string, of func(weather) measure.Amount) measure.Figure {
		f := measure.Figure{What: name(what), Size: w.machines, Of: "machines", Now: of(w)}
		if many != nil {
			f.Peers = append(f.Peers, measure.Peer{Name: "many addresses", Now: of(*many)})
		}
		for _, other := range all {
			if other.server == staticName && other.machines == w.machines {
				f.Peers = append(f.Peers, measure.Peer{Name: "net/http", Now: of(other)})
			}
		}
		return f
	}
	none := measure.AtMost(measure.Number(0, "machines"))
	if w.Failures > 0 {
		none.Why = fmt.Sprint(w.Failed)
	}
	last := figure("the last one has it", func(w weather) measure.Amount { return measure.Time(w.Wall) })
	again := measure.Figure{
		What: name("requests again, each"), Size: w.machines, Of: "machines",
		Now: measure.Number(float64(w.Retries)/float64(w.machines), ""),
	}
	if many != nil {
		last.Goals = []measure.Bound{measure.RatioAtMost(longestStorm)}
		again.Goals = []measure.Bound{measure.AtMost(measure.Number(mostRetries, ""))}
	}
	return []measure.Figure{
		{
			What: name("without a config"), Size: w.machines, Of: "machines",
			Now: measure.Number(float64(w.Failures), "machines"), Goals: []measure.Bound{none},
		},
		last,
		figure("99 % have it", func(w weather) measure.Amount {
			return measure.Time(measure.Percentile(w.Latencies, 99))
		}),
		figure("CPU time for each", func(w weather) measure.Amount {
			return measure.Time(w.cpu / time.Duration(w.machines))
		}),
		figure("peak memory", func(w weather) measure.Amount { return measure.Bytes(w.used.Peak) }),
		again,
	}
}
