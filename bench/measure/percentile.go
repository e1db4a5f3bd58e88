package measure

import (
	"slices"
	"time"
)

// Percentile returns the time below which p percent of the times are; 0 without times. It sorts them.
func Percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*p/100)]
}
