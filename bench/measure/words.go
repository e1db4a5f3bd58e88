package measure

import (
	"cmp"
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

// Power writes an exponent; NaN means that there is none.
func Power(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return fmt.Sprintf("%.2f", x)
}

// Host describes this machine: its processor, memory, system and the version of Go. What Linux does not tell is left
// out.
func Host() string {
	parts := []string{fmt.Sprintf("%d cores of %s", runtime.NumCPU(), cmp.Or(procLine("cpuinfo", "model name"),
		"an unknown processor"))}
	var memory int
	if _, err := fmt.Sscan(procLine("meminfo", "MemTotal"), &memory); err == nil {
		parts = append(parts, fmt.Sprintf("%.0f GB of memory", float64(memory)*1024/1e9)) // Linux reports KiB
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		version, _, _ := strings.Cut(strings.TrimSpace(string(text)), "-") // without the name of a build
		parts = append(parts, "Linux "+version)
	}
	return strings.Join(append(parts, runtime.Version()), ", ")
}

// Load returns the load average of one minute, or 0 on a system that does not tell.
func Load() (x float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if _, err := fmt.Sscan(string(text), &x); err != nil {
			return 0
		}
	}
	return x
}

// procLine returns the first value of a name in a file of /proc, or "".
func procLine(file, name string) string {
	text, err := os.ReadFile("/proc/" + file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Machine describes the machine of this run and what tables show.
func Machine() string {
	return fmt.Sprintf("Measured on %s, load %.2f: CPU time of the process with its garbage collection,\n"+
		"median of several runs. Growth is the exponent from a size at least four times smaller: 1 is in step, 2 is "+
		"quadratic.\n", Host(), Load())
}
