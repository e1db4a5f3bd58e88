package measure

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
)

// Duration writes a duration with three significant digits and a unit.
func Duration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= u.unit {
			return figures(float64(d)/float64(u.unit)) + " " + u.name
		}
	}
	return fmt.Sprintf("%d ns", d)
}

func figures(x float64) string {
	switch {
	case x >= 100 || x == math.Trunc(x):
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// Times writes a factor.
func Times(x float64) string { return figures(x) + "x" }

// Power writes an exponent; NaN means that there is none.
func Power(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return fmt.Sprintf("%.2f", x)
}

// Quoted explains the figures of other programs with a star.
const Quoted = `
* quoted, not measured now: 2 cores of an AMD EPYC that did other work too, Go 1.26.8, November 2026, CPU time.
`

// Machine describes the machine of this run.
func Machine() string {
	model := "an unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	busy := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ := strings.Cut(string(text), " ")
		busy = ", load " + load
	}
	return fmt.Sprintf("Measured with %s on %d cores of %s%s: CPU time of the process with its garbage collection,\n"+
		"median of several runs. Growth is the exponent from a size at least four times smaller: 1 is in step, 2 is "+
		"quadratic.\n",
		runtime.Version(), runtime.NumCPU(), model, busy)
}

// Whether lists the missed goals: those of tables, and others, one per line.
func Whether(others string, tables ...*Table) string {
	missed := others
	for _, t := range tables {
		for _, m := range t.Missed() {
			missed += "  " + m + "\n"
		}
	}
	if missed == "" {
		return "\nEvery goal is met.\n"
	}
	return "\nNot met:\n" + missed
}
