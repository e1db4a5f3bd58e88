package report

import (
	"fmt"

	"github.com/bunsen-os/bunsen/internal/review"
)

// DurationText returns a text that says how long a rollout takes: `5–20 min`, `3–14 h`, `less than a minute`.
func DurationText(r review.Rollout) string {
	low, lowUnit := minutesIn(r.MinMinutes)
	high, highUnit := minutesIn(r.MaxMinutes)
	switch {
	case r.MaxMinutes == 0:
		return "no time"
	case r.MinMinutes == 0:
		return "up to " + high + " " + highUnit
	case lowUnit == highUnit && low == high:
		return low + " " + lowUnit
	case lowUnit == highUnit:
		return low + "–" + high + " " + highUnit
	}
	return low + " " + lowUnit + " – " + high + " " + highUnit
}

func minutesIn(m int) (number, unit string) {
	switch {
	case m >= 2880 && m%1440 == 0:
		return fmt.Sprint(m / 1440), "days"
	case m >= 60 && m%60 == 0:
		return fmt.Sprint(m / 60), "h"
	case m >= 60 && m%30 == 0:
		return fmt.Sprintf("%.1f", float64(m)/60), "h"
	}
	return fmt.Sprint(m), "min"
}
