package measure

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Goal is the maximum for a row; a zero field has no maximum.
type Goal struct {
	CPU, Wall time.Duration
	// Growth is the exponent that the table shows.
	Growth float64
	// Why is added to the goal's text in the table, such as the reason for a duration.
	Why string
}

// String describes the goal; "" if there is none.
func (g Goal) String() string {
	var parts []string
	if g.CPU > 0 {
		parts = append(parts, "≤ "+Duration(g.CPU))
	}
	if g.Wall > 0 {
		parts = append(parts, "wall ≤ "+Duration(g.Wall))
	}
	if g.Growth > 0 {
		parts = append(parts, fmt.Sprintf("growth ≤ %.2f", g.Growth))
	}
	if len(parts) > 0 && g.Why != "" {
		parts[len(parts)-1] += " (" + g.Why + ")"
	}
	return strings.Join(parts, ", ")
}

// judge says whether a goal is met, or by how much it is missed. Growth is NaN if the table shows none.
func (g Goal) judge(c Cost, growth float64) string {
	var missed []string
	asked := false
	limit := func(got, most time.Duration, what string) {
		if most <= 0 {
			return
		}
		asked = true
		if got > most {
			missed = append(missed, fmt.Sprintf("%s%.2f times", what, float64(got)/float64(most)))
		}
	}
	limit(c.CPU, g.CPU, "")
	limit(c.Wall, g.Wall, "wall ")
	if g.Growth > 0 && !math.IsNaN(growth) {
		asked = true
		if round(growth) > g.Growth {
			missed = append(missed, "growth")
		}
	}
	switch {
	case len(missed) > 0:
		return "NO: " + strings.Join(missed, ", ")
	case asked:
		return "yes"
	default:
		return ""
	}
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
