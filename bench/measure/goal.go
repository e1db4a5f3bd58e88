package measure

import (
	"math"
	"time"
)

// Goal is the maximum for a row; a zero field has no maximum.
type Goal struct {
	CPU, Wall time.Duration
	// Ratio is the maximum of the CPU time divided by that of the row's peer.
	Ratio float64
	// Growth is the exponent that the table shows.
	Growth float64
	// Why is added to the goal's text in the table, such as the reason for a duration.
	Why string
}

// bounds returns the goals for the CPU time, and those for the elapsed time.
func (g Goal) bounds() (cpu, wall []Bound) {
	if g.CPU > 0 {
		cpu = append(cpu, AtMost(Time(g.CPU)))
	}
	if g.Ratio > 0 {
		cpu = append(cpu, RatioAtMost(g.Ratio))
	}
	if g.Growth > 0 {
		cpu = append(cpu, GrowthAtMost(g.Growth))
	}
	if g.Wall > 0 {
		wall = append(wall, AtMost(Time(g.Wall)))
	}
	switch {
	case len(wall) > 0:
		wall[0].Why = g.Why
	case len(cpu) > 0:
		cpu[len(cpu)-1].Why = g.Why
	}
	return cpu, wall
}

// round rounds to the precision of the table.
func round(x float64) float64 { return math.Round(x*100) / 100 }

// Exponent returns x in cost ~ size^x.
func Exponent(size1, size2 int, cost1, cost2 float64) float64 {
	return math.Log(cost2/cost1) / math.Log(float64(size2)/float64(size1))
}

// NLogN returns the exponent of n log n between two sizes.
func NLogN(size1, size2 int) float64 {
	f := func(n int) float64 { return float64(n) * math.Log(float64(n)) }
	return round(Exponent(size1, size2, f(size1), f(size2)))
}
